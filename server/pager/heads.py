"""What each head asked for and was given. `HeadRecord` is the engine thread's, `HeadWants` the pager thread's."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from server.pager.blocks import BlockKey
from server.pager.counters import Counters
from server.pager.decide.place import Plan
from server.pager.lease import ReadySet
from server.pager.moves import MoveNote
from server.pager.tally import Tally
from shared.tiers import Tier

HIT_LIFE_CHUNKS = 8  # plans look ahead in strides: what they pass over for no longer was wanted all along
PLAN_LIFE_S = 10.0  # a plan this long overdue belongs to a head that stands still
WAIT_LIFE_S = 10.0  # an exact recall that nobody has asked after for this long is waited for no more
TURN_S = 1e-6  # by which a waiting head comes after the one that waits longer
NUM_REMEMBERED = 4  # wanted sets to fall back on; the newest complete one is drawn with
NUM_NOTES = 512


class Asking(NamedTuple):
    """An exact recall that the pager thread was asked for, and that was not taken yet."""

    wanted: tuple[BlockKey, ...]
    serial: int
    asked_s: float  # last
    is_blocking: bool


@dataclass(slots=True)
class HeadRecord:
    """One head as the engine sees it. `remembered` are its last wanted sets, newest first."""

    base: Mapping[str, Counters]  # of each world, when the head appeared
    worlds: set[str]  # that it belongs to: the one of its own name, and those of what it wanted
    name: str = ""
    moves: deque[MoveNote] = field(default_factory=lambda: deque[MoveNote](maxlen=NUM_NOTES))
    ends: deque[MoveNote] = field(default_factory=deque[MoveNote])  # of blocks that are gone: none is left out
    remembered: deque[tuple[BlockKey, ...]] = field(
        default_factory=lambda: deque[tuple[BlockKey, ...]](maxlen=NUM_REMEMBERED)
    )
    wanted: tuple[BlockKey, ...] = ()
    recalled: tuple[BlockKey, ...] = ()
    is_stale: bool = False
    asking: Asking | None = None
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.name, self.worlds)

    def take_moves(self) -> list[MoveNote]:
        """What was told since the last time, at most `NUM_NOTES`; what has no room among them comes next time."""
        ends = [self.ends.popleft() for _ in range(min(len(self.ends), NUM_NOTES))]
        moves = [self.moves.popleft() for _ in range(len(self.moves))]
        return [*moves, *ends][-NUM_NOTES:]

    def choose(self, wanted: tuple[BlockKey, ...], ready: ReadySet) -> tuple[BlockKey, ...]:
        """What a recall that may not wait is drawn with: `wanted`, else the newest remembered set that is complete."""
        if not self.remembered or self.remembered[0] != wanted:
            self.remembered.appendleft(wanted)
        for keys in self.remembered:
            if ready.complete(keys):
                return keys
        return self.recalled  # whatever is left of it


@dataclass(slots=True)
class HeadWants:
    """One head as the pager thread sees it: plan, last ask, what it was given, and the hit tier of all it wants."""

    plan: Plan = ()
    asked: tuple[BlockKey, ...] = ()
    asked_s: float = -math.inf
    is_waiting: bool = False  # for all of `asked`: an exact recall
    is_blocking: bool = False  # the engine stands still meanwhile
    waits_since_s: float = -math.inf
    taken: tuple[BlockKey, ...] = ()
    hits: dict[BlockKey, Tier] = field(default_factory=dict[BlockKey, Tier])
    wanted_at: dict[BlockKey, int] = field(default_factory=dict[BlockKey, int])  # chunk at which each was wanted last
    num_chunks: int = 0  # asked for so far
    wanted: frozenset[BlockKey] = frozenset()  # when last noted

    def note(self, tiers: Mapping[BlockKey, Tier]) -> AbstractSet[BlockKey]:
        """Enter the highest tiers of all that is wanted now; returns what has become wanted, or is so no more."""
        changed = tiers.keys() ^ self.wanted
        unbroken = tiers.keys() & self.wanted
        self.wanted = frozenset(tiers)
        oldest = self.num_chunks - HIT_LIFE_CHUNKS
        lasting = {key: tier for key, tier in self.hits.items() if key in unbroken or self.wanted_at[key] > oldest}
        self.hits = {**tiers, **lasting}
        self.wanted_at = {key: self.num_chunks if key in tiers else self.wanted_at[key] for key in self.hits}
        return changed

    def without(self, keys: AbstractSet[BlockKey]) -> "HeadWants":
        """The same head, which wants none of `keys` and has never wanted them."""
        return replace(
            self,
            plan=[(due_s, [key for key in planned if key not in keys]) for due_s, planned in self.plan],
            asked=tuple(key for key in self.asked if key not in keys),
            taken=tuple(key for key in self.taken if key not in keys),
            hits={key: tier for key, tier in self.hits.items() if key not in keys},
            wanted=self.wanted - keys,
        )

    @property
    def keys(self) -> set[BlockKey]:
        """Everything it wants now."""
        return {*self.asked, *(key for _, keys in self.plan for key in keys)}

    def ask(
        self, wanted: tuple[BlockKey, ...], taken: tuple[BlockKey, ...] | None, now_s: float, *, is_blocking: bool
    ) -> None:
        """Enter an ask, or that it was answered with `taken`."""
        if not (self.is_waiting and wanted == self.asked):
            self.waits_since_s = now_s
        self.asked, self.asked_s = wanted, now_s
        self.is_waiting, self.is_blocking = taken is None, is_blocking
        if taken is not None:
            self.taken = taken
            self.num_chunks += 1

    def waits(self, now_s: float) -> bool:
        return self.is_waiting and self.asked_s + WAIT_LIFE_S >= now_s

    def plan_at(self, now_s: float, due_s: float) -> Plan:
        """What it asked for, due at `due_s`, and what it plans, without what is long overdue.

        While it waits, its chunk is known and the later ones are put off: of the plan, what was for this chunk serves
        nothing any more, and the rest is due as much later as it has waited.
        """
        oldest_s, late_s, plan = now_s - PLAN_LIFE_S, 0.0, self.plan
        if self.waits(now_s):
            late_s = now_s - self.waits_since_s
            plan = [(each_s, keys) for each_s, keys in plan if each_s > self.waits_since_s]
        later = [(each_s + late_s, keys) for each_s, keys in plan]
        return [(each_s, keys) for each_s, keys in ((due_s, self.asked), *later) if each_s >= oldest_s]


def plans_at(heads: Iterable[HeadWants], now_s: float) -> list[Plan]:
    """What all heads ask for and plan. What an exact recall waits for is due now, in the order of waiting.

    Whoever waits longest may take the slots of the others, so that several waits cannot hold one another up.
    """
    waiting = sorted((head for head in heads if head.waits(now_s)), key=lambda head: head.waits_since_s)
    others = [head for head in heads if not head.waits(now_s)]
    first = [head.plan_at(now_s, now_s + turn * TURN_S) for turn, head in enumerate(waiting)]
    return first + [head.plan_at(now_s, head.asked_s) for head in others]


def stood_still_for(heads: Iterable[HeadWants], now_s: float) -> set[BlockKey]:
    """The blocks that the engine thread stands still for."""
    return {key for head in heads if head.is_blocking and head.waits(now_s) for key in head.asked}
