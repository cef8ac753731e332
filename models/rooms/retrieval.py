"""Which remembered blocks a view needs: greedy coverage of its patches by the points that blocks saw.

What lies to both sides of it counts too, at less weight: a key view is drawn there, and must not invent anew what is
remembered (`key_views.py`). Pure numpy, no state; any thread. Nothing here knows how blocks are stored or what they
look like.
P candidate blocks, K points of a block, N patches of the view.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.base import Array, Catalog
from models.rooms.sizes import (
    CAMERA_HEIGHT_M,
    COLUMNS,
    FAR_M,
    FOCAL_PX,
    HEIGHT_PX,
    MAX_RECALL,
    PATCH_PX,
    ROWS,
    TOKENS,
    WIDTH_PX,
)
from shared.pose import Pose, wrap_rad

_REACH_M = FAR_M + 2.0  # blocks seen from farther away cannot matter
_SHORT_LIST = 48  # candidates for a view that are looked at point by point; for those aside less, by their weight
_GLANCE_STRIDE = 19  # of points, when the short list is made: all columns and rows take turns
_ASIDE_RAD = math.radians(60.0)  # from the view to the one on either side of it
_ASIDE_WEIGHT = 0.3  # of a patch of those; of one in the view it is 1
_LEAST_GAIN = 3.0  # patches that one more block must add
_EQUAL_GAIN = 0.93  # of the best gain: from here on, the oldest block wins
_WINDOW_TRUST = 0.7  # patches that the window covers may still profit from a block
_OCCLUDED_SHARE, _OCCLUDED_M = 1.35, 0.4  # farther than the nearest point by this much: behind a wall
_NEAREST_M = 0.1
_LEVEL_M = 0.06  # so near the height of floor or ceiling


def wanted(pose: Pose, catalog: Catalog) -> tuple[int, ...]:
    """Return the ids of at most MAX_RECALL recallable blocks for a view from `pose`, best first."""
    views = _views(pose)
    rows = _short_list(views, catalog)
    if not len(rows):
        return ()
    seen_from, points = catalog.poses[rows], catalog.footprints[rows]
    cover = np.concatenate([weight * coverage(view, seen_from, points) for view, weight in views], axis=1)  # [P, 3N]
    recallable = catalog.recallable[rows]
    in_window = catalog.chunks[rows] >= catalog.window_start
    covered = _WINDOW_TRUST * cover[in_window].max(0, initial=0.0)
    rows, cover = rows[recallable], cover[recallable]
    chosen: list[int] = []
    while len(chosen) < min(MAX_RECALL, len(rows)):
        gain = np.maximum(cover - covered, 0.0).sum(1)
        gain[chosen] = 0.0
        best = gain.max()
        if best < _LEAST_GAIN:
            break
        pick = int(np.flatnonzero(gain >= _EQUAL_GAIN * best)[0])
        chosen.append(pick)
        covered = np.maximum(covered, cover[pick])
    return tuple(int(catalog.ids[rows[index]]) for index in chosen)


def coverage(pose: Pose, seen_from: Array, footprints: Array) -> NDArray[np.float32]:
    """Return how well each patch of the view from `pose` was seen by each block [P, N], 0 to 1.

    `footprints` are the points [P, T*N, 3] that the frames of a block at `seen_from` [P, T, 5] saw. A point that was
    seen from farther away counts less; a point behind a nearer wall does not count.
    """
    points = np.asarray(footprints, np.float32)
    patch, ahead, seen = project(pose, points)
    nearest = np.full(TOKENS, np.inf, np.float32)
    np.minimum.at(nearest, patch[seen], ahead[seen])
    seen &= ahead <= nearest[patch] * _OCCLUDED_SHARE + _OCCLUDED_M
    block, point = np.nonzero(seen)
    frame = point // (points.shape[1] // seen_from.shape[1])
    cover = np.zeros((len(points), TOKENS), np.float32)
    np.maximum.at(cover, (block, patch[seen]), detail(pose, seen_from[block, frame], points[seen]))
    return cover


def without_holes(cover: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return coverage [N] in which a patch between two others is covered as well as both of them.

    Points that were seen from farther away lie apart in a nearer view, and the patches between them were seen too.
    """
    grid = cover.reshape(ROWS, COLUMNS).copy()
    grid[:, 1:-1] = np.maximum(grid[:, 1:-1], np.minimum(grid[:, :-2], grid[:, 2:]))
    grid[1:-1] = np.maximum(grid[1:-1], np.minimum(grid[:-2], grid[2:]))
    return grid.reshape(-1)


