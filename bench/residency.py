"""`python -m bench residency`: how many sessions live at once, what one costs, and does each come back exactly?

Sessions on branches of one world of rooms. First so many that all are resident, each with a head of its own in RAM;
then ten times as many, parked: their heads lie on the shelf, under its budget in RAM and beyond it on disk. Some of
them, picked by chance, are then called back: each must hold the state that it had, bit for bit, and step at once.

A host byte is one of the process's resident memory after it gave back what its allocator only kept for later; that
is printed apart. Sessions are parked no faster than the disk takes them, as a server's are, and what a parked one costs
is counted when all of them are on disk: until then the write that waits holds the chunk that is the session's own.
Heads count whole under the shelf's budget; the tensors that they hold are counted here once, however many share them.
"""

import argparse
import ctypes
import gc
import random
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import xxhash

from bench.pager_measure import percentile, rss_bytes
from bench.report import command_line, write_report
from bench.snapshot_engine import TURN, FilledEngine, quick_chunk
from models.base import ModelState, SavedState, WorldModel
from server.config import BUDGETS, parse_bytes
from server.head import Branch
from server.session import Session
from server.shelf import DEFAULT_BYTES
from server.timeline import Timeline
from shared.controls import Controls, Key
from shared.protocol import ExactStep
from shared.tiers import Tier

BLOCKS = 40  # of the world before its sessions branch
SPILL_WAIT_S = 1_800.0
MAX_WRITING = 64  # parked sessions that wait for the disk at once
CHANCE = 7


def main(argv: Sequence[str]) -> int:
    """Measure; exit 0 only when every session that was called back is the one that was parked."""
    parser = argparse.ArgumentParser(prog="python -m bench residency", description=__doc__)
    parser.add_argument("--json", dest="path")
    parser.add_argument("--resident", type=int, default=1_024, help="sessions that live at once")
    parser.add_argument("--parked", type=int, default=10_000, help="sessions in all, at the end")
    parser.add_argument("--called", type=int, default=32, help="of each kind, called back and stepped")
    parser.add_argument("--kept-mb", type=int, default=1_024, help="RAM for parked heads, in 10^6 bytes")
    parser.add_argument("--scratch", type=Path, default=Path.cwd(), metavar="DIR", help="2.5 MB a parked session")
    options = parser.parse_args(argv)
    with FilledEngine(options.scratch, BLOCKS, kept_bytes=options.kept_mb * 10**6) as filled:
        filled.fill(BLOCKS)
        figures = filled.call(lambda session: _measure(filled, session, options))
    figures["matrix_game_2"] = _matrix_game_2(options.kept_mb * 10**6)
    write_report(options.path, command_line(), figures, _scaled())
    for name, value in figures.items():
        print(f"{name:28} {value}")
    return 0 if figures["exact"] and figures["device_bytes_bounded"] else 1


