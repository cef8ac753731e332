"""What the threads of a slab share: the hands of its one writer, and how many reads are under way.

The threads are daemons: one that hangs in a disk must not keep the process from ending.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Hands(Generic[Piece, Result]):
    """Threads that do one kind of work, several pieces at once. Used by one thread at a time."""

    def __init__(self, work: Callable[[Piece], Result], count: int) -> None:
        self._work = work
        self._count = count
        self._pieces: SimpleQueue[tuple[Piece, Future[Result]] | None] = SimpleQueue()
        for _ in range(count):
            threading.Thread(target=self._run, name="pager-hand", daemon=True).start()

    def map(self, pieces: Iterable[Piece]) -> list[Result]:
        """Each piece's result, in order; waits for all. Raises what the work raised."""
        futures: list[Future[Result]] = []
        for piece in pieces:
            futures.append(Future())
            self._pieces.put((piece, futures[-1]))
        return [future.result() for future in futures]

    def close(self) -> None:
        """Let the threads end. Waits for none of them."""
        for _ in range(self._count):
            self._pieces.put(None)

    def _run(self) -> None:
        while (given := self._pieces.get()) is not None:
            piece, future = given
            try:
                future.set_result(self._work(piece))
            except Exception as error:  # noqa: BLE001  # the top of a thread: raised again by who waits for it
                future.set_exception(error)


class Readers:
    """How many reads are under way. Entered by readers; the writer waits, but never for long."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_until_none(self, timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        with self._changed:
            while self._count and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
