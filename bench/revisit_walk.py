"""Walks of the revisit meter: who steers, who draws, and what a walk leaves. Owns no figure. One thread.

A *guide* says which controls come next; a *painter* draws the frames at the poses that follow. The same guide walks the
drawn world and the true one: in each, what is seen says where the walls are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from bench.revisit_memory import Memory
from bench.revisit_metrics import Frames
from client.routes import route
from models.base import DrawnFrame, Pixels, Recall, Step
from models.rooms.model import RoomsModel
from models.rooms.renderer import render
from models.rooms.retrieval import coverage
from models.rooms.scene import Scene, make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, FOCAL_PX, PATCH_PX, ROWS
from models.rooms.state import RoomsState
from models.rooms.steering import scan
from shared.controls import Controls, Key
from shared.pose import MOUSE_RAD_PER_COUNT, Pose, wrap_rad

PathPoses = NDArray[np.float64]  # [F, 3]: x_m, z_m, yaw_rad
Guide = Callable[[RoomsState], Sequence[Controls]]
Painter = Callable[[RoomsState, tuple[Pose, ...]], tuple[list[Pixels], Step]]

TURN_RAD = 0.1  # a frame, of a guide that turns on the spot
_GENTLE_RAD = 0.05  # a frame, of a guide that walks
_NEAR_M = 1.1  # what is in its way and nearer than this, the explorer turns away from
_ASIDE_M = 0.3  # farther aside, a thing is not in its way: a door leaves 0.5 m
_SIDE_CHUNKS = 48  # for so long it turns to the same side: half as long again as a whole turn takes
_MOST_SEEDED = 0.5  # of a view's columns: a frame of which the given beginning shows more is no invented one


@dataclass(frozen=True, slots=True)
class Walk:
    """What was drawn one after the other, where it was seen from, and the state at the end."""

    path: PathPoses
    frames: Frames  # [F, H, W, 3]
    log_depth: NDArray[np.float32]  # [F, N]
    state: RoomsState


def walk(model: RoomsModel, state: RoomsState, num_chunks: int, guide: Guide, painter: Painter) -> Walk:
    """Walk on from `state` for a number of chunks."""
    poses: list[Pose] = []
    frames: list[Pixels] = []
    depth: list[torch.Tensor] = []
    for _ in range(num_chunks):
        ahead = model.steer(state, guide(state))
        drawn, step = painter(state, ahead)
        state = cast(RoomsState, step.state)
        poses += ahead
        frames += drawn
        depth.append(state.window[-1].depth)
    return Walk(as_path(poses), np.stack(frames), torch.cat(depth).numpy(), state)


def glance(model: RoomsModel, seed: int) -> tuple[RoomsState, Memory, Scene]:
    """Begin a world with one rendered view where a player would stand: the state, its memory, and the true world."""
    scene = make_scene(seed)
    here = model.begin(seed).state.pose
    before = Pose(here.x_m, here.y_m, here.z_m, wrap_rad(here.yaw_rad - TURN_RAD))
    state, memory = RoomsState.start(seed, before), Memory(model, "int4")
    _, step = rendered(model, scene)(state, (before, here))
    memory.write(0, step.block)
    return cast(RoomsState, step.state), memory, scene


def beginning(model: RoomsModel, seed: int) -> tuple[RoomsState, Memory, Scene]:
    """Begin a world as the product does: the state, the memory of its seeded views, and the true world."""
    begun, memory = model.begin(seed), Memory(model, "int4")
    for index, chunk in enumerate(begun.chunks):
        memory.write(index, chunk.block)
    return cast(RoomsState, begun.state), memory, make_scene(seed)


def generated(model: RoomsModel, memory: Memory) -> Painter:
    """Return the painter that draws with recall from `memory`, and writes to it what it draws."""

    def paint(state: RoomsState, poses: tuple[Pose, ...]) -> tuple[list[Pixels], Step]:
        recall = memory.recall(poses[-1], state.chunk_index - model.window_chunks)
        frames, step = run_step(model, state, poses, recall)
        memory.write(state.chunk_index, step.block)
        return [frame.pixels for frame in frames], step

    return paint


def rendered(model: RoomsModel, scene: Scene) -> Painter:
    """Return the painter that shows the true world, and lets the model see it."""

    def paint(state: RoomsState, poses: tuple[Pose, ...]) -> tuple[list[Pixels], Step]:
        frames, depth_m = render(scene, as_path(poses))
        return list(frames), model.given_at(state, poses, model.basis.encode(frames, depth_m), ())

    return paint


def guided(model: RoomsModel, route_name: str, num_chunks: int, first_chunk: int) -> Guide:
    """Return the guide of a route, for a walk that begins at chunk `first_chunk`. Raises RouteError.

    `out-and-back` goes out as an explorer does, `yaw-360` turns once; every other shipped route or file is walked as
    its controls say.
    """
    num = model.frames_per_chunk
    if route_name == "out-and-back":
        return explorer(num)
    if route_name == "yaw-360":
        lap = Controls(mouse_dx=2.0 * np.pi / (num_chunks * num) / MOUSE_RAD_PER_COUNT)
        return lambda _: (lap,) * num
    num_frames = num_chunks * num
    held = route(route_name, num_frames / model.fps).frames(model.fps, num_frames)
    return lambda state: held[(state.chunk_index - first_chunk) * num : (state.chunk_index - first_chunk + 1) * num]


def explorer(num_frames: int) -> Guide:
    """Return a guide that walks to where its way is free farthest, and turns where something is near: a pure function.

    What is lower than its eye counts as well: it would look over a drum and push against it for ever.
    """
    across = (np.arange(COLUMNS) + 0.5 - COLUMNS / 2) * PATCH_PX / FOCAL_PX  # a column's metres aside for each ahead

    def guide(state: RoomsState) -> Sequence[Controls]:
        seen = state.window[-1]
        free_m = scan(seen.poses[-1], seen.points[-1].numpy())
        is_in_way = free_m * np.abs(across) < _ASIDE_M
        if free_m[is_in_way].min(initial=np.inf) < _NEAR_M:
            dice = np.random.default_rng((state.seed, state.chunk_index // _SIDE_CHUNKS))
            turn, keys = TURN_RAD * (1.0 if dice.random() < 0.5 else -1.0), Key(0)
        else:
            level_m = seen.depth[-1].exp().view(ROWS, COLUMNS)[ROWS // 2 - 1 : ROWS // 2 + 1].mean(0).numpy()
            aim = math.atan(across[np.minimum(free_m, level_m).argmax()])  # what is low is not seen from far away
            turn, keys = max(-_GENTLE_RAD, min(aim / 4.0, _GENTLE_RAD)), Key.FORWARD
        return (Controls(keys, turn / MOUSE_RAD_PER_COUNT),) * num_frames

    return guide


def run_step(
    model: RoomsModel, state: RoomsState, poses: tuple[Pose, ...], recall: Recall
) -> tuple[list[DrawnFrame], Step]:
    """Draw one chunk at given poses; return its frames and what it left."""
    drawing = model.step_at(state, poses, recall)
    frames: list[DrawnFrame] = []
    while True:
        try:
            frames.append(next(drawing))
        except StopIteration as end:
            return frames, end.value


def is_invented(walked: Walk, seeded: Memory) -> NDArray[np.bool_]:
    """Return which frames [F] of a walk show mostly what the world's given beginning does not."""
    seen_from, footprints = seeded.views()
    covers = [coverage(pose, seen_from, footprints).max(0) for pose in as_poses(walked.path)]  # each [N]
    columns = np.stack(covers).reshape(-1, ROWS, COLUMNS).max(1) > 0.0
    return columns.mean(1) <= _MOST_SEEDED


def as_poses(path: PathPoses) -> tuple[Pose, ...]:
    """Return planar poses [F, 3] as level poses."""
    return tuple(Pose(float(x), CAMERA_HEIGHT_M, float(z), wrap_rad(float(yaw))) for x, z, yaw in path)


def as_path(poses: Sequence[Pose]) -> PathPoses:
    """Return level poses as planar ones [F, 3]."""
    return np.array([(pose.x_m, pose.z_m, pose.yaw_rad) for pose in poses])
