"""Which copies a tier should give up first. Pure."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from server.pager.blocks import BlockKey


class Candidate(NamedTuple):
    """A copy that could leave its tier now."""

    key: BlockKey
    wanted_at_s: float  # when a plan will want it; infinite when none does
    last_wanted_s: float


def worth(candidate: Candidate, now_s: float) -> float:
    """What a tier gains by keeping the copy: in (0, 1] when a plan names it, more when sooner; else minus its age."""
    if math.isinf(candidate.wanted_at_s):
        return -max(0.0, now_s - candidate.last_wanted_s)
    return 1.0 / (1.0 + max(0.0, candidate.wanted_at_s - now_s))


def least_worthy(candidates: Iterable[Candidate], now_s: float) -> Candidate | None:
    """The copy to give up; among equals the one that stands first."""
    return min(candidates, key=lambda candidate: worth(candidate, now_s), default=None)
