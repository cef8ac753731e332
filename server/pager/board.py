"""What the pager thread shows to everybody else: the ready set and the snapshot. Each is replaced whole, never changed.

Written by the pager thread; read by any thread without a lock.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import chain

from server.pager.blocks import BlockKey
from server.pager.heads import HeadWants
from server.pager.lease import ReadySet
from server.pager.snapshot import Snapshot, usage_of
from server.pager.table import Table
from server.pager.traffic import Traffic

LOG = logging.getLogger(__name__)


def _nobody() -> None:
    """Nobody wants to be told."""


class Board:
    """The newest ready set and snapshot. `published` is set, and `on_published` called, after each new ready set."""

    def __init__(self, table: Table, traffic: Traffic, slot_bytes: int) -> None:
        self.ready = ReadySet()
        self.snapshot = Snapshot()
        self.published = threading.Event()
        self.on_published: Callable[[], None] = _nobody  # pager thread: it must be short and wait for nothing
        self._table = table
        self._traffic = traffic
        self._slot_bytes = slot_bytes

    def publish(self, heads: Mapping[str, HeadWants], seen: int, waiting: Collection[BlockKey]) -> None:
        """Replace the ready set when something that it says has changed."""
        wanted = {key for head in heads.values() for key in head.keys}
        gone = frozenset(key for key in wanted if self._is_gone(key))
        hits = {name: head.hits for name, head in heads.items()}
        old = self.ready
        if self._traffic.is_changed or gone != old.gone or hits != old.hits or seen != old.seen:
            self._traffic.is_changed = False
            self.sum_up(waiting)  # who sees a block gone must find it counted
            self.ready = ReadySet(dict(self._traffic.leased), hits, gone, seen)
            self.published.set()
            self._tell()

    def sum_up(self, waiting: Collection[BlockKey]) -> None:
        """Replace the snapshot. `waiting` are the committed blocks that the codec does not have yet."""
        shelves = self._table.worlds
        self.snapshot = Snapshot(
            usage_of(self._table, self._slot_bytes),
            {world: shelf.counters.copy() for world, shelf in shelves.items()},
            Counter(key.world for key in chain(waiting, (key for key, _ in self._traffic.moves))),
            {world: tuple(shelf.notes) for world, shelf in shelves.items()},
            tuple(self._traffic.notes),
        )

    def _tell(self) -> None:
        try:
            self.on_published()
        except Exception:  # somebody else's code: its fault must not leave a decision half carried out
            LOG.exception("pager fault in=on_published")

    def _is_gone(self, key: BlockKey) -> bool:
        block = self._table.blocks.get(key)
        return block is None or not block.is_alive or (block.is_unreadable and not block.offered)
