"""Is it still there? Return to a place with recall, with the window alone, with nothing, with another world's blocks.

`given`: the first visit is rendered and written to memory, the return is drawn on a shifted path and held against the
renderer. `invented`: a world begins with one view, both visits are drawn. `turned`: the way back of a given visit,
walked facing where it leads. Figures of likeness are of frames whose place was last seen at least 4 chunks ago.
docs/decisions/revisit-meter.md says what each figure means.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from bench.classifier_network import WEIGHTS as JUDGE_WEIGHTS
from bench.classifier_network import Judge, load_judge
from bench.report import command_line, write_report
from bench.revisit_long import by_quarter, long_walk
from bench.revisit_rows import Asked, Rows, measure
from bench.revisit_summary import codec_difference, summary
from client.routes import RouteError
from models.rooms.checkpoint import WEIGHTS
from models.rooms.model import RoomsModel

FULL_SEEDS = 16
FULL_WALK_FRAMES = 1_000
PARTS = ("given", "invented", "turned", "diversity", "walk")
MEMORY = ("paged", "window", "none", "poisoned")
_CODEC_NOISES = 3
_WALK_SEED = 900_400


def parser() -> argparse.ArgumentParser:
    """The flags."""
    parser = argparse.ArgumentParser(prog="python -m bench revisit", description=__doc__)
    parser.add_argument("--model", default="rooms", choices=["rooms"])
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="other weights of rooms than those that ship")
    parser.add_argument("--seeds", default="900000:900016", metavar="A:B", help="worlds; B is not among them")
    parser.add_argument("--routes", default="out-and-back", help="names of shipped routes, or files; by comma")
    parser.add_argument("--gaps", default="4,16", help="of the rows of by_gap, in chunks")
    parser.add_argument("--memory", default="paged,window", help=f"what a return may see: {', '.join(MEMORY[:3])}")
    parser.add_argument("--codec", default="int4", help="int4, bf16, or bf16,int4: their difference as well")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--chunks", type=int, default=32, help="of a first visit")
    parser.add_argument("--walk-frames", type=int, default=FULL_WALK_FRAMES)
    parser.add_argument("--walks", type=int, default=2)
    parser.add_argument("--jobs", type=int, help="worlds at a time, one thread each; default: torch's threads")
    parser.add_argument("--rows", type=Path, metavar="DIR", help="keep each world's row here, and go on from there")
    parser.add_argument("--json")
    return parser


def asked_of(options: argparse.Namespace) -> Asked:
    """Return what the flags ask for in every world. Raises ValueError, naming the flag."""
    codecs = tuple(sorted(options.codec.split(","), reverse=True))  # int4 in front
    parts = tuple(options.parts.split(","))
    memory = tuple(kind for kind in options.memory.split(",") if kind != "poisoned")
    for flag, values, known in (("codec", codecs, ("bf16", "int4")), ("parts", parts, (*PARTS, "codec"))):
        if not set(values) <= set(known):
            raise ValueError(f"--{flag} takes {', '.join(known)}; not {','.join(values)}")
    if not set(memory) <= set(MEMORY):
        raise ValueError(f"--memory takes {', '.join(MEMORY)}; not {options.memory}")
    if len(codecs) > 1:
        parts = tuple(dict.fromkeys((*parts, "codec")))
    return Asked(tuple(options.routes.split(",")), memory, codecs, parts, options.chunks, _CODEC_NOISES)


def measured(
    model: RoomsModel, seeds: Sequence[int], asked: Asked, judge: Judge | None, kept: Path | None, jobs: int
) -> list[dict[str, Any]]:
    """Return the row of every world, some worlds at a time; a line on stderr for each."""
    rows = Rows(kept, model, asked, judge)

    def row_of(seed: int) -> dict[str, Any]:
        row = rows.find(seed)
        if row is None:
            row = measure(model, seed, asked, judge)
            rows.keep(row)
        print(f"world {seed} done", file=sys.stderr, flush=True)
        return row

    return side_by_side(row_of, seeds, jobs)


def side_by_side(work: Callable[[int], dict[str, Any]], seeds: Sequence[int], jobs: int) -> list[dict[str, Any]]:
    """Return the work of every seed, in order; `jobs` at a time, each on one thread of torch."""
    if jobs <= 1:
        return [work(seed) for seed in seeds]
    torch.set_num_threads(1)
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(work, seeds))


def report_of(options: argparse.Namespace) -> dict[str, Any]:
    """Measure what the flags ask for; return the report's keys and what was not run at full size."""
    asked = asked_of(options)
    first, last = (int(part) for part in options.seeds.split(":"))
    gaps = sorted(int(part) for part in options.gaps.split(","))
    model = RoomsModel(options.weights)
    judge = load_judge() if JUDGE_WEIGHTS.exists() else None
    jobs = options.jobs or torch.get_num_threads()
    rows = measured(model, range(first, last), asked, judge, options.rows, jobs)
    report = summary(rows, gaps)
    if report.get("classifier") and judge is not None:
        report["classifier"]["trained_against_these_weights"] = judge.trained_against == model.fingerprint
    if "walk" in asked.parts and options.walks > 0:
        seeds = range(_WALK_SEED, _WALK_SEED + options.walks)
        walks = side_by_side(lambda seed: long_walk(model, seed, options.walk_frames), seeds, jobs)
        report.setdefault("invented", {}).update(by_quarter(walks))
    if "codec" in asked.parts:
        report["codec"] = codec_difference(rows, asked.codecs)
    return report


def scaled_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked for in less than full size."""
    first, last = (int(part) for part in options.seeds.split(":"))
    full = {"worlds": (last - first, FULL_SEEDS), "walk_frames": (options.walk_frames, FULL_WALK_FRAMES)}
    return {name: f"{given} of {whole}" for name, (given, whole) in full.items() if given < whole}


def main(argv: Sequence[str]) -> int:
    """Run the bench and write its report."""
    options = parser().parse_args(argv)
    torch.set_grad_enabled(False)
    try:
        report = report_of(options)
    except (ValueError, RouteError) as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 2
    whole = write_report(options.json, command_line(), report, scaled_of(options))
    for name, value in report.items():
        print(f"{name:32} {json.dumps(value)}")
    print(f"{'seconds':32} {whole['seconds']}")
    return 0
