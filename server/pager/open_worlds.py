"""The open worlds' slabs and locks, and the threads that let go of them. Used by the application's threads.

A disk may hang when a world is closed. Its file and its lock then stay taken until the disk answers, and nobody waits.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from server.pager.errors import WorldFault
from server.pager.inbox import Answer, Closing
from server.pager.move.disk import DiskIO
from server.pager.move.recover import OpenSlab
from server.pager.move.slab import Slab

LOG = logging.getLogger(__name__)


class OpenWorlds:
    """Worlds from opening until their last write has ended. `slabs` are what the movers may use."""

    def __init__(self, disk: DiskIO, tell: Callable[[Closing], None]) -> None:
        self.slabs: dict[str, Slab] = {}
        self._disk = disk
        self._tell = tell
        self._open: dict[str, tuple[Path, OpenSlab]] = {}
        self._closing: dict[str, Path] = {}

    def __contains__(self, world: str) -> bool:
        return world in self._open

    def names(self) -> list[str]:
        return list(self._open)

    def check_may_open(self, world: str, folder: Path) -> None:
        """Raise WorldFault in words when the world is still here."""
        if world in self._open:
            raise WorldFault(f"{world} is open already")
        if world in self._closing or folder in list(self._closing.values()):
            raise WorldFault(
                f"{folder}: the last writes of this world still hang on the disk, so it cannot be opened yet. "
                "Try again in a moment. If this goes on, the disk does not answer: look at it."
            )

    def add(self, world: str, folder: Path, opened: OpenSlab) -> None:
        self._open[world] = (folder, opened)
        self.slabs[world] = opened.slab

    def close(self, worlds: Iterable[str], timeout_s: float) -> bool:
        """Close worlds that are open. False when the disk hangs: then the rest happens when it answers."""
        threads = [thread for world in worlds if (thread := self._begin_close(world)) is not None]
        until_s = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _begin_close(self, world: str) -> threading.Thread | None:
        found = self._open.pop(world, None)
        if found is None:
            return None
        folder, opened = found
        self._closing[world] = folder
        answer = Answer()
        self._tell(Closing(world, answer))
        name = f"pager-close-{world[:6]}"
        thread = threading.Thread(target=self._let_go, args=(world, opened, answer), name=name, daemon=True)
        thread.start()
        return thread

    def _let_go(self, world: str, opened: OpenSlab, answer: Answer) -> None:
        """A closing thread: wait for the last move, end the log, give the lock back."""
        answer.ready.wait()
        try:
            del self.slabs[world]
            opened.slab.close()
            self._disk.close(opened.lock_fd)
        except Exception:  # the top of a thread: whatever it was, the world must not be closing for ever
            LOG.exception("world not closed in order world=%s", world)
        finally:
            del self._closing[world]
