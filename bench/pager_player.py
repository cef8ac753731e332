"""Whoever walks: the input for the next chunk arrives while this one is drawn, whatever the engine does meanwhile.

A thread of its own, as the event loop of the product is. `begin`, `finish` and `close` belong to the engine's thread.
"""

import threading
import time
from collections.abc import Callable, Sequence
from queue import Queue


class Player:
    """Says at given moments of each chunk that more of the next one's input is known."""

    def __init__(self, tell: Callable[[int, float, float], None], shares: Sequence[float], chunk_s: float) -> None:
        """`tell(chunk, share, begin_s)` is called on the player's thread; `shares` of a chunk's time, ascending."""
        self._tell = tell
        self._shares = shares
        self._chunk_s = chunk_s
        self._begun: Queue[tuple[int, float] | None] = Queue()
        self._thread = threading.Thread(target=self._run, name="player", daemon=True)
        self._thread.start()

    def begin(self, index: int, begin_s: float) -> None:
        """Chunk `index` began at `begin_s` on `time.monotonic`."""
        self._begun.put((index, begin_s))

    def finish(self) -> None:
        """Wait until everything was told of the chunks that have begun."""
        self._begun.join()

    def close(self) -> None:
        """End the thread once everything was told."""
        self._begun.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (begun := self._begun.get()) is not None:
            index, begin_s = begun
            for share in self._shares:
                time.sleep(max(0.0, begin_s + share * self._chunk_s - time.monotonic()))
                self._tell(index, share, begin_s)
            self._begun.task_done()
