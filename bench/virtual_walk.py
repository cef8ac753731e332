"""The pager's own decisions on a walk in virtual time: no bytes, no threads, and a drive that reads as fast as told.

What takes seconds per chunk in `bench pager` takes a millisecond here, and comes out the same on every machine. The
keeper is the product's; only its movers and its clock are replaced.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch

from bench.pager_foresee import KNOWN_SHARES, Foreseer
from models.base import Array, FreshBlock
from server.pager.blocks import Block, BlockKey
from server.pager.decide.place import Plan
from server.pager.decide.relevance import Trail
from server.pager.inbox import Answer, Ask, Commit, Foresee, Opened, Spill
from server.pager.keeper import Keeper
from server.pager.lease import LeasedBlock, Pins
from server.pager.moves import Move, MoveDone, Route
from server.pager.recaller import Recaller
from server.pager.table import Table
from server.pager.traffic import Traffic
from server.trace import pose_rows
from shared.tiers import Tier

WORLD = "virtual"
NOTHING = torch.zeros(0, dtype=torch.uint8)
FRESH = FreshBlock(NOTHING, {}, np.zeros(0), ())
NUM_READERS = 2
REST_S = 0.001  # how soon a read that rests goes on or ends


@dataclass(frozen=True, slots=True)
class Machine:
    """What a walk runs on. Slots are blocks; seconds are those of one block."""

    gpu_slots: int
    dram_slots: int
    nvme_slots: int
    read_bytes_per_s: float
    block_bytes: int
    piece_bytes: int  # after which a read can be cancelled
    move_s: Mapping[Route, float] = field(
        default_factory=lambda: {Route.ENCODE: 0.2, Route.RAISE: 0.02, Route.WRITE: 0.1, Route.ERASE: 0.002}
    )


@dataclass(slots=True)
class Tally:
    """What came of a walk."""

    waits_s: list[float] = field(default_factory=list[float])
    new: int = 0  # wanted, and not by the chunk before
    hits: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(Tier, 0))  # where each new one was found
    reads: int = 0
    writes: int = 0
    in_time: int = 0  # new ones that were on the GPU when their chunk began


class VirtualMovers:
    """One codec, one copier, one writer, two readers who share a bandwidth piece by piece."""

    def __init__(self, machine: Machine, clock: "Clock", give: Callable[[MoveDone], None]) -> None:
        self._machine = machine
        self._clock = clock
        self._give = give
        self._queues: dict[Route, list[Move]] = {route: [] for route in Route}
        self._idle = {route: NUM_READERS if route is Route.READ else 1 for route in Route}
        self._given_until_s = 0.0
        self.counts = dict.fromkeys(Route, 0)

    def submit(self, move: Move) -> None:
        self._queues[move.route].append(move)
        self._start(move.route)

    def stop(self) -> None:
        """Nothing runs."""

    def _start(self, route: Route) -> None:
        while self._queues[route] and self._idle[route]:
            self._idle[route] -= 1
            move = self._queues[route].pop(0)
            if route is Route.READ:
                self._read(move, 0)
            else:
                self._clock.after(self._machine.move_s[route], lambda move=move: self._end(move))

    def _read(self, move: Move, done: int) -> None:
        if move.is_cancelled or done >= self._machine.block_bytes:
            self._end(move)
            return
        if move.is_resting(self._clock.now_s):
            self._clock.after(REST_S, lambda: self._read(move, done))
            return
        size = min(self._machine.piece_bytes, self._machine.block_bytes - done)
        begin_s = max(self._given_until_s, self._clock.now_s)
        self._given_until_s = begin_s + size / self._machine.read_bytes_per_s
        self._clock.at(self._given_until_s, lambda: self._read(move, done + size))

    def _end(self, move: Move) -> None:
        self._idle[move.route] += 1
        is_cancelled = move.is_cancelled and move.route is not Route.ERASE
        self.counts[move.route] += not is_cancelled
        self._give(MoveDone(move, is_cancelled=is_cancelled))
        self._start(move.route)


class Clock:
    """Virtual seconds, and what is to happen when."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serials = count()

    def at(self, time_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_s, next(self._serials), happen))

    def after(self, delay_s: float, happen: Callable[[], None]) -> None:
        self.at(self.now_s + delay_s, happen)

    def run_until(self, time_s: float) -> None:
        """Let everything happen that is due by then."""
        while self._events and self._events[0][0] <= time_s:
            self._step()
        self.now_s = max(self.now_s, time_s)

    def run_until_true(self, is_over: Callable[[], bool]) -> None:
        """Let things happen, one by one, until it is so. Raises RuntimeError when it never will be."""
        while not is_over():
            if not self._events:
                raise RuntimeError("nothing will happen any more")
            self._step()

    def _step(self) -> None:
        time_s, _, happen = heapq.heappop(self._events)
        self.now_s = max(self.now_s, time_s)
        happen()


