"""Which copies a tier should give up first: one choice for all tiers, by a policy that is given by name. Pure.

A policy says how much a tier would miss each copy that no plan names; whatever a plan names is worth more than that.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from server.pager.blocks import BlockKey
from server.pager.decide.relevance import Outlook


class Candidate(NamedTuple):
    """A copy that could leave its tier now."""

    key: BlockKey
    wanted_at_s: float  # when a plan will want it; infinite when none does
    last_wanted_s: float
    serial: int = 0  # ascends in the order in which blocks were first heard of
    cost: float = 1.0  # of getting it back, in reads from the disk


Outlooks = Mapping[str, Sequence[Outlook]]  # by world, of every head that walks there
Policy = Callable[[Sequence[Candidate], Outlooks, float], Sequence[float]]  # at now_s; the lowest goes first


def recency(candidates: Sequence[Candidate], _: Outlooks, now_s: float) -> list[float]:
    """LRU: the least recently wanted goes first."""
    return [each.last_wanted_s - now_s for each in candidates]


def seniority(candidates: Sequence[Candidate], _: Outlooks, _now_s: float) -> list[float]:
    """FIFO: the oldest block goes first."""
    return [float(each.serial) for each in candidates]


def relevance(candidates: Sequence[Candidate], outlooks: Outlooks, now_s: float) -> list[float]:
    """How likely each is wanted again where its world's heads stand, times the cost of getting it back.

    Blocks of a world that nobody walks in come before all others, the least recently wanted first.
    """
    worths = [0.0] * len(candidates)
    for world in {each.key.world for each in candidates}:
        places = [place for place, each in enumerate(candidates) if each.key.world == world]
        idle_s = [now_s - candidates[place].last_wanted_s for place in places]
        if heads := outlooks.get(world):
            blocks = [candidates[place].key.block for place in places]
            found = [max(worths) for worths in zip(*(each.worths(blocks, idle_s) for each in heads), strict=True)]
        else:
            found = [-each for each in idle_s]
        for place, worth in zip(places, found, strict=True):
            worths[place] = worth * candidates[place].cost if worth > 0.0 else worth
    return worths


POLICIES: Mapping[str, Policy] = {"relevance": relevance, "lru": recency, "fifo": seniority}


def least_worthy(
    candidates: Sequence[Candidate], now_s: float, policy: Policy = recency, outlooks: Outlooks | None = None
) -> Candidate | None:
    """The copy to give up: what no plan names, by the policy, else what is wanted last. Of equals the first."""
    idle = [each for each in candidates if math.isinf(each.wanted_at_s)]
    if not idle:
        return max(candidates, key=lambda each: abs(each.wanted_at_s - now_s), default=None)
    worths = policy(idle, outlooks or {}, now_s)
    return idle[min(range(len(idle)), key=worths.__getitem__)]
