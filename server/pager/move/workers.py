"""The threads that carry out moves: one codec, one copier, two disk readers, one disk writer. They choose nothing.

Each takes a `Move` from its queue and gives a `MoveDone` to the pager's inbox. Between the two the move's slots are
the mover's alone. Writes and erasures that wait together are made durable together.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Protocol

from server.pager.header import Identity, seal
from server.pager.layout import SlotLayout
from server.pager.move.arena import Arena
from server.pager.move.slab import Slab, SlotWrite
from server.pager.moves import Move, MoveDone, Route

LOG = logging.getLogger(__name__)
NUM_READERS = 2
MAX_GROUP = 16


class Device(Protocol):
    """How bytes reach the GPU tier, and how a fresh block is encoded: `inline` on a CPU, `cuda` with one."""

    def encode(self, move: Move, dram_slot: int) -> None:
        """Encode the move's fresh tensors into a DRAM slot; returns when the bytes are there."""
        ...

    def raise_(self, dram_slot: int, gpu_slot: int) -> None:
        """Copy a DRAM slot to a GPU slot; returns when the copy is complete."""
        ...


class Workers:
    """Five threads and their queues. After `stop` nothing runs and no move is accepted."""

    def __init__(
        self,
        layout: SlotLayout,
        fingerprint: bytes,
        dram: Arena,
        device: Device,
        slabs: Mapping[str, Slab],
        give: Callable[[MoveDone], None],
    ) -> None:
        self._layout = layout
        self._fingerprint = fingerprint
        self._dram = dram
        self._device = device
        self._slabs = slabs
        self._give = give
        encodes, raises = _Queue(), _Queue()
        reads, writes = _Queue(), _Queue()
        self._queues = {
            Route.ENCODE: encodes,
            Route.RAISE: raises,
            Route.READ: reads,
            Route.WRITE: writes,
            Route.ERASE: writes,
        }
        self._threads = [
            self._start("pager-codec", encodes, self._encode),
            self._start("pager-copy", raises, self._raise),
            *(self._start(f"pager-read-{index}", reads, self._read) for index in range(NUM_READERS)),
            self._start("pager-write", writes, self._write),
        ]

    def submit(self, move: Move) -> None:
        self._queues[move.route].put(move)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let each thread finish what it is doing, and end it."""
        for route, count in ((Route.ENCODE, 1), (Route.RAISE, 1), (Route.READ, NUM_READERS), (Route.WRITE, 1)):
            for _ in range(count):
                self._queues[route].put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _start(self, name: str, queue: "_Queue", carry_out: Callable[[list[Move]], list[MoveDone]]) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(queue, carry_out), name=name, daemon=True)
        thread.start()
        return thread

    def _run(self, queue: "_Queue", carry_out: Callable[[list[Move]], list[MoveDone]]) -> None:
        is_writer = carry_out == self._write
        while (move := queue.get()) is not None:
            moves = [move, *_waiting(queue, MAX_GROUP - 1)] if is_writer else [move]
            try:
                dones = carry_out(moves)
            except Exception as error:  # the top of a thread: a fault of ours must not leave slots with nobody
                LOG.exception("mover failed route=%s key=%s", move.route.name, move.key)
                dones = [MoveDone(each, error=f"{type(error).__name__}: {error}") for each in moves]
            for done in dones:
                self._give(done)

    def _encode(self, moves: list[Move]) -> list[MoveDone]:
        (move,) = moves
        slab = self._slabs.get(move.key.world)
        if slab is None or move.fresh is None:
            return [MoveDone(move, is_cancelled=True)]
        self._device.encode(move, move.dram_slot)
        identity = Identity(self._fingerprint, slab.store_id, move.key.block, move.generation)
        seal(self._dram.view(move.dram_slot), self._layout, identity)
        return [MoveDone(move, num_bytes=self._layout.moved_bytes)]

    def _raise(self, moves: list[Move]) -> list[MoveDone]:
        (move,) = moves
        if move.is_cancelled:
            return [MoveDone(move, is_cancelled=True)]
        self._device.raise_(move.dram_slot, move.gpu_slot)
        return [MoveDone(move, num_bytes=self._layout.moved_bytes)]

    def _read(self, moves: list[Move]) -> list[MoveDone]:
        (move,) = moves
        slab = self._slabs.get(move.key.world)
        if slab is None:
            return [MoveDone(move, is_cancelled=True)]
        into = self._dram.view(move.dram_slot)[: self._layout.moved_bytes]
        fault = slab.read(move.nvme_slot, move.key.block, move.generation, into, lambda: move.is_cancelled)
        if move.is_cancelled:
            return [MoveDone(move, is_cancelled=True)]
        if fault is not None:
            return [MoveDone(move, error=fault.error, is_damaged=fault.is_damaged)]
        return [MoveDone(move, num_bytes=self._layout.moved_bytes)]

    def _write(self, moves: list[Move]) -> list[MoveDone]:
        dones: list[MoveDone] = []
        for world in dict.fromkeys(move.key.world for move in moves):
            here = [move for move in moves if move.key.world == world]
            slab = self._slabs.get(world)
            if slab is None:
                dones += [MoveDone(move, is_cancelled=True) for move in here]
                continue
            dones += self._erase_in(slab, [move for move in here if move.route is Route.ERASE])
            dones += self._write_in(slab, [move for move in here if move.route is Route.WRITE])
        return dones

    def _erase_in(self, slab: Slab, moves: list[Move]) -> list[MoveDone]:
        error = slab.erase([move.nvme_slot for move in moves])
        # While the record may still stand, the slot must keep what the record says: nobody may write there.
        return [MoveDone(move, error=error, is_slot_bad=error is not None) for move in moves]

    def _write_in(self, slab: Slab, moves: list[Move]) -> list[MoveDone]:
        kept = [move for move in moves if not move.is_cancelled]
        dones = [MoveDone(move, is_cancelled=True) for move in moves if move.is_cancelled]
        if not kept:
            return dones
        size = self._layout.moved_bytes
        items = [
            SlotWrite(move.nvme_slot, move.key.block, move.generation, self._dram.view(move.dram_slot)[:size])
            for move in kept
        ]
        for move, written in zip(kept, slab.write(items), strict=True):
            dones.append(
                MoveDone(move, error=written.error, is_slot_bad=written.is_slot_bad, num_bytes=len(items[0].data))
            )
        return dones


class _Queue(SimpleQueue[Move | None]):
    """Moves in order of submission; None ends one thread."""


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