class VirtualWalk:
    """A head that walks a trace, as `bench/pager_walk.py` does, with policy *wait* or *on-demand*."""

    def __init__(
        self,
        machine: Machine,
        foreseer: Foreseer,
        alive: Array,
        chunk_s: float,
        *,
        max_recall: int,
        prefetches: bool = True,
        from_nvme: bool = False,
        eviction: str = "relevance",
    ) -> None:
        self.tally = Tally()
        self._clock = Clock()
        self._foreseer = foreseer
        self._alive = alive
        self._chunk_s = chunk_s
        self._prefetches = prefetches
        self._from_nvme = from_nvme
        self._poses = pose_rows(foreseer.chunks)[:, 0]
        self._movers = VirtualMovers(machine, self._clock, self._say)
        self._table, pins = Table(machine.gpu_slots, machine.dram_slots), Pins()
        traffic = Traffic(self._table, self._movers, pins, _lend, lambda note: self._bury(note.key))
        self._keeper = Keeper(
            self._table, traffic, pins, machine.block_bytes, max_recall, lambda: self._clock.now_s, eviction
        )
        self._recaller = Recaller(self._keeper, pins)
        self._before: set[BlockKey] = set()
        self._unspilled: list[BlockKey] = []
        self._say(Opened(WORLD, machine.nvme_slots, {}, 1, (), Answer()))

    def run(self) -> Tally:
        for index in range(len(self._foreseer.chunks)):
            self._chunk(index)
            self._say(Commit(BlockKey(WORLD, index), FRESH, None))
            if self._from_nvme:
                self._unspilled.append(BlockKey(WORLD, index))
        self.tally.reads = self._movers.counts[Route.READ]
        self.tally.writes = self._movers.counts[Route.WRITE]
        return self.tally

    def _chunk(self, index: int) -> None:
        wanted = self._foreseer.rule.wanted(self._foreseer.chunks[index].pose, index)
        keys = tuple(BlockKey(WORLD, block) for block in wanted)
        self._count(keys)
        begin_s = self._clock.now_s
        if not self._is_here(keys):
            self._say(Ask(WORLD, keys, None, 0))
            self._clock.run_until_true(lambda: self._keeper.board.ready.complete(keys))
        self.tally.waits_s.append(self._clock.now_s - begin_s)
        lease = self._recaller.recall(WORLD, keys)
        self._keeper.turn()
        if self._from_nvme:
            lease.release()
            self._say(Spill(frozenset(keys)))
        self._compute(index)
        lease.release()
        self._keeper.turn()

    def _compute(self, index: int) -> None:
        begin_s = self._clock.now_s
        for share in KNOWN_SHARES:
            self._clock.run_until(begin_s + share * self._chunk_s)
            if self._from_nvme:
                self._spill_durable()
            if self._prefetches:
                self._say(Foresee(WORLD, lambda share=share: self._plan(index, share, begin_s), self._trail(index)))
        self._clock.run_until(begin_s + self._chunk_s)

    def _trail(self, index: int) -> Trail:
        ids = np.arange(index)
        return Trail(WORLD, ids, self._poses[:index], self._poses[index], self._chunk_s, self._alive[:index].copy())

    def _plan(self, index: int, share: float, begin_s: float) -> Plan:
        plan = self._foreseer.plan(index, share, begin_s, self._chunk_s)
        unspilled = set(self._unspilled)
        return [(due_s, [key for key in keys if key not in unspilled]) for due_s, keys in plan]

    def _spill_durable(self) -> None:
        durable = [key for key in self._unspilled if Tier.NVME in self._tiers(key)]
        self._unspilled = [key for key in self._unspilled if key not in durable]
        self._say(Spill(frozenset(durable)))

    def _count(self, keys: Sequence[BlockKey]) -> None:
        tally = self.tally
        for key in set(keys) - (set() if self._from_nvme else self._before):
            tiers = self._tiers(key)
            tally.new += 1
            tally.hits[min(tiers, default=Tier.DRAM)] += 1
            tally.in_time += Tier.GPU in tiers
        self._before = set(keys)

    def _is_here(self, keys: Sequence[BlockKey]) -> bool:
        return all(key in self._keeper.board.ready.blocks for key in keys)

    def _tiers(self, key: BlockKey) -> frozenset[Tier]:
        block = self._table.blocks.get(key)
        return frozenset() if block is None else block.offered

    def _bury(self, key: BlockKey) -> None:
        block = self._table.blocks.get(key)
        if block is None or not block.is_alive:
            self._alive[key.block] = False

    def _say(self, message: object) -> None:
        self._keeper.inbox.put(message)  # pyright: ignore[reportArgumentType]
        self._keeper.turn()


def _lend(block: Block) -> LeasedBlock:
    return LeasedBlock(block.key, block.serial, block.slots[Tier.GPU], NOTHING, {})
