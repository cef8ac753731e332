"""`python -m bench drift`: does a long walk keep its contrast, colour and detail, and what does an hour of it weigh?

Each segment's statistics are held against those of the renderer on a true walk through the world of the same seed. The
invented world has other rooms, so pictures are not compared, only how lively they are.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bench.drive import start
from bench.identity import budgets_by_tier
from bench.report import command_line, write_report
from bench.revisit_metrics import luma
from client.routes import route
from models.rooms.model import RoomsModel
from models.rooms.renderer import render
from models.rooms.scene import make_scene
from models.rooms.walk import random_walk

SEGMENTS = 10
TRUE_FRAMES = 600


def liveliness(frames: np.ndarray) -> dict[str, float]:
    """Of frames [F, H, W, 3], means: contrast (std of luma), saturation (max - min), sharpness (luma gradient)."""
    bright = luma(frames)  # [F, H, W]
    spread = frames.max(-1).astype(np.float32) - frames.min(-1)
    along, down = np.diff(bright, axis=2), np.diff(bright, axis=1)
    return {
        "contrast": float(bright.std((1, 2)).mean()),
        "saturation": float(spread.mean()),
        "sharpness": float((along**2).mean() + (down**2).mean()) / 2.0,
    }


def true_liveliness(seed: int) -> dict[str, float]:
    """The renderer's statistics over a true random walk through the world of this seed."""
    scene = make_scene(seed)
    pictures, _ = render(scene, random_walk(scene, np.random.default_rng(seed), TRUE_FRAMES))
    return liveliness(pictures)


def measure(model: RoomsModel, num_frames: int, seed: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Walk the random route in exact mode and sum up what was drawn."""
    num_chunks = num_frames // model.frames_per_chunk
    controls = route("random", num_frames / model.fps).frames(model.fps, num_frames)
    with (
        tempfile.TemporaryDirectory(prefix="drift-", dir=Path.cwd()) as folder,
        start(model, budgets_by_tier(model, num_chunks + 8)["gpu"], Path(folder), seed=seed) as drive,
    ):
        began_s = time.perf_counter()
        drive.walk(controls)
        took_s = time.perf_counter() - began_s
        num_blocks = sum(usage.blocks for usage in drive.pager.usage()[2:])
        frames = np.stack(drive.frames)
        slot_bytes = drive.pager.layout.slot_bytes
    truth = true_liveliness(seed)
    segments: list[dict[str, float]] = []
    for part in np.array_split(np.arange(len(frames)), SEGMENTS):
        drawn = liveliness(frames[part])
        ratios = {f"{name}_ratio": round(drawn[name] / truth[name], 4) for name in truth}
        segments.append({"frame": int(part[0]), **ratios})
    hours = num_frames / model.fps / 3600.0
    return segments, {
        "fps": round(len(frames) / took_s, 2),
        "blocks": num_blocks,
        "bytes_per_hour": round(num_blocks * slot_bytes / hours),
        "bytes_share": round(num_blocks / (num_chunks + 4), 4),
        "seed": seed,
    }


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench drift", description=__doc__)
    parser.add_argument("--model", default="rooms", choices=["rooms"])
    parser.add_argument("--frames", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=900_300)
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(argv)
    torch.set_grad_enabled(False)
    segments, figures = measure(RoomsModel(), options.frames, options.seed)
    write_report(options.path, command_line(), {"segments": segments, **figures})
    for segment in segments:
        print("  ".join(f"{name} {value}" for name, value in segment.items()))
    for name, value in figures.items():
        print(f"{name:16} {value}")
    return 0
