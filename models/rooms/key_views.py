"""Where a key view is drawn: two frames ahead of the camera, whose patches are all decided together. Pure; any thread.

What is invented strip by strip goes on as the last strip did, and what comes nearer is only ever enlarged. A key view
shows a large new part at once, from memory that is sharp, and the chunks on the way there are drawn from it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.rooms.sizes import COLUMNS, ROWS
from shared.pose import Pose, wrap_rad

_SHOWN_SHARE = 0.9  # of a view that memory shows: below, a key view is drawn
_WALKS_M = 0.02  # a chunk that moves the camera by less turns on the spot
_AHEAD_M, _LEAST_AHEAD_M = 1.5, 0.25
_APART_M = 0.55  # a key view keeps this far from what is ahead
_SPREAD_RAD = math.radians(22.0)  # to both sides, when walking
_ASIDE_RAD = (math.radians(25.0), math.radians(65.0))  # to the side that is less known, when turning
_LEAST_DIFFERENCE = 0.05  # of the shown shares of both sides


def key_poses(before: Pose, poses: Sequence[Pose], is_shown: NDArray[np.bool_], free_m: float) -> tuple[Pose, ...]:
    """Return the poses of the key view to draw before a chunk at `poses`, or none.

    `is_shown` [N] are the patches of the chunk's last view that memory shows; `free_m` is the distance to what is
    ahead of it.
    """
    here = poses[-1]
    if before == here or is_shown.mean() >= _SHOWN_SHARE:
        return ()
    if math.hypot(here.x_m - before.x_m, here.z_m - before.z_m) > _WALKS_M:
        ahead_m = min(_AHEAD_M, free_m - _APART_M)
        if ahead_m < _LEAST_AHEAD_M:
            return ()
        return tuple(_from(here, ahead_m, turn) for turn in (-_SPREAD_RAD, _SPREAD_RAD))
    left, right = (half.mean() for half in np.hsplit(is_shown.reshape(ROWS, COLUMNS), 2))
    if abs(left - right) < _LEAST_DIFFERENCE:
        return ()
    return tuple(_from(here, 0.0, math.copysign(turn, left - right)) for turn in _ASIDE_RAD)


def _from(pose: Pose, ahead_m: float, turn_rad: float) -> Pose:
    return replace(
        pose,
        x_m=pose.x_m + ahead_m * math.sin(pose.yaw_rad),
        z_m=pose.z_m + ahead_m * math.cos(pose.yaw_rad),
        yaw_rad=wrap_rad(pose.yaw_rad + turn_rad),
    )
