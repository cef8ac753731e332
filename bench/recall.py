"""How long a recall takes, on hit and on miss, whatever the disk does; and how soon an input has changed the plan.

`python -m bench recall`: the real pager with small blocks (a recall touches no bytes, so their size does not matter),
around a disk that is healthy, throttled, stalled for five seconds, failing or full. Nothing else runs: the engine's
compute is a sleep, as on a GPU.
"""

import argparse
import errno
import gc
import json
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bench.pager_measure import percentile
from bench.recall_plan import input_to_plan_ms
from bench.report import command_line, write_report
from models.base import FreshBlock, KVSpec
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.move.bad_disk import BadDisk, Trouble
from server.pager.move.disk import RealDisk
from server.pager.move.slab import slots_at
from server.pager.pager import Pager
from shared.tiers import Tier

WORLD = "recall"
SPEC = KVSpec(layers=1, tokens=240, width=256, head_width=128)
K = 3
GPU_SLOTS, DRAM_SLOTS, NVME_SLOTS = 9, 12, 400
BLOCKS = 256  # that are there before it begins
STALL_S = 5.0
PAUSE_S = 0.002  # between two recalls
COMMIT_EVERY = 20  # recalls
CONDITIONS = ("healthy", "throttled", "stalled", "failing", "full")
ALWAYS = 100_000


def measure(condition: str, num_recalls: int, folder: Path) -> dict[str, object]:
    """Recalls of what is there and of what is not, in turn, under one condition of the disk."""
    layout = SlotLayout(SPEC)
    budgets = Budgets(
        GPU_SLOTS * layout.slot_bytes + buffer_bytes(layout, K, torch.bfloat16),
        DRAM_SLOTS * layout.slot_bytes,
        slots_at(layout) + NVME_SLOTS * layout.slot_bytes,
    )
    disk = BadDisk(RealDisk())
    pager = Pager(SPEC, "be7c5", budgets, max_recall=K, disk=disk)
    try:
        pager.open_world(WORLD, folder)
        fresh = FreshBlock(torch.randn(SPEC.shape).bfloat16(), {}, np.zeros(0), ())
        for block in range(BLOCKS):
            pager.commit(BlockKey(WORLD, block), fresh)
            pager.flush(10.0)
        times = _Times()
        spoil(disk.trouble, condition)
        for turn in range(num_recalls):
            times.take(pager, turn)
            if turn % COMMIT_EVERY == 0:
                pager.commit(BlockKey(WORLD, BLOCKS + turn // COMMIT_EVERY), fresh)
            time.sleep(PAUSE_S)
        stats = pager.stats(WORLD)
        return {**times.figures(), "stalls": stats.stalls, "preempted": stats.preempted}
    finally:
        disk.trouble.is_stalled = False
        pager.close()


def spoil(trouble: Trouble, condition: str) -> None:
    """Make the disk so from now on."""
    trouble.read_bytes_per_s = 2e6 if condition == "throttled" else 0.0
    trouble.is_stalled = condition == "stalled"
    trouble.read_errors = deque([errno.EIO] * ALWAYS if condition == "failing" else [])
    trouble.write_errors = deque([errno.ENOSPC] * ALWAYS if condition == "full" else [])


class _Times:
    """Microseconds of each call of `Pager.recall`, by whether it gave what was wanted.

    By the clock, and on a core alone: on a machine that others keep busy the two differ by the scheduler's doing.
    """

    def __init__(self) -> None:
        self._us: dict[str, list[float]] = {"hit": [], "miss": []}
        self._on_core_us: dict[str, list[float]] = {"hit": [], "miss": []}

    def take(self, pager: Pager, turn: int) -> None:
        """Every second recall wants what is on the GPU now, the others what the disk alone has."""
        if turn % 2:
            tiers = pager.tiers_of(BlockKey(WORLD, block) for block in range(BLOCKS))
            wanted = [block for block, each in enumerate(tiers) if Tier.GPU in each][:K]
        else:
            wanted = [(turn * K + step) % BLOCKS for step in range(K)]
        keys = [BlockKey(WORLD, block) for block in wanted]
        on_core_s, begin_s = time.thread_time(), time.perf_counter()
        lease = pager.recall(WORLD, keys)
        taken_us = (time.perf_counter() - begin_s) * 1e6
        kind = "miss" if lease.stale else "hit"
        self._us[kind].append(taken_us)
        self._on_core_us[kind].append((time.thread_time() - on_core_s) * 1e6)
        lease.release()

    def figures(self) -> dict[str, object]:
        return {
            name: {
                "recalls": len(us),
                "p50_us": round(percentile(us, 50), 2),
                "p99_us": round(percentile(us, 99), 2),
                "longest_us": round(max(us, default=0.0), 1),
                "on_core_p50_us": round(percentile(self._on_core_us[name], 50), 2),
                "on_core_p99_us": round(percentile(self._on_core_us[name], 99), 2),
            }
            for name, us in self._us.items()
        }


def main(argv: Sequence[str]) -> int:
    """Measure, print, write."""
    options = _parser().parse_args(argv)
    gc.freeze()
    gc.disable()  # as the engine does: it collects between chunks
    rows: list[dict[str, object]] = []
    for condition in CONDITIONS:
        num = max(options.recalls, int(STALL_S / PAUSE_S)) if condition == "stalled" else options.recalls
        with tempfile.TemporaryDirectory(prefix="recall-", dir=options.folder) as folder:
            row = {"disk": condition, **measure(condition, num, Path(folder))}
        rows.append(row)
        print(json.dumps(row), flush=True)
        gc.collect()
    plan_ms = input_to_plan_ms(options.inputs)
    print(json.dumps({"input_to_plan_ms": plan_ms}))
    values = {"rows": rows, "input_to_plan_ms": plan_ms}
    write_report(options.path, command_line(), values, {"block_bytes": SlotLayout(SPEC).moved_bytes})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench recall", description=__doc__)
    parser.add_argument("--recalls", type=int, default=2000, help="under each condition; more while it is stalled")
    parser.add_argument("--inputs", type=int, default=600, help="60 a second")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the world is put meanwhile")
    parser.add_argument("--json", dest="path")
    return parser
