"""What to forget last: what some likely view will want soon. Pure; numpy at most.

A `Trail` is where a head has been; an `Outlook` is what follows from it for each block. Nothing here knows a model:
what a view wants is taken from its overlap with the views that blocks were drawn from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from server.pager.decide.views import HFOV_RAD, REACH_M, Flags, Floats, Indices, likely_views, overlap, within

COVERED = 0.85  # of a view, from which on an older block is taken in its place
COVERED_WORTH = 0.1  # of the older block's worth
RECENCY_WORTH, RECENCY_CHUNKS = 0.1, 30.0  # of what was wanted just now, and after which it is worth 1/e of that
LEAST_WORTH = 1e-9
PICKS = 3  # blocks that a view wants
LEAST_OVERLAP = 0.15  # from here on a view wants a block
EQUAL_OVERLAP = 0.03  # blocks that are nearer to the best than this are as good: the oldest is taken
FARTHEST_M = REACH_M * math.log(1.0 / (LEAST_OVERLAP - EQUAL_OVERLAP))  # from farther away no view picks a block
LEAST_FACING = math.cos(HFOV_RAD * (1.0 - (LEAST_OVERLAP - EQUAL_OVERLAP)))  # nor one that looked farther aside
SLACK = 1e-6  # of squares and cosines, for what rounding makes of them
SAME_VIEW_SHARE = 0.8  # of a picked block's overlap with another is taken off the other's
MOST_CLASSIFIED = 512  # rows that are looked at for the first time at once
REPRESENTS, UNSEEN = -1, -2  # in place of the row that covers a row


@dataclass(frozen=True, slots=True)
class Trail:
    """Where a world's head has been: one row for each block that its ancestors left, oldest first. Never changed."""

    world: str
    ids: Indices  # [B] ascending
    poses: Floats  # [B, 5] from which each was drawn
    here: Floats  # [5] where the head stands
    chunk_s: float  # seconds that a chunk takes
    alive: Flags | None = None  # [B]; None: all

    @property
    def path(self) -> Floats:
        """[B, 5] or [B + 1, 5]: every pose, up to where the head stands."""
        if len(self.poses) and np.array_equal(self.poses[-1], self.here):
            return self.poses
        return np.concatenate([self.poses, self.here[None]])

    def rows_of(self, blocks: Sequence[int]) -> Indices:
        """[R] the row of each block; -1 where no ancestor left it."""
        rows = np.minimum(np.searchsorted(self.ids, blocks), len(self.ids) - 1)
        return np.where(self.ids[rows] == np.asarray(blocks), rows, -1)


