"""Is it still there? Return to a place, with recall, with the window alone, and with another world's blocks.

Owns the `given` part: a first visit that is rendered and written to memory, a return that is generated along a shifted
path, measured against the renderer. One thread.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bench.report import command_line, write_report
from bench.revisit_memory import Memory
from bench.revisit_metrics import Frames, psnr, ssim
from models.base import DrawnFrame, Recall, Step
from models.rooms.model import RoomsModel
from models.rooms.renderer import render, wall_depths
from models.rooms.scene import Scene, make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS
from models.rooms.state import RoomsState
from models.rooms.walk import is_free, random_walk
from shared.pose import Pose, wrap_rad

SHIFT_M, SHIFT_RAD = 0.05, math.radians(3.0)
OUTWARD_CHUNKS = 32
GAPS_CHUNKS = (4, 16)
_OPEN_M = 0.9
_TRIES = 40

PathPoses = NDArray[np.float64]  # [F, 3]: x_m, z_m, yaw_rad


@dataclass(frozen=True, slots=True)
class Visit:
    """A first visit: the path, the state and the memory that it left."""

    scene: Scene
    path: PathPoses
    state: RoomsState
    memory: Memory


@dataclass(frozen=True, slots=True)
class Return:
    """One way back: PSNR, SSIM, and how many chunks ago the place was seen, per frame."""

    kind: str  # paged, window or poisoned
    psnr: NDArray[np.float32]
    ssim: NDArray[np.float32]
    gap_chunks: NDArray[np.int64]
    frames: Frames
    truth: Frames


def given(
    model: RoomsModel,
    seeds: Sequence[int],
    routes: Sequence[str] = ("out-and-back",),
    gaps: Sequence[int] = GAPS_CHUNKS,
    memory: Sequence[str] = ("paged", "window", "poisoned"),
    codec: str = "int4",
) -> dict[str, Any]:
    """Return the keys of the report that are about a given first visit, over all seeds and routes."""
    returns = [
        found for seed in seeds for route in routes for found in visit_and_return(model, seed, route, memory, codec)
    ]
    return summary(returns, memory, gaps)


def summary(returns: Sequence[Return], memory: Sequence[str], gaps: Sequence[int]) -> dict[str, Any]:
    """Return mean PSNR and SSIM per kind of memory, and PSNR by the gap at which a place was seen again."""
    figures: dict[str, Any] = {}
    for kind in memory:
        chosen = [found for found in returns if found.kind == kind]
        late = [found.gap_chunks >= min(gaps) for found in chosen]
        figures[kind] = {
            "psnr": float(np.mean([found.psnr[keep].mean() for found, keep in zip(chosen, late, strict=True)])),
            "ssim": float(np.mean([found.ssim[keep].mean() for found, keep in zip(chosen, late, strict=True)])),
        }
    by_gap = [{"gap_chunks": gap, **{kind: _at_gap(returns, kind, gap, gaps) for kind in memory}} for gap in gaps]
    return {"given": figures, "by_gap": by_gap}


def visit_and_return(model: RoomsModel, seed: int, route: str, memory: Sequence[str], codec: str) -> list[Return]:
    """Visit a world once, then come back the same way for every kind of memory."""
    scene = make_scene(seed)
    path = outward_path(scene, route, OUTWARD_CHUNKS * model.frames_per_chunk)
    visit = first_visit(model, scene, path, codec)
    found: list[Return] = []
    for kind in memory:
        blocks: Memory | None = visit.memory if kind == "paged" else None
        if kind == "poisoned":
            blocks = first_visit(model, _other_world(seed, path), path, codec).memory
        found.append(come_back(model, visit, blocks, kind))
    return found


def first_visit(model: RoomsModel, scene: Scene, path: PathPoses, codec: str) -> Visit:
    """Render a path and commit it chunk by chunk, as if the model had drawn it."""
    latents = model.basis.encode(*render(scene, path))
    memory = Memory(model, codec)
    state = RoomsState.start(scene.seed, as_poses(path[:1])[0])
    num = model.frames_per_chunk
    for at in range(0, len(path), num):
        poses = as_poses(path[at : at + num])
        recall = memory.recall(poses[-1], state.chunk_index - model.window_chunks)
        step = model.given_at(state, poses, latents[at : at + num], recall)
        memory.write(state.chunk_index, step.block)
        state = cast(RoomsState, step.state)
    return Visit(scene, path, state, memory)


def come_back(model: RoomsModel, visit: Visit, memory: Memory | None, kind: str) -> Return:
    """Generate the way back along the shifted path, and compare it with the renderer."""
    path = visit.path[::-1] + np.array([SHIFT_M / math.sqrt(2), SHIFT_M / math.sqrt(2), SHIFT_RAD])
    truth, _ = render(visit.scene, path)
    state, num = visit.state, model.frames_per_chunk
    drawn: list[Frames] = []
    for at in range(0, len(path), num):
        poses = as_poses(path[at : at + num])
        recall: Recall = () if memory is None else memory.recall(poses[-1], state.chunk_index - model.window_chunks)
        frames, step = run_step(model, state, poses, recall)
        drawn += [frame.pixels for frame in frames]
        state = cast(RoomsState, step.state)
    frames = np.stack(drawn)
    gap_chunks = np.arange(len(path)) * 2 // num  # the last frame out is the first frame back
    return Return(kind, psnr(frames, truth), ssim(frames, truth), gap_chunks, frames, truth)


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


def outward_path(scene: Scene, route: str, num_frames: int) -> PathPoses:
    """Return the poses [F, 3] of a first visit that sees more than walls, by the route's name and the world's seed."""
    rng = np.random.default_rng((scene.seed, 3))
    best, best_score = random_walk(scene, rng, num_frames), -1.0
    for _ in range(_TRIES):
        path = _turn_on_the_spot(best, num_frames) if route == "yaw-360" else random_walk(scene, rng, num_frames)
        is_open = (wall_depths(scene, path, COLUMNS) > _OPEN_M).mean(1) > 0.4
        score = is_open.mean() + 0.05 * min(4.0, float(np.ptp(path[:, 0]) + np.ptp(path[:, 1])))
        if score > best_score:
            best, best_score = path, score
    return best


def as_poses(path: PathPoses) -> tuple[Pose, ...]:
    """Return planar poses [F, 3] as level poses."""
    return tuple(Pose(float(x), CAMERA_HEIGHT_M, float(z), wrap_rad(float(yaw))) for x, z, yaw in path)


def _turn_on_the_spot(path: PathPoses, num_frames: int) -> PathPoses:
    turns = np.arange(num_frames) * 2.0 * math.pi / num_frames
    return np.stack([np.full(num_frames, path[0, 0]), np.full(num_frames, path[0, 1]), path[0, 2] + turns], axis=1)


def _other_world(seed: int, path: PathPoses) -> Scene:
    """Return another held-out world in which nothing stands in the way of this path."""
    scenes = (make_scene(seed + 50_000 + offset) for offset in range(400))
    return next(scene for scene in scenes if all(is_free(scene.solid, scene.objects, x, z) for x, z, _ in path))


def _at_gap(returns: Sequence[Return], kind: str, gap: int, gaps: Sequence[int]) -> float:
    """Return the mean PSNR of frames whose place was last seen between this gap and the next one."""
    above = min((other for other in gaps if other > gap), default=10**9)
    chosen = [found for found in returns if found.kind == kind]
    values = [found.psnr[(found.gap_chunks >= gap) & (found.gap_chunks < above)] for found in chosen]
    return float(np.mean(np.concatenate(values)))


def main(argv: Sequence[str]) -> int:
    """Run the bench and write its report."""
    parser = argparse.ArgumentParser(prog="python -m bench revisit", description=__doc__)
    parser.add_argument("--seeds", default="900000:900016")
    parser.add_argument("--routes", default="out-and-back")
    parser.add_argument("--gaps", default="4,16")
    parser.add_argument("--memory", default="paged,window,poisoned")
    parser.add_argument("--codec", default="int4", choices=("bf16", "int4"))
    parser.add_argument("--json")
    options = parser.parse_args(argv)
    first, last = (int(part) for part in options.seeds.split(":"))
    gaps = [int(part) for part in options.gaps.split(",")]
    memory = options.memory.split(",")
    figures = given(RoomsModel(), range(first, last), options.routes.split(","), gaps, memory, options.codec)
    report = write_report(options.json, command_line(), figures)
    print(report["given"], report["by_gap"])
    return 0
