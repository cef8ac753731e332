"""What budgets hold, and whether a drive keeps up: `python -m server plan`. Its formulas are in capacity.py."""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from models.base import KVSpec, SidePlane
from server.config import parse_bytes
from server.pager.budgets import Budgets
from server.pager.capacity import (
    SHIPPED,
    USUAL_READ_GBPS,
    Geometry,
    Load,
    critical_read_gbps,
    new_per_chunk,
    spill_chunks,
    stall_class,
    stored_chunks,
    wear,
)
from server.pager.layout import SlotLayout
from server.plan_words import describe
from server.trace import TraceError, read_trace, with_wanted

EXIT_USAGE = 2
DEFAULT = "matrix-game-2"  # the model whose memory is large enough to need a plan
_NEEDED = ("layers", "tokens", "width", "head_width", "chunk_ms", "k")
_OPTIONAL = {"side_bytes": 0, "table_frames": 0, "frames_per_block": 1}


def parser() -> argparse.ArgumentParser:
    """The flags of commands.md."""
    parser = argparse.ArgumentParser(prog="python -m server plan", description=__doc__)
    names = ", ".join(SHIPPED)
    parser.add_argument("--geometry", metavar="NAME|FILE", help=f"{names}, or a JSON file (default: {DEFAULT})")
    parser.add_argument("--gpu", type=num_bytes, default="4GB", metavar="BYTES")
    parser.add_argument("--dram", type=num_bytes, default="8GB", metavar="BYTES")
    parser.add_argument("--nvme", type=num_bytes, default="64GB", metavar="BYTES")
    parser.add_argument("--chunk-ms", type=_positive, help="default: the geometry's")
    parser.add_argument("--k", type=_count, help="blocks of a recall; default: the geometry's")
    parser.add_argument(
        "--read-gbps", type=_positive, default=USUAL_READ_GBPS, help="of the drive, 10^9 bytes a second"
    )
    parser.add_argument(
        "--new-per-chunk", metavar="X|TRACE", help="blocks that a chunk needs anew; default: k, the worst"
    )
    parser.add_argument("--blocks-per-chunk", type=float, default=1.0, help="that a chunk leaves behind")
    parser.add_argument("--json", dest="path", nargs="?", const="-", help="write one JSON object; - or nothing: stdout")
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the plan, as text or as JSON."""
    options = parser().parse_args(argv)
    try:
        geometry = load_geometry(options.geometry or DEFAULT)
        k = geometry.k if options.k is None else options.k
        new = _new_per_chunk(options.new_per_chunk, k)
    except (ValueError, OSError) as error:
        print(f"no plan: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
        return EXIT_USAGE
    load = Load(options.chunk_ms or geometry.chunk_ms, new, options.read_gbps, options.blocks_per_chunk)
    figures = make_plan(geometry, Budgets(options.gpu, options.dram, options.nvme), k, load)
    if options.path and options.path != "-":
        Path(options.path).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    words = describe(figures, is_default=options.geometry is None)
    print(json.dumps(figures, indent=1) if options.path == "-" else words)  # noqa: T201 - likewise
    return 0


def make_plan(geometry: Geometry, budgets: Budgets, k: int, load: Load) -> dict[str, object]:
    """Every figure of the analytical model, by the keys of commands.md; what never comes is null."""
    critical = critical_read_gbps(SlotLayout(geometry.spec).moved_bytes, load.new_per_chunk, load.chunk_ms)
    hours = {name: round(value, 4) for name, value in wear(geometry, budgets, k, load).items() if math.isfinite(value)}
    return {
        "geometry": geometry.name,
        "budgets": {"gpu": budgets.gpu_bytes, "dram": budgets.dram_bytes, "nvme": budgets.nvme_bytes},
        "block_bytes": {"bf16": geometry.bf16_bytes, "int4": geometry.int4_bytes},
        "chunk_ms": load.chunk_ms,
        "k": k,
        "new_per_chunk": round(load.new_per_chunk, 4),
        "read_gbps": load.read_gbps,
        "spill_chunk": spill_chunks(geometry, budgets),
        "stored_chunks": stored_chunks(geometry, budgets, k),
        "position_limit_chunk": geometry.position_limit_chunk,
        "critical_read_gbps": round(critical, 6),
        "stall_class": stall_class(load.read_gbps, critical),
        "write_gb_per_hour": hours.get("write_gb_per_hour"),
        "hours_until_nvme_full": hours.get("hours_until_nvme_full"),
        "hours_until_600_tbw": hours.get("hours_until_600_tbw"),
    }


def load_geometry(name_or_path: str) -> Geometry:
    """A shipped geometry, or one from a JSON file. Raises ValueError with the file and what is wrong with it."""
    if name_or_path in SHIPPED:
        return SHIPPED[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        raise ValueError(f"there is no geometry {name_or_path!r}: {', '.join(SHIPPED)}, or a JSON file")
    try:
        return _parse(path.stem, json.loads(path.read_text(encoding="utf-8")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {type(error).__name__} {error}") from error


def _parse(name: str, raw: Mapping[str, float]) -> Geometry:
    """{layers, tokens, width, head_width, chunk_ms, k} and, where they differ, {side_bytes, table_frames, ...}."""
    unknown = sorted(set(raw) - {*_NEEDED, *_OPTIONAL})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join((*_NEEDED, *_OPTIONAL))}")
    layers, tokens, width, head_width, chunk_ms, k = (raw[key] for key in _NEEDED)
    side_bytes, table_frames, frames_per_block = (int(raw.get(key, value)) for key, value in _OPTIONAL.items())
    side = (SidePlane("side", (side_bytes,), torch.uint8),) if side_bytes else ()
    if min(layers, tokens, width, head_width, k, frames_per_block) < 1 or chunk_ms <= 0.0:
        raise ValueError("sizes are at least 1, times above 0")
    spec = KVSpec(int(layers), int(tokens), int(width), int(head_width), side)
    return Geometry(name, spec, float(chunk_ms), int(k), table_frames, frames_per_block)


def _new_per_chunk(text: str | None, k: int) -> float:
    """A number, or the average over a trace; without either every block of a recall is new."""
    if text is None:
        return float(k)
    try:
        number = float(text)
    except ValueError:
        return new_per_chunk([chunk.wanted or () for chunk in with_wanted(read_trace(text), k)])
    if not 0.0 <= number < math.inf:
        raise TraceError(f"--new-per-chunk is 0 or more, not {text}")
    return number


def num_bytes(text: str) -> int:
    """A flag's bytes."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is {error}") from error


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number
