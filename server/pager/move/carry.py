"""What a mover does with a move: the work itself, in the calling thread. Owns nothing and chooses nothing."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from server.pager.header import Identity, seal
from server.pager.layout import SlotLayout
from server.pager.move.arena import Arena
from server.pager.move.slab import Slab, SlotWrite
from server.pager.moves import Move, MoveDone, Route

REST_S = 0.001  # how soon a read that rests goes on or ends


class Device(Protocol):
    """How bytes reach the GPU tier, and how a fresh block is encoded: `inline` on a CPU, `cuda` with one."""

    def encode(self, move: Move, dram_slot: int) -> None:
        """Encode the move's fresh tensors into a DRAM slot; returns when the bytes are there."""
        ...

    def raise_(self, dram_slot: int, gpu_slot: int) -> None:
        """Copy a DRAM slot to a GPU slot; returns when the copy is complete."""
        ...


class Carrier:
    """Carries out moves. Several threads may, as long as one alone carries out writes and erasures."""

    def __init__(
        self, layout: SlotLayout, fingerprint: bytes, dram: Arena, device: Device, slabs: Mapping[str, Slab]
    ) -> None:
        self._layout = layout
        self._fingerprint = fingerprint
        self._dram = dram
        self._device = device
        self._slabs = slabs

    def carry_out(self, move: Move) -> MoveDone:
        """One move that has nothing to do with others."""
        slab = self._slabs.get(move.key.world)
        if slab is None or move.is_cancelled:
            return MoveDone(move, is_cancelled=True)
        if move.route is Route.ENCODE:
            return self._encode(move, slab)
        if move.route is Route.READ:
            return self._read(move, slab)
        self._device.raise_(move.dram_slot, move.gpu_slot)
        return MoveDone(move, num_bytes=self._layout.moved_bytes)

    def make_durable(self, moves: Sequence[Move]) -> list[MoveDone]:
        """Writes and erasures that waited together: one sync for all of a world's data, one for its records."""
        dones: list[MoveDone] = []
        for world in dict.fromkeys(move.key.world for move in moves):
            here = [move for move in moves if move.key.world == world]
            slab = self._slabs.get(world)
            if slab is None:
                dones += [MoveDone(move, is_cancelled=True) for move in here]
                continue
            dones += self._erase(slab, [move for move in here if move.route is Route.ERASE])
            dones += self._write(slab, [move for move in here if move.route is Route.WRITE])
        return dones

    def _encode(self, move: Move, slab: Slab) -> MoveDone:
        self._device.encode(move, move.dram_slot)
        identity = Identity(self._fingerprint, slab.store_id, move.key.block, move.generation)
        seal(self._dram.view(move.dram_slot), self._layout, identity)
        return MoveDone(move, num_bytes=self._layout.moved_bytes)

    def _read(self, move: Move, slab: Slab) -> MoveDone:
        into = self._dram.view(move.dram_slot)[: self._layout.moved_bytes]

        def is_cancelled() -> bool:
            while move.is_resting(time.monotonic()):
                time.sleep(REST_S)
            return move.is_cancelled

        fault = slab.read(move.nvme_slot, move.key.block, move.generation, into, is_cancelled)
        if move.is_cancelled:
            return MoveDone(move, is_cancelled=True)
        if fault is not None:
            return MoveDone(move, error=fault.error, is_damaged=fault.is_damaged)
        return MoveDone(move, num_bytes=self._layout.moved_bytes)

    def _erase(self, slab: Slab, moves: Sequence[Move]) -> list[MoveDone]:
        error = slab.erase([move.nvme_slot for move in moves])
        # While the record may still stand, the slot must keep what the record says: nobody may write there.
        return [MoveDone(move, error=error, is_slot_bad=error is not None) for move in moves]

    def _write(self, slab: Slab, moves: Sequence[Move]) -> list[MoveDone]:
        dones = [MoveDone(move, is_cancelled=True) for move in moves if move.is_cancelled]
        kept = [move for move in moves if not move.is_cancelled]
        size = self._layout.moved_bytes
        items = [
            SlotWrite(move.nvme_slot, move.key.block, move.generation, self._dram.view(move.dram_slot)[:size])
            for move in kept
        ]
        for move, written in zip(kept, slab.write(items) if items else (), strict=True):
            dones.append(MoveDone(move, written.error, is_slot_bad=written.is_slot_bad, num_bytes=size))
        return dones
