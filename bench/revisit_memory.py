"""A memory without tiers: every block of a walk in RAM, through the codec when asked. Owns no model, no figure."""

from dataclasses import dataclass, field

import torch

from models.base import Array, FreshBlock, Recall, RecalledBlock, WorldModel
from server.catalog import GrowingCatalog
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from server.rows import empty_line
from shared.pose import Pose

Kept = tuple[FreshBlock, torch.Tensor]  # and its K,V as a recall gives them


@dataclass(slots=True)
class Memory:
    """The blocks that one walk left, by id. Codec "int4" keeps what the pager would give back, "bf16" the original."""

    model: WorldModel
    codec: str
    _catalog: GrowingCatalog | None = None
    _blocks: dict[int, Kept] = field(default_factory=dict[int, Kept])

    def __len__(self) -> int:
        return len(self._blocks)

    def write(self, chunk_index: int, block: FreshBlock | None) -> None:
        """Keep the block that a chunk left, if it left one."""
        if block is None:
            return
        self._keep(chunk_index, (block, self._through_codec(block.kv)))

    def recall(self, pose: Pose, window_start: int) -> Recall:
        """Return the wanted blocks of a view, decoded."""
        if self._catalog is None:
            return ()
        return tuple(self._block(name) for name in self.model.wanted(pose, self._catalog.view(window_start)))

    def views(self) -> tuple[Array, Array]:
        """Return where its blocks were seen from [B, T, 5], and their points [B, ...]. At least one block."""
        assert self._catalog is not None, "nothing was written to this memory"
        catalog = self._catalog.view(0)
        return catalog.poses.copy(), catalog.footprints.copy()

    def copy(self) -> "Memory":
        """Return a memory of the same blocks that can be written to apart from this one."""
        twin = Memory(self.model, self.codec)
        for chunk_index, kept in self._blocks.items():
            twin._keep(chunk_index, kept)
        return twin

    def _keep(self, chunk_index: int, kept: Kept) -> None:
        block, _ = kept
        if self._catalog is None:
            shape = block.footprint.shape
            self._catalog = GrowingCatalog(empty_line(len(block.poses), shape, block.footprint.dtype.name))
        self._catalog.append(chunk_index, chunk_index, block.poses, block.footprint)
        self._blocks[chunk_index] = kept

    def _block(self, name: int) -> RecalledBlock:
        block, kv = self._blocks[name]
        return RecalledBlock(name, name, kv, block.side, block.footprint, block.poses)

    def _through_codec(self, kv: torch.Tensor) -> torch.Tensor:
        if self.codec == "bf16":
            return kv.to(self.model.dtype)
        layout = SlotLayout(self.model.kv_spec)
        codec, slot = Codec(layout), torch.zeros(layout.slot_bytes, dtype=torch.uint8)
        out = torch.empty(kv.shape, dtype=self.model.dtype)
        codec.encode(kv.cpu(), slot)
        codec.decode(slot, out)
        return out
