"""`python -m bench snapshot`: what keeping, forking and going back cost, in a world of 10 to 10,000 blocks.

Timed on the engine thread through the functions that a session uses, for states in RAM, against a model step of the
same run. Apart from these: what a jump leaves to the next chunk, a state that was spilled to disk (its bytes, and the
time until it is ready), and the time until a client sees it.
"""

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.pager_measure import percentile
from bench.report import command_line, write_report
from bench.snapshot_engine import SEED, TURN, FilledEngine, quick_chunk
from bench.snapshot_seen import seen_ms
from server.session import Session
from shared.protocol import ExactStep

BLOCKS = (10, 100, 1_000, 10_000)
SETTLE_EVERY = 50  # calls: a player's are many chunks apart, and a chunk settles what they left
SPILL_WAIT_S = 30.0
STEPS = 5
MOST_P50_US, MOST_P99_US, MOST_GROWTH = 2.0, 12.0, 3.0  # the paper: 12 us


def main(argv: Sequence[str]) -> int:
    """Measure each size; exit 0 only when the bars are met."""
    parser = argparse.ArgumentParser(prog="python -m bench snapshot", description=__doc__)
    parser.add_argument("--json", dest="path")
    parser.add_argument("--blocks", type=int, nargs="+", default=list(BLOCKS), metavar="N")
    parser.add_argument("--calls", type=int, default=3_000, help="of each function, at each size")
    parser.add_argument("--scratch", type=Path, default=Path.cwd(), metavar="DIR", help="330 kB a block")
    options = parser.parse_args(argv)
    with FilledEngine(options.scratch, max(options.blocks)) as filled:
        rows = [_row(filled, num, options.calls) for num in sorted(options.blocks)]
    figures = _figures(rows, seen_ms(options.scratch))
    write_report(options.path, command_line(), figures)
    _tell(figures)
    return 0 if figures["meets"] else 1


def _row(filled: FilledEngine, num_blocks: int, calls: int) -> dict[str, Any]:
    filled.fill(num_blocks)
    row: dict[str, Any] = {"blocks": num_blocks}
    row |= filled.call(lambda session: _timed(filled, session, calls))
    row["step_ms"] = round(percentile([_step_ms(filled) for _ in range(STEPS)], 50), 2)
    row["spilled"] = _spilled(filled)
    print(f"{num_blocks:,} blocks measured", flush=True)
    return row


def _timed(filled: FilledEngine, session: Session, calls: int) -> dict[str, Any]:
    """Snapshot, fork and restore; between the calls, untimed, what a chunk would do. Engine thread."""
    timeline = session.timeline
    here = session.snapshot("here")
    quick_chunk(filled.model, filled.pager, session, (TURN,) * filled.model.frames_per_chunk)
    there = session.snapshot("there")
    session.settle()
    places = (here, there)
    gc.collect()
    result: dict[str, Any] = {
        "snapshot": _microseconds(calls, lambda _: session.snapshot(), lambda _: session.settle()),
        "fork": _microseconds(calls, lambda _: session.fork(), timeline.drop_branch, every=1),
        "restore": _microseconds(calls, lambda index: session.restore(places[index % 2]), lambda _: session.settle()),
    }
    session.restore(there)
    began_ns = time.perf_counter_ns()
    session.settle()
    result["after_restore_ms"] = round((time.perf_counter_ns() - began_ns) / 1e6, 3)
    for snapshot in places:
        timeline.drop(snapshot)
    session.settle()
    return result


def _microseconds(
    calls: int, work: Callable[[int], Any], tidy: Callable[[Any], object], *, every: int = SETTLE_EVERY
) -> dict[str, float]:
    """p50 and p99 of `work`; `tidy` gets its result after every so many calls, untimed."""
    taken_ns: list[int] = []
    for index in range(calls):
        began_ns = time.perf_counter_ns()
        result = work(index)
        taken_ns.append(time.perf_counter_ns() - began_ns)
        if index % every == every - 1:
            tidy(result)
    return {f"p{percent}_us": round(percentile(taken_ns, percent) / 1e3, 2) for percent in (50, 99)}


def _step_ms(filled: FilledEngine) -> float:
    """One chunk, drawn by the model. The orders are given here, so that the engine does not draw it by itself."""

    def step(session: Session) -> float:
        orders = [(int(TURN.keys), TURN.mouse_dx, TURN.mouse_dy)] * filled.model.frames_per_chunk
        session.orders.add(ExactStep(seq=session.head.moment, controls=orders))
        began_s = time.perf_counter()
        session.step()
        return (time.perf_counter() - began_s) * 1e3

    return filled.call(step)


def _spilled(filled: FilledEngine) -> dict[str, float]:
    """A kept state on disk: its bytes, and how long it takes from there until its session stands on it."""

    def spill(session: Session) -> Any:
        shelf = session.timeline.shelf
        snapshot, budget = session.snapshot("spilled"), shelf.budget_bytes
        quick_chunk(filled.model, filled.pager, session, (TURN,) * filled.model.frames_per_chunk)
        session.settle()
        assert snapshot.durable.result(SPILL_WAIT_S)
        shelf.budget_bytes = 0
        session.settle()
        shelf.budget_bytes = budget
        assert snapshot.head is None, "it lies on disk now"
        return snapshot

    def ready(session: Session) -> dict[str, float]:
        snapshot = spill(session)
        began_s = time.perf_counter()
        session.restore(snapshot)
        ready_ms = (time.perf_counter() - began_s) * 1e3
        figures = {"bytes": snapshot.rest.num_bytes, "ready_ms": round(ready_ms, 2)}
        session.timeline.drop(snapshot)
        return figures

    return filled.call(ready)


def _figures(rows: Sequence[dict[str, Any]], seen: dict[str, float]) -> dict[str, Any]:
    calls = ("snapshot", "fork", "restore")
    worst_p50 = max(row[call]["p50_us"] for row in rows for call in calls)
    worst_p99 = max(row[call]["p99_us"] for row in rows for call in calls)
    growth = max(rows[-1][call]["p50_us"] / rows[0][call]["p50_us"] for call in calls)
    meets = worst_p50 <= MOST_P50_US and worst_p99 <= MOST_P99_US and growth <= MOST_GROWTH
    return {
        "model": "rooms",
        "seed": SEED,
        "rows": list(rows),
        "step_ms": round(percentile([row["step_ms"] for row in rows], 50), 2),
        "worst_p50_us": worst_p50,
        "worst_p99_us": worst_p99,
        "growth": round(growth, 2),
        "seen_ms": seen,
        "meets": meets,
    }


def _tell(figures: dict[str, Any]) -> None:
    names = ("snapshot", "fork", "restore")
    print(f"p50/p99 us  {'  '.join(f'{name:>14}' for name in names)}        step   spilled state, ready in")
    for row in figures["rows"]:
        calls = "  ".join(f"{row[name]['p50_us']:>6} /{row[name]['p99_us']:>6}" for name in names)
        spilled = f"{row['spilled']['bytes'] / 1e6:.2f} MB {row['spilled']['ready_ms']} ms"
        print(f"{row['blocks']:>10,}  {calls}  {row['step_ms']:>7} ms   {spilled}")
    for name in ("step_ms", "worst_p50_us", "worst_p99_us", "growth", "seen_ms", "meets"):
        print(f"{name:14} {figures[name]}")
