"""The pager's decisions and moves, driven by hand in any order, against a plain dict of what each block must hold."""

import random
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from models.base import FreshBlock, KVSpec, SidePlane
from server.pager.blocks import BlockKey
from server.pager.codec import Codec
from server.pager.header import block_fingerprint
from server.pager.inbox import Answer, Ask, Closing, Commit, Foresee, Forget, Opened
from server.pager.keeper import Keeper
from server.pager.layout import PAGE_BYTES, SlotLayout
from server.pager.lease import LeasedBlock, Pins
from server.pager.move.arena import Arena
from server.pager.move.carry import Carrier
from server.pager.move.inline import InlineDevice
from server.pager.move.ram_disk import RamDisk
from server.pager.move.recover import SlabOpener
from server.pager.move.slab import slot_at
from server.pager.moves import MoveDone, Route
from server.pager.recaller import Recaller
from server.pager.table import Table
from server.pager.traffic import Traffic
from shared.tiers import Tier

SPEC = KVSpec(layers=1, tokens=4, width=16, head_width=16, side=(SidePlane("depth", (4,), torch.float32),))
LAYOUT = SlotLayout(SPEC)
MARKS = block_fingerprint("weights", LAYOUT)
GPU_SLOTS, DRAM_SLOTS, NVME_SLOTS, MAX_RECALL = 5, 5, 7, 2
WORLDS = ("a", "b")


def fresh_block(key):
    numbers = torch.Generator().manual_seed(ord(key.world) + 7919 * key.block)
    kv = torch.randn(SPEC.shape, generator=numbers).bfloat16()
    return FreshBlock(kv, {"depth": torch.randn(4, generator=numbers)}, np.zeros(1), ())


def encoded(key):
    """The one encoding of a block: what every lease on it must show, byte for byte."""
    slot = torch.zeros(LAYOUT.slot_bytes, dtype=torch.uint8)
    fresh = fresh_block(key)
    Codec(LAYOUT).encode(fresh.kv, slot)
    Codec(LAYOUT).store_side(fresh.side, slot)
    return parts_of(slot)


def parts_of(slot):
    """Everything but the header and the padding."""
    return torch.cat([slot[part.offset : part.offset + part.num_bytes] for part in LAYOUT.sections])


class HandMovers:
    """Keeps what was submitted until the test lets it happen."""

    def __init__(self):
        self.submitted = []
        self.done = {}  # carried out, not told yet

    def submit(self, move):
        self.submitted.append(move)

    def stop(self):
        pass


