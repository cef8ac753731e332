"""How controls move the camera, and what stops it: walls, as far as the model itself has drawn them. Pure numpy.

A wall cell is a square of CELL_M of the floor plan that holds something at body height. Cells come from the depth that
the model drew, never from a scene. Engine thread.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.base import Array
from models.rooms.sizes import COLUMNS, ROWS
from shared.controls import Controls
from shared.pose import Motion, Pose, advance

CELL_M = 0.1
REACH_M = 0.34  # nearer than this to a wall, the camera does not come
_MEMORY_M = 5.0  # wall cells farther away than this are dropped
_MAX_CELLS = 4096
_BODY_M = (0.14, 0.84)  # heights that stop the camera
_SEEN_M = 3.0  # points farther away are too coarse to be walls
_STANDING_M = 0.24  # where the camera has stood there is no wall
_EDGE_SHARE = 0.15  # a column between two such jumps of depth is a mixture, not a thing

Cells = NDArray[np.int32]  # [n, 2], x and z in units of CELL_M
NO_CELLS: Cells = np.zeros((0, 2), np.int32)


def steered(pose: Pose, controls: Sequence[Controls], motion: Motion, dt_s: float, walls: Cells) -> tuple[Pose, ...]:
    """Return the poses of the coming frames, one per control; the camera slides along walls and never enters them."""
    centres = (walls.astype(np.float64) + 0.5) * CELL_M
    poses = [pose]
    for asked in controls:
        here = poses[-1]
        poses.append(here if asked.is_idle else _slide(here, advance(here, asked, motion, dt_s), centres))
    return tuple(poses[1:])


def with_drawn(walls: Cells, poses: Sequence[Pose], points: Array) -> Cells:
    """Return the wall cells after frames at `poses` drew points [C, N, 3]; the given cells are left alone."""
    found = [walls]
    for pose, frame in zip(poses, points, strict=True):
        solid = frame[_is_solid(pose, frame)]
        found.append(np.floor(solid[:, [0, 2]] / CELL_M).astype(np.int32))
    cells = np.unique(np.concatenate(found), axis=0)
    centres = (cells + 0.5) * CELL_M
    away = np.min([np.hypot(centres[:, 0] - p.x_m, centres[:, 1] - p.z_m) for p in poses], axis=0)
    cells = cells[(away > _STANDING_M) & (away < _MEMORY_M)]
    return cells[:_MAX_CELLS]


def _is_solid(pose: Pose, points: Array) -> NDArray[np.bool_]:
    """Return which points [N, 3] of a frame stand in the way: near, at body height, and not a mixture at an edge."""
    away = np.hypot(points[:, 0] - pose.x_m, points[:, 2] - pose.z_m)
    body = (points[:, 1] > _BODY_M[0]) & (points[:, 1] < _BODY_M[1])
    nearness = 1.0 / np.maximum(away, 1e-3).reshape(ROWS, COLUMNS)
    padded = np.pad(nearness, ((0, 0), (1, 1)), mode="edge")
    jump = np.log(padded[:, 1:] / padded[:, :-1])  # [ROWS, COLUMNS + 1]
    steps = np.abs(jump) > _EDGE_SHARE
    is_mixture = steps[:, :-1] & steps[:, 1:] & (jump[:, :-1] * jump[:, 1:] > 0)
    return body & (away < _SEEN_M) & ~is_mixture.reshape(-1)


def _slide(here: Pose, there: Pose, centres: NDArray[np.float64]) -> Pose:
    """Return `there`, or as much of it as the walls allow."""
    for x_m, z_m in ((there.x_m, there.z_m), (there.x_m, here.z_m), (here.x_m, there.z_m)):
        if not _is_blocked(here, x_m, z_m, centres):
            return replace(there, x_m=x_m, z_m=z_m)
    return replace(there, x_m=here.x_m, z_m=here.z_m)


def _is_blocked(here: Pose, x_m: float, z_m: float, centres: NDArray[np.float64]) -> bool:
    """Whether going to (x, z) comes too near to a wall, and nearer than now: leaving is always allowed."""
    if not len(centres) or math.hypot(x_m - here.x_m, z_m - here.z_m) == 0.0:
        return False
    after = np.hypot(centres[:, 0] - x_m, centres[:, 1] - z_m)
    before = np.hypot(centres[:, 0] - here.x_m, centres[:, 1] - here.z_m)
    return bool(((after < REACH_M) & (after < before)).any())
