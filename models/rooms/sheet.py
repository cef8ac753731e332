"""`python -m models.rooms.sheet`: what the world invents, as a picture to look at. Training only; one thread.

Rows of frames of one seed: the renderer on the same turn or on a walk of its own, then each weights file on the turn
or walk through what it invents. `turn`: two rendered frames, then a full turn on the spot. `walk`: the start of play,
then straight on, aside where the way ends.
"""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from models.base import Catalog, FreshBlock, Recall, RecalledBlock, Step
from models.rooms.model import RoomsModel
from models.rooms.remembered import pose_rows
from models.rooms.renderer import render
from models.rooms.scene import make_scene
from models.rooms.seed_views import look_around
from models.rooms.sizes import TURN_RAD
from models.rooms.state import RoomsState
from models.rooms.walk import random_walk
from shared.controls import Controls, Key
from shared.pose import MOUSE_RAD_PER_COUNT, Pose, wrap_rad

Frames = NDArray[np.uint8]  # [F, H, W, 3]

COLUMNS = 10
_TURN_CHUNKS = 24

log = logging.getLogger(__name__)


class Walker:
    """One walk with all its blocks in RAM, uncompressed."""

    def __init__(self, model: RoomsModel, state: RoomsState, blocks: Sequence[FreshBlock | None] = ()) -> None:
        self.model, self.state = model, state
        self.frames: list[NDArray[np.uint8]] = []
        self._blocks = [(index, block) for index, block in enumerate(blocks) if block is not None]

    def keep(self, step: Step) -> None:
        """Go on to the state after a step, and remember its block."""
        if step.block is not None:
            self._blocks.append((self.state.chunk_index, step.block))
        self.state = cast(RoomsState, step.state)

    def draw(self, poses: tuple[Pose, ...]) -> None:
        """Draw one chunk at these poses."""
        drawing = self.model.step_at(self.state, poses, self._recall(poses[-1]))
        while True:
            try:
                self.frames.append(next(drawing).pixels)
            except StopIteration as end:
                self.keep(cast(Step, end.value))
                return

    def _recall(self, pose: Pose) -> Recall:
        if not self._blocks:
            return ()
        chunks = np.array([index for index, _ in self._blocks])
        rows = np.stack([pose_rows(block.poses) for _, block in self._blocks])
        footprints = np.stack([block.footprint for _, block in self._blocks])
        catalog = Catalog(chunks, chunks, rows, footprints, self.state.chunk_index - self.model.window_chunks)
        blocks = dict(self._blocks)
        wanted = ((name, blocks[name]) for name in self.model.wanted(pose, catalog))
        return tuple(RecalledBlock(n, n, b.kv, b.side, b.footprint, b.poses) for n, b in wanted)


def turn(model: RoomsModel, seed: int) -> list[NDArray[np.uint8]]:
    """Return the frames of a full turn on the spot after two rendered ones."""
    poses, latents = look_around(seed, model.basis)
    here = poses[0][0]
    walker = Walker(model, RoomsState.start(seed, here))
    walker.keep(model.given_at(walker.state, poses[0], latents[0], ()))
    for chunk in range(_TURN_CHUNKS):
        angles = (here.yaw_rad + 2 * np.pi * (2 * chunk + frame + 1) / (2 * _TURN_CHUNKS) for frame in range(2))
        walker.draw(tuple(Pose(here.x_m, here.y_m, here.z_m, wrap_rad(float(a))) for a in angles))
    return walker.frames


def walk(model: RoomsModel, seed: int, num_frames: int) -> list[NDArray[np.uint8]]:
    """Return the frames of a walk from the start of play: straight on, and aside where the way ends."""
    rng = np.random.default_rng((seed, 8))
    beginning = model.begin(seed)
    walker = Walker(model, cast(RoomsState, beginning.state), [chunk.block for chunk in beginning.chunks])
    turning, side = 0, 1.0
    while len(walker.frames) < num_frames:
        before = walker.state.pose
        mouse = side * 0.7 * TURN_RAD / MOUSE_RAD_PER_COUNT if turning else 0.0
        held = Controls(Key(0) if turning else Key.FORWARD, mouse, 0.0)
        walker.draw(model.steer(walker.state, [held] * model.frames_per_chunk))
        after = walker.state.pose
        turning = max(0, turning - 1)
        if not mouse and np.hypot(after.x_m - before.x_m, after.z_m - before.z_m) < 0.1:
            turning, side = int(rng.integers(2, 7)), float(rng.choice((-1.0, 1.0)))
    return walker.frames


def true_frames(model: RoomsModel, seed: int, route: str) -> list[NDArray[np.uint8]]:
    """Return what the renderer shows on the same turn, or on a random walk."""
    scene = make_scene(seed)
    path = random_walk(scene, np.random.default_rng(seed), 400)
    if route == "turn":
        here = look_around(seed, model.basis)[0][0][0]
        yaws = here.yaw_rad + 2 * np.pi * np.arange(2 * _TURN_CHUNKS) / (2 * _TURN_CHUNKS)
        path = np.array([(here.x_m, here.z_m, yaw) for yaw in yaws])
    return list(render(scene, path)[0])


def sharpness(frames: Sequence[NDArray[np.uint8]]) -> float:
    """Return the mean squared step of luma between neighbours."""
    bright = np.stack(frames).astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    return float((np.diff(bright, axis=2) ** 2).mean() + (np.diff(bright, axis=1) ** 2).mean())


def rows(frames: Sequence[NDArray[np.uint8]], num_rows: int) -> Frames:
    """Return evenly spaced frames as one picture of `num_rows` rows."""
    chosen = np.stack(frames)[np.linspace(0, len(frames) - 1, num_rows * COLUMNS).round().astype(int)]
    grid = chosen.reshape(num_rows, COLUMNS, *chosen.shape[1:])
    return grid.transpose(0, 2, 1, 3, 4).reshape(num_rows * chosen.shape[1], -1, 3)


def main(argv: Sequence[str] | None = None) -> int:
    """Write one picture; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m models.rooms.sheet", description=__doc__)
    parser.add_argument("--weights", type=Path, nargs="+", required=True)
    parser.add_argument("--seeds", default="900200:900202")
    parser.add_argument("--route", choices=("turn", "walk"), default="turn")
    parser.add_argument("--frames", type=int, default=160)
    parser.add_argument("--rows", type=int, default=2, help="of frames, for each seed and weights")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    models = [RoomsModel(path) for path in options.weights]
    parts: list[Frames] = []
    for seed in range(*(int(part) for part in options.seeds.split(":"))):
        truth = true_frames(models[0], seed, options.route)
        parts.append(rows(truth, 1))
        for path, model in zip(options.weights, models, strict=True):
            frames = turn(model, seed) if options.route == "turn" else walk(model, seed, options.frames)
            log.info("seed=%d weights=%s sharpness=%.2f", seed, path, sharpness(frames) / sharpness(truth))
            parts.append(rows(frames, options.rows))
    Image.fromarray(np.concatenate(parts)).save(options.out, quality=80)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
