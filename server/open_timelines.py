"""The worlds that are open, each with how many sessions use it. The last one that leaves closes its world.

Engine thread, except `claim`, which a worker thread calls under the engine's opening lock.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from server.pager.pager import Pager
from server.timeline import Timeline

SAVE_WAIT_S = 15.0

_log = logging.getLogger(__name__)


class OpenTimelines:
    """By world. A world that is being closed is not among them any more; whoever wants it waits until it is closed."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self._timelines: dict[str, Timeline] = {}
        self._parkers: dict[str, threading.Thread] = {}

    def claim(self, world: str, on_engine: Callable[[Callable[[], Any]], Any]) -> Timeline | None:
        """The world's timeline, which stays open until it is let go of; None once the world is surely at rest."""
        timeline: Timeline | None = on_engine(lambda: self._claim(world))
        if timeline is None and (parker := self._parkers.get(world)) is not None:
            parker.join(SAVE_WAIT_S)
        return timeline

    def _claim(self, world: str) -> Timeline | None:
        timeline = self._timelines.get(world)
        if timeline is not None:
            timeline.num_sessions += 1
        return timeline

    def add(self, timeline: Timeline) -> None:
        """A world was opened, for one session."""
        timeline.num_sessions = 1
        self._timelines[timeline.world] = timeline

    def let_go(self, timeline: Timeline, saving: Future[bool] | None = None) -> None:
        """One session less uses it, whose head is being saved. After the last one, a thread of its own closes it."""
        timeline.num_sessions -= 1
        if timeline.num_sessions > 0:
            return
        world = timeline.world
        del self._timelines[world]
        timeline.close()
        parker = threading.Thread(target=self._close, args=(timeline, saving), name=f"park-{world[:6]}")
        parker.start()
        self._parkers = {name: thread for name, thread in self._parkers.items() if thread.is_alive()} | {world: parker}

    def join(self, until_s: float) -> None:
        """Wait for the worlds that are being closed, until `time.monotonic()` reads so."""
        for parker in self._parkers.values():
            parker.join(max(0.0, until_s - time.monotonic()))

    def _close(self, timeline: Timeline, saving: Future[bool] | None) -> None:
        """Wait for the last head, if the disk allows it in time, and let go of the world in any case."""
        is_saved = False
        try:
            is_saved = saving is not None and saving.result(SAVE_WAIT_S)
        except Exception:  # noqa: BLE001 - the top of the parker: whatever it was, the world must be let go
            _log.exception("head not saved world=%s", timeline.world)
        finally:
            timeline.journal.close()
            self._pager.close_world(timeline.world)
        _log.info("world closed world=%s saved=%s", timeline.world, is_saved)
