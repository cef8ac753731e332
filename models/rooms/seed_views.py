"""The given beginning of a world: a rendered look around its first room. The only run-time file that knows the scene.

Engine thread.
"""

import math

import numpy as np
import torch

from models.rooms.patches import PatchBasis
from models.rooms.renderer import render, wall_depths
from models.rooms.scene import PITCH_CELLS, ROOM_CELLS, ROOMS_PER_SIDE, Scene, make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M, CHUNK_FRAMES, COLUMNS
from models.rooms.walk import is_free
from shared.pose import Pose, wrap_rad

NUM_VIEWS = 8  # 45 degrees apart: every direction is seen twice
_TRIES = 200


def look_around(seed: int, basis: PatchBasis) -> tuple[list[tuple[Pose, ...]], torch.Tensor]:
    """Return the poses of each seeded chunk and its latents [chunks, C, N, CHANNELS]; play starts at the last frame."""
    scene = make_scene(seed)
    x, z, yaw = _first_place(scene, np.random.default_rng((seed, 2)))
    turns = (np.arange(NUM_VIEWS) + 1) * 2.0 * math.pi / NUM_VIEWS
    planar = np.array([(x, z, yaw + turn) for turn in turns])
    latents = basis.encode(*render(scene, planar))
    poses = [Pose(x, CAMERA_HEIGHT_M, z, wrap_rad(float(angle))) for angle in planar[:, 2]]
    chunks = [tuple(poses[at : at + CHUNK_FRAMES]) for at in range(0, NUM_VIEWS, CHUNK_FRAMES)]
    return chunks, latents.unflatten(0, (-1, CHUNK_FRAMES))


def _first_place(scene: Scene, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return a place (x_m, z_m) near the middle of the middle room, and the yaw with the widest view."""
    middle = ROOMS_PER_SIDE // 2 * PITCH_CELLS + 1 + ROOM_CELLS / 2
    for _ in range(_TRIES):
        x, z = middle + rng.uniform(-0.9, 0.9, size=2)
        if is_free(scene.solid, scene.objects, x, z):
            break
    yaws = rng.uniform(-math.pi, math.pi) + np.arange(NUM_VIEWS) * 2.0 * math.pi / NUM_VIEWS
    depth = wall_depths(scene, np.array([(x, z, yaw) for yaw in yaws]), COLUMNS).mean(1)
    return float(x), float(z), float(yaws[depth.argmax()])
