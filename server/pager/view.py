"""What decisions see of the block table: free slots, busy movers, and which copies may leave. Pager thread only."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice

from server.pager.blocks import Block, BlockKey
from server.pager.decide.evict import Candidate, Policy, least_worthy
from server.pager.decide.place import Want
from server.pager.decide.relevance import Outlook, Trail
from server.pager.heads import HeadWants
from server.pager.lease import Pins
from server.pager.moves import Route
from server.pager.read_pace import ReadPace
from server.pager.table import Table
from server.pager.traffic import Traffic
from shared.tiers import Tier

MAX_IN_FLIGHT: Mapping[Tier, tuple[Route, int]] = {Tier.DRAM: (Route.READ, 3), Tier.GPU: (Route.RAISE, 4)}
OLDEST_SCORED = 256  # of a tier's copies; the others were wanted more recently than all of these
TAKEN_LIFE_S = 30.0  # how long a head's last recall stays protected when it asks for nothing more
RAISE_COST = 0.1  # of a GPU copy that DRAM holds too, in reads from the disk
LOSS_COST = 4.0  # of a copy that is the last one


class TableView:
    """A live view: what it says changes as steps are carried out. `wants` is set by the pager thread on each replan."""

    def __init__(self, table: Table, traffic: Traffic, pins: Pins, max_recall: int, policy: Policy) -> None:
        self._table = table
        self._traffic = traffic
        self._pins = pins
        self._max_recall = max_recall
        self._policy = policy
        self._outlooks: dict[str, Outlook] = {}  # by head
        self.pace = ReadPace()
        self.wants: dict[BlockKey, Want] = {}
        self.protected: set[BlockKey] = set()

    def protect(self, heads: Mapping[str, HeadWants], now_s: float) -> None:
        """What is lent stays on the GPU, then each head's last recall, the newest first, while one more set fits."""
        room = self._table.shared[Tier.GPU].num_slots - self._max_recall
        self.protected = self._pins.leased_keys()
        for head in sorted(heads.values(), key=lambda head: -head.asked_s):
            if head.asked_s + TAKEN_LIFE_S >= now_s and len(self.protected.union(head.taken)) <= room:
                self.protected.update(head.taken)

    def follow(self, head: str, trail: Trail) -> None:
        """A head has moved on."""
        self._outlooks.setdefault(head, Outlook()).move_on(trail)

    def leave(self, head: str) -> None:
        """Nobody walks there any more."""
        self._outlooks.pop(head, None)

    def block(self, key: BlockKey) -> Block | None:
        return self._table.blocks.get(key)

    def free(self, tier: Tier) -> int:
        return len(self._table.shared[tier].free)

    def leaving(self, tier: Tier) -> int:
        return len(self._traffic.retiring) if tier is Tier.GPU else 0

    def can_start(self, to: Tier) -> bool:
        route, limit = MAX_IN_FLIGHT[to]
        return self._traffic.under_way(route) < limit

    def next_read_ends_s(self, now_s: float) -> float:
        return self.pace.next_ends_s(now_s)

    def victim(self, tier: Tier, now_s: float) -> Candidate | None:
        """The copy that should leave GPU or DRAM first, of those whose leaving loses nothing that will be kept."""
        spare = self._spare_gpu() if tier is Tier.GPU else self._spare_dram()
        return self._least(spare, now_s)

    def unsafe_victim(self, now_s: float) -> Candidate | None:
        """The DRAM copy that is least missed of those whose leaving loses the block; a snapshot's come last."""
        return self._least(self._last_copies(is_pinned=False), now_s) or self._least(
            self._last_copies(is_pinned=True), now_s
        )

    def victim_of_nvme(self, newcomer: Block, now_s: float) -> Candidate | None:
        """What a world's full NVME should do without: one of its copies, or the block that is to come.

        What is wanted or drawn with now stays; what a snapshot keeps goes last. None while nothing may go. Without
        need a newcomer is refused only when it shows nothing that NVME does not have.
        """
        world = newcomer.key.world
        pinned = self._table.worlds[world].pinned
        order = [key for key in self._table.worlds[world].order if self._may_forget(key)]
        free = [key for key in order if key.block not in pinned]
        spare = [self._candidate(key) for key in islice(free or order, OLDEST_SCORED)]
        is_shown = newcomer.key.block not in pinned and self._is_shown(newcomer.key)
        if (is_shown or not free) and newcomer.key not in self.wants:
            spare.append(self._candidate(newcomer.key, 0.0 if is_shown else 1.0))  # last: of equals the one that stays
        return self._least(spare, now_s)

    def _is_shown(self, newcomer: BlockKey) -> bool:
        """Whether NVME has it all already, for each head that may want it."""
        kept = [key.block for key in self._table.worlds[newcomer.world].order]
        heads = [each for each in self._outlooks.values() if each.world == newcomer.world]
        heads = [each for each in heads if each.has(newcomer.block)] or heads
        return bool(heads) and all(each.is_shown(newcomer.block, kept) for each in heads)

    def _may_forget(self, key: BlockKey) -> bool:
        return key not in self.wants and key not in self.protected and self._table.blocks[key].can_drop(Tier.NVME)

    def _least(self, spare: "Iterator[Candidate] | list[Candidate]", now_s: float) -> Candidate | None:
        by_world: dict[str, list[Outlook]] = {}
        for outlook in self._outlooks.values():
            by_world.setdefault(outlook.world, []).append(outlook)
        return least_worthy(list(spare), now_s, self._policy, by_world)

    def _spare_gpu(self) -> Iterator[Candidate]:
        for key in self._table.order[Tier.GPU]:
            if key not in self.protected and not self._pins.is_leased(self._traffic.leased[key].slot):
                has_dram = self._table.blocks[key].has(Tier.DRAM)
                yield self._candidate(key, RAISE_COST if has_dram else 1.0)

    def _spare_dram(self) -> Iterator[Candidate]:
        """Copies that NVME has too, and those that NVME will never have; of the latter a snapshot's only in need."""
        found = 0
        for key in self._table.order[Tier.DRAM]:
            block = self._table.blocks[key]
            is_lost = not block.has(Tier.NVME)
            if block.can_drop(Tier.DRAM) and not (is_lost and (not block.is_unkept or self._is_kept_back(key))):
                found += 1
                candidate = self._candidate(key, LOSS_COST if is_lost else 1.0)
                yield candidate._replace(wanted_at_s=math.inf) if block.has(Tier.GPU) and not is_lost else candidate
            if found == OLDEST_SCORED:
                return
        if not found:
            yield from (each for each in self._last_copies(is_pinned=True) if self._table.blocks[each.key].is_unkept)

    def _last_copies(self, *, is_pinned: bool) -> Iterator[Candidate]:
        """DRAM copies whose leaving loses the block, and which no move reads."""
        for key in self._table.order[Tier.DRAM]:
            block = self._table.blocks[key]
            is_last = block.can_drop(Tier.DRAM) and not block.has(Tier.NVME)
            if is_last and key not in self.protected and self._is_pinned(key) is is_pinned:
                yield self._candidate(key)

    def _is_kept_back(self, key: BlockKey) -> bool:
        return key in self.protected or self._is_pinned(key)

    def _is_pinned(self, key: BlockKey) -> bool:
        return key.block in self._table.worlds[key.world].pinned

    def _candidate(self, key: BlockKey, cost: float = 1.0) -> Candidate:
        want, block = self.wants.get(key), self._table.blocks[key]
        wanted_at_s = math.inf if want is None else want.deadline_s
        return Candidate(key, wanted_at_s, block.last_wanted_s, block.serial, cost)
