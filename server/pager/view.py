"""What decisions see of the block table: free slots, busy movers, and which copies may leave. Pager thread only."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice

from server.pager.blocks import Block, BlockKey
from server.pager.decide.evict import Candidate
from server.pager.decide.place import Want
from server.pager.heads import HeadWants
from server.pager.lease import Pins
from server.pager.moves import Route
from server.pager.table import Table
from server.pager.traffic import Traffic
from shared.tiers import Tier

MAX_IN_FLIGHT: Mapping[Tier, tuple[Route, int]] = {Tier.DRAM: (Route.READ, 3), Tier.GPU: (Route.RAISE, 4)}
OLDEST_SCORED = 256  # of a world's NVME copies; the others were wanted more recently than all of these
TAKEN_LIFE_S = 30.0  # how long a head's last recall stays protected when it asks for nothing more


class TableView:
    """A live view: what it says changes as steps are carried out. `wants` is set by the pager thread on each replan."""

    def __init__(
        self,
        table: Table,
        traffic: Traffic,
        pins: Pins,
        max_recall: int,
    ) -> None:
        self._table = table
        self._traffic = traffic
        self._pins = pins
        self._max_recall = max_recall
        self.wants: dict[BlockKey, Want] = {}
        self.protected: set[BlockKey] = set()

    def protect(self, heads: Mapping[str, HeadWants], now_s: float) -> None:
        """What is lent stays on the GPU, then each head's last recall, the newest first, while one more set fits."""
        room = self._table.shared[Tier.GPU].num_slots - self._max_recall
        self.protected = self._pins.leased_keys()
        for head in sorted(heads.values(), key=lambda head: -head.asked_s):
            if head.asked_s + TAKEN_LIFE_S >= now_s and len(self.protected.union(head.taken)) <= room:
                self.protected.update(head.taken)

    def block(self, key: BlockKey) -> Block | None:
        return self._table.blocks.get(key)

    def free(self, tier: Tier) -> int:
        return len(self._table.shared[tier].free)

    def leaving(self, tier: Tier) -> int:
        return len(self._traffic.retiring) if tier is Tier.GPU else 0

    def can_start(self, to: Tier) -> bool:
        route, limit = MAX_IN_FLIGHT[to]
        return self._traffic.under_way(route) < limit

    def spare(self, tier: Tier) -> Iterator[Candidate]:
        return self._spare_gpu() if tier is Tier.GPU else self._spare_dram()

    def spare_nvme(self, world: str) -> Iterator[Candidate]:
        """NVME copies that may be forgotten: what is wanted or drawn with now stays."""
        for key in islice(self._table.worlds[world].order, OLDEST_SCORED):
            if key not in self.wants and key not in self.protected and self._table.blocks[key].can_drop(Tier.NVME):
                yield self._candidate(key)

    def unsafe(self) -> Iterator[Candidate]:
        """DRAM copies whose leaving loses the block, and which no move reads."""
        for key in self._table.order[Tier.DRAM]:
            block = self._table.blocks[key]
            if block.can_drop(Tier.DRAM) and not block.has(Tier.NVME) and key not in self.protected:
                yield self._candidate(key)

    def _spare_gpu(self) -> Iterator[Candidate]:
        for key in self._table.order[Tier.GPU]:
            if key not in self.protected and not self._pins.is_leased(self._traffic.leased[key].slot):
                yield self._candidate(key)

    def _spare_dram(self) -> Iterator[Candidate]:
        """Copies that NVME has too; where there are none, those that NVME will never have."""
        found_safe = False
        for key in self._table.order[Tier.DRAM]:
            block = self._table.blocks[key]
            if block.has(Tier.NVME) and block.can_drop(Tier.DRAM):
                found_safe = True
                yield Candidate(key, math.inf, block.last_wanted_s) if block.has(Tier.GPU) else self._candidate(key)
        if not found_safe:
            yield from (each for each in self.unsafe() if self._table.blocks[each.key].is_unkept)

    def _candidate(self, key: BlockKey) -> Candidate:
        want = self.wants.get(key)
        return Candidate(key, math.inf if want is None else want.deadline_s, self._table.blocks[key].last_wanted_s)
