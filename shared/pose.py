"""Pose: where the camera is and where it looks, and how controls move it. Pure values; any thread.

World axes: x right, y up, z forward. Yaw is positive to the right, pitch is positive up. Metres and radians.
"""

import math
from dataclasses import dataclass, replace

from shared.controls import Controls, Key

MOUSE_RAD_PER_COUNT = 0.0025  # the wire's and the routes' unit


@dataclass(frozen=True, slots=True)
class Pose:
    """A camera position (x, y, z in metres) and direction (yaw, pitch in radians)."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    yaw_rad: float = 0.0
    pitch_rad: float = 0.0

    def as_tuple(self) -> tuple[float, float, float, float, float]:
        """(x, y, z, yaw, pitch), the order of the wire and of trace files."""
        return (self.x_m, self.y_m, self.z_m, self.yaw_rad, self.pitch_rad)


@dataclass(frozen=True, slots=True)
class Motion:
    """How fast a model's camera may go: walking, turning, and how far it may look up or down."""

    walk_m_s: float
    turn_rad_s: float
    max_pitch_rad: float = 0.0


def wrap_rad(angle_rad: float) -> float:
    """The same angle in [-pi, pi)."""
    return (angle_rad + math.pi) % (2.0 * math.pi) - math.pi


def turned(pose: Pose, controls: Controls, motion: Motion, dt_s: float) -> Pose:
    """The pose after one frame's mouse travel, limited to the turn rate that the model can draw."""
    limit_rad = motion.turn_rad_s * dt_s
    yaw_step = min(limit_rad, max(-limit_rad, controls.mouse_dx * MOUSE_RAD_PER_COUNT))
    pitch_step = min(limit_rad, max(-limit_rad, -controls.mouse_dy * MOUSE_RAD_PER_COUNT))
    pitch = min(motion.max_pitch_rad, max(-motion.max_pitch_rad, pose.pitch_rad + pitch_step))
    return replace(pose, yaw_rad=wrap_rad(pose.yaw_rad + yaw_step), pitch_rad=pitch)


def walk_direction(yaw_rad: float, keys: Key) -> tuple[float, float]:
    """The unit direction (x, z) in which the held keys walk, or (0, 0)."""
    ahead = float(Key.FORWARD in keys) - float(Key.BACK in keys)
    aside = float(Key.RIGHT in keys) - float(Key.LEFT in keys)
    norm = math.hypot(ahead, aside)
    if norm == 0.0:
        return (0.0, 0.0)
    sin_yaw, cos_yaw = math.sin(yaw_rad), math.cos(yaw_rad)
    return (
        (ahead * sin_yaw + aside * cos_yaw) / norm,
        (ahead * cos_yaw - aside * sin_yaw) / norm,
    )


def advance(pose: Pose, controls: Controls, motion: Motion, dt_s: float) -> Pose:
    """The pose one frame (`dt_s` seconds) later when nothing is in the way: turn first, then walk level."""
    looking = turned(pose, controls, motion, dt_s)
    dir_x, dir_z = walk_direction(looking.yaw_rad, controls.keys)
    step_m = motion.walk_m_s * dt_s
    return replace(looking, x_m=looking.x_m + dir_x * step_m, z_m=looking.z_m + dir_z * step_m)


def distance_m(a: Pose, b: Pose) -> float:
    """Straight distance between two camera positions."""
    return math.dist((a.x_m, a.y_m, a.z_m), (b.x_m, b.y_m, b.z_m))


def view_overlap(a: Pose, b: Pose, hfov_rad: float = math.pi / 2, reach_m: float = 4.0) -> float:
    """How much of `a`'s view `b` saw, from 0 to 1: shared heading within the field of view, times nearness."""
    turn_rad = abs(wrap_rad(a.yaw_rad - b.yaw_rad))
    heading = max(0.0, 1.0 - turn_rad / hfov_rad)
    return heading * math.exp(-distance_m(a, b) / reach_m)
