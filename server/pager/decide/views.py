"""Which views may come, and how soon: all around, on as the walk went before, and back. Pure numpy.

Views are poses [..., 5]; `path [n, 5]` is every pose of a walk, one a chunk, the last where it stands.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

HFOV_RAD = math.pi / 2
REACH_M = 4.0
STEP_M, STEP_RAD = 1.4, 0.31  # what a player walks and turns in a chunk, at most
TURNS_RAD = (0.0, 0.3, 0.6, 0.95, 1.35, 1.8, 2.4, math.pi)  # to either side
STEPS = ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (1.0, math.pi), (1.0, 0.5 * math.pi), (1.0, -0.5 * math.pi))
FARTHEST_WALK_RAD = 2.0  # who turns farther than this does so on the spot
NEAR_M = 1.5  # a place is the same place within this
M_PER_RAD = 2.0  # a radian of turning is as far as so many metres
RECENT = 4  # chunks that are too young to be a return
NUM_PLACES, PLACE_CHUNKS = 3, 6  # earlier visits whose continuation is likely, and how far they are apart
REPLAYED = np.concatenate([np.arange(1, 9), np.arange(10, 61, 2)])  # chunks of a continuation that are looked at
RETRACED = np.arange(1, 61, 3)
AROUND_CHUNKS, AGAIN_CHUNKS, BACK_CHUNKS = 2.5, 40.0, 20.0  # after which such a view is worth 1/e
BACK_WORTH = 0.03  # of turning back where nothing speaks for it


def overlap(view: Floats, seen: Floats) -> Floats:
    """How much of `view [..., 5]` was seen from `seen [..., 5]`: shared heading times nearness."""
    turn = np.abs(wrapped(view[..., 3] - seen[..., 3]))
    x, y, z = (view[..., axis] - seen[..., axis] for axis in range(3))  # a sum over the last axis is slower
    return np.maximum(0.0, 1.0 - turn / HFOV_RAD) * np.exp(-np.sqrt(x * x + y * y + z * z) / REACH_M)


def within(poses: Floats, views: Floats, reach_m: float) -> Indices:
    """Rows of `poses [B, 5]` that are no farther than `reach_m` outside the box around `views [F, 5]`."""
    low, high = views[:, :3].min(axis=0) - reach_m, views[:, :3].max(axis=0) + reach_m
    return np.flatnonzero(((poses[:, :3] >= low) & (poses[:, :3] <= high)).all(axis=1))


def likely_views(path: Floats) -> tuple[Floats, Floats]:
    """Views that may come [F, 5], and what each is worth [F]: 1 when it comes at once, less the later."""
    parts = [around(path[-1]), again(path), back(path)]
    return np.concatenate([views for views, _ in parts]), np.concatenate([worth for _, worth in parts])


def around(here: Floats) -> tuple[Floats, Floats]:
    """Views from here and from a step or two away, in all directions: a player may turn to any."""
    views: list[Floats] = []
    chunks: list[float] = []
    for turn_rad in (side * turn for turn in TURNS_RAD for side in (1.0, -1.0) if turn or side > 0.0):
        for steps, aside_rad in STEPS if abs(turn_rad) <= FARTHEST_WALK_RAD else STEPS[:1]:
            way_rad = here[3] + (aside_rad or turn_rad)
            away_m = STEP_M * steps
            ahead = np.array([away_m * math.sin(way_rad), 0.0, away_m * math.cos(way_rad), turn_rad, 0.0])
            views.append(here + ahead)
            chunks.append(max(1.0, steps + abs(turn_rad) / STEP_RAD))
    return np.array(views), np.exp(-np.array(chunks) / AROUND_CHUNKS)


def again(path: Floats) -> tuple[Floats, Floats]:
    """What followed where the walk has been here before: on as it went then, or the way it came.

    A place is known again from either side: who comes home sees what lay behind.
    """
    views: list[Floats] = [path[:0]]
    worth: list[Floats] = [np.zeros(0)]
    for place in earlier_visits(path):
        is_turned = abs(wrapped(path[-1, 3] - path[place, 3])) > 0.5 * math.pi
        goes_on = float(np.dot(step_into(path, len(path) - 1), step_into(path, place))) >= 0.0
        rows = place + REPLAYED if goes_on else place - REPLAYED
        is_there = (rows >= 0) & (rows < len(path))
        found = path[rows[is_there]]
        found[:, 3] += math.pi * is_turned
        views.append(found)
        worth.append(np.exp(-REPLAYED[is_there] / AGAIN_CHUNKS))
    return np.concatenate(views), np.concatenate(worth)


def back(path: Floats) -> tuple[Floats, Floats]:
    """The way it came, looking as it looked then."""
    chunks = RETRACED[len(path) > RETRACED]
    return path[len(path) - 1 - chunks], BACK_WORTH * np.exp(-chunks / BACK_CHUNKS)


def earlier_visits(path: Floats) -> list[int]:
    """Rows at which the walk was here before, facing the same way or back, the nearest first."""
    earlier, here = path[:-RECENT], path[-1]
    turn = np.abs(wrapped(earlier[:, 3] - here[3]))
    away = np.sqrt(np.square(earlier[:, :3] - here[:3]).sum(axis=-1)) + M_PER_RAD * np.minimum(turn, math.pi - turn)
    visits: list[int] = []
    for row in np.argsort(away, kind="stable"):
        if away[row] >= NEAR_M or len(visits) == NUM_PLACES:
            break
        if all(abs(int(row) - visit) >= PLACE_CHUNKS for visit in visits):
            visits.append(int(row))
    return visits


def step_into(path: Floats, row: int) -> Floats:
    """How the pose changed into this row: metres, and turning as metres [4]."""
    if row == 0:
        return np.zeros(4)
    change = path[row] - path[row - 1]
    return np.array([*change[:3], M_PER_RAD * wrapped(change[3])])


def wrapped(angle_rad: Floats) -> Floats:
    """The same angles in [-pi, pi)."""
    return (angle_rad + math.pi) % (2.0 * math.pi) - math.pi
