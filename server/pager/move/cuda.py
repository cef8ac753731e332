"""The device of a machine with CUDA: the GPU tier in device memory, two streams, and pinned DRAM. Makes no choice.

The codec's and the copier's threads each drive a stream of their own and come back when their bytes have arrived, so
that a finished move is finished for everybody. What the engine's stream may still be reading is kept by fences.
"""

from typing import Any, cast

import torch

from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from server.pager.move.arena import Arena
from server.pager.moves import Move


class CudaArena:
    """Slots in device memory, one allocation."""

    def __init__(self, layout: SlotLayout, num_slots: int, device: torch.device) -> None:
        self.note: str | None = None
        self.num_slots = num_slots
        self._slots = torch.empty((num_slots, layout.slot_bytes), dtype=torch.uint8, device=device)

    def tensor(self, slot: int) -> torch.Tensor:
        """[slot_bytes] uint8, a view."""
        return self._slots[slot]


class CudaDevice:
    """Encodes and copies on streams of its own. `staging` is one slot, used by the codec thread alone."""

    def __init__(self, layout: SlotLayout, codec: Codec, dram: Arena, gpu: CudaArena, device: torch.device) -> None:
        self._size = layout.moved_bytes
        self._codec = codec
        self._dram = dram
        self._gpu = gpu
        self._staging = torch.empty(layout.slot_bytes, dtype=torch.uint8, device=device)
        self._encode_stream = torch.cuda.Stream(device)
        self._copy_stream = torch.cuda.Stream(device)
        dram.register(_register)

    def encode(self, move: Move, dram_slot: int) -> None:
        assert move.fresh is not None
        stream = self._encode_stream
        with torch.cuda.stream(stream):
            if move.event is not None:
                stream.wait_event(move.event)  # the step's kernels write the tensors that are read here
            self._codec.encode(move.fresh.kv, self._staging)
            self._codec.store_side(move.fresh.side, self._staging)
            self._dram.tensor(dram_slot)[: self._size].copy_(self._staging[: self._size], non_blocking=True)
        stream.synchronize()  # the codec thread has nothing else to do, and the slot is sealed next

    def raise_(self, dram_slot: int, gpu_slot: int) -> None:
        stream = self._copy_stream
        with torch.cuda.stream(stream):
            source = self._dram.tensor(dram_slot)[: self._size]
            self._gpu.tensor(gpu_slot)[: self._size].copy_(source, non_blocking=True)
        stream.synchronize()  # only then may the DRAM slot be refilled and the block be offered


class CudaFence:
    """Passed when everything that was queued on the engine's stream before it is done."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event()
        self._event.record()

    def is_passed(self) -> bool:
        return self._event.query()


def step_event() -> torch.cuda.Event:
    """Recorded on the engine's stream when a block is committed: its tensors are complete after it."""
    event = torch.cuda.Event()
    event.record()
    return event


def _register(address: int, num_bytes: int) -> bool:
    """Pin a piece of host memory in place; 0 is CUDA's word for success."""
    runtime = cast(Any, torch.cuda.cudart())  # torch leaves it untyped
    return int(runtime.cudaHostRegister(address, num_bytes, 0)) == 0
