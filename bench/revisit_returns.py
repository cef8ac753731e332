"""Visits and returns: what is measured of one world and one route. One thread.

`given`: the first visit is rendered and written to memory; the return is drawn on a path shifted by 5 cm and 3 degrees
and held against the renderer. `invented`: a world is begun with one rendered view, the first visit is drawn, and the
return on the same poses is held against it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bench.revisit_memory import Memory
from bench.revisit_metrics import Frames, psnr, sharpness, ssim
from bench.revisit_paths import other_world, outward_path
from bench.revisit_places import finds_itself
from bench.revisit_walk import PathPoses, Walk, as_poses, generated, glance, guided, run_step, walk
from models.base import Pixels, Recall, Step
from models.rooms.model import RoomsModel
from models.rooms.renderer import render
from models.rooms.scene import Scene, make_scene
from models.rooms.state import RoomsState
from shared.pose import Pose

SHIFT_M, SHIFT_RAD = 0.05, math.radians(3.0)


@dataclass(frozen=True, slots=True)
class Visit:
    """A first visit: the path, what was seen, the state and the memory that it left."""

    scene: Scene
    path: PathPoses
    frames: Frames
    state: RoomsState
    memory: Memory


@dataclass(frozen=True, slots=True)
class Return:
    """One way back, frame by frame: how like the first visit, and how many chunks ago the place was seen."""

    part: str  # given or invented
    kind: str  # paged, window, none or poisoned
    route: str
    codec: str
    noise: int
    psnr: NDArray[np.float32]
    ssim: NDArray[np.float32]
    gap_chunks: NDArray[np.int64]
    sharpness_ratio: float  # over what it is held against
    finds_itself: NDArray[np.float64]  # 1, 0, or NaN where there is no other place


def given_visit(model: RoomsModel, scene: Scene, path: PathPoses, codec: str) -> Visit:
    """Render a path and commit it chunk by chunk, as if the model had drawn it."""
    frames, depth_m = render(scene, path)
    latents = model.basis.encode(frames, depth_m)
    memory = Memory(model, codec)
    state = RoomsState.start(scene.seed, as_poses(path[:1])[0])
    num = model.frames_per_chunk
    for at in range(0, len(path), num):
        poses = as_poses(path[at : at + num])
        recall = memory.recall(poses[-1], state.chunk_index - model.window_chunks)
        step = model.given_at(state, poses, latents[at : at + num], recall)
        memory.write(state.chunk_index, step.block)
        state = cast(RoomsState, step.state)
    return Visit(scene, path, frames, state, memory)


def given_returns(
    model: RoomsModel,
    seed: int,
    route: str,
    kinds: Sequence[str],
    codec: str,
    num_chunks: int,
    noises: Sequence[int] = (0,),
) -> list[Return]:
    """Visit a true world once, then come back the same way for every kind of memory and every noise."""
    scene = make_scene(seed)
    path = outward_path(scene, route, num_chunks * model.frames_per_chunk, model.fps)
    visit = given_visit(model, scene, path, codec)
    back = path[::-1] + np.array([SHIFT_M / math.sqrt(2), SHIFT_M / math.sqrt(2), SHIFT_RAD])
    truth, _ = render(scene, back)
    found: list[Return] = []
    for kind in kinds:
        memory = visit.memory
        if kind == "poisoned":
            memory = given_visit(model, other_world(seed, path), path, codec).memory
        for noise in noises:
            start = replace(visit.state, seed=seed + noise * 1_000_003)
            frames = come_back(model, start, back, memory, kind, is_writing=False)
            found.append(_return("given", kind, route, codec, noise, frames, truth, visit, model))
    return found


def invented_visit(model: RoomsModel, seed: int, route: str, num_chunks: int) -> tuple[Visit, Walk, Memory]:
    """Begin a world with one view and draw a walk. Returns also the walk, and the memory of the view alone."""
    state, memory, scene = glance(model, seed)
    seeded = memory.copy()
    guide = guided(model, route, num_chunks, state.chunk_index)
    out = walk(model, state, num_chunks, guide, generated(model, memory))
    return Visit(scene, out.path, out.frames, out.state, memory), out, seeded


def invented_returns(model: RoomsModel, visit: Visit, route: str, kinds: Sequence[str], noise: int = 0) -> list[Return]:
    """Come back along the poses of a drawn first visit, for every kind of memory but another world's."""
    back, codec = visit.path[::-1], visit.memory.codec
    found: list[Return] = []
    for kind in kinds:
        if kind == "poisoned":
            continue
        start = replace(visit.state, seed=visit.state.seed + noise * 1_000_003)
        frames = come_back(model, start, back, visit.memory.copy(), kind, is_writing=True)
        found.append(_return("invented", kind, route, codec, noise, frames, visit.frames[::-1], visit, model))
    return found


def come_back(
    model: RoomsModel, state: RoomsState, path: PathPoses, memory: Memory, kind: str, *, is_writing: bool
) -> Frames:
    """Draw a path, with what a kind of memory may see: recall and window, the window, or nothing at all."""
    num = model.frames_per_chunk
    drawn: list[Pixels] = []
    for at in range(0, len(path), num):
        poses = as_poses(path[at : at + num])
        step, frames = _drawn(model, state, poses, memory, kind)
        if is_writing and kind == "paged":
            memory.write(state.chunk_index, step.block)
        drawn += frames
        state = cast(RoomsState, step.state)
    return np.stack(drawn)


def _drawn(
    model: RoomsModel, state: RoomsState, poses: tuple[Pose, ...], memory: Memory, kind: str
) -> tuple[Step, list[Pixels]]:
    recall: Recall = ()
    if kind in {"paged", "poisoned"}:
        recall = memory.recall(poses[-1], state.chunk_index - model.window_chunks)
    if kind == "none":
        state = replace(state, window=())
    frames, step = run_step(model, state, poses, recall)
    return step, [frame.pixels for frame in frames]


def _return(
    part: str,
    kind: str,
    route: str,
    codec: str,
    noise: int,
    frames: Frames,
    truth: Frames,
    visit: Visit,
    model: RoomsModel,
) -> Return:
    index = np.arange(len(frames))
    own = len(frames) - 1 - index  # the last frame out is the first frame back
    return Return(
        part,
        kind,
        route,
        codec,
        noise,
        psnr(frames, truth),
        ssim(frames, truth),
        index * 2 // model.frames_per_chunk,
        float(sharpness(frames).mean() / sharpness(truth).mean()),
        finds_itself(frames, visit.frames, own, visit.path),
    )
