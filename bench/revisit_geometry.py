"""Does the depth of one drawn frame agree with that of the next? Pure; any thread.

The points of a frame are projected into the next camera; how far away they are there is held against the depth that
the next frame drew at that place.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.geometry import world_points
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, FOCAL_PX, PATCH_PX, ROWS

_NEAREST_M = 0.1


def depth_errors(path: NDArray[np.float64], log_depth: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the relative depth errors of all points that stay in view from frame to frame, of a walk.

    `path` is [F, 3] (x_m, z_m, yaw_rad), `log_depth` [F, N] of patches row by row. Patches keep the mean of 1/z, which
    is exact for planes; between patch centres 1/z is interpolated, which is exact for planes too.
    """
    points = world_points(torch.from_numpy(path).float(), torch.from_numpy(log_depth)).double().numpy()
    pairs = zip(points[:-1], path[1:], log_depth[1:], strict=True)
    found = [_errors(seen, camera, depth) for seen, camera, depth in pairs]
    return np.concatenate(found) if found else np.zeros(0)


def _errors(
    points: NDArray[np.float64], camera: NDArray[np.float64], log_depth: NDArray[np.float32]
) -> NDArray[np.float64]:
    x, z, yaw = camera
    east, north = points[:, 0] - x, points[:, 2] - z
    right = east * math.cos(yaw) - north * math.sin(yaw)
    ahead = east * math.sin(yaw) + north * math.cos(yaw)
    scale = FOCAL_PX / PATCH_PX / np.maximum(ahead, _NEAREST_M)
    column = right * scale + COLUMNS / 2 - 0.5  # 0 at the centre of the first patch
    row = (CAMERA_HEIGHT_M - points[:, 1]) * scale + ROWS / 2 - 0.5
    seen = (ahead > _NEAREST_M) & (column >= 0) & (column <= COLUMNS - 1) & (row >= 0) & (row <= ROWS - 1)
    nearness = np.exp(-log_depth.astype(np.float64)).reshape(ROWS, COLUMNS)
    return np.abs(ahead[seen] * _between(nearness, row[seen], column[seen]) - 1.0)


def _between(grid: NDArray[np.float64], row: NDArray[np.float64], column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the grid's values at places between its points, bilinearly."""
    top = np.minimum(row.astype(np.int64), grid.shape[0] - 2)
    left = np.minimum(column.astype(np.int64), grid.shape[1] - 2)
    down, along = row - top, column - left
    above = grid[top, left] * (1 - along) + grid[top, left + 1] * along
    below = grid[top + 1, left] * (1 - along) + grid[top + 1, left + 1] * along
    return above * (1 - down) + below * down
