"""What other threads may know of the block table, as of one instant. Values, made by the pager thread."""

from dataclasses import dataclass, field

from server.pager.heads import Counters
from server.pager.table import Table
from shared.tiers import Tier, TierUsage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Fill, totals, queue and faults. Replaced whole, never changed."""

    usage: tuple[TierUsage, ...] = ()
    counters: Counters = field(default_factory=Counters)
    queued_moves: int = 0
    notes: tuple[str, ...] = ()


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
