"""What a small DRAM should forget: the share of wanted blocks that it still holds, by policy, on the shipped walks.

`python -m bench eviction`: a simulation of the DRAM tier, with the choice that the pager itself makes
(decide/evict.py). What a chunk wanted is on the GPU for the next one; whatever else is wanted is a hit when DRAM holds
it, and otherwise a read.
"""

import argparse
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.pager_trace import trace
from bench.report import command_line, write_report
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets
from server.pager.capacity import stored_chunks
from server.pager.decide.evict import POLICIES, Candidate, Outlooks, Policy, least_worthy
from server.pager.decide.relevance import Outlook, Trail
from server.plan import load_geometry, num_bytes
from server.trace import TraceChunk, pose_rows, with_wanted

RETURNS = ("a_yaw", "b1_ws", "out-and-back", "square", "figure-8", "random", "long-round-trip")
ROOMS = ("rooms-out-and-back", "rooms-random", "rooms-square", "rooms-figure-8")  # they say what they wanted
NAMES = {"ours": "relevance", "lru": "lru", "fifo": "fifo"}  # of the pager's policies
COLUMNS = (*NAMES, "belady")
RECALLED, ROOMS_RECALLED = 3, 4  # blocks that a chunk wants at most: Matrix-Game 2.0's, and rooms' when it was recorded
WORLD = "walk"


@dataclass(slots=True)
class Score:
    """What happened to one policy on one trace."""

    hits: int = 0
    misses: int = 0
    waits: int = 0  # chunks that had to read something

    @property
    def hit_share(self) -> float:
        return self.hits / max(1, self.hits + self.misses)


def simulate(chunks: Sequence[TraceChunk], column: str, slots: int) -> Score:
    """Walk a trace whose chunks say what they want, with a DRAM of `slots` blocks. `column` is one of COLUMNS."""
    policy = POLICIES[NAMES[column]] if column in NAMES else belady(chunks)
    tier = _Tier(chunks, policy, slots)
    score = Score()
    before: set[int] = set()
    for index, chunk in enumerate(chunks):
        wanted = set(chunk.wanted or ())
        missed = [block for block in sorted(wanted - before) if block not in tier.last_wanted]
        score.misses += len(missed)
        score.hits += len(wanted - before) - len(missed)
        score.waits += bool(missed)
        tier.move_on(index)
        for block in wanted:
            tier.put(block)
        if chunk.leaves_block:
            tier.put(index)
        before = wanted
    return score


class _Tier:
    """The copies of a tier and the chunk that wanted each last. Holds at most `slots` after each `put`."""

    def __init__(self, chunks: Sequence[TraceChunk], policy: Policy, slots: int) -> None:
        self._poses = pose_rows(chunks)[:, 0]
        self._blocks = np.array([chunk.leaves_block for chunk in chunks])
        self._policy = policy
        self._slots = slots
        self._outlook = Outlook()
        self._now = 0
        self.last_wanted: dict[int, int] = {}

    def move_on(self, index: int) -> None:
        """Chunk `index` was drawn: a chunk takes a second here."""
        self._now = index
        ids = np.flatnonzero(self._blocks[: index + 1])
        self._outlook.move_on(Trail(WORLD, ids, self._poses[ids], self._poses[index], 1.0))

    def put(self, block: int) -> None:
        self.last_wanted.pop(block, None)
        self.last_wanted[block] = self._now  # at the end: the least recently wanted stand first, as in the pager
        if len(self.last_wanted) > self._slots:
            copies = [
                Candidate(BlockKey(WORLD, block), math.inf, float(last), serial=block)
                for block, last in self.last_wanted.items()
            ]
            victim = least_worthy(copies, float(self._now), self._policy, {WORLD: [self._outlook]})
            assert victim is not None
            del self.last_wanted[victim.key.block]


