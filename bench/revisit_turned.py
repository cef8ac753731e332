"""Is a place the same from the other side? A given visit's way back, walked facing where it leads. One thread.

Most of what is seen then was never seen from there: rooms are entered by the door that they were left by. What is
measured is only what blocks of the visit show. F frames, N patches, B blocks of K points.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bench.revisit_paths import outward_path
from bench.revisit_returns import come_back, given_visit
from bench.revisit_walk import PathPoses, as_poses
from models.base import Array
from models.rooms.model import RoomsModel
from models.rooms.renderer import render
from models.rooms.retrieval import detail, project, without_holes
from models.rooms.scene import make_scene
from models.rooms.sizes import COLUMNS, PATCH_PX, ROWS, TOKENS
from shared.pose import Pose

_TURNING_CHUNKS = 8
_SAME_DEPTH = 0.15  # of the distance: a remembered point so near to what is there shows it
_LEAST_DETAIL = 0.6  # of a patch, for memory to show it
_LEAST_PATCHES = 10  # of a frame, for its likeness to count
_WRONG = 0.02  # mean squared error of a patch, of colours in 0..1, that anyone sees: 17 dB


def turned_return(model: RoomsModel, seed: int, route: str, codec: str, num_chunks: int) -> dict[str, list[float]]:
    """Return, of each frame of which memory shows enough, the PSNR of what it shows and how much of that is wrong."""
    scene, num = make_scene(seed), model.frames_per_chunk
    visit = given_visit(model, scene, outward_path(scene, route, num_chunks * num, model.fps), codec)
    seen_from, points = visit.memory.views()
    back = _turned(visit.path, num)
    truth, depth_m = render(scene, back)
    frames = come_back(model, visit.state, back, visit.memory, "paged", is_writing=True)
    views = zip(as_poses(back), 1.0 / _by_patch(1.0 / depth_m), strict=True)
    is_known = np.stack([_shown(pose, there_m, seen_from, points) for pose, there_m in views])  # [F, N]
    error = _by_patch((((frames.astype(np.float32) - truth.astype(np.float32)) / 255.0) ** 2).mean(-1))
    counts = is_known.sum(1) >= _LEAST_PATCHES
    is_known, error = is_known[counts], error[counts]
    mean = (error * is_known).sum(1) / is_known.sum(1)
    wrong = ((error > _WRONG) & is_known).sum(1) / is_known.sum(1)
    return {"psnr": (-10.0 * np.log10(mean)).round(4).tolist(), "wrong": wrong.round(4).tolist()}


def _turned(path: PathPoses, num: int) -> PathPoses:
    """Return poses that turn round on the spot and walk a path back, in whole chunks of `num` frames."""
    num_turning = _TURNING_CHUNKS * num
    turning = np.repeat(path[-1:], num_turning, axis=0)
    turning[:, 2] += np.linspace(0.0, math.pi, num_turning)
    return np.concatenate([turning, path[::-1] + np.array([0.0, 0.0, math.pi])])


def _shown(pose: Pose, there_m: NDArray[np.floating], seen_from: Array, points: Array) -> NDArray[np.bool_]:
    """Return which patches [N] of a view, whose true depth is `there_m` [N], remembered points [B, K, 3] show."""
    patch, ahead_m, is_seen = project(pose, np.asarray(points, np.float32))
    is_seen &= np.abs(ahead_m / there_m[patch] - 1.0) < _SAME_DEPTH
    block, point = np.nonzero(is_seen)
    frame = point // (points.shape[1] // seen_from.shape[1])
    shown = np.zeros(TOKENS, np.float32)
    np.maximum.at(shown, patch[is_seen], detail(pose, seen_from[block, frame], points[is_seen]))
    return without_holes(shown) > _LEAST_DETAIL


def _by_patch(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """[F, H, W] -> [F, N], the mean of each patch."""
    return values.reshape(-1, ROWS, PATCH_PX, COLUMNS, PATCH_PX).mean((2, 4)).reshape(-1, TOKENS)
