"""A memory without tiers: every block of a walk in RAM, through the codec when asked. Owns no model, no figure."""

from dataclasses import dataclass, field

import numpy as np
import torch

from models.base import Array, Catalog, FreshBlock, Recall, RecalledBlock, WorldModel
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from shared.pose import Pose

Kept = tuple[FreshBlock, torch.Tensor]  # and its K,V as a recall gives them


@dataclass(slots=True)
class Memory:
    """The blocks that one walk left, by id. Codec "int4" keeps what the pager would give back, "bf16" the original."""

    model: WorldModel
    codec: str
    _blocks: dict[int, Kept] = field(default_factory=dict[int, Kept])  # by chunk index, which is also their id
    _catalog: Catalog | None = None  # of all blocks, until another one is written

    def __len__(self) -> int:
        return len(self._blocks)

    def write(self, chunk_index: int, block: FreshBlock | None) -> None:
        """Keep the block that a chunk left, if it left one."""
        if block is not None:
            self._blocks[chunk_index] = (block, self._through_codec(block.kv))
            self._catalog = None

    def recall(self, pose: Pose, window_start: int) -> Recall:
        """Return the wanted blocks of a view, decoded."""
        if not self._blocks:
            return ()
        catalog = self._all()
        asked = Catalog(catalog.ids, catalog.chunks, catalog.poses, catalog.footprints, window_start)
        return tuple(self._block(name) for name in self.model.wanted(pose, asked))

    def views(self) -> tuple[Array, Array]:
        """Return where its blocks were seen from [B, T, 5], and their points [B, ...]. At least one block."""
        catalog = self._all()
        return catalog.poses, catalog.footprints

    def copy(self) -> "Memory":
        """Return a memory of the same blocks that can be written to apart from this one."""
        return Memory(self.model, self.codec, dict(self._blocks))

    def _all(self) -> Catalog:
        if self._catalog is None:
            blocks = [block for block, _ in self._blocks.values()]
            names = np.array(list(self._blocks), np.int64)
            poses = np.array([[pose.as_tuple() for pose in block.poses] for block in blocks], np.float64)
            self._catalog = Catalog(names, names, poses, np.stack([block.footprint for block in blocks]), 0)
        return self._catalog

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
