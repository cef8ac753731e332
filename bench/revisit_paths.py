"""Paths through true worlds: fixed by the route's name and the world's seed. Pure; any thread."""

import math

import numpy as np

from bench.revisit_walk import PathPoses
from client.routes import route
from models.rooms.model import RoomsModel
from models.rooms.renderer import wall_depths
from models.rooms.scene import Scene, make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS
from models.rooms.walk import free_place, is_free, random_walk, slide
from shared.pose import Pose, advance

_OPEN_M = 0.9
_OPEN_SHARE = 0.4  # of a view, for it to be more than a wall
_TRIES = 40
_OTHER_WORLDS = 10_000


def outward_path(scene: Scene, route_name: str, num_frames: int, fps: float) -> PathPoses:
    """Return the poses [F, 3] of a first visit that sees more than walls.

    `out-and-back` is the most open of 40 random walks, `yaw-360` one turn at the most open of 40 places; every other
    route is walked as its controls say, from the most open of 40 places. Raises RouteError.
    """
    rng = np.random.default_rng((scene.seed, 3))
    best, best_score = random_walk(scene, rng, num_frames), -1.0
    for _ in range(_TRIES):
        path = _try(scene, rng, route_name, num_frames, fps)
        is_open = (wall_depths(scene, path, COLUMNS) > _OPEN_M).mean(1) > _OPEN_SHARE
        score = is_open.mean() + 0.05 * min(4.0, float(np.ptp(path[:, 0]) + np.ptp(path[:, 1])))
        if score > best_score:
            best, best_score = path, score
    return best


def other_world(seed: int, path: PathPoses) -> Scene:
    """Return another held-out world in which nothing stands in the way of this path. Raises ValueError: none found."""
    scenes = (make_scene(seed + 50_000 + offset) for offset in range(_OTHER_WORLDS))
    found = next((each for each in scenes if all(is_free(each.solid, each.objects, x, z) for x, z, _ in path)), None)
    if found is None:
        raise ValueError(f"no other world in {_OTHER_WORLDS} lets one walk where world {seed} does: take another seed")
    return found


def _try(scene: Scene, rng: np.random.Generator, route_name: str, num_frames: int, fps: float) -> PathPoses:
    if route_name == "out-and-back":
        return random_walk(scene, rng, num_frames)
    x, z = free_place(scene, rng)
    yaw = rng.uniform(-math.pi, math.pi)
    if route_name == "yaw-360":
        turns = np.arange(num_frames) * 2.0 * math.pi / num_frames
        return np.stack([np.full(num_frames, x), np.full(num_frames, z), yaw + turns], axis=1)
    return _controlled(scene, route_name, num_frames, fps, Pose(x, CAMERA_HEIGHT_M, z, yaw))


def _controlled(scene: Scene, route_name: str, num_frames: int, fps: float, pose: Pose) -> PathPoses:
    """Return where a route's controls lead from a pose; walls and objects stop the camera."""
    path: list[tuple[float, float, float]] = []
    for held in route(route_name, num_frames / fps).frames(fps, num_frames):
        there = advance(pose, held, RoomsModel.motion, 1.0 / fps)
        x, z, _ = slide(scene.solid, scene.objects, pose.x_m, pose.z_m, there.x_m, there.z_m)
        pose = Pose(x, CAMERA_HEIGHT_M, z, there.yaw_rad)
        path.append((x, z, there.yaw_rad))
    return np.array(path)
