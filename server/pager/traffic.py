"""Starting and ending moves: the one place where a move, a copy's state and a slot change together. Pager thread only.

It does not choose; `keeper` does. Whatever a mover reports becomes a legal change of the table and a count here.
"""

import logging
from collections import deque
from collections.abc import Callable

from server.pager.blocks import Block, BlockKey, Life
from server.pager.inbox import Commit
from server.pager.lease import LeasedBlock, Pins
from server.pager.moves import ENDS, Move, MoveDone, MoveNote, Movers, Route
from server.pager.table import MAX_NOTES, Table
from shared.tiers import Tier

LOG = logging.getLogger(__name__)
MAX_FAULTS = 2  # failed moves of one block before it is given up


class Traffic:
    """The moves under way, by block and route; what is on the GPU; and the faults that concern all worlds."""

    def __init__(
        self,
        table: Table,
        movers: Movers,
        pins: Pins,
        lend: Callable[[Block], LeasedBlock],
        tell: Callable[[MoveNote], None],  # also of every block that is gone: `offered` is empty then
    ) -> None:
        self._table = table
        self._movers = movers
        self._pins = pins
        self._lend = lend
        self._tell = tell
        self.moves: dict[tuple[BlockKey, Route], Move] = {}
        self.leased: dict[BlockKey, LeasedBlock] = {}  # what a ready set offers
        self.retiring: list[Block] = []  # GPU copies whose slots are free when no lease holds them
        self.notes: deque[str] = deque(maxlen=MAX_NOTES)
        self.is_changed = False  # `leased` differs from what was last published

    def note(self, words: str, world: str | None = None) -> None:
        """Say a fault once on the HUD and in the log: of a world to its own heads only, else to all."""
        notes = self.notes if world is None else self._table.worlds[world].notes
        if words not in notes:
            notes.append(words)
            LOG.warning("pager fault=%r world=%s", words, world)

    def under_way(self, route: Route) -> int:
        return sum(move.route is route for move in self.moves.values())

    def encode(self, block: Block, commit: Commit) -> None:
        block.live(Life.ENCODING)
        self._table.begin(block, Tier.DRAM)
        self._submit(block, Route.ENCODE, commit)

    def fetch(self, block: Block, to: Tier) -> None:
        """Bring a copy one tier up."""
        self._table.begin(block, to)
        self._submit(block, Route.RAISE if to is Tier.GPU else Route.READ)

    def write(self, block: Block) -> None:
        self._table.begin(block, Tier.NVME)
        self._submit(block, Route.WRITE)

    def drop(self, block: Block, tier: Tier) -> None:
        """Give up a copy. The last one takes the block with it."""
        self._table.drop(block, tier)
        self._tell(MoveNote(block.key, tier, None))
        if tier is Tier.GPU:
            self.leased.pop(block.key, None)  # a block that died on its way up was never offered
            self.is_changed = True
            self.retiring.append(block)
        elif tier is Tier.NVME:
            self._erase(block)
        if block.is_alive and not block.tiers - {Tier.GPU}:
            self._note_if_pinned(block)
            self.end_life(block, Life.FORGOTTEN if block.is_unkept else Life.LOST)

    def end_life(self, block: Block, life: Life) -> None:
        """The block is lost or forgotten: its moves are cancelled, and each copy leaves when no move reads it."""
        self._table.end_life(block, life)
        shelf = self._table.worlds[block.key.world]
        if life is Life.LOST:
            shelf.counters.lost += 1
        elif not shelf.is_closing:
            shelf.counters.forgotten += 1
        for route in Route:
            if move := self.moves.get((block.key, route)):
                move.is_cancelled = route is not Route.ERASE
        self._tell_gone(block)
        self.settle(block)

    def _note_if_pinned(self, block: Block) -> None:
        """Its last copy leaves although a snapshot keeps it."""
        if block.key.block in self._table.worlds[block.key.world].pinned:
            self.note(
                "a block that a snapshot keeps was forgotten: the NVME budget has no room for all that snapshots keep. "
                "What it showed is drawn without it there. Give more with --nvme, or delete snapshots.",
                block.key.world,
            )

    def _tell_gone(self, block: Block) -> None:
        """Nothing offers the block any more, and nothing will while its world is open."""
        self._tell(MoveNote(block.key, None, None))

    def settle(self, block: Block) -> None:
        """Drop what a dead block still holds and can give up, and remove its entry when nothing is left."""
        if not block.is_alive:
            for tier in Tier:
                if block.can_drop(tier):
                    self.drop(block, tier)
            self._table.remove_if_idle(block)

    def retire(self) -> None:
        """Free the GPU slots that nobody can read any more. Only after a ready set without them was published."""
        still: list[Block] = []
        for block in self.retiring:
            if self._pins.may_reuse(block.slots[Tier.GPU]):
                self._table.free(block, Tier.GPU)
                self._table.remove_if_idle(block)
            else:
                still.append(block)
        self.retiring[:] = still

    def done(self, done: MoveDone) -> None:
        """A move has ended, well or not."""
        move = done.move
        del self.moves[(move.key, move.route)]
        block = self._table.blocks[move.key]
        source, to = ENDS[move.route]
        if to is None:
            self._table.free(block, Tier.NVME, is_slot_bad=done.is_slot_bad)
        else:
            bad = done.is_slot_bad or (move.route is Route.WRITE and done.error is not None)
            self._table.end(block, to, failed=done.has_failed, is_slot_bad=bad)
        if done.error is not None:
            self.note(f"a block of this world: {done.error}", move.key.world)
        if not done.has_failed and to is not None:
            self._count(move, done.num_bytes)
            self._tell(MoveNote(move.key, source, to))
        if block.is_alive:
            self._follow_up(block, done)
        self.settle(block)

    def _follow_up(self, block: Block, done: MoveDone) -> None:
        """What a move's end means for a block that is still wanted by its world."""
        shelf = self._table.worlds[block.key.world]
        failed = done.has_failed
        block.faults += done.error is not None
        match done.move.route:
            case Route.ENCODE if failed:
                self.end_life(block, Life.LOST)
            case Route.ENCODE:
                block.live(Life.KEPT)
                if not block.is_unkept:
                    shelf.unsaved[block.key] = None
            case Route.RAISE if not failed:
                self.leased[block.key] = self._lend(block)
                self.is_changed = True
            case Route.READ if done.error is not None:
                shelf.counters.missed += 1
                if block.faults >= MAX_FAULTS:
                    self._give_up_reading(block, is_damaged=done.is_damaged)
            case Route.WRITE if done.error is not None:
                if block.faults < MAX_FAULTS:
                    shelf.unsaved[block.key] = None
                else:
                    block.is_unkept = True
                    shelf.stuck.add(block.key)
            case _:
                pass

    def _give_up_reading(self, block: Block, *, is_damaged: bool) -> None:
        self.is_changed = True  # what waits for it must learn that it is gone
        if is_damaged:
            self.end_life(block, Life.LOST)
        else:
            block.is_unreadable = True
            if not block.offered:
                self._tell_gone(block)

    def _erase(self, block: Block) -> None:
        """Drop the record of an NVME copy. A world that closes keeps its records: only the entry goes."""
        if self._table.worlds[block.key.world].is_closing:
            self._table.free(block, Tier.NVME)
        else:
            self._submit(block, Route.ERASE)

    def _submit(self, block: Block, route: Route, commit: Commit | None = None) -> None:
        move = Move(
            route,
            block.key,
            block.serial,
            block.generation,
            gpu_slot=block.slots[Tier.GPU],
            dram_slot=block.slots[Tier.DRAM],
            nvme_slot=block.slots[Tier.NVME],
            fresh=None if commit is None else commit.fresh,
            event=None if commit is None else commit.event,
        )
        self.moves[(block.key, route)] = move
        self._movers.submit(move)

    def _count(self, move: Move, num_bytes: int) -> None:
        counters, route = self._table.worlds[move.key.world].counters, move.route
        if route in (Route.READ, Route.RAISE):
            counters.fetched_bytes += num_bytes
        if route is Route.READ:
            counters.disk_read_bytes += num_bytes
        if route is Route.WRITE:
            counters.spilled_bytes += num_bytes
            counters.disk_written_bytes += num_bytes
