"""`python -m bench model`: how fast a model draws, and what share of a chunk its memory costs.

`model_fps` is the network alone (the draw stage); `fps` the whole step with retrieval, recall, int4 decode and commit.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from bench.drive import start
from bench.identity import budgets_by_tier
from bench.report import command_line, write_report
from client.routes import route
from models.base import WorldModel

MEMORY_STAGES = ("want", "recall", "decode", "commit")
WARM_UP_CHUNKS = 4


def measure(model: WorldModel, num_chunks: int) -> dict[str, object]:
    """Median milliseconds of each stage over a walk in exact mode, and the rates that follow."""
    num_frames = (num_chunks + WARM_UP_CHUNKS) * model.frames_per_chunk
    controls = route("figure-8", num_frames / model.fps).frames(model.fps, num_frames)
    budgets = budgets_by_tier(model, num_chunks + 16)["gpu"]
    warm_up = WARM_UP_CHUNKS * model.frames_per_chunk
    with (
        tempfile.TemporaryDirectory(prefix="model-", dir=Path.cwd()) as folder,
        start(model, budgets, Path(folder), seed=900_200) as drive,
    ):
        drive.walk(controls[:warm_up])
        drive.stages_ms.clear()
        began_s = time.perf_counter()
        drive.walk(controls[warm_up:])
        took_s = time.perf_counter() - began_s
        stages = {name: median(chunk[name] for chunk in drive.stages_ms) for name in drive.stages_ms[0]}
        recalled = len(drive.stats.recalled)
    chunk_ms = 1000.0 * took_s / num_chunks
    return {
        "fps": round(model.frames_per_chunk * 1000.0 / chunk_ms, 2),
        "model_fps": round(model.frames_per_chunk * 1000.0 / stages["draw"], 2),
        "ms": {name: round(value, 3) for name, value in stages.items()},
        "memory_share": round(sum(stages[name] for name in MEMORY_STAGES) / chunk_ms, 4),
        "recalled_in_last_chunk": recalled,
        "dtype": str(model.dtype),
        "threads": torch.get_num_threads(),
    }


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench model", description=__doc__)
    parser.add_argument("--model", default="rooms", choices=["rooms"])
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], help="default: what this machine computes fast")
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(argv)
    from models.rooms.model import RoomsModel  # noqa: PLC0415 - torch and weights only when they are needed

    torch.set_grad_enabled(False)
    model = RoomsModel(dtype=getattr(torch, options.dtype) if options.dtype else None)
    figures = measure(model, options.chunks)
    write_report(options.path, command_line(), figures)
    for name, value in figures.items():
        print(f"{name:24} {value}")
    return 0