def project(
    pose: Pose, points: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.bool_]]:
    """Return the patch index, the z-depth in metres, and whether the point is inside the view, each [..., K]."""
    sin, cos = math.sin(pose.yaw_rad), math.cos(pose.yaw_rad)
    east, north = points[..., 0] - np.float32(pose.x_m), points[..., 2] - np.float32(pose.z_m)
    right, ahead = east * np.float32(cos) - north * np.float32(sin), east * np.float32(sin) + north * np.float32(cos)
    scale = np.float32(FOCAL_PX / PATCH_PX) / np.maximum(ahead, np.float32(_NEAREST_M))
    column = np.floor(right * scale + np.float32(WIDTH_PX / 2 / PATCH_PX)).astype(np.int64)
    below = np.float32(CAMERA_HEIGHT_M) - points[..., 1]
    row = np.floor(below * scale + np.float32(HEIGHT_PX / 2 / PATCH_PX)).astype(np.int64)
    seen = (ahead > _NEAREST_M) & (column >= 0) & (column < COLUMNS) & (row >= 0) & (row < ROWS)
    return np.where(seen, row * COLUMNS + column, 0), ahead.astype(np.float32, copy=False), seen


def detail(pose: Pose, seen_from: Array, points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the share [...] of the detail of points [..., 3] in the view from `pose` that frames at `seen_from` saw.

    It is 1 where that frame's camera [..., 5] stood as near as `pose`. Floor and ceiling lose half as much, as a power:
    where their tiles and lamps lie, the grid says (`grid.py`).
    """
    then_m = np.hypot(points[..., 0] - seen_from[..., 0], points[..., 2] - seen_from[..., 2])
    now_m = np.hypot(points[..., 0] - pose.x_m, points[..., 2] - pose.z_m)
    share = np.minimum(1.0, now_m / np.maximum(then_m, _NEAREST_M))
    return np.where(_is_level(points), np.sqrt(share), share).astype(np.float32)


def _is_level(points: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which points [..., 3] lie on floor or ceiling."""
    above_m = np.minimum(points[..., 1], 2.0 * CAMERA_HEIGHT_M - points[..., 1])  # the nearer of the two
    return above_m < _LEVEL_M


def _views(pose: Pose) -> list[tuple[Pose, float]]:
    """Return the view from `pose` and those to both sides of it, with what a patch of each weighs."""
    yaws = (wrap_rad(pose.yaw_rad + turn) for turn in (-_ASIDE_RAD, _ASIDE_RAD))
    return [(pose, 1.0), *((replace(pose, yaw_rad=yaw), _ASIDE_WEIGHT) for yaw in yaws)]


def _short_list(views: Sequence[tuple[Pose, float]], catalog: Catalog) -> NDArray[np.int64]:
    """Return the rows, oldest first, of the blocks that have most points in each of the views, and of the window's."""
    pose, _ = views[0]
    seen_from = catalog.poses[:, 0]
    away = np.hypot(seen_from[:, 0] - pose.x_m, seen_from[:, 2] - pose.z_m)
    in_window = catalog.chunks >= catalog.window_start
    rows = np.flatnonzero((away < _REACH_M) & (catalog.recallable | in_window))
    if len(rows) <= _SHORT_LIST:
        return rows
    glance = np.asarray(catalog.footprints[rows, ::_GLANCE_STRIDE], np.float32)
    keep = in_window[rows]
    for view, weight in views:
        _, _, seen = project(view, glance)
        score = seen.sum(1) - 0.4 * away[rows]  # of blocks that see as much, those from nearby
        keep[np.argsort(-score, kind="stable")[: round(weight * _SHORT_LIST)]] = True
    return rows[keep]
