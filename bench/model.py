"""`python -m bench model`: how fast a model draws, and what share of a chunk its memory costs.

rooms: `model_fps` is the network alone (the draw stage); `fps` the whole step with retrieval, recall, int4 decode and
commit. matrix-game-2: a row for each number of recalled blocks (bench/model_rows.py); `fps`, `ms` and `memory_share`
are those of the row with as many blocks as the model recalls.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from bench.report import command_line, write_report
from models.base import WorldModel
from models.warm_up import warm_up

MEMORY_STAGES = ("want", "recall", "decode", "commit")
WARM_UP_CHUNKS = 4


def measure(model: WorldModel, num_chunks: int) -> dict[str, object]:
    """Median milliseconds of each stage over a walk in exact mode, and the rates that follow."""
    from bench.drive import start  # noqa: PLC0415 - a machine for measuring a GPU has torch and little else
    from bench.identity import budgets_by_tier  # noqa: PLC0415 - as above
    from client.routes import route  # noqa: PLC0415 - as above

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


def measure_matrix_game_2(options: argparse.Namespace) -> dict[str, object]:
    """A row for each number of recalled blocks, and how much of the GPU it took beside what was predicted."""
    from bench import model_rows  # noqa: PLC0415 - only the model that is asked for
    from models.matrix_game_2.load import load_model  # noqa: PLC0415 - as above
    from models.matrix_game_2.needs import needs  # noqa: PLC0415 - as above

    model = load_model(
        options.model_config,
        options.weights,
        random_weights=options.random_weights,
        compiled=options.compile,
        dtype=getattr(torch, options.dtype) if options.dtype else None,
    )
    began_s = time.perf_counter()
    if options.compile:
        warm_up(model, lambda _: None, longest_s=float("inf"))
    compile_s = time.perf_counter() - began_s
    rows = model_rows.rows(model_rows.prepared(model), options.repeats)
    usual = rows[min(model.max_recall, len(rows) - 1)]
    peak = torch.cuda.max_memory_allocated() if model.device.type == "cuda" else None
    return {
        "model_config": model.config.name,
        "random_weights": model.is_random,
        "compiled": options.compile,
        "compile_s": round(compile_s, 2),
        "fps": usual["fps"],
        "ms": usual["ms"],
        "memory_share": usual["memory_share"],
        "attention_share": usual["attention_share"],
        "rows": rows,
        "device": str(model.device),
        "dtype": str(model.dtype),
        "threads": torch.get_num_threads(),
        "peak_gpu_bytes": peak,
        "predicted_bytes": dict(needs(model.config, model.device, model.dtype)),
    }


def parser() -> argparse.ArgumentParser:
    """The flags."""
    parser = argparse.ArgumentParser(prog="python -m bench model", description=__doc__)
    parser.add_argument("--model", default="rooms", choices=["rooms", "matrix-game-2"])
    parser.add_argument("--model-config", default="universal", metavar="NAME|FILE", help="of matrix-game-2")
    parser.add_argument("--weights", type=Path, metavar="DIR", help="of matrix-game-2")
    parser.add_argument("--random-weights", action="store_true", help="matrix-game-2 without its weights")
    parser.add_argument("--compile", action="store_true", help="matrix-game-2 with torch.compile")
    parser.add_argument("--repeats", type=int, default=5, help="chunks a row of matrix-game-2")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], help="default: what this machine computes fast")
    parser.add_argument("--chunks", type=int, default=100, help="of rooms")
    parser.add_argument("--threads", type=int, help="torch's; default: of rooms 1, in float32 up to 4, else all")
    parser.add_argument("--json", dest="path", nargs="?", const="-", help="- or nothing: stdout")
    return parser


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    options = parser().parse_args(argv)
    torch.set_grad_enabled(False)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.model == "matrix-game-2":
        try:
            figures = measure_matrix_game_2(options)
        except ValueError as error:
            print(f"nothing was measured: {error}", file=sys.stderr)
            return 1
    else:
        from models.rooms.model import RoomsModel  # noqa: PLC0415 - torch and weights only when they are needed
        from models.rooms.precision import preferred_threads  # noqa: PLC0415 - as above

        model = RoomsModel(dtype=getattr(torch, options.dtype) if options.dtype else None)
        if not options.threads:
            torch.set_num_threads(min(torch.get_num_threads(), preferred_threads(model.dtype)))
        figures = {**measure(model, options.chunks), "random_weights": False}
    report = write_report(None if options.path == "-" else options.path, command_line(), figures)
    if options.path == "-":
        print(json.dumps(report, indent=1))
        return 0
    for name, value in figures.items():
        print(f"{name:24} {value}")
    return 0