def _matrix_game_2(kept_bytes: int) -> dict[str, int]:
    """What a state of Matrix-Game 2.0 at full size holds, by its config, and how many fit."""
    from models.matrix_game_2.config import load_config  # noqa: PLC0415 - only this line of the report needs it
    from models.matrix_game_2.needs import needs  # noqa: PLC0415 - as above

    config = load_config("universal")
    sizes = needs(config, torch.device("cuda"), torch.bfloat16)
    height, width = config.frame_hw_px
    state_bytes = sizes["window_state"] + sizes["decoder_state"] + height * width * 3
    fits = {name: parse_bytes(BUDGETS["matrix-game-2"][name]) // state_bytes for name in ("gpu", "dram", "nvme")}
    return {
        "state_bytes": state_bytes,
        "fit_kept_default": DEFAULT_BYTES // state_bytes,
        "fit_kept_given": kept_bytes // state_bytes,
        **{f"fit_{name}_default": count for name, count in fits.items()},
    }


def _scaled() -> dict[str, str]:
    return {"chunks": "each session's own first chunk is noise of the real size; those that are called back draw"}


def _measure(filled: FilledEngine, home: Session, options: argparse.Namespace) -> dict[str, Any]:
    """Engine thread."""
    timeline, crowd = home.timeline, _Crowd(filled, home)
    rss_before, _ = _host_bytes()
    sessions = [crowd.come() for _ in range(options.resident)]
    resident_rss = _host_bytes()[0] - rss_before
    chosen = random.Random(CHANCE)  # noqa: S311 - no secret
    step_ms = [crowd.step(session) for session in chosen.sample(sessions, min(options.called, len(sessions)))]
    device_resident = _device_bytes(filled)
    while sessions:
        crowd.park(sessions.pop())
    for _ in range(options.parked - options.resident):
        crowd.park(crowd.come())
    crowd.rest()
    after, idle_bytes = _host_bytes()
    parked_rss, num_parked = after - rss_before, max(1, len(crowd.marks))
    shelf, tensors = timeline.shelf, _tensor_bytes(filled.model, crowd.marks)
    kept, on_disk = shelf.used_bytes, shelf.num_spilled
    back = [crowd.call_back(branch) for branch in chosen.sample(list(crowd.marks), options.called)]
    return {
        "sessions_resident": options.resident,
        "resident_bytes_each": resident_rss // max(1, options.resident),
        "state_bytes_each": home.head.state.num_bytes,
        "resident_step_ms": round(percentile(step_ms, 50), 1),
        "sessions_parked": len(crowd.marks),
        "parked_on_disk": on_disk,
        "kept_budget_bytes": shelf.budget_bytes,
        "kept_bytes": kept,
        "kept_tensor_bytes": tensors,
        "parked_bytes_each": parked_rss // num_parked,
        "parked_bytes_each_beside_kept": (parked_rss - tensors) // num_parked,
        "allocator_idle_bytes": idle_bytes,
        "called_back": len(back),
        "exact": all(was_exact for was_exact, _, _ in back),
        "back_ms": round(percentile([ms for _, ms, _ in back], 50), 1),
        "back_step_ms": round(percentile([ms for _, _, ms in back], 50), 1),
        "device_bytes": [device_resident, _device_bytes(filled)],
        "device_bytes_bounded": _device_bytes(filled) <= _device_budget(filled),
    }


def _host_bytes() -> tuple[int, int]:
    """What this process holds in RAM, and what it held beyond that until its allocator gave it back."""
    gc.collect()
    before = rss_bytes()
    ctypes.CDLL(None).malloc_trim(0)
    after = rss_bytes()
    return after, before - after


class _Crowd:
    """Makes sessions on branches of one world, each with a chunk of its own, and parks them. Engine thread."""

    def __init__(self, filled: FilledEngine, home: Session) -> None:
        self._filled = filled
        self._home = home
        self._writing: deque[Future[bool]] = deque()
        self.marks: dict[Branch, bytes] = {}  # of the states that were parked

    def come(self) -> Session:
        """One more session: a branch of where `home` stands, and a chunk after it."""
        home = self._home
        session = Session(home._setting, home.timeline, home.fork(), "exact")  # noqa: SLF001 - what all sessions share
        per_chunk = self._filled.model.frames_per_chunk
        quick_chunk(self._filled.model, self._filled.pager, session, (TURN,) * per_chunk, leaves_block=False)
        home.timeline.settle()
        return session

    def step(self, session: Session) -> float:
        """Have it draw one chunk; returns the milliseconds."""
        held = Controls(Key.FORWARD, mouse_dx=2.0)
        asked = [(int(held.keys), held.mouse_dx, held.mouse_dy)] * self._filled.model.frames_per_chunk
        session.orders.add(ExactStep(seq=1, controls=asked))
        began_s = time.perf_counter()
        session.step()
        return (time.perf_counter() - began_s) * 1e3

    def park(self, session: Session) -> None:
        """Its head goes to the shelf and to the disk; waits while the disk is behind."""
        self.marks[session.branch] = _mark(self._filled.model, session.head.state)
        self._writing.append(session.end())
        self._wait_written(MAX_WRITING)
        self._home.timeline.settle()

    def rest(self) -> None:
        """Wait until all that is parked is on disk, and the shelf holds no more than its budget."""
        self._wait_written(0)
        _wait_spilled(self._home.timeline)

    def _wait_written(self, most: int) -> None:
        while len(self._writing) > most:
            assert self._writing.popleft().result(SPILL_WAIT_S), "the disk took it"

    def call_back(self, branch: Branch) -> tuple[bool, float, float]:
        """Stand on a parked branch again and step: (is it the state that was parked, ms until there, ms to step)."""
        home = self._home
        began_s = time.perf_counter()
        head = home.timeline.head_of(branch)
        session = Session(home._setting, home.timeline, branch, "exact")  # noqa: SLF001 - as above
        back_ms = (time.perf_counter() - began_s) * 1e3
        is_exact = _mark(self._filled.model, head.state) == self.marks[branch]
        step_ms = self.step(session)
        session.end()
        return is_exact, back_ms, step_ms


def _wait_spilled(timeline: Timeline) -> None:
    """Let the journal bring what is over the budget to disk."""
    until_s = time.monotonic() + SPILL_WAIT_S
    while timeline.shelf.used_bytes > timeline.shelf.budget_bytes and time.monotonic() < until_s:
        timeline.settle()
        time.sleep(0.01)


def _mark(model: WorldModel, state: ModelState) -> bytes:
    """A hash of everything in a state."""
    saved: SavedState = model.dump(state)
    digest = xxhash.xxh3_128(repr(sorted(saved.facts.items())).encode())
    for name in sorted(saved.tensors):
        digest.update(saved.tensors[name].contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.digest()


def _tensor_bytes(model: WorldModel, branches: Iterable[Branch]) -> int:
    """Bytes of all tensors of the heads that are in RAM; one that several share counts once."""
    heads = [branch.head for branch in branches if branch.head is not None]
    tensors = [tensor for head in heads for tensor in model.dump(head.state).tensors.values()]
    return sum({tensor.data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


def _device_bytes(filled: FilledEngine) -> int:
    return next(usage.used_bytes for usage in filled.pager.usage() if usage.tier is Tier.GPU)


def _device_budget(filled: FilledEngine) -> int:
    return next(usage.budget_bytes for usage in filled.pager.usage() if usage.tier is Tier.GPU)
