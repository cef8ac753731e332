"""`python -m bench drift`: does a long walk keep its contrast, colour and detail, and what does an hour of it weigh?

The walk goes through a served session in exact mode, pager and all. Each segment's figures are over those of the
renderer: the same route through the true world of the same seed. The invented world has other rooms, so pictures are
not compared, only how lively they are. Frames are looked at as they come and let go of, so memory stays bounded.
"""

import argparse
import json
import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from bench.drive import Drive, start
from bench.identity import budgets_by_tier
from bench.report import command_line, write_report
from bench.revisit_metrics import Frames, contrast, saturation, sharpness
from bench.revisit_walk import Guide, beginning, explorer, guided, rendered, walk
from models.rooms.model import RoomsModel
from models.rooms.state import RoomsState
from server.pager.pager import Budgets

FULL_FRAMES = 10_000
SEGMENTS = 10
EXPLORER = "explorer"
_TRUE_FRAMES = 2_000  # of the true walk; more of it would not change its means by much
_STRETCH_CHUNKS = 50  # frames of so many chunks are held in memory at a time
_FEW_BLOCKS = 64  # on the GPU tier and in DRAM
_STAGES = ("want", "recall", "decode", "draw", "commit")
_MEASURES: dict[str, Callable[[Frames], NDArray[np.float32]]] = {
    "contrast": contrast,
    "saturation": saturation,
    "sharpness": sharpness,
}

Liveliness = dict[str, list[float]]  # contrast, saturation and sharpness of every frame


def liveliness(frames: Frames) -> Liveliness:
    """Return contrast, saturation and sharpness of each frame of [F, H, W, 3]."""
    return {name: measure(frames).tolist() for name, measure in _MEASURES.items()}


def segments_of(drawn: Liveliness, true: Liveliness) -> list[dict[str, float]]:
    """Return the ratios of each tenth of the drawn frames over the means of the true ones."""
    means = {name: mean(values) for name, values in true.items()}
    parts = np.array_split(np.arange(len(drawn["contrast"])), SEGMENTS)
    return [
        {"frame": int(part[0])}
        | {
            f"{name}_ratio": round(float(np.array(values)[part].mean()) / means[name], 4)
            for name, values in drawn.items()
        }
        for part in parts
        if len(part)
    ]


def last_over_first(segments: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the last segment's figures over the first one's."""
    return {f"{name}_last_over_first": round(segments[-1][f"{name}_ratio"] / segments[0][f"{name}_ratio"], 4)
            for name in _MEASURES}  # fmt: skip


def true_walk(model: RoomsModel, seed: int, route: str, num_chunks: int) -> Liveliness:
    """Return the liveliness of the renderer's frames on a route through the true world."""
    state, _, scene = beginning(model, seed)
    guide = _guide(model, route, num_chunks, state.chunk_index)
    found: Liveliness = {name: [] for name in _MEASURES}
    for at in range(0, num_chunks, _STRETCH_CHUNKS):
        part = walk(model, state, min(_STRETCH_CHUNKS, num_chunks - at), guide, rendered(model, scene))
        _add(found, part.frames)
        state = part.state
    return found


def drawn_walk(drive: Drive, model: RoomsModel, route: str, num_chunks: int) -> Liveliness:
    """Return the liveliness of the frames that a session draws on a route."""
    first = cast(RoomsState, drive.session.head.state)
    guide = _guide(model, route, num_chunks, first.chunk_index)
    found: Liveliness = {name: [] for name in _MEASURES}
    for _ in range(num_chunks):
        drive.walk(guide(cast(RoomsState, drive.session.head.state)))
        _add(found, np.stack(drive.frames))
        drive.frames.clear()
    return found


def measure(model: RoomsModel, num_frames: int, seed: int, route: str) -> dict[str, Any]:
    """Walk, and return the report's keys."""
    num_chunks = num_frames // model.frames_per_chunk
    with (
        tempfile.TemporaryDirectory(prefix="drift-", dir=Path.cwd()) as folder,
        start(model, _budgets(model, num_chunks), Path(folder), seed=seed) as drive,
    ):
        drawn = drawn_walk(drive, model, route, num_chunks)
        num_blocks = sum(usage.blocks for usage in drive.pager.usage()[2:])
        slot_bytes = drive.pager.layout.slot_bytes
        took_s = sum(stages[name] for stages in drive.stages_ms for name in _STAGES) / 1000.0
    segments = segments_of(
        drawn, true_walk(model, seed, route, min(num_chunks, _TRUE_FRAMES // model.frames_per_chunk))
    )
    hours = num_frames / model.fps / 3600.0
    return {
        "segments": segments,
        **last_over_first(segments),
        "fps": round(num_chunks * model.frames_per_chunk / took_s, 2),
        "blocks": num_blocks,
        "bytes_per_hour": round(num_blocks * slot_bytes / hours),
        "bytes_share": round(num_blocks / (num_chunks + 4), 4),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "seed": seed,
        "route": route,
    }


def _guide(model: RoomsModel, route: str, num_chunks: int, first_chunk: int) -> Guide:
    if route == EXPLORER:
        return explorer(model.frames_per_chunk)
    return guided(model, route, num_chunks, first_chunk)


def _budgets(model: RoomsModel, num_chunks: int) -> Budgets:
    """Few blocks in RAM, room for all on disk: nothing is forgotten, and memory does not grow with the walk."""
    few, all_of_them = (budgets_by_tier(model, count)["gpu"] for count in (_FEW_BLOCKS, num_chunks + 8))
    return Budgets(few.gpu_bytes, few.dram_bytes, all_of_them.nvme_bytes)


def _add(found: Liveliness, frames: Frames) -> None:
    for name, values in liveliness(frames).items():
        found[name] += values


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench drift", description=__doc__)
    parser.add_argument("--model", default="rooms", choices=["rooms"])
    parser.add_argument("--frames", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=900_300)
    parser.add_argument(
        "--route", default=EXPLORER, help="explorer: to where its way is free farthest; or a shipped route, or a file"
    )
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(argv)
    torch.set_grad_enabled(False)
    figures = measure(RoomsModel(), options.frames, options.seed, options.route)
    scaled = {"frames": f"{options.frames} of {FULL_FRAMES}"} if options.frames < FULL_FRAMES else None
    write_report(options.path, command_line(), figures, scaled)
    for segment in figures["segments"]:
        print("  ".join(f"{name} {value}" for name, value in segment.items()))
    for name, value in figures.items():
        if name != "segments":
            print(f"{name:28} {json.dumps(value)}")
    return 0
