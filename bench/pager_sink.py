"""A pager whose blocks can be made to leave GPU and DRAM: `--recall-from nvme`. The one bench file that looks inside."""

from collections.abc import Iterable

from server.pager.blocks import BlockKey
from server.pager.decide.place import Plan
from server.pager.inbox import Foresee
from server.pager.pager import Pager
from shared.tiers import Tier

SINKER = "sinker"  # a head that wants nothing


class SinkingPager(Pager):
    """`sink` runs on the pager thread, where copies may be dropped, before any plan that is foreseen after it."""

    def sink(self, keys: Iterable[BlockKey]) -> None:
        """Drop the GPU and DRAM copies of blocks that NVME holds. Their leases must have been released."""
        wanted = tuple(keys)

        def work_out() -> Plan:
            for key in wanted:
                self._drop_copies(key)
            return ()

        self._put(Foresee(SINKER, work_out))

    def _drop_copies(self, key: BlockKey) -> None:
        block = self._table.blocks.get(key)
        if block is None or not block.is_alive or not block.has(Tier.NVME):
            return
        for tier in (Tier.GPU, Tier.DRAM):
            if block.can_drop(tier):
                self._keeper._traffic.drop(block, tier)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
