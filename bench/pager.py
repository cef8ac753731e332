"""The real pager under a walk: real bytes, real int4, a real disk, and a compute window of the length you give.

`python -m bench pager`: one run, its flags and keys are in commands.md. Times are as measured; with `--fast` blocks are
a thousandth and times a twentieth of what was given, and budgets, rates and byte counts are meant at full size.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bench.pager_disk import ThrottledDisk
from bench.pager_foresee import Foreseer
from bench.pager_measure import percentile, slope
from bench.pager_rule import rule_of
from bench.pager_scale import FAST_TIME, Scale, scale_of
from bench.pager_trace import TRAJECTORIES, trace
from bench.pager_walk import COUNTER, POLICIES, WORLD, Record, Terms, Walk
from bench.report import command_line, write_report
from models.base import FreshBlock
from server.pager.budgets import Budgets
from server.pager.capacity import Geometry
from server.pager.errors import BudgetError, WorldFault
from server.pager.move.disk import RealDisk
from server.pager.pager import Pager
from server.plan import load_geometry, num_bytes
from server.trace import TraceChunk, TraceError
from shared.tiers import PagerStats, Tier

EXTRAPOLATORS = ("ours", "constant-velocity", "oracle", "none")
EVICTIONS = {"ours": "relevance", "lru": "lru", "fifo": "fifo"}  # the pager's own names
WARM_UP_BLOCKS = 4
FLUSH_S = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """What is run, as it was given: at full size."""

    geometry: Geometry
    chunks: Sequence[TraceChunk]
    budgets: Budgets
    k: int = 3
    chunk_ms: float = 1200.0
    policy: str = "live"
    extrapolator: str = "ours"
    eviction: str = "ours"
    codec: str = "int4"
    read_gbps: float = 0.0  # 0: as fast as the disk is
    recompute_ms: float = 585.5
    from_nvme: bool = False
    fast: bool = False
    is_patient: bool = False


def walk(run: Run, folder: Path) -> dict[str, object]:
    """Walk once in a new world under `folder`, and say what happened. Raises BudgetError, WorldFault."""
    return _figures(run, *walk_record(run, folder))


def walk_record(run: Run, folder: Path) -> tuple[Scale, Record, PagerStats]:
    """Walk once; what happened, chunk by chunk."""
    scale = scale_of(run.geometry, run.codec, fast=run.fast)
    is_throttled = run.read_gbps > 0.0 and run.policy != "recompute"  # the bytes that it would make are still read
    disk = ThrottledDisk(scale.read_bytes_per_s(run.read_gbps)) if is_throttled else RealDisk()
    budgets = scale.budgets(run.budgets, run.k)
    pager = Pager(
        scale.run.spec,
        "be7c4",
        budgets,
        max_recall=run.k,
        disk=disk,
        eviction=EVICTIONS[run.eviction],
        piece_bytes=scale.piece_bytes,
    )
    alive = np.array([chunk.leaves_block for chunk in run.chunks])
    foreseer = Foreseer(run.extrapolator, run.chunks, run.geometry, rule_of(run.chunks, alive, run.k), WORLD)
    terms = Terms(run.policy, scale.real_s(run.chunk_ms), scale.real_s(run.recompute_ms), run.from_nvme, run.is_patient)
    blocks = _fresh_blocks(scale)
    world = folder / WORLD
    world.mkdir()
    try:
        pager.open_world(WORLD, world)
        walker = Walk(
            pager, pager.recall_buffer(), foreseer, terms, lambda index: blocks[index % len(blocks)], alive, world
        )
        record = walker.run()
        pager.flush(FLUSH_S)
        return scale, record, pager.stats(COUNTER)
    finally:
        pager.close()


def _fresh_blocks(scale: Scale) -> list[FreshBlock]:
    """What chunks leave behind: noise, encoded anew for each. One at full size, where making it costs seconds."""
    spec = scale.run.spec
    dice = torch.Generator().manual_seed(7)
    blocks: list[FreshBlock] = []
    for _ in range(WARM_UP_BLOCKS if scale.is_fast else 1):
        kv = torch.empty(spec.shape, dtype=torch.bfloat16)
        for plane in kv.view(-1, spec.tokens, spec.width):
            plane.copy_(torch.randn(plane.shape, generator=dice))
        side = {plane.name: torch.zeros(plane.shape, dtype=plane.dtype) for plane in spec.side}
        blocks.append(FreshBlock(kv, side, np.zeros(0), ()))
    return blocks


def _figures(run: Run, scale: Scale, record: Record, stats: PagerStats) -> dict[str, object]:
    num = len(run.chunks)
    waits = record.waits_ms
    return {
        "trace_chunks": num,
        "policy": run.policy,
        "extrapolator": run.extrapolator,
        "eviction": run.eviction,
        "patient": run.is_patient,
        "stalls": record.stalls,
        "preempted": record.preempted,
        "longest_wait_ms": round(max(waits), 4),
        "median_wait_ms": round(percentile(waits, 50), 4),
        "p99_wait_ms": round(percentile(waits, 99), 4),
        "stale_share": round(record.stale / num, 4),
        "lost": stats.lost,
        "forgotten": stats.forgotten,
        "hits": {tier.name.lower(): record.hits[tier] for tier in Tier},
        "wanted": record.wanted,
        "new_per_chunk": round(record.new / num, 4),
        "fetched_in_time_share": round(record.fetched_in_time / record.fetched, 4) if record.fetched else 1.0,
        "in_time_share": round(record.new_in_time / record.new, 4) if record.new else 1.0,
        "longest_return_chunks": record.longest_return,
        "bytes_written": round(stats.disk_written_bytes * scale.byte_ratio),
        "bytes_read": round(stats.disk_read_bytes * scale.byte_ratio),
        "rss_slope_bytes_per_chunk": round(slope(record.rss), 1),
        "page_cache_slope_bytes_per_chunk": round(slope(record.cached), 1),
        "chunk_ms": {
            "p50": round(percentile(record.chunks_ms, 50), 3),
            "p99": round(percentile(record.chunks_ms, 99), 3),
        },
        "decode_ms": {"p50": round(percentile(record.decode_ms, 50), 3)},
        "spilled_at_chunk": {tier.name.lower(): record.first_drop.get(tier) for tier in Tier},
        "rss_bytes": record.rss[-1][1],
        "rss_peak_bytes": max(rss for _, rss in record.rss),
        "page_cache_bytes": record.cached[-1][1],
        "direct_io": stats.direct_io,
        "notes": list(stats.notes),
    }


def scaled(run: Run) -> dict[str, object]:
    """What was not run at full size."""
    if not run.fast:
        return {}
    scale = scale_of(run.geometry, run.codec, fast=True)
    return {
        "block_bytes": f"{scale.run.moved_bytes} for {scale.full.moved_bytes}, each tier with as many slots",
        "time": f"1/{FAST_TIME:.0f}: a chunk of {run.chunk_ms:g} ms took {run.chunk_ms / FAST_TIME:g} ms",
        "byte_ratio": round(scale.byte_ratio, 3),
    }


def main(argv: Sequence[str]) -> int:
    """Run, print, write."""
    options = _parser().parse_args(argv)
    try:
        geometry = load_geometry(options.geometry)
        k = options.k or geometry.k
        run = Run(
            geometry,
            trace(options.trace, options.chunks, geometry),
            Budgets(options.gpu, options.dram, options.nvme),
            k,
            options.chunk_ms,
            options.policy,
            options.extrapolator,
            options.eviction,
            options.codec,
            options.read_gbps,
            options.recompute_ms,
            options.recall_from == "nvme",
            options.fast,
            options.patient,
        )
        folder = Path(tempfile.mkdtemp(prefix="pager-", dir=options.folder))
        try:
            figures = walk(run, folder)
        finally:
            shutil.rmtree(folder)
    except (ValueError, OSError, TraceError, BudgetError, WorldFault) as error:
        print(f"bench pager: {error}")
        return 2
    given = {"geometry": geometry.name, "trace": options.trace, "k": k, "given_chunk_ms": options.chunk_ms}
    report = write_report(options.path, command_line(), {**given, **figures}, scaled(run))
    print(json.dumps({name: report[name] for name in report if name not in ("hardware", "commit")}, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench pager", description=__doc__)
    parser.add_argument("--geometry", default="matrix-game-2", help="matrix-game-2, rooms, or a JSON file")
    parser.add_argument("--trace", default="out-and-back", help=f"{', '.join(TRAJECTORIES)}, or a file")
    parser.add_argument("--chunks", type=int, help="default: all of a file; 300; 1,984 of long-round-trip")
    parser.add_argument("--chunk-ms", type=float, default=1200.0, help="the compute window")
    parser.add_argument("--k", type=int, default=3, help="blocks of a recall")
    parser.add_argument("--gpu", type=num_bytes, default="4GB")
    parser.add_argument("--dram", type=num_bytes, default="2GB")
    parser.add_argument("--nvme", type=num_bytes, default="10GB")
    parser.add_argument("--read-gbps", type=float, default=0.0, help="throttle reads; 0: do not")
    parser.add_argument("--policy", choices=POLICIES, default="live")
    parser.add_argument("--extrapolator", choices=EXTRAPOLATORS, default="ours")
    parser.add_argument("--eviction", choices=EVICTIONS, default="ours", help="an oracle: python -m bench eviction")
    parser.add_argument("--codec", choices=["int4", "bf16"], default="int4", help="bf16: stored verbatim")
    parser.add_argument("--recall-from", choices=["any", "nvme"], default="any")
    parser.add_argument("--recompute-ms", type=float, default=585.5, help="a block, under policy recompute")
    parser.add_argument("--fast", action="store_true", help="small blocks and short times")
    parser.add_argument(
        "--patient", action="store_true", help="a chunk goes on until nothing moves: what is late anyway?"
    )
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the world is put meanwhile")
    parser.add_argument("--json", dest="path")
    return parser
