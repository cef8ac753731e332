"""How controls move the camera, and what stops it: walls, as far as the model itself has drawn them. Pure.

A wall cell is a square of CELL_M of the floor plan that holds something at body height. Cells come from the depth that
the model drew, never from a scene; a frame that sees through a cell takes it away again. Engine thread.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.base import Array
from models.rooms.geometry import RIGHT
from models.rooms.sizes import COLUMNS, FAR_M, ROWS
from shared.controls import Controls
from shared.pose import Motion, Pose, advance

CELL_M = 0.1
REACH_M = 0.34  # nearer than this to a wall, the camera does not come
_MEMORY_M = 5.0  # wall cells farther away than this are dropped
_MAX_CELLS = 4096
_BODY_M = (0.14, 0.84)  # heights that stop the camera
_SEEN_M = 2.0  # points farther away are too coarse to be walls
_STANDING_M = 0.24  # where the camera has stood there is no wall
_EDGE, _SLANT = 0.15, 0.05  # log depth: a column that lies between both beside it, so far from them, mixes the two
_CLEARED_M = 4.0  # how far ahead a column has points at body height, so that it can show that a cell is empty
_BEHIND = 0.2  # log depth: what is seen so much farther away than a cell shows that the cell is empty

Cells = NDArray[np.int32]  # [n, 2], x and z in units of CELL_M
NO_CELLS: Cells = np.zeros((0, 2), np.int32)
_ACROSS = RIGHT[:COLUMNS].double().numpy()  # [COLUMNS], how far right a column's ray goes for each metre ahead


def steered(pose: Pose, controls: Sequence[Controls], motion: Motion, dt_s: float, walls: Cells) -> tuple[Pose, ...]:
    """Return the poses of the coming frames, one per control; the camera slides along walls and never enters them."""
    centres = _centres(walls)
    poses = [pose]
    for asked in controls:
        here = poses[-1]
        poses.append(here if asked.is_idle else _slide(here, advance(here, asked, motion, dt_s), centres))
    return tuple(poses[1:])


def with_drawn(walls: Cells, poses: Sequence[Pose], points: Array) -> Cells:
    """Return the wall cells after frames at `poses` drew points [C, N, 3]; the given array is left alone."""
    cells = walls
    for pose, frame in zip(poses, points, strict=True):
        ahead_m = scan(pose, frame)
        kept = cells[~_is_seen_through(pose, ahead_m, _centres(cells))]
        cells = np.unique(np.concatenate([kept, _found(pose, ahead_m)]), axis=0)
    centres = _centres(cells)
    away = np.min([np.hypot(centres[:, 0] - p.x_m, centres[:, 1] - p.z_m) for p in poses], axis=0)
    cells = cells[(away > _STANDING_M) & (away < _MEMORY_M)]
    return cells[:_MAX_CELLS]


def scan(pose: Pose, points: Array) -> Array:
    """Return how far ahead [COLUMNS] the nearest thing at body height is in each column of a frame's points [N, 3].

    FAR_M where nothing is; beyond 4 m patches are too tall to show it.
    """
    body = (points[:, 1] > _BODY_M[0]) & (points[:, 1] < _BODY_M[1])
    ahead_m, _ = _ahead_and_right(pose, points[:, [0, 2]])
    return np.where(body, ahead_m, FAR_M).reshape(ROWS, COLUMNS).min(0)


def _found(pose: Pose, ahead_m: Array) -> Cells:
    """Return the cells that a scan finds taken, but for columns that mix two things at an edge."""
    padded = np.pad(np.log(np.maximum(ahead_m, 1e-3)), 1, mode="edge")
    steps = padded[1:] - padded[:-1]  # [COLUMNS + 1]
    smaller, larger = np.sort(np.abs([steps[:-1], steps[1:]]), axis=0)
    is_mixture = (steps[:-1] * steps[1:] > 0) & (larger > _EDGE) & (smaller > _SLANT)
    away_m = ahead_m * np.hypot(1.0, _ACROSS)
    solid = ~is_mixture & (away_m < _SEEN_M)
    sin, cos = math.sin(pose.yaw_rad), math.cos(pose.yaw_rad)
    x_m = pose.x_m + ahead_m * (sin + _ACROSS * cos)
    z_m = pose.z_m + ahead_m * (cos - _ACROSS * sin)
    return np.floor(np.stack([x_m, z_m], axis=1)[solid] / CELL_M).astype(np.int32)


def _is_seen_through(pose: Pose, ahead_m: Array, centres: Array) -> NDArray[np.bool_]:
    """Return which cells a scan looks past: in their column and both beside it, bodies would meet nothing as near."""
    cell_ahead_m, right_m = _ahead_and_right(pose, centres)
    column = np.floor((right_m / np.maximum(cell_ahead_m, 1e-3) + 1.0) * COLUMNS / 2)
    in_sight = (cell_ahead_m > 0.0) & (cell_ahead_m < _CLEARED_M) & (column >= 0) & (column < COLUMNS)
    padded = np.pad(ahead_m, 1, mode="edge")
    nearest_m = np.minimum(np.minimum(padded[:-2], padded[2:]), ahead_m)
    seen_m = nearest_m[np.clip(column, 0, COLUMNS - 1).astype(np.int64)]
    return in_sight & (cell_ahead_m * math.exp(_BEHIND) < seen_m)


def _ahead_and_right(pose: Pose, places: Array) -> tuple[Array, Array]:
    """Return how far ahead and to the right of a camera places [n, 2] (x_m, z_m) lie."""
    east, north = places[:, 0] - pose.x_m, places[:, 1] - pose.z_m
    sin, cos = math.sin(pose.yaw_rad), math.cos(pose.yaw_rad)
    return east * sin + north * cos, east * cos - north * sin


def _centres(cells: Cells) -> Array:
    return (cells.astype(np.float64) + 0.5) * CELL_M


def _slide(here: Pose, there: Pose, centres: Array) -> Pose:
    """Return `there`, or as much of it as the walls allow: past what is in the way, or along one axis."""
    if not _is_blocked(here, there.x_m, there.z_m, centres):
        return there
    ways = (
        _past(here, there, _nearest(centres, here)),
        _past(here, there, _nearest(centres, there)),
        (there.x_m, here.z_m),
        (here.x_m, there.z_m),
        (here.x_m, here.z_m),
    )
    free = [way for way in ways if not _is_blocked(here, *way, centres)]
    x_m, z_m = max(free, key=lambda way: _progress(here, there, *way))
    return replace(there, x_m=x_m, z_m=z_m)


def _nearest(centres: Array, pose: Pose) -> Array:
    return centres[np.hypot(centres[:, 0] - pose.x_m, centres[:, 1] - pose.z_m).argmin()]


def _past(here: Pose, there: Pose, cell: Array) -> tuple[float, float]:
    """Return where the part of a move leads that goes past a cell, and not towards it."""
    east, north = cell[0] - here.x_m, cell[1] - here.z_m
    towards = _progress(here, there, cell[0], cell[1]) / max(1e-9, east * east + north * north)
    share = max(0.0, float(towards))
    return float(there.x_m - share * east), float(there.z_m - share * north)


def _progress(here: Pose, there: Pose, x_m: float, z_m: float) -> float:
    """Return how far (x, z) lies in the direction of a move, times the move's length [m^2]."""
    return (there.x_m - here.x_m) * (x_m - here.x_m) + (there.z_m - here.z_m) * (z_m - here.z_m)


def _is_blocked(here: Pose, x_m: float, z_m: float, centres: Array) -> bool:
    """Whether (x, z) is too near to a wall, and nearer than one is to any now: leaving is always allowed."""
    if not len(centres) or math.hypot(x_m - here.x_m, z_m - here.z_m) == 0.0:
        return False
    after_m = np.hypot(centres[:, 0] - x_m, centres[:, 1] - z_m).min()
    before_m = np.hypot(centres[:, 0] - here.x_m, centres[:, 1] - here.z_m).min()
    return bool(after_m < min(REACH_M, before_m))
