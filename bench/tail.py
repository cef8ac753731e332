"""Does prefetching wait longer than loading on demand, when the drive is too slow for the walk?

`python -m bench tail`: the pager's own decisions in virtual time (bench/virtual_walk.py), at rates below and around the
critical one, on every shipped trajectory. `bench pager` asks the same of real bytes, one point at a time.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.pager_foresee import Foreseer
from bench.pager_measure import percentile
from bench.pager_rule import rule_of
from bench.pager_trace import TRAJECTORIES, trace
from bench.report import command_line, write_report
from bench.virtual_walk import WORLD, Machine, Tally, VirtualWalk
from server.pager.budgets import Budgets
from server.pager.capacity import SHIPPED, stored_chunks
from server.pager.layout import SlotLayout
from server.pager.move.slab import PIECE_BYTES

GEOMETRY = SHIPPED["matrix-game-2"]
BUDGETS = Budgets(4_000_000_000, 2_000_000_000, 100_000_000_000)
CHUNK_S = 1.2
SLACK_MS = 1.0  # a read that rests looks once a millisecond whether it may go on
RATES = (1.0, 0.5, 0.25, 0.15, 0.1)
POLICIES = {"wait": True, "on-demand": False}  # whether it prefetches


@dataclass(frozen=True, slots=True)
class Point:
    """One walk: which trajectory, how fast the drive reads, and whether every recall comes from it."""

    name: str
    num_chunks: int
    read_gbps: float
    from_nvme: bool = True

    def walk(self, *, prefetches: bool, extrapolator: str = "ours", eviction: str = "relevance") -> Tally:
        """Walk it in virtual time."""
        chunks = trace(self.name, self.num_chunks, GEOMETRY)
        alive = np.ones(len(chunks), dtype=np.bool_)
        slots = stored_chunks(GEOMETRY, BUDGETS, GEOMETRY.k)
        machine = Machine(
            slots["gpu_int4"],
            slots["dram_int4"],
            slots["nvme_int4"],
            self.read_gbps * 1e9,
            SlotLayout(GEOMETRY.spec).moved_bytes,
            PIECE_BYTES,
        )
        foreseer = Foreseer(extrapolator, chunks, GEOMETRY, rule_of(chunks, alive, GEOMETRY.k), WORLD)
        walk = VirtualWalk(
            machine,
            foreseer,
            alive,
            CHUNK_S,
            max_recall=GEOMETRY.k,
            prefetches=prefetches,
            from_nvme=self.from_nvme,
            eviction=eviction,
        )
        return walk.run()


def figures(tally: Tally) -> dict[str, float]:
    """Seconds of full-size waiting, as milliseconds."""
    waits_ms = [1e3 * wait_s for wait_s in tally.waits_s]
    return {
        "median_wait_ms": round(percentile(waits_ms, 50), 3),
        "p99_wait_ms": round(percentile(waits_ms, 99), 3),
        "longest_wait_ms": round(max(waits_ms), 3),
        "mean_wait_ms": round(sum(waits_ms) / len(waits_ms), 3),
    }


def main(argv: Sequence[str]) -> int:
    """Walk, print the table, write; 1 when prefetching had the worse tail anywhere."""
    options = _parser().parse_args(argv)
    rows: list[dict[str, object]] = []
    num_worse = 0
    for name in options.traces.split(","):
        for gbps in options.read_gbps:
            point = Point(name, options.chunks, gbps, options.recall_from == "nvme")
            tails = {policy: figures(point.walk(prefetches=prefetches)) for policy, prefetches in POLICIES.items()}
            keys = ("p99_wait_ms", "longest_wait_ms")
            is_worse = any(tails["wait"][key] > tails["on-demand"][key] + SLACK_MS for key in keys)
            num_worse += is_worse
            rows += [{"trace": name, "read_gbps": gbps, "policy": policy, **tails[policy]} for policy in tails]
            shown = "   ".join(
                f"{policy} " + " ".join(f"{value:9.1f}" for value in tail.values()) for policy, tail in tails.items()
            )
            print(f"{name:16} {gbps:5} {shown} {'WORSE' if is_worse else ''}", flush=True)
    values = {"rows": rows, "worse": num_worse}
    write_report(options.path, command_line(), values, {"time": "virtual: no bytes were moved"})
    return 1 if num_worse else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench tail", description=__doc__)
    parser.add_argument("--traces", default=",".join(TRAJECTORIES), help="names or files, with commas between them")
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--read-gbps", type=float, nargs="+", default=RATES)
    parser.add_argument("--recall-from", choices=["any", "nvme"], default="nvme")
    parser.add_argument("--json", dest="path")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
