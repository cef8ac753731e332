"""The operator's bytes, and how many slots they buy. Pure."""

import math
from dataclasses import dataclass

import torch

from server.pager.errors import BudgetError
from server.pager.layout import SlotLayout

MIN_DRAM_SLOTS = 4  # one to encode into, one being written, two being read


@dataclass(frozen=True, slots=True)
class Budgets:
    """Bytes of each tier. GPU and DRAM are shared by all worlds; NVME is each world's own file."""

    gpu_bytes: int
    dram_bytes: int
    nvme_bytes: int


def buffer_bytes(layout: SlotLayout, max_recall: int, dtype: torch.dtype) -> int:
    """Bytes of one decoded recall buffer."""
    return max_recall * (math.prod(layout.spec.shape) * dtype.itemsize + layout.spec.side_bytes)


def slot_counts(
    layout: SlotLayout, budgets: Budgets, max_recall: int, dtype: torch.dtype, *, num_staging: int = 0
) -> tuple[int, int]:
    """Slots on the GPU and in DRAM. Raises BudgetError in words when they are too few to walk with.

    `num_staging` more slots of the GPU's budget are the codec's own.
    """
    buffer = buffer_bytes(layout, max_recall, dtype) + num_staging * layout.slot_bytes
    needed = buffer + 2 * max_recall * layout.slot_bytes
    if budgets.gpu_bytes < needed:
        raise BudgetError(
            f"--gpu {budgets.gpu_bytes:,} bytes is too small: two recall sets of {max_recall} blocks at "
            f"{layout.slot_bytes:,} bytes and one decoded recall buffer ({buffer:,}) need {needed:,}. Give more."
        )
    if budgets.dram_bytes < MIN_DRAM_SLOTS * layout.slot_bytes:
        raise BudgetError(
            f"--dram {budgets.dram_bytes:,} bytes is too small: blocks pass through it, {MIN_DRAM_SLOTS} at "
            f"{layout.slot_bytes:,} bytes each, which is {MIN_DRAM_SLOTS * layout.slot_bytes:,}. Give more."
        )
    return (budgets.gpu_bytes - buffer) // layout.slot_bytes, budgets.dram_bytes // layout.slot_bytes
