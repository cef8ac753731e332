"""Is a returned frame most like its own place, among other places of the same walk? Recall@1. Pure; any thread."""

import math

import numpy as np
from numpy.typing import NDArray

from bench.revisit_metrics import Frames
from shared.pose import wrap_rad

OTHERS = 15  # places that a frame is held against beside its own: chance is 1 / 16
_APART_M = 1.0
_APART_RAD = math.radians(60.0)
_CELL_PX = 4  # of the thumbnails that are compared: a soft edge is no other place


def finds_itself(
    returned: Frames, first: Frames, own: NDArray[np.int64], path: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each returned frame [R] 1 when its own place is nearer than up to 15 other places, else 0.

    A frame's own place is `first[own]`; `path` [F, 3] (x_m, z_m, yaw_rad) is where the first visit's frames were seen
    from. Other places are a metre or 60 degrees away, evenly spread over the walk. NaN where the walk has none.
    """
    seen, back = thumbnails(first), thumbnails(returned)
    found = np.full(len(returned), math.nan)
    for index, place in enumerate(own):
        others = other_places(path, int(place))
        if len(others):
            error = ((seen[[int(place), *others]] - back[index]) ** 2).mean((1, 2, 3))
            found[index] = float(error.argmin() == 0)
    return found


def other_places(path: NDArray[np.float64], place: int) -> NDArray[np.int64]:
    """Return the indices of at most OTHERS frames that show another place than frame `place` does."""
    gap = np.hypot(*(path[:, :2] - path[place, :2]).T)
    turn = np.array([abs(wrap_rad(float(yaw))) for yaw in path[:, 2] - path[place, 2]])
    apart = np.flatnonzero((gap > _APART_M) | (turn > _APART_RAD))
    if len(apart) <= OTHERS:
        return apart
    return apart[np.linspace(0, len(apart) - 1, OTHERS).round().astype(np.int64)]


def thumbnails(frames: Frames) -> NDArray[np.float32]:
    """Return the mean colours of 4x4 pixels [F, H/4, W/4, 3]."""
    count, height, width, _ = frames.shape
    cells = frames.reshape(count, height // _CELL_PX, _CELL_PX, width // _CELL_PX, _CELL_PX, 3)
    return cells.astype(np.float32).mean((2, 4))
