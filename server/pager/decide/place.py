"""Where copies should be, given what is wanted and by when. Pure: it looks through `View` and says steps.

Reads share one disk. Where it is too slow for all, what is due first has it to itself: that is how prefetching keeps
from having a worse tail than loading on demand.

`place` says one step at a time, and looks again after each: its caller carries a step out in the block table (the
moves themselves run later) before asking for the next.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from server.pager.blocks import Block, BlockKey, Copy
from server.pager.decide.evict import Candidate
from shared.tiers import Tier

Plan = Sequence[tuple[float, Sequence[BlockKey]]]  # (deadline_s, keys in order of worth)


class Want(NamedTuple):
    """A block that some head wants on the GPU, and when."""

    key: BlockKey
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Fetch:
    """Start the move that brings the block one tier up, into `to`."""

    key: BlockKey
    to: Tier


@dataclass(frozen=True, slots=True)
class Drop:
    """Give up a copy, to make room."""

    key: BlockKey
    tier: Tier


class View(Protocol):
    """What a decision looks at."""

    def block(self, key: BlockKey) -> Block | None: ...

    def free(self, tier: Tier) -> int:
        """Slots that can be taken now."""
        ...

    def leaving(self, tier: Tier) -> int:
        """Slots that will be free without another step."""
        ...

    def can_start(self, to: Tier) -> bool:
        """Whether a mover into this tier has room for one more move."""
        ...

    def next_read_ends_s(self, now_s: float) -> float:
        """When one more read would end, beside those that are under way."""
        ...

    def victim(self, tier: Tier, now_s: float) -> Candidate | None:
        """The copy that should leave the tier first; None while none may."""
        ...


def wants_of(plans: Iterable[Plan], now_s: float) -> list[Want]:
    """All plans as one list in the order of work: by deadline, then by worth within it; each block once.

    What is overdue fades: late by a second counts like due in a second.
    """
    ranked: list[tuple[float, int, BlockKey]] = []
    for plan in plans:
        for deadline_s, keys in plan:
            ranked += [(now_s + abs(deadline_s - now_s), rank, key) for rank, key in enumerate(keys)]
    wants: dict[BlockKey, Want] = {}
    for deadline_s, _, key in sorted(ranked):
        wants.setdefault(key, Want(key, deadline_s))
    return list(wants.values())


def place(wants: Sequence[Want], view: View, now_s: float) -> Iterator[Fetch | Drop]:
    """Steps that bring what is wanted upwards, soonest first. A block that finds no room or mover is passed over.

    So is a read that would share the disk with one that is due sooner, and would end after that one is due.
    """
    due_s = min((want.deadline_s for want in wants if is_below(view.block(want.key))), default=math.inf)
    for want in wants:
        to = next_tier(view.block(want.key))
        if to is None or not view.can_start(to):
            continue
        if to is Tier.DRAM and want.deadline_s > due_s and view.next_read_ends_s(now_s) > due_s:
            continue
        if view.free(to) == 0:
            if view.leaving(to):
                continue  # room is on its way
            victim = view.victim(to, now_s)
            if victim is None or victim.wanted_at_s <= want.deadline_s:
                continue
            yield Drop(victim.key, to)
        if view.free(to):
            yield Fetch(want.key, to)


def next_tier(block: Block | None) -> Tier | None:
    """The tier that a wanted block should be brought into next; None when it is up, on its way, or nowhere."""
    if block is None or not block.is_alive or block.copies[Tier.GPU] is not Copy.NONE:
        return None
    if block.has(Tier.DRAM):
        return Tier.GPU
    if block.copies[Tier.DRAM] is Copy.NONE and block.has(Tier.NVME) and not block.is_unreadable:
        return Tier.DRAM
    return None


def is_below(block: Block | None) -> bool:
    """Whether a wanted block has yet to come from NVME, or is being read now."""
    return block is not None and block.offered == frozenset({Tier.NVME})


def useless(reading: Sequence[BlockKey], wants: Mapping[BlockKey, Want], view: View, now_s: float) -> list[BlockKey]:
    """Which reads under way should end: those that serve nobody, and those in the way of what is due sooner.

    The latter only when that would come too late behind them: a read that is given up has cost the disk something.
    """
    waiting = (want.deadline_s for key, want in wants.items() if next_tier(view.block(key)) is Tier.DRAM)
    due_s = min(waiting, default=math.inf)
    is_late = view.next_read_ends_s(now_s) > due_s
    return [key for key in reading if key not in wants or (is_late and wants[key].deadline_s > due_s)]


def pressing(wants: Mapping[BlockKey, Want], waited: AbstractSet[BlockKey], view: View) -> Mapping[BlockKey, Want]:
    """What to work on now: only what the engine stands still for, as long as some of it must come from the disk.

    Reads for later chunks would share the disk with it, which is how prefetching gets a worse tail than loading on
    demand.
    """
    blocks = (view.block(key) for key in waited)
    if any(block and block.has(Tier.NVME) and not block.is_unreadable and len(block.tiers) == 1 for block in blocks):
        return {key: want for key, want in wants.items() if key in waited}
    return wants
