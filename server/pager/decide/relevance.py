"""What to forget last: what some likely view will want soon. Pure; numpy at most.

A `Trail` is where a head has been; an `Outlook` is what follows from it for each block. Nothing here knows a model:
what a view wants is taken from its overlap with the views that blocks were drawn from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from server.pager.decide.views import (
    HFOV_RAD,
    MOST_FORGIVEN_M,
    MOST_FORGIVEN_RAD,
    REACH_M,
    Flags,
    Floats,
    Indices,
    Views,
    forgiving_overlap,
    likely_views,
    overlap,
    within,
)

RECENCY_WORTH, RECENCY_CHUNKS = 0.1, 30.0  # of what was wanted just now, and after which it is worth 1/e of that
CHOSEN_RECENCY_WORTH = 10.0  # the same where the model chooses which views leave a block: more than any view's
CHOSEN_GAPS = 0.2  # of the blocks, from which on chunks without one lie between them by choice; a fork makes one gap
LEAST_WORTH = 1e-9
PICKS = 3  # blocks that a view wants
LEAST_OVERLAP = 0.15  # from here on a view wants a block
EQUAL_OVERLAP = 0.03  # blocks that are nearer to the best than this are as good: the oldest is taken
WINDOW_CHUNKS = 1.0  # what is no older than this is still seen itself, and wanted by nobody
LEAST_SEEN = LEAST_OVERLAP - EQUAL_OVERLAP  # a block that shows less is not picked
FARTHEST_M = REACH_M * math.log(1.0 / LEAST_SEEN) + MOST_FORGIVEN_M  # nor is one from farther away
LEAST_FACING = math.cos(HFOV_RAD * (1.0 - LEAST_SEEN) + MOST_FORGIVEN_RAD)  # nor one that looked farther aside
SLACK = 1e-6  # of squares and cosines, for what rounding makes of them
SAME_VIEW_SHARE = 0.8  # of a picked block's overlap with another is taken off the other's


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

    @property
    def is_chosen(self) -> bool:
        """Whether the model leaves a block only where it sees something new, and not with every chunk.

        Which views it wants then is its own judgement, which the rule of thumb below knows little of.
        """
        return len(self.ids) > 1 and float(np.mean(np.diff(self.ids) > 1)) > CHOSEN_GAPS

    def rows_of(self, blocks: Sequence[int]) -> Indices:
        """[R] the row of each block; -1 where no ancestor left it."""
        rows = np.minimum(np.searchsorted(self.ids, blocks), len(self.ids) - 1)
        return np.where(self.ids[rows] == np.asarray(blocks), rows, -1)


class Outlook:
    """What a trail says of the blocks that will be wanted. Owned by one thread; worked out when it is asked for."""

    def __init__(self) -> None:
        self._trail: Trail | None = None
        self._demand: Floats | None = None  # [B], of `_trail`

    @property
    def world(self) -> str:
        """Where the head walks."""
        return "" if self._trail is None else self._trail.world

    def move_on(self, trail: Trail) -> None:
        """The head stands elsewhere, or some of its blocks are gone."""
        self._trail, self._demand = trail, None

    def worths(self, blocks: Sequence[int], idle_s: Sequence[float]) -> list[float]:
        """How much a tier would miss each block, above 0, when each was wanted so many seconds ago."""
        trail = self._trail
        assert trail is not None
        recency = CHOSEN_RECENCY_WORTH if trail.is_chosen else RECENCY_WORTH
        worths = LEAST_WORTH + recency * np.exp(-np.array(idle_s) / trail.chunk_s / RECENCY_CHUNKS)
        if len(trail.ids):
            if self._demand is None:
                self._demand = demand_of(trail)
            rows = trail.rows_of(blocks)
            worths += np.where(rows >= 0, self._demand[rows], 0.0)
        return [float(worth) for worth in worths]

    def has(self, block: int) -> bool:
        """Whether one of the head's ancestors left it."""
        trail = self._trail
        return trail is not None and len(trail.ids) > 0 and bool(trail.rows_of([block])[0] >= 0)

    def is_shown(self, block: int, kept: Sequence[int]) -> bool:
        """Whether one of the `kept` blocks shows what `block` was drawn from so well that it is picked in its place.

        A block that the trail does not have yet was drawn where the head stands.
        """
        trail = self._trail
        assert trail is not None
        if not len(trail.ids):
            return False
        row, rows = int(trail.rows_of([block])[0]), trail.rows_of(kept)
        view = trail.here if row < 0 else trail.poses[row]
        return bool((overlap(view, trail.poses[rows[rows >= 0]]) >= 1.0 - EQUAL_OVERLAP).any())


def demand_of(trail: Trail) -> Floats:
    """[B] how soon a likely view wants each row's block: 1 at once, 0 never."""
    demand = np.zeros(len(trail.ids))
    alive = np.arange(len(trail.ids)) if trail.alive is None else np.flatnonzero(trail.alive)
    for views in likely_views(trail.path):
        rows = alive[within(trail.poses[alive], views.poses, FARTHEST_M)]  # of a long walk few
        if len(rows):
            picks = wanted_by(views, trail.poses[rows], (len(trail.ids) - 1 - rows).astype(np.float64))  # [F, PICKS]
            found = picks >= 0
            worth = np.broadcast_to(views.worth[:, None], picks.shape)
            np.maximum.at(demand, rows[picks[found]], worth[found])
    return demand


def wanted_by(views: Views, poses: Floats, ages: Floats) -> Indices:
    """[F, PICKS] which of the blocks drawn from `poses [B, 5]`, oldest first, each view wants; -1: none of them.

    `ages [B]` are in chunks, as of now. One after the other: the oldest of those that saw nearly most of the view, less
    what was picked already saw. On a walk the views before leave blocks too, which are picked in place of older ones.
    """
    drawn_at = -ages
    if views.is_walk:
        poses, drawn_at = np.concatenate([poses, views.poses]), np.concatenate([drawn_at, views.chunks])
    picks = np.full((len(views.poses), PICKS), -1, np.int64)
    near = may_pick(views.poses, poses)
    if near.shape[1] == 0:
        return picks
    seen, age = poses[near], views.chunks[:, None] - drawn_at[near]  # [F, N, 5], [F, N]
    worth = forgiving_overlap(views.poses[:, None], seen, np.maximum(age, 0.0))
    worth *= (near >= 0) & (age > WINDOW_CHUNKS)
    at = np.arange(len(near))
    for turn in range(PICKS):
        best = worth.max(axis=1)
        place = np.argmax(worth >= (best - EQUAL_OVERLAP)[:, None], axis=1)
        pick = near[at, place]
        picks[:, turn] = np.where((best >= LEAST_OVERLAP) & (pick < len(ages)), pick, -1)
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
