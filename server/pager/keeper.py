"""The pager thread: the only one that changes the block table, the plans and the free lists.

It sleeps until something is put into its inbox, takes all that is there, decides again, hands moves to the movers and
publishes what is ready. It never computes on KV, never touches a file, and waits for nothing but its inbox.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from server.pager.blocks import Block, BlockKey, Life
from server.pager.board import Board
from server.pager.decide.evict import POLICIES
from server.pager.decide.place import Drop, Want, place, pressing, useless, wants_of
from server.pager.heads import HeadWants, plans_at, stood_still_for
from server.pager.inbox import (
    Ask,
    Closing,
    Commit,
    Flush,
    Foresee,
    Forget,
    Inbox,
    Leave,
    Message,
    Opened,
    Pin,
    Released,
    Spill,
    Stop,
)
from server.pager.lease import Pins
from server.pager.moves import MoveDone, Route
from server.pager.room import Room
from server.pager.table import Slots, Table, WorldShelf
from server.pager.traffic import Traffic
from server.pager.view import TableView
from server.pager.waiters import Waiters
from shared.tiers import Tier

LOG = logging.getLogger(__name__)
FENCE_POLL_S = 0.002
WRITE_AHEAD_BYTES = 64 << 20  # handed to the writer at once, to be made durable together
MAX_WRITE_AHEAD = 16
NO_REST = (math.inf, math.inf)


class Keeper:
    """One thread and all that it owns. Others put messages into `inbox` and read what is on the `board`."""

    def __init__(
        self,
        table: Table,
        traffic: Traffic,
        pins: Pins,
        slot_bytes: int,
        max_recall: int,
        clock: Callable[[], float],
        eviction: str = "relevance",
    ) -> None:
        """`eviction` names one of `decide.evict.POLICIES`."""
        self.inbox = Inbox()
        self.board = Board(table, traffic, slot_bytes)
        self.num_faults = 0  # of our own; each is in the log
        self._table = table
        self._pins = pins
        self._traffic = traffic
        self._view = TableView(table, traffic, pins, max_recall, POLICIES[eviction])
        self._room = Room(table, traffic, self._view)
        self._slot_bytes = slot_bytes
        self._clock = clock
        self._heads: dict[str, HeadWants] = {}
        self._foreseen: dict[str, Foresee] = {}  # the newest plan of each head, not worked out yet
        self._waiting: deque[tuple[Block, Commit]] = deque()  # committed, not yet given to the codec
        self._waiters = Waiters(table)
        self._seen = 0
        self._is_stopping = False

    def run(self) -> None:
        while not self._is_stopping:
            is_soon = bool(self._traffic.retiring) or self._pins.is_fading  # a fence passes without a message
            self.inbox.wait(FENCE_POLL_S if is_soon else None)
            self.turn()

    def turn(self) -> None:
        """Take what is in the inbox and decide again; waits for nothing."""
        while (message := self.inbox.take()) is not None:
            self._take(message)
        for foresee in [self._foreseen.pop(head) for head in list(self._foreseen)]:
            self._try("plan", partial(self._plan, foresee))
        self._try("decision", self._decide)

    def _take(self, message: Message) -> None:
        self._try(type(message).__name__, partial(self._handle, message))

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # the top of the thread: one fault of ours must not end the paging of all worlds
            self.num_faults += 1
            LOG.exception("pager fault in=%s", what)

    def _handle(self, message: Message) -> None:
        match message:
            case MoveDone():
                if message.move.route is Route.READ:
                    self._view.pace.end(message.move.key, self._clock(), is_whole=not message.has_failed)
                self._traffic.done(message)
            case Commit():
                self._commit(message)
            case Foresee():
                self._foreseen[message.head] = message
                if message.trail is not None:
                    self._view.follow(message.head, message.trail)
            case Ask():
                self._ask(message)
            case Forget(keys=keys):
                self._forget(keys)
            case Spill(keys=keys):
                self._spill(keys)
            case Leave(head=head):
                self._heads.pop(head, None)
                self._foreseen.pop(head, None)
                self._view.leave(head)
            case _:
                self._serve(message)

    def _serve(self, message: Released | Pin | Opened | Closing | Flush | Stop) -> None:
        match message:
            case Pin(world=world, blocks=blocks):
                if shelf := self._table.worlds.get(world):
                    shelf.pinned = blocks
            case Released():
                pass  # slots may be free: the decision that follows looks
            case Opened():
                self._open(message)
            case Closing():
                self._close(message)
            case Flush():
                self._waiters.wait_durable(message, self._pending())
            case Stop():
                self._is_stopping = True

    # What came in

    def _head(self, head: str) -> HeadWants:
        return self._heads.get(head) or HeadWants()

    def _plan(self, foresee: Foresee) -> None:
        self._want(foresee.head, replace(self._head(foresee.head), plan=foresee.work_out()))

    def _commit(self, commit: Commit) -> None:
        shelf = self._table.worlds[commit.key.world]
        block = self._table.add(commit.key, self._clock())
        if shelf.slots.num_slots == 0:
            block.is_unkept = True
            shelf.stuck.add(block.key)
        self._waiting.append((block, commit))

    def _ask(self, ask: Ask) -> None:
        if ask.tally is not None:
            ask.tally.settle()
        head = replace(self._head(ask.head))
        head.ask(ask.wanted, ask.taken, self._clock(), is_blocking=ask.is_blocking)
        self._seen = max(self._seen, ask.serial)
        self._want(ask.head, head)

    def _want(self, name: str, head: HeadWants) -> None:
        """Note the hit tier of what this head wants only since now."""
        now_s = self._clock()
        blocks = ((key, self._table.blocks.get(key)) for key in head.keys)
        # a block that is not encoded yet is in memory
        tiers = {key: min(block.tiers, default=Tier.DRAM) for key, block in blocks if block and block.is_alive}
        for key in head.note(tiers):
            if block := self._table.blocks.get(key):
                self._table.touch(block, now_s)
        self._heads[name] = head

    def _forget(self, keys: tuple[BlockKey, ...]) -> None:
        for key in keys:
            block = self._table.blocks.get(key)
            if block is not None and block.is_alive:
                self._traffic.end_life(block, Life.FORGOTTEN)

    def _spill(self, keys: frozenset[BlockKey]) -> None:
        """What was planned before is planned first: it may not bring back what is spilled now."""
        for foresee in [self._foreseen.pop(head) for head in list(self._foreseen)]:
            self._try("plan", partial(self._plan, foresee))
        self._heads = {name: head.without(keys) for name, head in self._heads.items()}
        self._room.spill(keys)

    def _open(self, opened: Opened) -> None:
        now_s = self._clock()
        shelf = WorldShelf(Slots.all_free(opened.num_slots), opened.first_generation)
        shelf.slots.free = [slot for slot in shelf.slots.free if slot not in opened.held]
        self._table.worlds[opened.world] = shelf
        for slot, held in sorted(opened.held.items(), key=lambda item: item[1].block):
            self._table.adopt(BlockKey(opened.world, held.block), held.generation, slot, now_s)
        for words in opened.notes:
            self._traffic.note(words, opened.world)
        self.board.sum_up(self._waiting_keys())  # whoever is answered finds this opening's totals, not the last one's
        opened.answer.give(is_good=True)

    def _close(self, closing: Closing) -> None:
        self._table.worlds[closing.world].is_closing = True
        for block in list(self._table.of_world(closing.world)):
            if block.is_alive:
                self._traffic.end_life(block, Life.FORGOTTEN)
        self._waiters.wait_closed(closing)

    # What follows from it

    def _decide(self) -> None:
        now_s = self._clock()
        heads = self._heads.values()
        self._view.wants = {want.key: want for want in wants_of(plans_at(heads, now_s), now_s)}
        self._view.protect(self._heads, now_s)
        self._free_gpu()
        self._room.give_up_spilled()
        self._encode(now_s)
        wants = pressing(self._view.wants, stood_still_for(heads, now_s), self._view)
        self._cancel(wants, now_s)
        self._let_rest(wants)
        for step in place(list(wants.values()), self._view, now_s):
            block = self._table.blocks[step.key]
            if isinstance(step, Drop):
                self._drop(block, step.tier)
            else:
                if step.to is Tier.DRAM:
                    self._view.pace.begin(step.key, now_s)
                self._traffic.fetch(block, step.to)
        self._write(now_s)
        self._publish()
        self._free_gpu()
        self.board.sum_up(self._waiting_keys())
        self._waiters.answer(self._pending())

    def _free_gpu(self) -> None:
        if self._traffic.retiring:
            self._publish()
            self._traffic.retire()

    def _drop(self, block: Block, tier: Tier) -> None:
        self._traffic.drop(block, tier)
        if tier is Tier.GPU:
            self._free_gpu()

    def _cancel(self, wants: Mapping[BlockKey, Want], now_s: float) -> None:
        reads = [key for key, route in self._traffic.moves if route is Route.READ]
        for key in useless(reads, wants, self._view, now_s):
            self._traffic.moves[(key, Route.READ)].is_cancelled = True

    def _let_rest(self, wants: Mapping[BlockKey, Want]) -> None:
        """Reads for what nobody has asked for yet leave the disk alone around the moment at which it is asked for."""
        asked = {key for head in self._heads.values() for key in head.asked}
        for (key, route), move in self._traffic.moves.items():
            if route is Route.READ and key in wants:
                move.rests = NO_REST if key in asked else self._view.pace.rests(wants[key].deadline_s)

    def _encode(self, now_s: float) -> None:
        """Give the next committed block to the codec, in a DRAM slot that nothing else needs more."""
        while self._waiting and not self._traffic.under_way(Route.ENCODE):
            block, commit = self._waiting[0]
            is_full = block.is_alive and not self._view.free(Tier.DRAM)
            if is_full and not self._room.make_in_dram(block, len(self._waiting), now_s):
                return
            self._waiting.popleft()
            if block.is_alive:
                self._traffic.encode(block, commit)

    def _write(self, now_s: float) -> None:
        limit = max(2, min(MAX_WRITE_AHEAD, WRITE_AHEAD_BYTES // self._slot_bytes))
        for shelf in self._table.worlds.values():
            while shelf.unsaved and self._traffic.under_way(Route.WRITE) < limit:
                block = self._table.blocks[next(iter(shelf.unsaved))]
                if not shelf.slots.free:
                    self._room.make_in_nvme(block, now_s)
                    if block.key in shelf.unsaved:
                        break
                    continue
                del shelf.unsaved[block.key]
                self._traffic.write(block)

    # What others see

    def _publish(self) -> None:
        self.board.publish(self._heads, self._seen, self._waiting_keys())

    def _waiting_keys(self) -> list[BlockKey]:
        return [block.key for block, _ in self._waiting if block.is_alive]

    def _pending(self) -> set[BlockKey]:
        """The blocks that are on their way to becoming durable."""
        keys = {key for key, route in self._traffic.moves if route in (Route.ENCODE, Route.WRITE)}
        return keys.union(self._waiting_keys(), *(shelf.unsaved for shelf in self._table.worlds.values()))
