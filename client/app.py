"""The client on a window: the start screen, then the walk, until it is closed. Main thread; needs pygame."""

import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pygame

from client.keys import is_quit
from client.routes import Route, route
from client.stage import Stage
from client.start_scene import StartScene
from client.window import Window
from client.wire import Visit

_PASS_HZ = 60
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for beside the visit itself: a route that walks by itself, an end, and where files go."""

    route_name: str | None = None
    seconds: float | None = None
    report_path: Path | None = None
    revisits: Path = Path("revisits")
    asks: bool = False  # for a world, on the start screen


class App:
    """One window from its opening to its end. `run` blocks until then."""

    def __init__(self, visit: Visit, wishes: Wishes) -> None:
        self._visit = visit
        self._wishes = wishes
        name = wishes.route_name
        self._path: Route | None = route(name, wishes.seconds or _SECONDS) if name else None
        self._runs = True

    def run(self) -> int:
        """Open the window and walk until it is closed; the exit status. Raises NoDisplayError."""
        window = Window()
        for number in (signal.SIGINT, signal.SIGTERM):  # like closing the window: the report is still written
            signal.signal(number, self._close)
        clock = pygame.time.Clock()
        try:
            visit = self._choose(window, clock) if self._wishes.asks else self._visit
            if visit is not None and self._runs:
                self._play(window, clock, visit)
        finally:
            pygame.quit()
        return 0

    def _close(self, *_: object) -> None:
        self._runs = False

    def _choose(self, window: Window, clock: pygame.time.Clock) -> Visit | None:
        """The visit to the world that the player chose; None when the window was closed instead."""
        scene = StartScene(self._visit, time.perf_counter())
        try:
            while self._runs and scene.entrance is None:
                for event in pygame.event.get():
                    self._runs &= not is_quit(event)
                    scene.take(event)
                scene.advance(window.target, time.perf_counter())
                clock.tick(_PASS_HZ)
        finally:
            scene.close()
        entrance = scene.entrance
        if entrance is None:
            return None
        return replace(self._visit, world=entrance.world, at=entrance.at, is_starting=False)  # it has answered

    def _play(self, window: Window, clock: pygame.time.Clock, visit: Visit) -> None:
        stage = Stage(window, visit, self._path, self._wishes.seconds, self._wishes.revisits)
        try:
            while self._runs and not stage.is_over:
                now_s = time.perf_counter()
                for event in pygame.event.get():
                    stage.take(event, now_s)
                stage.advance(window.target, now_s)
                clock.tick(_PASS_HZ)
        finally:
            stage.close(self._wishes.report_path)
