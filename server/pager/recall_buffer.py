"""The recall buffer: where a lease's blocks are decoded for the model. Owned and used by the engine thread alone."""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from server.pager.blocks import BlockKey
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from server.pager.lease import Lease, LeasedBlock


class DecodedBlock(NamedTuple):
    """A block in the model's dtype. Views of the recall buffer: valid until the next `fill`."""

    key: BlockKey
    kv: torch.Tensor  # [L, 2, N, D]
    side: Mapping[str, torch.Tensor]


class RecallBuffer:
    """Room for `max_recall` decoded blocks, allocated once. Each place holds the block whose serial it remembers."""

    def __init__(self, layout: SlotLayout, max_recall: int, dtype: torch.dtype, device: torch.device) -> None:
        self._codec = Codec(layout)
        self._kv = torch.zeros((max_recall, *layout.spec.shape), dtype=dtype, device=device)  # [k, L, 2, N, D]
        self._side = [
            {plane.name: torch.zeros(plane.shape, dtype=plane.dtype, device=device) for plane in layout.spec.side}
            for _ in range(max_recall)
        ]
        self._serials = [0] * max_recall  # 0: nothing
        self.num_decoded = 0  # blocks decoded since it was made; what was in place is not decoded again

    @property
    def num_bytes(self) -> int:
        side = sum(plane.nbytes for planes in self._side for plane in planes.values())
        return self._kv.nbytes + side

    def fill(self, lease: Lease) -> tuple[DecodedBlock, ...]:
        """Decode what is not in place yet, straight from the packed bytes; returns views in the lease's order."""
        if lease.is_released:
            raise ValueError("a released lease cannot be decoded: its slots may hold other blocks by now")
        wanted = {block.serial for block in lease.blocks}
        spare = [place for place, serial in enumerate(self._serials) if serial not in wanted]
        return tuple(self._place(block, spare) for block in lease.blocks)

    def _place(self, block: LeasedBlock, spare: list[int]) -> DecodedBlock:
        if block.serial in self._serials:
            place = self._serials.index(block.serial)
        else:
            place = spare.pop()
            self._serials[place] = 0  # if decoding fails half-way, the place holds nothing
            self._codec.decode(block.packed, self._kv[place])
            for name, plane in self._side[place].items():
                plane.copy_(block.side[name])
            self._serials[place] = block.serial
            self.num_decoded += 1
        return DecodedBlock(block.key, self._kv[place], self._side[place])
