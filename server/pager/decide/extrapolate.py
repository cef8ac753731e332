"""Where the camera will be. Pure: recent poses with their times in, a pose out."""

from collections.abc import Sequence
from typing import NamedTuple

from shared.controls import Controls
from shared.pose import Motion, Pose, advance, wrap_rad


class Seen(NamedTuple):
    """The camera's pose at a moment."""

    time_s: float
    pose: Pose


def constant_velocity(recent: Sequence[Seen], time_s: float) -> Pose:
    """The pose at `time_s` if the camera goes on as between the first and the last of `recent` (oldest first).

    Raises ValueError when `recent` is empty; with one pose, or no time between them, the camera stands still.
    """
    if not recent:
        raise ValueError("no pose to extrapolate from")
    first, last = recent[0], recent[-1]
    span_s = last.time_s - first.time_s
    if span_s <= 0.0:
        return last.pose
    share = (time_s - last.time_s) / span_s
    old, new = first.pose, last.pose
    return Pose(
        new.x_m + (new.x_m - old.x_m) * share,
        new.y_m + (new.y_m - old.y_m) * share,
        new.z_m + (new.z_m - old.z_m) * share,
        wrap_rad(new.yaw_rad + wrap_rad(new.yaw_rad - old.yaw_rad) * share),
        new.pitch_rad + (new.pitch_rad - old.pitch_rad) * share,
    )


def held_controls(
    pose: Pose, first: Controls, then: Controls, motion: Motion, frame_s: float, frames_ahead: Sequence[int]
) -> list[Pose]:
    """The poses after each of `frames_ahead` frames (ascending) if the player goes on as now and nothing is in the way.

    The frames up to the first horizon are driven by `first` (what was not drawn yet), the others by `then`.
    """
    poses: list[Pose] = []
    at = pose
    done = 0
    for horizon in frames_ahead:
        held = then if poses else first
        for _ in range(horizon - done):
            at = advance(at, held, motion, frame_s)
        done = horizon
        poses.append(at)
    return poses


def likely_poses(
    pose: Pose, first: Controls, then: Controls, motion: Motion, frame_s: float, frames_ahead: Sequence[int]
) -> list[tuple[Pose, ...]]:
    """For each horizon the poses that a player may have by then, the likeliest first.

    Players turn in short strokes and then go straight on: beyond the first horizon a turn may have ended. Only keys
    and mouse tell a turn from a walk; a constant velocity goes round in circles.
    """
    going_on = held_controls(pose, first, then, motion, frame_s, frames_ahead)
    if not then.mouse_dx and not then.mouse_dy:
        return [(at,) for at in going_on]
    turned = held_controls(pose, first, Controls(then.keys), motion, frame_s, frames_ahead)
    return [(going_on[0],), *zip(going_on[1:], turned[1:], strict=True)]
