"""One walk on a trace against the real pager: recall, decode, a compute window, commit. The engine's part of a chunk.

`Walk.run` belongs to one thread. Policies: *live* never waits; *wait* waits for what was prefetched; *on-demand* loads
at the chunk's edge and waits; *recompute* waits `recompute_s` for each block that is not on the GPU.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.pager_foresee import KNOWN_SHARES, Foreseer
from bench.pager_measure import cached_bytes, rss_bytes
from bench.pager_player import Player
from models.base import Array, FreshBlock
from server.pager.blocks import BlockKey
from server.pager.decide.place import Plan
from server.pager.decide.relevance import Trail
from server.pager.lease import Lease
from server.pager.pager import Pager
from server.pager.recall_buffer import RecallBuffer
from server.pager.tally import STALL_MS
from server.trace import pose_rows
from shared.tiers import Tier

WORLD = "bench"
COUNTER = "counter"  # a head that only counts: it is there from the start, and never leaves
POLICIES = ("live", "wait", "on-demand", "recompute")
PREFETCHING = ("live", "wait")
REST_S, REST_STEP_S = 30.0, 0.001
STILL = 3  # times in a row that nothing was seen to move: between a read and a raise nothing does for an instant
SAMPLES = 200  # of memory and page cache over a run


@dataclass(frozen=True, slots=True)
class Terms:
    """How a walk is walked, in real time and real bytes."""

    policy: str
    chunk_s: float
    recompute_s: float = 0.0
    from_nvme: bool = False
    is_patient: bool = False  # a chunk goes on until nothing moves


@dataclass(slots=True)
class Record:
    """What happened, chunk by chunk."""

    waits_ms: list[float] = field(default_factory=list[float])
    chunks_ms: list[float] = field(default_factory=list[float])
    decode_ms: list[float] = field(default_factory=list[float])
    rss: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    cached: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    hits: list[int] = field(default_factory=lambda: [0, 0, 0])
    first_drop: dict[Tier, int] = field(default_factory=dict[Tier, int])  # the chunk at which a tier was full
    wanted: int = 0
    new: int = 0  # wanted, and not by the chunk before
    new_in_time: int = 0
    fetched: int = 0  # new, and not on the GPU when it was first foreseen
    fetched_in_time: int = 0
    longest_return: int = 0  # chunks between a block that came from NVME and the chunk that recalled it
    stalls: int = 0
    preempted: int = 0
    stale: int = 0


class Walk:
    """A head that walks a trace. `alive` marks the blocks that are left and were not lost or forgotten."""

    def __init__(
        self,
        pager: Pager,
        buffer: RecallBuffer,
        foreseer: Foreseer,
        terms: Terms,
        fresh: Callable[[int], FreshBlock],
        alive: Array,
        folder: Path,
    ) -> None:
        self._pager = pager
        self._buffer = buffer
        self._foreseer = foreseer
        self._terms = terms
        self._fresh = fresh
        self._alive = alive
        self._folder = folder
        self._before: set[BlockKey] = set()
        self._leaving: dict[BlockKey, None] = {}  # spilled, and not seen down at NVME since; any thread
        self._poses = pose_rows(foreseer.chunks)[:, 0]  # [B, 5]
        self._ids = np.flatnonzero([chunk.leaves_block for chunk in foreseer.chunks])
        self.record = Record()
        pager.stats(COUNTER)
        pager.foresee(COUNTER, lambda: [(-1e9, [BlockKey(WORLD, 0)])])  # so that it hears of this world's moves

    def run(self) -> Record:
        self._player = Player(self._foresee, KNOWN_SHARES[1:], self._terms.chunk_s)
        try:
            with _garbage_by_hand():
                return self._walk()
        finally:
            self._player.close()

    def _walk(self) -> Record:
        chunks = self._foreseer.chunks
        every = max(1, len(chunks) // SAMPLES)
        for index in range(len(chunks)):
            begin_s = time.perf_counter()
            self._chunk(index)
            self._bury(index)
            if chunks[index].leaves_block:
                self._commit(BlockKey(WORLD, index))
            self.record.chunks_ms.append((time.perf_counter() - begin_s) * 1e3)
            if index % every == 0:
                self.record.rss.append((index, rss_bytes()))
                self.record.cached.append((index, cached_bytes(self._folder)))
        self._take_totals()
        return self.record

    def _commit(self, key: BlockKey) -> None:
        self._pager.commit(key, self._fresh(key.block))
        if self._terms.from_nvme:
            self._pager.spill([key])
            self._leaving[key] = None

    def _chunk(self, index: int) -> None:
        """Recall what the chunk wants, then compute for as long as a chunk takes, and plan meanwhile."""
        wanted = self._foreseer.rule.wanted(self._foreseer.chunks[index].pose, index)
        keys = tuple(BlockKey(WORLD, block) for block in wanted)
        here = [Tier.GPU in tiers for tiers in self._pager.tiers_of(keys)]
        lease, wait_ms = self._recall(keys, here)
        begin_s = time.monotonic()
        self._note(index, keys, here, lease, wait_ms)
        self._look_ahead(index, begin_s)
        self._buffer.fill(lease)
        self.record.decode_ms.append((time.monotonic() - begin_s) * 1e3)
        gc.collect()
        if self._terms.from_nvme:
            lease.release()
            self._spill(index, begin_s, keys)
        _sleep_until(begin_s + self._terms.chunk_s)
        if self._terms.is_patient:
            self._rest(index, begin_s)
        lease.release()
        for key in lease.missing:
            self._alive[key.block] = False

    def _recall(self, keys: Sequence[BlockKey], here: Sequence[bool]) -> tuple[Lease, float]:
        """A lease by the policy, and how long the chunk waited for it. What is here is taken without asking."""
        policy = self._terms.policy
        begin_s = time.perf_counter()
        if policy == "recompute" and not all(here):
            self._pager.foresee(WORLD, lambda: [(time.monotonic(), keys)])  # the bytes that recomputing would give
            time.sleep(self._terms.recompute_s * (len(here) - sum(here)))
        if policy == "live" or all(here):
            lease = self._pager.recall(WORLD, keys)
            if policy == "live" or not lease.stale:
                return lease, lease.wait_ms
            lease.release()  # it left the GPU in this instant
        lease = self._pager.recall_exact(WORLD, keys)
        return lease, (time.perf_counter() - begin_s) * 1e3

    def _look_ahead(self, index: int, begin_s: float) -> None:
        """Plan before anything is decoded, as a session does, and anew as the player's input comes in."""
        if self._terms.policy in PREFETCHING:
            self._foresee(index, 0.0, begin_s, self._trail(index))  # a trail a chunk, as a session gives it
            self._player.begin(index, begin_s)

    def _foresee(self, index: int, share: float, begin_s: float, trail: Trail | None = None) -> None:
        self._pager.foresee(WORLD, lambda: self._plan(index, share, begin_s), trail)

    def _spill(self, index: int, begin_s: float, keys: Sequence[BlockKey]) -> None:
        """Have the chunk's blocks leave GPU and DRAM; once they have, what is wanted next is planned again."""
        self._leaving.update(dict.fromkeys(keys))
        self._pager.spill(keys)
        self._before = set()
        if self._terms.policy in PREFETCHING:
            until_s = begin_s + (REST_S if self._terms.is_patient else self._terms.chunk_s)
            while self._above_nvme().intersection(keys) and time.monotonic() < until_s:
                time.sleep(REST_STEP_S)
            past = (time.monotonic() - begin_s) / self._terms.chunk_s
            self._foresee(index, max(share for share in KNOWN_SHARES if share <= past), begin_s)

    def _rest(self, index: int, begin_s: float) -> None:
        """Until every block that was committed is durable, and every fetch of a last plan after that has ended."""
        until_s = time.monotonic() + REST_S
        self._player.finish()
        self._pager.flush(REST_S)
        if self._terms.policy in PREFETCHING:
            self._foresee(index, KNOWN_SHARES[-1], begin_s)
        num_still = 0
        while num_still < STILL and time.monotonic() < until_s:
            self._pager.flush(REST_S)  # by its answer the fetches of that plan are under way
            num_still = 0 if self._pager.stats(WORLD).queued_moves else num_still + 1
            time.sleep(REST_STEP_S)

    def _plan(self, index: int, share: float, begin_s: float) -> Plan:
        """Pager thread. What has to come from NVME is planned only once it is nowhere else."""
        plan = self._foreseer.plan(index, share, begin_s, self._terms.chunk_s)
        above = self._above_nvme()
        return [(due_s, [key for key in keys if key not in above]) for due_s, keys in plan]

    def _above_nvme(self) -> set[BlockKey]:
        """What was spilled and has not come down yet. Any thread."""
        for key in list(self._leaving):
            if self._pager.tiers_of([key])[0] == {Tier.NVME}:
                self._leaving.pop(key, None)  # from now on it may be read again
        return set(self._leaving)

    def _trail(self, index: int) -> Trail:
        """Where the head has been when it draws chunk `index`: what the pager forgets by."""
        ids = self._ids[: np.searchsorted(self._ids, index)]
        return Trail(WORLD, ids, self._poses[ids], self._poses[index], self._terms.chunk_s, self._alive[ids])

    def _note(self, index: int, keys: tuple[BlockKey, ...], here: Sequence[bool], lease: Lease, wait_ms: float) -> None:
        record = self.record
        record.waits_ms.append(wait_ms)
        record.stale += lease.stale and not lease.missing
        tiers = dict(zip(lease.keys, lease.hit_tiers, strict=True))
        returns = [index - key.block for key, tier in tiers.items() if tier is Tier.NVME]
        record.longest_return = max(record.longest_return, *returns, 0)
        record.wanted += len(keys)
        for key, is_here in zip(keys, here, strict=True):
            if key in self._before:
                continue
            record.new += 1
            record.new_in_time += is_here
            if not is_here or tiers.get(key) is not Tier.GPU:
                record.fetched += 1
                record.fetched_in_time += is_here
        self._before = set(keys)

    def _bury(self, index: int) -> None:
        """Follow what left which tier since the last commit; a block that left its last one is wanted no more.

        What left the GPU made room for this chunk's recall, what left a lower tier for the block before.
        """
        for note in self._pager.take_moves(COUNTER):
            if note.to_tier is None and note.from_tier is not None:
                self.record.first_drop.setdefault(note.from_tier, index - (note.from_tier is not Tier.GPU))
                if not self._pager.tiers_of([note.key])[0]:
                    self._alive[note.key.block] = False

    def _take_totals(self) -> None:
        stats, record = self._pager.stats(WORLD), self.record
        record.hits = list(stats.hits)
        record.stalls, record.preempted = stats.stalls, stats.preempted
        if self._terms.policy == "recompute":  # the pager did not see these waits
            record.stalls, record.preempted = sum(wait_ms > STALL_MS for wait_ms in record.waits_ms), 0


@contextmanager
def _garbage_by_hand() -> Iterator[None]:
    """As in the engine: garbage is collected while a chunk is computed, never in the middle of a recall."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _sleep_until(until_s: float) -> None:
    time.sleep(max(0.0, until_s - time.monotonic()))
