"""Dead reckoning: where the camera should be after some controls, and the action rows that take it there. Pure.

No published figure says how far an action moves the camera: the scale is the config's estimate (`MotionScale`), and
`calibrate.py` measures its yaw. Any thread.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from models.matrix_game_2.actions import ActionRows, keyboard_vector
from models.matrix_game_2.config import Config, MotionScale
from shared.controls import Controls, Key
from shared.pose import MOUSE_RAD_PER_COUNT, Motion, Pose, advance, wrap_rad


def motion_of(config: Config) -> Motion:
    """How fast the camera may go, at the config's frame rate."""
    scale = config.motion
    turn_rad = scale.max_unit * scale.yaw_rad_per_unit
    return Motion(scale.walk_m_per_frame * config.fps, turn_rad * config.fps, scale.max_pitch_rad)


def steered(pose: Pose, controls: Sequence[Controls], config: Config) -> tuple[Pose, ...]:
    """The pose of each coming frame."""
    motion, dt_s = motion_of(config), 1.0 / config.fps
    poses: list[Pose] = []
    for item in controls:
        pose = advance(pose, _effective(item, config), motion, dt_s)
        poses.append(pose)
    return tuple(poses)


def _effective(controls: Controls, config: Config) -> Controls:
    """What the keys of a variant do to the camera, as walking and turning."""
    full_turn = config.motion.max_unit * config.motion.yaw_rad_per_unit / MOUSE_RAD_PER_COUNT
    if config.kind == "gta_drive":
        steering = float(Key.RIGHT in controls.keys) - float(Key.LEFT in controls.keys)
        mouse_dx = steering * full_turn if steering else controls.mouse_dx
        return replace(controls, keys=controls.keys & (Key.FORWARD | Key.BACK), mouse_dx=mouse_dx, mouse_dy=0.0)
    if config.kind == "templerun":  # it always runs; jump and slide do not move the camera's place
        turn = full_turn * ((controls.mouse_dx > 0) - (controls.mouse_dx < 0))
        return Controls(Key.FORWARD | (controls.keys & (Key.LEFT | Key.RIGHT)), turn)
    return controls


def action_rows(before: Pose, controls: Sequence[Controls], poses: Sequence[Pose], config: Config) -> ActionRows:
    """One action row per frame: the held keys, and the turn that the poses really make."""
    action = config.network.action
    assert action is not None
    keyboard = torch.tensor([keyboard_vector(item, config.kind, action.keyboard_dim_in) for item in controls])  # [R, K]
    if not action.enable_mouse:
        return ActionRows(keyboard, None)
    steps = zip((before, *poses[:-1]), poses, strict=True)
    return ActionRows(keyboard, torch.tensor([_mouse_vector(a, b, config.motion) for a, b in steps]))  # [R, 2]


def _mouse_vector(before: Pose, after: Pose, scale: MotionScale) -> tuple[float, float]:
    """The mouse row (pitch, yaw) that turns the camera from one pose to the next (spec 2: the vertical one first)."""
    pitch = (after.pitch_rad - before.pitch_rad) / scale.pitch_rad_per_unit
    return (pitch, wrap_rad(after.yaw_rad - before.yaw_rad) / scale.yaw_rad_per_unit)
