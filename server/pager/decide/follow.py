"""Where a walk goes a way that it went before, on or back: what comes next is known from then. Pure numpy.

Poses are [..., 5]; `path [n, 5]` is every pose of a walk, one a chunk, the last where it stands.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEAR_M = 1.5  # a place is the same place within this
M_PER_RAD = 2.0  # a radian of turning is as far as so many metres
RECENT = 4  # chunks that are too young to be a return
NUM_PLACES, PLACE_CHUNKS = 3, 6  # earlier visits that are told apart, and by how many chunks
COMPARED = np.arange(9)  # chunks back from here, over which a way is held against the one before
APART_M = 3.0  # the most that one pose counts against it
FOLLOWED = np.arange(1, 61)  # chunks of what comes next that are looked at


class Way(NamedTuple):
    """A way that the walk went before, and that it may be going again."""

    row: int  # of the path: where it was at this place
    step: int  # 1: on as it went then; -1: the way it came
    is_turned: bool  # it faces the other way than it did then
    apart_m: float  # how far off the last poses were, in the mean; 0: the very same way


def ways(path: Floats) -> list[Way]:
    """The ways that lead through here and fit the last poses best, the best first; at most `NUM_PLACES`.

    A place is known again from either side: who comes home faces the other way.
    """
    rows = np.flatnonzero(_apart_m(path[:-RECENT], path[-1]) < NEAR_M)
    is_turned = np.abs(wrapped(path[-1, 3] - path[rows, 3])) > 0.5 * math.pi
    found: list[Way] = []
    for step in (1, -1):
        apart_m = _misfits_m(path, rows, step, is_turned)
        found += [
            Way(int(row), step, bool(turned), float(apart))
            for row, turned, apart in zip(rows, is_turned, apart_m, strict=True)
        ]
    best: list[Way] = []
    for way in sorted(found, key=lambda each: each.apart_m):
        if all(abs(way.row - other.row) >= PLACE_CHUNKS or way.step != other.step for other in best):
            best.append(way)
        if len(best) == NUM_PLACES:
            break
    return best


def followed(path: Floats, way: Way) -> Floats:
    """[F, 5] the views that come next, one a chunk, if the walk goes on that way."""
    rows = way.row + way.step * FOLLOWED
    views = path[rows[(rows >= 0) & (rows < len(path))]]
    views[:, 3] += math.pi * way.is_turned
    return views


def wrapped(angle_rad: Floats) -> Floats:
    """The same angles in [-pi, pi)."""
    return (angle_rad + math.pi) % (2.0 * math.pi) - math.pi


def _apart_m(poses: Floats, here: Floats) -> Floats:
    """[B] how far each place is, turning counted as metres; who faces the other way is at the same place."""
    turn = np.abs(wrapped(poses[:, 3] - here[3]))
    away = poses[:, :3] - here[:3]
    return np.sqrt(np.square(away).sum(axis=-1)) + M_PER_RAD * np.minimum(turn, math.pi - turn)


def _misfits_m(path: Floats, rows: Indices, step: int, is_turned: Flags) -> Floats:
    """[R] how far the last poses are from those that led to each row (step 1), or from it (-1), in the mean."""
    mine = len(path) - 1 - COMPARED  # [C]
    theirs = rows[:, None] - step * COMPARED  # [R, C]
    is_there = (mine >= 0) & (theirs >= 0) & (theirs < (mine if step < 0 else len(path) - 1))
    now, then = path[np.maximum(mine, 0)], path[np.clip(theirs, 0, len(path) - 1)]  # [C, 5], [R, C, 5]
    turn = np.abs(wrapped(now[:, 3] - then[..., 3] - math.pi * is_turned[:, None]))
    apart_m = np.sqrt(np.square(now[:, :3] - then[..., :3]).sum(axis=-1)) + M_PER_RAD * turn
    return np.where(is_there, np.minimum(apart_m, APART_M), APART_M).mean(axis=1)
