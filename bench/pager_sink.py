"""A pager whose blocks can be made to leave GPU and DRAM: `--recall-from nvme`. Only this bench file looks inside."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from server.pager.blocks import BlockKey
from server.pager.decide.place import Plan
from server.pager.inbox import Foresee
from server.pager.pager import Pager
from shared.tiers import Tier

SINKER = "sinker"  # a head that wants nothing


class SinkingPager(Pager):
    """`sink` runs on the pager thread, where copies may be dropped, before any plan that is foreseen after it."""

    def __init__(self, *args: Any, piece_bytes: int, **kwargs: Any) -> None:
        self._to_sink: deque[BlockKey] = deque()
        super().__init__(*args, **kwargs)
        self._opener = replace(self._opener, piece_bytes=piece_bytes)

    def sink(self, head: str, keys: Iterable[BlockKey]) -> None:
        """Drop the GPU and DRAM copies of blocks that NVME holds; `head` wants none of them until it says so again.

        Their leases must have been released. Engine thread.
        """
        self._to_sink.extend(keys)
        self._recaller.record(head).counted.difference_update(self._to_sink)  # the next use is a hit of its own

        def work_out() -> Plan:
            sunk = frozenset(self._to_sink.popleft() for _ in range(len(self._to_sink)))
            for key in sunk:
                self._drop_copies(key)
            self._unwant(head, sunk)
            return ()

        self._put(Foresee(SINKER, work_out))

    def _drop_copies(self, key: BlockKey) -> None:
        block = self._table.blocks.get(key)
        if block is None or not block.is_alive or not block.has(Tier.NVME):
            return
        for tier in (Tier.GPU, Tier.DRAM):
            if block.can_drop(tier):
                self._keeper._traffic.drop(block, tier)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    def _unwant(self, head: str, sunk: frozenset[BlockKey]) -> None:
        heads = self._keeper._heads  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if head in heads:
            old = heads[head]
            asked = tuple(key for key in old.asked if key not in sunk)
            hits = {key: tier for key, tier in old.hits.items() if key not in sunk}
            plan = [(due_s, [key for key in keys if key not in sunk]) for due_s, keys in old.plan]
            heads[head] = replace(old, asked=asked, hits=hits, plan=plan)