class PagerMachine(RuleBasedStateMachine):
    blocks = Bundle("blocks")
    leases = Bundle("leases")

    def __init__(self):
        super().__init__()
        self.disk = RamDisk()
        self.rng = random.Random(0)
        self.next_block = dict.fromkeys(WORLDS, 0)
        self.must_hold = {}  # block -> its encoding: the plain dict
        self.open_leases = []
        self.start()

    def start(self):
        self.dram, self.gpu = Arena(LAYOUT, DRAM_SLOTS), Arena(LAYOUT, GPU_SLOTS)
        for arena, count in ((self.dram, DRAM_SLOTS), (self.gpu, GPU_SLOTS)):
            for slot in range(count):
                arena.array(slot)[:] = 0xAA  # poison: a buffer that was never filled must never be shown
        codec = Codec(LAYOUT)
        self.slabs, self.locks = {}, {}
        self.carrier = Carrier(LAYOUT, MARKS, self.dram, InlineDevice(LAYOUT, codec, self.dram, self.gpu), self.slabs)
        self.table, self.movers, self.pins = Table(GPU_SLOTS, DRAM_SLOTS), HandMovers(), Pins()

        def lend(block):
            packed = self.gpu.tensor(block.slots[Tier.GPU])[: LAYOUT.moved_bytes]
            return LeasedBlock(block.key, block.serial, block.slots[Tier.GPU], packed, codec.side_of(packed))

        self.committed, self.told_gone = set(), set()  # in open worlds
        self.traffic = Traffic(self.table, self.movers, self.pins, lend, self.take_note)
        self.time_s = 0.0
        self.keeper = Keeper(
            self.table, self.traffic, self.pins, LAYOUT.slot_bytes, MAX_RECALL, clock=lambda: self.time_s
        )
        self.recaller = Recaller(self.keeper, self.pins)
        self.opener = SlabOpener(
            self.disk, LAYOUT, MARKS, slot_at(LAYOUT, NVME_SLOTS), piece_bytes=PAGE_BYTES, num_hands=1
        )

    def take_note(self, note):
        block = self.table.blocks.get(note.key)
        if note.to_tier is None and (block is None or not block.offered):
            self.told_gone.add(note.key)

    def say(self, message):
        self.time_s += 0.01
        self.keeper.inbox.put(message)
        self.keeper.turn()

    # The world's life

    @rule(world=st.sampled_from(WORLDS))
    def open_world(self, world):
        if world in self.slabs:
            return
        opened = self.opener.open(Path("/", world))
        self.slabs[world], self.locks[world] = opened.slab, opened.lock_fd
        for held in opened.held.values():
            assert held.block < self.next_block[world]
        self.next_block[world] += 10
        self.say(Opened(world, opened.num_slots, opened.held, opened.first_generation, opened.notes, Answer()))

    @rule(world=st.sampled_from(WORLDS))
    def close_world(self, world):
        if world not in self.slabs:
            return
        for lease in self.open_leases:
            lease.release()
        self.open_leases.clear()
        durable = self.durable_keys(world)
        answer = Answer()
        self.say(Closing(world, answer))
        self.finish_all()
        assert answer.is_good
        self.committed = {key for key in self.committed if key.world != world}
        self.slabs.pop(world).close()
        self.disk.close(self.locks.pop(world))
        self.check_durable_blocks_are_on_disk(durable)

    @rule()
    def crash(self):
        durable = [key for world in self.slabs for key in self.durable_keys(world)]
        self.disk = self.disk.after_crash(self.rng)
        self.open_leases.clear()
        self.start()
        self.check_durable_blocks_are_on_disk(durable)

    def durable_keys(self, world):
        return [block.key for block in self.table.of_world(world) if Tier.NVME in block.tiers]

    def check_durable_blocks_are_on_disk(self, durable):
        image = self.disk.after_crash(self.rng)
        for world in {key.world for key in durable}:
            held = SlabOpener(image, LAYOUT, MARKS, slot_at(LAYOUT, NVME_SLOTS)).open(Path("/", world)).held
            missing = {key.block for key in durable if key.world == world} - {each.block for each in held.values()}
            assert not missing

    # The engine

    @rule(target=blocks, world=st.sampled_from(WORLDS))
    def commit(self, world):
        self.open_world(world)
        key = BlockKey(world, self.next_block[world])
        self.next_block[world] += 1
        self.must_hold[key] = encoded(key)
        self.committed.add(key)
        self.say(Commit(key, fresh_block(key), None))
        return key

    @rule(target=blocks, world=st.sampled_from(WORLDS), count=st.integers(2, 5))
    def walk(self, world, count):
        """Some chunks in peace, so that there is something to page."""
        keys = []
        for _ in range(count):
            keys.append(self.commit(world))
            self.finish_all()
        return multiple(*keys)

    @rule(keys=st.lists(blocks, max_size=2, unique=True), later=st.lists(blocks, max_size=3, unique=True))
    def foresee(self, keys, later):
        plan = ((self.time_s + 1.0, tuple(keys)), (self.time_s + 2.0, tuple(later)))
        self.say(Foresee("head", lambda: plan))

    @rule(target=leases, head=st.sampled_from(("head", "other")), keys=st.lists(blocks, max_size=2, unique=True))
    def recall(self, head, keys):
        lease = self.recaller.recall(head, tuple(keys))
        self.open_leases.append(lease)
        self.keeper.turn()
        return lease

    @rule(lease=consumes(leases))
    def release(self, lease):
        lease.release()
        self.open_leases = [each for each in self.open_leases if each is not lease]
        self.keeper.turn()

    @rule(head=st.sampled_from(("head", "other")), keys=st.lists(blocks, max_size=MAX_RECALL, unique=True))
    def a_recall_that_waits_gets_all_that_can_come(self, head, keys):
        for lease in self.open_leases:
            lease.release()
        self.open_leases.clear()
        self.say(Ask(head, tuple(keys), None, 0))
        self.finish_all()
        assert self.keeper.board.ready.complete(keys)

    @rule(keys=st.lists(blocks, max_size=2, unique=True))
    def forget(self, keys):
        self.say(Forget(tuple(keys)))

    @precondition(lambda self: self.movers.submitted)
    @rule(index=st.integers(0, 50), is_carried_out=st.booleans())
    def forget_what_is_under_way(self, index, is_carried_out):
        if is_carried_out:
            self.carry_out_and_tell_later(index)
        move = self.movers.submitted[index % len(self.movers.submitted)]
        self.say(Forget((move.key,)))

    # The movers

    @precondition(lambda self: self.movers.submitted)
    @rule(index=st.integers(0, 50))
    def finish_move(self, index):
        move = self.movers.submitted.pop(index % len(self.movers.submitted))
        self.say(self.carry_out(move))

    @precondition(lambda self: self.movers.submitted)
    @rule(index=st.integers(0, 50))
    def carry_out_and_tell_later(self, index):
        """The mover is done, and the pager thread does not know yet: a cancellation may come too late."""
        move = self.movers.submitted[index % len(self.movers.submitted)]
        if move not in self.movers.done:
            self.movers.done[move] = self.carry_out(move)

    @precondition(lambda self: self.movers.submitted)
    @rule(index=st.integers(0, 50), is_damaged=st.booleans())
    def fail_move(self, index, is_damaged):
        move = self.movers.submitted.pop(index % len(self.movers.submitted))
        self.movers.done.pop(move, None)
        is_write = move.route in (Route.WRITE, Route.ERASE)
        self.say(MoveDone(move, error="made to fail", is_damaged=is_damaged, is_slot_bad=is_write))

    @rule()
    def finish_all(self):
        while self.movers.submitted:
            self.say(self.carry_out(self.movers.submitted.pop(0)))

    def carry_out(self, move):
        if done := self.movers.done.pop(move, None):
            return done
        if move.route in (Route.WRITE, Route.ERASE):
            (done,) = self.carrier.make_durable([move])
            return done
        return self.carrier.carry_out(move)

    # What must always hold

    @invariant()
    def every_slot_is_free_or_of_one_copy(self):
        self.table.check()

    @invariant()
    def nothing_illegal_was_tried(self):
        assert self.keeper.num_faults == 0

    @invariant()
    def what_is_offered_is_right(self):
        for key, block in self.keeper.board.ready.blocks.items():
            assert torch.equal(parts_of(block.packed), self.must_hold[key]), f"{key} on offer is wrong"

    @invariant()
    def what_is_lent_stays_right(self):
        for lease in self.open_leases:
            for block in lease.blocks:
                assert torch.equal(parts_of(block.packed), self.must_hold[block.key]), f"{block.key} lent"

    @invariant()
    def whoever_is_gone_was_told_of(self):
        for key in self.committed - self.told_gone:
            block = self.table.blocks.get(key)
            can_come = block is not None and block.is_alive and (block.offered or not block.is_unreadable)
            assert can_come, f"{key} is gone and nobody was told"

    @invariant()
    def moves_and_copies_agree(self):
        under_way = {(move.key, move.route) for move in self.movers.submitted}
        assert under_way == set(self.traffic.moves)
        for block in self.table.blocks.values():
            for tier, route in ((Tier.GPU, Route.RAISE), (Tier.NVME, Route.WRITE)):
                assert block.is_filling(tier) == ((block.key, route) in under_way)

    def teardown(self):
        self.finish_all()
        for lease in self.open_leases:
            lease.release()
        self.keeper.turn()
        assert not self.traffic.retiring, "a slot is pinned by nobody"


class LongPagerMachine(PagerMachine):
    pass


PagerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
LongPagerMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=80, deadline=None)
TestPagerMachine = PagerMachine.TestCase
TestLongPagerMachine = pytest.mark.slow(LongPagerMachine.TestCase)