def belady(chunks: Sequence[TraceChunk]) -> Policy:
    """Wanted last goes first: it needs the future, and stands here as the bound."""
    uses: dict[int, list[int]] = {}  # the chunks at which each block becomes wanted
    before: set[int] = set()
    for index, chunk in enumerate(chunks):
        for block in set(chunk.wanted or ()) - before:
            uses.setdefault(block, []).append(index)
        before = set(chunk.wanted or ())

    def worths(candidates: Sequence[Candidate], _: Outlooks, now_s: float) -> list[float]:
        ahead = [uses.get(each.key.block, []) for each in candidates]
        places = [bisect_right(each, now_s) for each in ahead]
        return [-each[at] if at < len(each) else -math.inf for each, at in zip(ahead, places, strict=True)]

    return worths


def recalled(name: str) -> int:
    """As many blocks as a chunk of this walk's model wants at most."""
    return ROOMS_RECALLED if name in ROOMS else RECALLED


def gap_closed(scores: Mapping[str, Score]) -> float:
    """How much of what LRU lacks to the oracle ours makes good; 1 where it lacks nothing."""
    gap = scores["belady"].hit_share - scores["lru"].hit_share
    return (scores["ours"].hit_share - scores["lru"].hit_share) / gap if gap > 0.0 else 1.0


def draw(path: Path, names: Sequence[str], shares: Mapping[str, Sequence[float]]) -> None:
    """Bars of each policy's hit share, trace by trace."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only with --plot

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots()
    for at, (policy, values) in enumerate(shares.items()):
        axes.bar(np.arange(len(names)) + 0.2 * (at - 1.5), values, 0.2, label=policy)
    axes.set_xticks(np.arange(len(names)), names)
    axes.set_ylabel("wanted blocks still in DRAM")
    axes.legend(ncols=len(shares), loc="upper center", bbox_to_anchor=(0.5, 1.14))
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str]) -> int:
    """Simulate, print the table, write."""
    options = _parser().parse_args(argv)
    geometry = load_geometry(options.geometry)
    slots = stored_chunks(geometry, Budgets(0, options.dram, 0), options.k or RECALLED)["dram_int4"]
    names = options.traces.split(",")
    rows: list[dict[str, object]] = []
    shares: dict[str, list[float]] = {column: [] for column in COLUMNS}
    closed: dict[str, float] = {}
    print(f"{'trace':18} " + " ".join(f"{column:>8}" for column in COLUMNS) + "   gap closed")
    for name in names:
        chunks = with_wanted(trace(name, options.chunks, geometry), options.k or recalled(name))
        scores = {column: simulate(chunks, column, slots) for column in COLUMNS}
        closed[name] = round(gap_closed(scores), 4)
        for policy, score in scores.items():
            share = round(score.hit_share, 4)
            shares[policy].append(share)
            rows.append({"trace": name, "policy": policy, "dram_hit_share": share, "waits": score.waits})
        shown = " ".join(f"{score.hit_share:8.3f}" for score in scores.values())
        print(f"{name:18} {shown}   {closed[name]:9.2f}", flush=True)
    if options.plot:
        draw(options.plot, names, shares)
    write_report(options.path, command_line(), {"dram_slots": slots, "rows": rows, "gap_closed": closed})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench eviction", description=__doc__)
    parser.add_argument("--geometry", default="matrix-game-2")
    parser.add_argument(
        "--traces", default=",".join((*RETURNS, *ROOMS)), help="names or files, with commas between them"
    )
    parser.add_argument("--chunks", type=int, help="default: all of a file; 300; 1,984 of long-round-trip")
    parser.add_argument("--dram", type=num_bytes, default="2GB", metavar="BYTES")
    parser.add_argument("--k", type=int, help="blocks that a chunk wants at most; default: 3, and 4 in rooms")
    parser.add_argument("--plot", type=Path, help="a PNG with the table as bars")
    parser.add_argument("--json", dest="path")
    return parser
