"""Random walks through a scene, with collisions, at the pace of play. Training and benches only; any thread."""

import math

import numpy as np

from models.rooms.compiled import njit
from models.rooms.scene import SIDE_CELLS, Bytes, Floats, Poses, Scene
from models.rooms.sizes import STEP_M, TURN_RAD

MARGIN_M = 0.36  # how near the camera comes to a wall or an object


def random_walk(scene: Scene, rng: np.random.Generator, num_frames: int) -> Poses:
    """Return poses [T, 3] (x_m, z_m, yaw_rad), one a frame, of a walk from a random free place."""
    x, z = free_place(scene, rng)
    dice = rng.random((num_frames, 5))
    return _walk(scene.solid, scene.objects, dice, x, z, rng.uniform(-math.pi, math.pi))


def free_place(scene: Scene, rng: np.random.Generator) -> tuple[float, float]:
    """Return a random place (x_m, z_m) where the camera can stand."""
    while True:
        x, z = rng.uniform(1.0, SIDE_CELLS - 1.0, size=2)
        if is_free(scene.solid, scene.objects, x, z):
            return float(x), float(z)


@njit(cache=True, nogil=True)
def is_free(solid: Bytes, objects: Floats, x: float, z: float) -> bool:
    """Whether the camera can stand at (x, z)."""
    for side_x in (-MARGIN_M, MARGIN_M):
        for side_z in (-MARGIN_M, MARGIN_M):
            if solid[int(z + side_z), int(x + side_x)]:
                return False
    for index in range(len(objects)):
        if objects[index, 4] > 0:
            gap = math.hypot(objects[index, 0] - x, objects[index, 1] - z)
            if gap < objects[index, 2] + MARGIN_M:
                return False
    return True


@njit(cache=True, nogil=True)
def slide(solid: Bytes, objects: Floats, x: float, z: float, to_x: float, to_z: float) -> tuple[float, float, bool]:
    """Move from (x, z) towards (to_x, to_z), along the wall where it is in the way: (x, z, whether it was)."""
    if is_free(solid, objects, to_x, to_z):
        return to_x, to_z, False
    if is_free(solid, objects, to_x, z):
        return to_x, z, True
    if is_free(solid, objects, x, to_z):
        return x, to_z, True
    return x, z, True


@njit(cache=True, nogil=True)
def _intent(dice: Poses) -> tuple[float, float, float]:
    """Return (ahead_m, aside_m, turn_rad) a frame of the next mode, from four numbers in 0..1."""
    speed = STEP_M * (0.5 + 0.5 * dice[1])
    turn = TURN_RAD * (0.1 + 0.9 * dice[2] * dice[2]) * (1.0 if dice[3] < 0.5 else -1.0)
    if dice[0] < 0.35:
        return speed, 0.0, 0.0
    if dice[0] < 0.55:
        return speed, 0.0, turn * 0.6
    if dice[0] < 0.80:
        return 0.0, 0.0, turn
    if dice[0] < 0.90:
        return 0.0, math.copysign(speed, turn), 0.0
    return -speed, 0.0, turn * 0.3


@njit(cache=True, nogil=True)
def _walk(solid: Bytes, objects: Floats, dice: Poses, x: float, z: float, yaw: float) -> Poses:
    poses = np.empty((len(dice), 3))
    ahead = aside = turn = 0.0
    frames_left = 0
    for frame in range(len(dice)):
        poses[frame] = (x, z, yaw)
        if frames_left <= 0:
            ahead, aside, turn = _intent(dice[frame])
            frames_left = 5 + int(16 * dice[frame, 4])
        frames_left -= 1
        yaw += turn
        to_x = x + ahead * math.sin(yaw) + aside * math.cos(yaw)
        to_z = z + ahead * math.cos(yaw) - aside * math.sin(yaw)
        x, z, blocked = slide(solid, objects, x, z, to_x, to_z)
        if blocked and dice[frame, 0] < 0.4:  # turn away from the wall for a while
            ahead, aside = 0.0, 0.0
            turn = math.copysign(0.06 + 0.1 * dice[frame, 1], dice[frame, 3] - 0.5)
            frames_left = 6 + int(8 * dice[frame, 4])
    return poses
