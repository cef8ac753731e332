"""Full size and fast mode: which block, budgets, rates and times are really run for those that were given. Pure."""

from dataclasses import dataclass

import torch

from models.base import KVSpec, SidePlane
from server.pager.budgets import Budgets, buffer_bytes, slot_counts
from server.pager.capacity import Geometry
from server.pager.layout import MAX_GROUP, MIN_GROUP, PAGE_BYTES, SlotLayout, round_up
from server.pager.move.slab import PIECE_BYTES, slots_at

FAST_BYTES = 1000
FAST_TIME = 20.0
FAST_WIDTH = 256


@dataclass(frozen=True, slots=True)
class Scale:
    """A run in which each tier has as many slots as the given budgets buy, of blocks that are smaller by one factor."""

    full: SlotLayout
    run: SlotLayout
    time: float  # full-size seconds that pass in one real second

    @property
    def byte_ratio(self) -> float:
        """Full-size bytes that one real byte stands for."""
        return self.full.moved_bytes / self.run.moved_bytes

    @property
    def is_fast(self) -> bool:
        return self.time != 1.0

    @property
    def piece_bytes(self) -> int:
        """A read can be cancelled after each as small a part of a block as at full size."""
        return round_up(round(PIECE_BYTES / self.byte_ratio), PAGE_BYTES)

    def budgets(self, given: Budgets, k: int) -> Budgets:
        """Budgets that buy as many slots of the run's layout. Raises BudgetError when the given ones are too small."""
        gpu_slots, dram_slots = slot_counts(self.full, given, k, torch.bfloat16)
        nvme_slots = max(0, given.nvme_bytes - slots_at(self.full)) // self.full.slot_bytes
        return Budgets(
            buffer_bytes(self.run, k, torch.bfloat16) + gpu_slots * self.run.slot_bytes,
            dram_slots * self.run.slot_bytes,
            slots_at(self.run) + nvme_slots * self.run.slot_bytes,
        )

    def read_bytes_per_s(self, gbps: float) -> float:
        return gbps * 1e9 / self.byte_ratio * self.time

    def real_s(self, full_ms: float) -> float:
        return full_ms / 1e3 / self.time


def scale_of(geometry: Geometry, codec: str, *, fast: bool) -> Scale:
    """How to run a geometry. `codec` bf16 stores K and V verbatim, as a side plane."""
    spec = _verbatim(geometry.spec) if codec == "bf16" else geometry.spec
    full = SlotLayout(spec)
    return Scale(full, SlotLayout(_small(full)) if fast else full, FAST_TIME if fast else 1.0)


def _verbatim(spec: KVSpec) -> KVSpec:
    kv = SidePlane("kv", spec.shape, torch.bfloat16)
    return KVSpec(1, 1, MIN_GROUP, MIN_GROUP, (kv, *spec.side))


def _small(full: SlotLayout) -> KVSpec:
    """A block of one layer whose bytes are nearest to a thousandth of the full one's."""
    target = full.moved_bytes / FAST_BYTES
    width = max(FAST_WIDTH, full.padded_width)
    guess = round(target / (width + 4 * width // MAX_GROUP))
    counts = range(max(1, guess - 8), max(1, guess) + 9)
    specs = [KVSpec(1, tokens, width, min(full.spec.head_width, width)) for tokens in counts]
    return min(specs, key=lambda spec: abs(SlotLayout(spec).moved_bytes - target))