class Outlook:
    """What a trail says of the blocks that will be wanted. Owned by one thread; worked out when it is asked for.

    Every row either represents what it shows, or is covered by an older one that does.
    """

    def __init__(self) -> None:
        self._trail: Trail | None = None
        self._covers: Indices = np.zeros(0, np.int64)  # [B] of each row: the row that covers it, REPRESENTS, UNSEEN
        self._demand: Floats | None = None  # [B], of `_trail`

    @property
    def world(self) -> str:
        """Where the head walks."""
        return "" if self._trail is None else self._trail.world

    def move_on(self, trail: Trail) -> None:
        """The head stands elsewhere, or some of its blocks are gone."""
        old, self._trail, self._demand = self._trail, trail, None
        num = 0 if old is None else min(len(trail.ids), len(old.ids))
        if old is not None and num and trail.ids[num - 1] != old.ids[num - 1]:
            num = 0  # it stands on another line of moments
        fresh = np.full(len(trail.ids) - num, UNSEEN, np.int64)
        self._covers = np.concatenate([self._covers[:num], fresh])

    def worths(self, blocks: Sequence[int], idle_s: Sequence[float]) -> list[float]:
        """How much a tier would miss each block, above 0, when each was wanted so many seconds ago."""
        trail = self._trail
        assert trail is not None
        worths = LEAST_WORTH + RECENCY_WORTH * np.exp(-np.array(idle_s) / trail.chunk_s / RECENCY_CHUNKS)
        if len(trail.ids):
            if self._demand is None:
                self._demand = self._worked_out(trail)
            rows = trail.rows_of(blocks)
            worths += np.where(rows >= 0, self._demand[rows], 0.0)
        return [float(worth) for worth in worths]

    def _worked_out(self, trail: Trail) -> Floats:
        """[B] how soon a likely view wants each row's block: 1 at once, 0 never."""
        self._classify(trail)
        views, worth = likely_views(trail.path)
        kept = np.flatnonzero(self._covers == REPRESENTS)
        kept = kept[within(trail.poses[kept], views, FARTHEST_M)]  # of a long walk few: the others cost time only
        demand = np.zeros(len(trail.ids))
        if len(kept):
            picks = wanted_by(views, trail.poses[kept])  # [F, PICKS]
            found = picks >= 0
            np.maximum.at(demand, kept[picks[found]], np.broadcast_to(worth[:, None], picks.shape)[found])
            covered = np.flatnonzero(self._covers >= 0)
            demand[covered] = COVERED_WORTH * demand[self._covers[covered]]
        return demand

    def _classify(self, trail: Trail) -> None:
        """Find out of rows that were not looked at, or whose cover is gone, what covers them."""
        covers, alive = self._covers, trail.alive
        if alive is not None:
            covers[(covers == REPRESENTS) & ~alive] = UNSEEN  # it is gone: nobody can take it
            covers[(covers >= 0) & ~alive[np.maximum(covers, 0)]] = UNSEEN
        unseen = np.flatnonzero((covers == UNSEEN) & (alive if alive is not None else True))
        for row in unseen[:MOST_CLASSIFIED]:
            kept = np.flatnonzero(covers[:row] == REPRESENTS)
            same = np.flatnonzero(overlap(trail.poses[row], trail.poses[kept]) >= COVERED)
            covers[row] = kept[same[0]] if len(same) else REPRESENTS


def wanted_by(views: Floats, poses: Floats) -> Indices:
    """[F, PICKS] which of the blocks drawn from `poses [B, 5]`, oldest first, each of `views [F, 5]` wants; -1: none.

    One after the other: the oldest of those that saw nearly most of the view, less what was picked already saw.
    """
    picks = np.full((len(views), PICKS), -1, np.int64)
    near = may_pick(views, poses)
    if near.shape[1] == 0:
        return picks
    seen = poses[near]  # [F, N, 5]
    worth = overlap(views[:, None], seen) * (near >= 0)
    at = np.arange(len(views))
    for turn in range(PICKS):
        best = worth.max(axis=1)
        place = np.argmax(worth >= (best - EQUAL_OVERLAP)[:, None], axis=1)
        pick = near[at, place]
        picks[:, turn] = np.where(best >= LEAST_OVERLAP, pick, -1)
        worth *= 1.0 - SAME_VIEW_SHARE * overlap(poses[pick][:, None], seen)
        worth[at, place] = 0.0
    return picks


def may_pick(views: Floats, poses: Floats) -> Indices:
    """[F, N] the rows of `poses [B, 5]` that each of `views [F, 5]` might pick, ascending; filled up with -1."""
    apart_m2 = np.square(views[:, :3]).sum(axis=1)[:, None] + np.square(poses[:, :3]).sum(axis=1)
    apart_m2 -= 2.0 * (views[:, :3] @ poses[:, :3].T)
    facing = _ahead(views) @ _ahead(poses).T
    view, row = np.nonzero((apart_m2 <= FARTHEST_M**2 + SLACK) & (facing >= LEAST_FACING - SLACK))
    count = np.bincount(view, minlength=len(views))
    near = np.full((len(views), count.max(initial=0)), -1, np.int64)
    near[view, np.arange(len(view)) - np.repeat(np.cumsum(count) - count, count)] = row
    return near


def _ahead(poses: Floats) -> Floats:
    """[B, 2] of poses [B, 5]: the level direction that each looks in."""
    return np.stack([np.sin(poses[:, 3]), np.cos(poses[:, 3])], axis=1)
