"""What to forget first: how soon some likely view will want a block again. Pure; numpy at most.

A `Trail` is what a head has seen; an `Outlook` is what follows from it for each block.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

M_PER_RAD = 2.0  # a radian of turning is as far as so many metres
NEAR_M = 1.5  # a place is the same place within this
RECENT = 4  # chunks that are too young to be a return
NUM_PLACES = 4  # earlier visits whose continuation is taken for likely
REPLAYED = 80  # chunks of a continuation
OTHER_WAY = 200.0  # chunks that it costs to have guessed the direction wrong
HFOV_RAD = math.pi / 2
REACH_M = 4.0
LEAST_OVERLAP = 0.3  # from here on a view wants a block
COVERED = 0.85  # of a view, from which on an older block is taken in its place
COVERED_WORTH = 0.1
RECENCY_WORTH = 0.05
HORIZON = 20.0  # chunks after which a block that will be wanted is worth 1/e
NO_COVER = -1


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


class Outlook:
    """What a trail says of the blocks that will be wanted. Owned by one thread; worked out when it is asked for."""

    def __init__(self) -> None:
        self._trail: Trail | None = None
        self._views: tuple[Floats, Floats] | None = None
        self._covers: dict[int, int] = {}  # by row: the older row that shows the same, or NO_COVER

    @property
    def world(self) -> str:
        """Where the head walks."""
        return "" if self._trail is None else self._trail.world

    def move_on(self, trail: Trail) -> None:
        """The head stands elsewhere, or some of its blocks are gone."""
        old, num = self._trail, 0 if self._trail is None else min(len(trail.ids), len(self._trail.ids))
        if old is not None and num and trail.ids[num - 1] != old.ids[num - 1]:
            self._covers.clear()  # it stands on another line of moments
        self._trail = trail
        self._views = None

    def worths(self, blocks: Sequence[int], idle_s: Sequence[float]) -> list[float]:
        """How much a tier would miss each block, above 0, when each was wanted so many seconds ago."""
        trail = self._trail
        assert trail is not None
        idle = np.array(idle_s) / trail.chunk_s
        worth = RECENCY_WORTH * np.exp(-idle / HORIZON)
        rows = np.searchsorted(trail.ids, blocks)
        known = np.flatnonzero(rows < len(trail.ids))
        known = known[trail.ids[rows[known]] == np.array(blocks)[known]]
        if len(known):
            if self._views is None:
                self._views = likely_views(trail.path)
            views, after = self._views
            seen = overlap(views[:, None], trail.poses[rows[known]][None])  # [F, R]
            soonest = np.where(seen >= LEAST_OVERLAP, after[:, None], np.inf).min(axis=0, initial=np.inf)
            covered = np.array([self._is_covered(trail, int(row)) for row in rows[known]])
            worth[known] += np.exp(-soonest / HORIZON) * np.where(covered, COVERED_WORTH, 1.0)
        return [float(each) for each in np.maximum(worth, 1e-12)]

    def _is_covered(self, trail: Trail, row: int) -> bool:
        cover = self._covers.get(row)
        if cover is None or (cover != NO_COVER and trail.alive is not None and not trail.alive[cover]):
            cover = self._covers[row] = cover_of(trail.poses, row, trail.alive)
        return cover != NO_COVER


def cover_of(poses: Floats, row: int, alive: Flags | None) -> int:
    """The older row that shows nearly all of what this one shows, and is still there; NO_COVER when none is."""
    same = overlap(poses[row], poses[:row]) >= COVERED
    found = np.flatnonzero(same if alive is None else same & alive[:row])
    return int(found[0]) if len(found) else NO_COVER


def likely_views(poses: Floats) -> tuple[Floats, Floats]:
    """Poses that may come [F, 5], and after how many chunks each [F].

    Where the walk has been here before it may go on as it did then, or the way it came; anywhere it may turn back.
    """
    here, step = poses[-1], _step(poses, len(poses) - 1)
    away = distance(poses[:-RECENT], here)
    places = np.argsort(away, kind="stable")[:NUM_PLACES]
    places = places[away[places] < NEAR_M]
    views, after = [poses[-1:]], [np.zeros(1)]
    for place in (*places, len(poses) - 1):
        ahead, back = poses[place + 1 : place + 1 + REPLAYED], poses[max(0, place - REPLAYED) : place][::-1]
        agrees = float(np.dot(_step(poses, int(place)), step)) >= 0.0
        for path, is_likely in ((ahead, agrees), (back, not agrees)):
            views.append(path)
            after.append(np.arange(1.0, len(path) + 1.0) + (0.0 if is_likely else OTHER_WAY))
    return np.concatenate(views), np.concatenate(after)


def overlap(view: Floats, seen: Floats) -> Floats:
    """How much of `view [..., 5]` was seen from `seen [..., 5]`: shared heading times nearness."""
    turn = np.abs((view[..., 3] - seen[..., 3] + math.pi) % (2 * math.pi) - math.pi)
    away = np.linalg.norm(view[..., :3] - seen[..., :3], axis=-1)
    return np.maximum(0.0, 1.0 - turn / HFOV_RAD) * np.exp(-away / REACH_M)


def distance(poses: Floats, here: Floats) -> Floats:
    """Metres between poses, turning counted."""
    turn = np.abs((poses[..., 3] - here[3] + math.pi) % (2 * math.pi) - math.pi)
    return np.linalg.norm(poses[..., :3] - here[:3], axis=-1) + M_PER_RAD * turn


def _step(poses: Floats, chunk: int) -> Floats:
    """How the pose changed into this chunk: metres, and turning as metres [4]."""
    if chunk == 0:
        return np.zeros(4)
    change = poses[chunk] - poses[chunk - 1]
    turn = (change[3] + math.pi) % (2 * math.pi) - math.pi
    return np.array([*change[:3], M_PER_RAD * turn])
