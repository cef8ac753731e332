"""What a head's recalls came to, in totals.

A recall only enters itself here. It is counted by whoever has time: the pager thread, or whoever looks at the totals.
"""

import threading
from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from server.pager.blocks import BlockKey
from server.pager.lease import Lease, ReadySet
from shared.tiers import Tier

STALL_MS = 0.5
NO_HITS: Mapping[BlockKey, Tier] = MappingProxyType({})


class Entry(NamedTuple):
    """One recall that is not counted yet."""

    wanted: tuple[BlockKey, ...]
    lease: Lease
    ready: ReadySet  # from which it was taken
    was_descheduled: bool


class Tally:
    """Totals of one head since it appeared; whoever reads them calls `settle` before.

    `enter` takes no lock and belongs to the engine thread; the rest may be called from any thread.
    """

    def __init__(self, head: str, worlds: set[str]) -> None:
        """`worlds` of what the head wanted; those of each recall come in."""
        self.hits = [0, 0, 0]  # by hit tier
        self.chunks = self.stale_chunks = 0
        self.late = 0  # blocks that were wanted and not there
        self.stalls = self.preempted = 0
        self.longest_wait_ms = 0.0
        self.last_tiers: tuple[Tier, ...] = ()  # hit tier of each block of the last recall
        self._head = head
        self._worlds = worlds
        self._tiers: dict[BlockKey, Tier] = {}  # of the same
        self._counted: set[BlockKey] = set()  # still wanted, and in `hits` already
        self._entered: deque[Entry] = deque()
        self._lock = threading.Lock()

    def enter(self, entry: Entry) -> None:
        self._entered.append(entry)

    def settle(self) -> None:
        """Count what was entered."""
        with self._lock:
            while self._entered:
                self._count(self._entered.popleft())

    def count_anew(self, keys: AbstractSet[BlockKey]) -> None:
        """The next use of each of these is a hit of its own."""
        self.settle()
        with self._lock:
            self._counted -= keys

    def _count(self, entry: Entry) -> None:
        wanted, lease, ready, was_descheduled = entry
        foreseen, before = ready.hits.get(self._head, NO_HITS), self._tiers
        # a block that nobody foresaw and that is here was on the GPU when it was asked for
        self._tiers = {key: foreseen.get(key, before.get(key, Tier.GPU)) for key in lease.keys}
        self._counted = {key for key in self._counted if key in self._tiers or key in wanted or key in foreseen}
        for key in self._tiers.keys() - self._counted:
            self.hits[self._tiers[key]] += 1
        self._counted |= self._tiers.keys()
        self.last_tiers = tuple(self._tiers[key] for key in lease.keys)
        lease.count(self.last_tiers)
        self._worlds.update(key.world for key in wanted)
        self.late += sum(key not in ready.blocks for key in wanted)
        self._count_wait(lease, was_descheduled=was_descheduled)

    def _count_wait(self, lease: Lease, *, was_descheduled: bool) -> None:
        self.chunks += 1
        self.stale_chunks += lease.stale
        self.longest_wait_ms = max(self.longest_wait_ms, lease.wait_ms)
        if lease.wait_ms > STALL_MS:
            self.preempted += was_descheduled
            self.stalls += not was_descheduled
