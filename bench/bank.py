"""A memory bank in RAM, and a walk that recalls from it: what the pager does, without tiers. Exact, one thread.

It exists to take a walk's memory apart; blocks are encoded once, as the pager encodes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch

from models.base import Array, Catalog, FreshBlock, ModelState, Pixels, RecalledBlock, WorldModel
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from shared.controls import Controls
from shared.pose import Pose


@dataclass(frozen=True, slots=True)
class BankBlock:
    """One block as it is kept: encoded K,V and side planes, and what retrieval looks at."""

    id: int
    chunk_index: int
    packed: torch.Tensor  # [moved_bytes] uint8
    footprint: Array
    poses: tuple[Pose, ...]


@dataclass(slots=True)
class Bank:
    """The blocks of one walk, oldest first. A copy shares them."""

    model: WorldModel
    blocks: tuple[BankBlock, ...] = ()
    is_open: bool = True  # False: nothing is recalled
    layout: SlotLayout = field(init=False)
    codec: Codec = field(init=False)

    def __post_init__(self) -> None:
        self.layout = SlotLayout(self.model.kv_spec)
        self.codec = Codec(self.layout)

    def copy(self) -> Self:
        return replace(self)

    def keep(self, chunk_index: int, fresh: FreshBlock) -> None:
        """Encode a block and add it; its id is its chunk's index."""
        packed = torch.zeros(self.layout.moved_bytes, dtype=torch.uint8)
        self.codec.encode(fresh.kv.cpu(), packed)
        self.codec.store_side({name: plane.cpu() for name, plane in fresh.side.items()}, packed)
        self.blocks = (*self.blocks, BankBlock(chunk_index, chunk_index, packed, fresh.footprint, fresh.poses))

    def recall(self, pose: Pose, window_start: int) -> list[RecalledBlock]:
        """The blocks that the model wants at this pose, decoded."""
        if not self.blocks or not self.is_open:
            return []
        by_id = {block.id: block for block in self.blocks}
        return [self._decoded(by_id[number]) for number in self.model.wanted(pose, self._catalog(window_start))]

    def _catalog(self, window_start: int) -> Catalog:
        return Catalog(
            np.array([block.id for block in self.blocks], np.int64),
            np.array([block.chunk_index for block in self.blocks], np.int64),
            np.array([[pose.as_tuple() for pose in block.poses] for block in self.blocks], np.float64),
            np.stack([block.footprint for block in self.blocks]),
            window_start,
        )

    def _decoded(self, block: BankBlock) -> RecalledBlock:
        kv = torch.empty(self.layout.spec.shape, dtype=self.model.dtype)
        self.codec.decode(block.packed, kv)
        side = {name: plane.clone() for name, plane in self.codec.side_of(block.packed).items()}
        return RecalledBlock(block.id, block.chunk_index, kv, side, block.footprint, block.poses)


def begin(model: WorldModel, seed: int) -> tuple[ModelState, Bank]:
    """A new world: its state, and the bank of what it was given."""
    beginning, bank = model.begin(seed), Bank(model)
    for index, chunk in enumerate(beginning.chunks):
        if chunk.block is not None:
            bank.keep(index, chunk.block)
    return beginning.state, bank


def walk(
    model: WorldModel, state: ModelState, bank: Bank, controls: Sequence[Controls]
) -> tuple[ModelState, list[Pixels]]:
    """Draw the chunks that these controls ask for; what they leave goes into the bank. Returns state and frames."""
    frames: list[Pixels] = []
    num = model.frames_per_chunk
    for at in range(0, len(controls) // num * num, num):
        held, chunk_index = controls[at : at + num], state.chunk_index
        pose = model.steer(state, held)[-1]
        drawing = model.step(state, held, bank.recall(pose, state.window_start))
        while True:
            try:
                frames.append(next(drawing).pixels)
            except StopIteration as last:
                step = last.value
                break
        state = step.state
        if step.block is not None:
            bank.keep(chunk_index, step.block)
    return state, frames
