"""The window: one pass 60 times a second, whatever the network does. Main thread; needs pygame.

Owns the window and the order of a pass: events, steering, arrivals, the due frame, drawing, flip. The link has its
own thread and never waits for this one.
"""

import os
import signal
import sys
import time
from pathlib import Path

import pygame

from client import overlay
from client.hud import Hud
from client.keys import Action, Hands
from client.link import Link
from client.report import write_report
from client.routes import Route, route
from client.screen import Screen
from client.status import Phase, card_for, pause_words
from client.theme import BASE_HEIGHT_PX, BASE_WIDTH_PX, DIM, Type, scale_for
from client.walk import Walk
from client.wire import Visit

_PASS_HZ = 60
_REDRAW_S = 0.11  # at the latest, with no new picture
_MOVE_S = 0.03  # between two positions of a flight
_RELEASE_HINT_S = 4.0
_DESKTOP_SHARE = 0.92  # of the desktop for the first window
_QUIET_S = 0.4  # a connection younger than this gets no card: a flash of one helps nobody


class App:
    """The window of one visit. `run` blocks until it is closed."""

    def __init__(self, visit: Visit, route_name: str | None, seconds: float | None, report_path: Path | None) -> None:
        self._visit = visit
        self._path: Route | None = route(route_name, seconds or 60.0) if route_name else None
        self._seconds = seconds
        self._report_path = report_path
        self._walk = Walk(Link(visit), visit.url)
        self._hands = Hands()
        self._screen = Screen()
        self._sent_mouse = (0.0, 0.0)
        self._captured_s = 0.0
        self._pass_s = time.perf_counter()
        self._drawn_s = self._moved_s = 0.0
        self._helps = False
        self._runs = True
        self._is_full = False

    def run(self) -> int:
        """Open the window and walk until it is closed; the exit status."""
        _prepare_desktop()
        pygame.display.init()
        pygame.font.init()
        pygame.display.set_caption("WorldPager")
        target = self._open_window()
        self._hud = Hud(Type(scale_for(*target.get_size())))
        self._walk.link.start()
        for number in (signal.SIGINT, signal.SIGTERM):  # like closing the window: the report is still written
            signal.signal(number, self._close)
        clock = pygame.time.Clock()
        try:
            while self._runs:
                self._pass(pygame.display.get_surface() or target)
                clock.tick(_PASS_HZ)
            self._finish()
        finally:
            self._walk.link.close()
            pygame.quit()
        return 0

    def _close(self, *_: object) -> None:
        self._runs = False

    def _open_window(self) -> pygame.Surface:
        if self._is_full:
            return pygame.display.set_mode(pygame.display.get_desktop_sizes()[0], pygame.FULLSCREEN)
        return pygame.display.set_mode(self._window_size(), pygame.RESIZABLE)

    @staticmethod
    def _window_size() -> tuple[int, int]:
        """The default size, or as much of it as the desktop has room for."""
        width_px, height_px = pygame.display.get_desktop_sizes()[0]
        share = min(1.0, _DESKTOP_SHARE * width_px / BASE_WIDTH_PX, _DESKTOP_SHARE * height_px / BASE_HEIGHT_PX)
        if width_px >= 2 * BASE_WIDTH_PX / _DESKTOP_SHARE and height_px >= 2 * BASE_HEIGHT_PX / _DESKTOP_SHARE:
            share = 2.0  # a 4K desktop that is not scaled
        return (round(BASE_WIDTH_PX * share), round(BASE_HEIGHT_PX * share))

    def _pass(self, target: pygame.Surface) -> None:
        now_s = time.perf_counter()
        for event in pygame.event.get():
            self._act(self._hands.take(event, now_s))
        self._steer(now_s)
        self._walk.update(now_s)
        picture = self._walk.due(now_s)
        if picture is not None:
            self._screen.show(picture)
        self._refresh(target, now_s, is_new=picture is not None)
        if picture is not None:
            self._walk.presented(picture, time.perf_counter())
        first_s = self._walk.record.first_s
        if self._seconds is not None and first_s is not None and now_s - first_s >= self._seconds:
            self._runs = False

    def _refresh(self, target: pygame.Surface, now_s: float, *, is_new: bool) -> None:
        """Draw what changed: all of the window for a picture, and where blocks fly between two pictures."""
        if is_new or now_s - self._drawn_s >= _REDRAW_S:
            self._drawn_s = now_s
            self._draw(target, now_s)
            pygame.display.flip()
            return
        region = self._hud.moving_region(now_s)
        if region is not None and now_s - self._moved_s >= _MOVE_S:
            self._moved_s = now_s
            target.set_clip(region)
            self._draw(target, now_s)
            target.set_clip(None)
            pygame.display.update(region)

    def _act(self, action: Action | None) -> None:
        if action is not None:
            self._drawn_s = 0.0  # show it at once
        if action is Action.QUIT:
            self._runs = False
        elif action is Action.HELP:
            self._helps = not self._helps
        elif action is Action.HUD:
            self._hud.mode = self._hud.mode.following
        elif action is Action.PAUSE and self._walk.welcome is not None:
            self._walk.link.pause(on=self._walk.paused_why != "player")
        elif action is Action.FULL_SCREEN:
            self._is_full = not self._is_full
            self._open_window()

    def _steer(self, now_s: float) -> None:
        """The player's hands, and on top of them the route when one was asked for."""
        dx, dy = self._hands.travel(now_s, now_s - self._pass_s)
        self._pass_s = now_s
        if not self._hands.is_captured:
            self._captured_s = now_s
        keys = self._hands.keys
        first_s = self._walk.record.first_s
        if self._path is not None and first_s is not None:
            keys |= self._path.keys_at(now_s - first_s)
            mouse = self._path.mouse_at(now_s - first_s)
            dx, dy = dx + mouse[0] - self._sent_mouse[0], dy + mouse[1] - self._sent_mouse[1]
            self._sent_mouse = mouse
        self._walk.steer(keys, dx, dy, now_s)

    def _draw(self, target: pygame.Surface, now_s: float) -> None:
        scale = scale_for(*target.get_size())
        if scale != self._hud.scale:
            self._hud = Hud(Type(scale), self._hud.mode)
        type_ = self._hud.type_
        self._screen.draw(target)
        self._hud.draw(target, self._walk, now_s)
        card = card_for(self._walk.status, now_s - self._walk.status_s)
        if card is not None and now_s - self._walk.status_s > _QUIET_S:
            is_busy = self._walk.status.phase in (Phase.CONNECTING, Phase.LOADING)
            overlay.draw_card(target, type_, card, now_s, is_busy=is_busy)
        elif self._helps:
            overlay.draw_help(target, type_)
        else:
            self._draw_hints(target, type_, now_s)

    def _draw_hints(self, target: pygame.Surface, type_: Type, now_s: float) -> None:
        above = pause_words(self._walk.paused_why) or self._walk.notice(now_s)
        if above:
            overlay.draw_hint(target, type_, above, at_top=True)
        if self._walk.welcome is None:
            return
        if not self._hands.was_captured and self._path is None:
            overlay.draw_hint(target, type_, overlay.CAPTURE_HINT, at_top=False)
        elif self._hands.is_captured and now_s - self._captured_s < _RELEASE_HINT_S:
            overlay.draw_hint(target, type_, overlay.RELEASE_HINT, at_top=False, colour=DIM)

    def _finish(self) -> None:
        if self._report_path is not None:
            report = self._walk.report(self._path.name if self._path else "")
            self._walk.link.submit(write_report(self._report_path, report)).result(10.0)


def _prepare_desktop() -> None:
    """Settings that SDL and Windows read before the first window."""
    os.environ.setdefault("SDL_MOUSE_RELATIVE_SCALING", "0")
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415 - there is nothing to import elsewhere

        ctypes.windll.user32.SetProcessDPIAware()
