"""What other threads may know of the block table, as of one instant. Values, made by the pager thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from server.pager.counters import Counters
from server.pager.table import Table
from shared.tiers import Tier, TierUsage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Fill, and by world: totals, queue, and faults in words. Replaced whole, never changed."""

    usage: tuple[TierUsage, ...] = ()
    counters: Mapping[str, Counters] = field(default_factory=dict[str, Counters])
    queued_moves: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    common_notes: tuple[str, ...] = ()  # of no world


def usage_of(table: Table, slot_bytes: int) -> tuple[TierUsage, ...]:
    """Each tier's blocks and bytes; NVME of all worlds together."""
    shelves = table.worlds.values()
    counts = {
        Tier.GPU: (len(table.order[Tier.GPU]), table.shared[Tier.GPU].num_slots),
        Tier.DRAM: (len(table.order[Tier.DRAM]), table.shared[Tier.DRAM].num_slots),
        Tier.NVME: (sum(len(shelf.order) for shelf in shelves), sum(shelf.slots.num_slots for shelf in shelves)),
    }
    return tuple(
        TierUsage(tier, blocks, blocks * slot_bytes, slots * slot_bytes) for tier, (blocks, slots) in counts.items()
    )
