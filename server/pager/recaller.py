"""Recalls: the engine thread's side of the pager. It reads what is published, and never touches a block's bytes.

`recall` and `is_complete` take no lock and wait for nothing. `recall_exact` waits on the pager thread's publications.
"""

import math
import resource
import time
from collections.abc import Callable
from itertools import count

from server.pager.blocks import BlockKey
from server.pager.counters import total
from server.pager.heads import Asking, HeadRecord
from server.pager.inbox import Ask, Released
from server.pager.keeper import Keeper
from server.pager.lease import Fence, Lease, Pins, ReadySet
from server.pager.table import MAX_NOTES
from server.pager.tally import STALL_MS, Entry
from shared.tiers import PagerStats

ASK_AGAIN_S = 1.0  # how often a waiting recall reminds the pager thread, so that its wish does not age


def world_of(head: str) -> str:
    """The world of a head: one world has a head of its own name, and others that are called WORLD/ANYTHING."""
    return head.partition("/")[0]


def no_fence() -> None:
    """On a CPU, what was decoded is decoded."""


class Recaller:
    """Gives leases to one engine thread and keeps each head's record. A lease is named in `pins` before it is used."""

    def __init__(self, keeper: Keeper, pins: Pins, fence: Callable[[], Fence | None] = no_fence) -> None:
        self._board = keeper.board
        self._put = keeper.inbox.put
        self._put_quietly = keeper.inbox.put_quietly
        self._pins = pins
        self._fence = fence  # made when a lease is given back
        self._records: dict[str, HeadRecord] = {}
        self._serials = count(1)

    def record(self, head: str) -> HeadRecord:
        """The head's record, made when it is first heard of. Any thread."""
        found = self._records.get(head)
        return found or self._records.setdefault(
            head, HeadRecord(self._board.snapshot.counters, {world_of(head)}, head)
        )

    def records(self) -> list[HeadRecord]:
        return list(self._records.values())

    def jump(self, head: str, recalled: tuple[BlockKey, ...]) -> None:
        """Forget what it was drawn with on the line that it left."""
        record = self.record(head)
        record.remembered.clear()
        record.recalled = recalled
        record.asking = None

    def leave(self, head: str) -> None:
        self._records.pop(head, None)

    def recall(self, head: str, wanted: tuple[BlockKey, ...]) -> Lease:
        meter = _Meter(can_wait=False)
        record = self.record(head)
        with self._pins:
            ready = self._board.ready
            lease = self._lease(record, wanted, record.choose(wanted, ready), ready)
        return self._entered(record, wanted, lease, ready, meter)

    def recall_exact(self, head: str, wanted: tuple[BlockKey, ...], timeout_s: float | None) -> Lease:
        meter, record = _Meter(can_wait=True), self.record(head)
        until_s = math.inf if timeout_s is None else meter.begin_s + timeout_s
        while True:
            self._board.published.clear()
            left_s = until_s - time.perf_counter()
            with self._pins:
                ready = self._board.ready
                is_here = all(key in ready.blocks for key in wanted)  # then nobody need be asked
                if is_here or left_s <= 0.0 or self._is_ready(self.record(head).asking, wanted, ready):
                    lease = self._lease(record, wanted, wanted, ready)
                    break
            self._ask(head, wanted, is_blocking=True)
            self._board.published.wait(min(left_s, ASK_AGAIN_S))
        return self._entered(record, wanted, lease, ready, meter)

    def is_complete(self, head: str, wanted: tuple[BlockKey, ...]) -> bool:
        """Ask for `wanted` as an exact recall does, without waiting. Any thread."""
        self._ask(head, wanted, is_blocking=False)
        return self._is_ready(self.record(head).asking, wanted, self._board.ready)

    def _ask(self, head: str, wanted: tuple[BlockKey, ...], *, is_blocking: bool) -> None:
        """Let the pager thread know that an exact recall waits, unless it has heard so of late."""
        record, now_s = self.record(head), time.perf_counter()
        old, serial = record.asking, 0
        if old is not None and (old.wanted, old.is_blocking) == (wanted, is_blocking):
            if now_s - old.asked_s < ASK_AGAIN_S:
                return
            serial = old.serial
        asking = Asking(wanted, serial or next(self._serials), now_s, is_blocking)
        record.asking = asking
        self._put(Ask(head, wanted, None, asking.serial, is_blocking))

    @staticmethod
    def _is_ready(asking: Asking | None, wanted: tuple[BlockKey, ...], ready: ReadySet) -> bool:
        """Whether the pager thread has taken this ask into account, and all of it that can come is here."""
        return asking is not None and asking.wanted == wanted and ready.seen >= asking.serial and ready.complete(wanted)

    def _lease(
        self, record: HeadRecord, wanted: tuple[BlockKey, ...], keys: tuple[BlockKey, ...], ready: ReadySet
    ) -> Lease:
        found = [ready.blocks.get(key) for key in keys]
        blocks = tuple([block for block in found if block is not None])
        here, missing = keys, ()
        if len(blocks) < len(keys):
            here = tuple([block.key for block in blocks])
            missing = tuple([key for key in keys if key not in ready.blocks])
        lease = Lease(here, blocks, self._release, record.tally.settle, stale=here != wanted, missing=missing)
        self._pins.add(lease)
        return lease

    def _entered(
        self, record: HeadRecord, wanted: tuple[BlockKey, ...], lease: Lease, ready: ReadySet, meter: "_Meter"
    ) -> Lease:
        """The lease, with the pager thread told of it, and woken if there is something to fetch or somebody waited.

        Counting is left to that thread.
        """
        lease.wait_ms = meter.elapsed_ms()
        was_descheduled = lease.wait_ms > STALL_MS and meter.was_descheduled()  # of the wait alone, without the waking
        record.asking = None
        record.wanted, record.recalled, record.is_stale = wanted, lease.keys, lease.stale
        record.tally.enter(Entry(wanted, lease, ready, was_descheduled))
        put = self._put if lease.stale or meter.can_wait else self._put_quietly
        put(Ask(record.name, wanted, lease.keys, next(self._serials), tally=record.tally))
        return lease

    def _release(self, lease: Lease) -> None:
        self._pins.remove(lease, self._fence())
        self._put(Released())

    def stats(self, head: str, *, is_direct: bool) -> PagerStats:
        """What the HUD shows. Any thread; totals since the head appeared, of its own worlds."""
        record, snapshot = self.record(head), self._board.snapshot
        tally = record.tally
        tally.settle()
        worlds = sorted(snapshot.counters.keys() & frozenset(record.worlds))
        sums = total(snapshot.counters[world].since(record.base.get(world)) for world in worlds)
        notes = [*snapshot.common_notes, *(words for world in worlds for words in snapshot.notes[world])]
        return PagerStats(
            tiers=snapshot.usage,
            wanted=tuple(key.block for key in record.wanted),
            recalled=tuple(key.block for key in record.recalled),
            recalled_tiers=tally.last_tiers,
            stale=record.is_stale,
            hits=(tally.hits[0], tally.hits[1], tally.hits[2]),
            chunks=tally.chunks,
            stale_chunks=tally.stale_chunks,
            lost=sums.lost,
            forgotten=sums.forgotten,
            missed=sums.missed + tally.late,
            fetched_bytes=sums.fetched_bytes,
            spilled_bytes=sums.spilled_bytes,
            disk_read_bytes=sums.disk_read_bytes,
            disk_written_bytes=sums.disk_written_bytes,
            queued_moves=sum(snapshot.queued_moves.get(world, 0) for world in worlds),
            stalls=tally.stalls,
            preempted=tally.preempted,
            longest_wait_ms=tally.longest_wait_ms,
            direct_io=is_direct,
            notes=tuple(notes[-MAX_NOTES:]),
        )


class _Meter:
    """How long a call took, and whether its thread was only descheduled meanwhile.

    A live recall waits for nothing, so whatever it did not spend on a core it spent descheduled: by the kernel, or by
    the interpreter while another thread had its turn. An exact recall waits on purpose; only the kernel's word counts.
    """

    def __init__(self, *, can_wait: bool) -> None:
        self.can_wait = can_wait
        self._switches = _switches() if can_wait else 0
        self._on_core_s = time.thread_time()  # exact; the usage's own times move in ticks of milliseconds
        self.begin_s = time.perf_counter()

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.begin_s) * 1e3

    def was_descheduled(self) -> bool:
        if self.can_wait:
            return _switches() > self._switches
        return (time.thread_time() - self._on_core_s) * 1e3 <= STALL_MS


def _switches() -> int:
    """How often this thread was taken off its core against its will."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
