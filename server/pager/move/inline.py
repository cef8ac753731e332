"""The device of a machine without a GPU: the GPU tier is a RAM arena, and a copy is a copy in the calling thread."""

import numpy as np

from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from server.pager.move.arena import Arena
from server.pager.moves import Move


class InlineDevice:
    """Copies between two arenas. Returns only when the bytes are there, so it has nothing to wait for."""

    def __init__(self, layout: SlotLayout, codec: Codec, dram: Arena, gpu: Arena) -> None:
        self._layout = layout
        self._codec = codec
        self._dram = dram
        self._gpu = gpu

    def encode(self, move: Move, dram_slot: int) -> None:
        assert move.fresh is not None
        if move.event is not None:
            move.event.synchronize()  # the tensors are complete only after it
        slot = self._dram.tensor(dram_slot)
        self._codec.encode(move.fresh.kv, slot)
        self._codec.store_side(move.fresh.side, slot)

    def raise_(self, dram_slot: int, gpu_slot: int) -> None:
        size = self._layout.moved_bytes
        np.copyto(self._gpu.array(gpu_slot)[:size], self._dram.array(dram_slot)[:size])
