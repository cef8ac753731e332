"""Tiers and what the memory HUD shows of them. Pure values; any thread."""

from dataclasses import dataclass, field
from enum import IntEnum


class Tier(IntEnum):
    """Where a copy of a block lives. A lower number is nearer to the model."""

    GPU = 0
    DRAM = 1
    NVME = 2


@dataclass(frozen=True, slots=True)
class TierUsage:
    """One tier's fill: whole blocks and their bytes against the budget that was given."""

    tier: Tier
    blocks: int
    used_bytes: int
    budget_bytes: int


@dataclass(frozen=True, slots=True)
class PagerStats:
    """What the pager did since the session began; one value per chunk. Counts are totals, never rates."""

    tiers: tuple[TierUsage, ...] = ()
    wanted: tuple[int, ...] = ()  # block ids, for the chunk just drawn
    recalled: tuple[int, ...] = ()  # block ids the chunk was drawn with
    recalled_tiers: tuple[Tier, ...] = ()  # hit tier of each recalled block
    stale: bool = False
    hits: tuple[int, int, int] = (0, 0, 0)  # by hit tier: GPU, DRAM, NVME
    chunks: int = 0
    stale_chunks: int = 0
    lost: int = 0  # no tier could take the block in time
    forgotten: int = 0  # dropped under a budget
    missed: int = 0  # damaged, failed or late: counted, never waited for
    fetched_bytes: int = 0  # moved up
    spilled_bytes: int = 0  # moved down
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0
    queued_moves: int = 0
    stalls: int = 0
    preempted: int = 0
    longest_wait_ms: float = 0.0
    prediction_error_m: float = 0.0
    prediction_error_rad: float = 0.0
    direct_io: bool = True
    notes: tuple[str, ...] = field(default=())  # faults in words, newest last, at most 4
