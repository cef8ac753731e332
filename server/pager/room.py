"""Making room: which copies leave a tier for others, and which blocks are forgotten for it. Pager thread only.

The choice itself is `decide/evict.py`'s, through the view; here it is carried out.
"""

from collections.abc import Iterable

from server.pager.blocks import Block, BlockKey, Life
from server.pager.moves import Route
from server.pager.table import Table
from server.pager.traffic import Traffic
from server.pager.view import TableView
from shared.tiers import Tier

MAX_WAITING = 3  # committed blocks that may wait for a DRAM slot before another is lost for one


class Room:
    """Gives copies up. It never waits: what cannot leave now is asked again in the next turn."""

    def __init__(self, table: Table, traffic: Traffic, view: TableView) -> None:
        self._table = table
        self._traffic = traffic
        self._view = view
        self._spilling: dict[BlockKey, None] = {}

    def make_in_dram(self, first: Block, num_waiting: int, now_s: float) -> bool:
        """Give up a DRAM copy for the block that waits first; when none may go and too many wait, that block itself."""
        victim = self._view.victim(Tier.DRAM, now_s)
        is_late = num_waiting > MAX_WAITING
        if victim is None and is_late:
            victim = self._view.unsafe_victim(now_s)  # the disk is too slow: the least of them is lost
        if victim is not None:
            self._traffic.drop(self._table.blocks[victim.key], Tier.DRAM)
        elif is_late:
            self._traffic.end_life(first, Life.LOST)
        return victim is not None or is_late

    def make_in_nvme(self, newcomer: Block, now_s: float) -> None:
        """The world's NVME is full: its least worthy copy goes, if none is going already.

        When that is the newcomer, it is never written, which spares the drive: it stays while memory has room for it.
        """
        world = newcomer.key.world
        if any(route is Route.ERASE and key.world == world for key, route in self._traffic.moves):
            return
        victim = self._view.victim_of_nvme(newcomer, now_s)
        if victim is None:
            return
        block = self._table.blocks[victim.key]
        block.is_unkept = True
        if block is newcomer:
            del self._table.worlds[world].unsaved[block.key]
        else:
            self._traffic.drop(block, Tier.NVME)

    def spill(self, keys: Iterable[BlockKey]) -> None:
        """From now on these have no need of GPU and DRAM, unless somebody wants them."""
        self._spilling.update(dict.fromkeys(keys))

    def give_up_spilled(self) -> None:
        """Drop the copies above NVME of what is to spill and has come down."""
        for key in list(self._spilling):
            block = self._table.blocks.get(key)
            if block is None or not block.is_alive or key in self._view.wants:
                del self._spilling[key]
            elif block.has(Tier.NVME):
                for tier in (Tier.GPU, Tier.DRAM):
                    if block.can_drop(tier):
                        self._traffic.drop(block, tier)
                if block.tiers == frozenset({Tier.NVME}):
                    del self._spilling[key]
