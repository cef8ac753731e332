"""The threads that carry out moves: one codec, one copier, two disk readers, one disk writer. They choose nothing.

Each takes a `Move` from its queue and gives a `MoveDone` to the pager's inbox. Between the two the move's slots are
the mover's alone. Writes and erasures that wait together are made durable together.
"""

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from server.pager.move.carry import Carrier
from server.pager.moves import Move, MoveDone, Route

LOG = logging.getLogger(__name__)
NUM_READERS = 2
MAX_GROUP = 16  # moves that the writer makes durable together


class Workers:
    """Five threads and their queues. After `stop` nothing runs and no move is accepted."""

    def __init__(self, carrier: Carrier, give: Callable[[MoveDone], None]) -> None:
        self._carrier = carrier
        self._give = give
        encodes, raises, reads, writes = _Queue(), _Queue(), _Queue(), _Queue()
        self._queues = {
            Route.ENCODE: encodes,
            Route.RAISE: raises,
            Route.READ: reads,
            Route.WRITE: writes,
            Route.ERASE: writes,
        }
        self._threads = [
            threading.Thread(target=self._run, args=(queue,), name=f"pager-{name}", daemon=True)
            for name, queue, count in (("codec", encodes, 1), ("copy", raises, 1), ("read", reads, NUM_READERS))
            for _ in range(count)
        ]
        self._threads.append(threading.Thread(target=self._run_writer, args=(writes,), name="pager-write", daemon=True))
        for thread in self._threads:
            thread.start()

    def submit(self, move: Move) -> None:
        self._queues[move.route].put(move)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Let each thread finish what it was given, and end it. One that is stuck in a disk is left behind.

        Waits for all of them together at most `timeout_s`.
        """
        for queue in {id(queue): queue for queue in self._queues.values()}.values():
            for _ in range(NUM_READERS):
                queue.put(None)
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _run(self, queue: "_Queue") -> None:
        while (move := queue.get()) is not None:
            try:
                done = self._carrier.carry_out(move)
            except Exception as error:  # noqa: BLE001  # the top of a thread: slots must not be left with nobody
                done = _fault(move, error)
            self._give(done)

    def _run_writer(self, queue: "_Queue") -> None:
        while (move := queue.get()) is not None:
            moves = [move, *_waiting(queue, MAX_GROUP - 1)]
            try:
                dones = self._carrier.make_durable(moves)
            except Exception as error:  # noqa: BLE001  # the top of a thread, likewise
                dones = [_fault(each, error) for each in moves]
            for done in dones:
                self._give(done)


class _Queue(SimpleQueue[Move | None]):
    """Moves in order of submission; None ends one thread."""


def _fault(move: Move, error: Exception) -> MoveDone:
    LOG.error("mover failed route=%s key=%s", move.route.name, move.key, exc_info=error)
    return MoveDone(
        move, error=f"{type(error).__name__}: {error}", is_slot_bad=move.route in (Route.WRITE, Route.ERASE)
    )


def _waiting(queue: _Queue, limit: int) -> list[Move]:
    """What else waits, without waiting. A None is put back for the loop."""
    found: list[Move] = []
    try:
        while len(found) < limit:
            move = queue.get_nowait()
            if move is None:
                queue.put(None)
                break
            found.append(move)
    except Empty:
        pass
    return found
