"""Who waits for the pager thread: for blocks to become durable, or for a world to be let go. Pager thread only."""

from server.pager.blocks import BlockKey
from server.pager.inbox import Closing, Flush
from server.pager.table import Table


class Waiters:
    """Callers and what each still waits for. Everyone is answered once, in the turn in which it is true."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._flushes: list[tuple[Flush, set[BlockKey]]] = []  # each with the blocks that it still waits for
        self._closings: list[Closing] = []

    def wait_durable(self, flush: Flush, pending: set[BlockKey]) -> None:
        """Wait for those of `pending` that belong to the flush's world; later commits are not waited for."""
        self._flushes.append((flush, {key for key in pending if flush.world in (None, key.world)}))

    def wait_closed(self, closing: Closing) -> None:
        self._closings.append(closing)

    def answer(self, pending: set[BlockKey]) -> None:
        """Answer those whose wait is over. `pending` are the blocks on their way to becoming durable."""
        flushes, self._flushes = self._flushes, []
        for flush, left in flushes:
            if still := left & pending:
                self._flushes.append((flush, still))
            else:
                shelves = [shelf for world, shelf in self._table.worlds.items() if flush.world in (None, world)]
                flush.answer.give(is_good=not any(shelf.stuck for shelf in shelves))
        closings, self._closings = self._closings, []
        for closing in closings:
            if any(self._table.of_world(closing.world)):
                self._closings.append(closing)
            else:
                del self._table.worlds[closing.world]
                closing.answer.give(is_good=True)
