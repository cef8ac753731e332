"""Power cuts at every call, in every legal image: no wrong byte, no durable block lost, no slot leaked."""

import random
from pathlib import Path

import pytest

from models.base import KVSpec
from server.pager.header import Identity, seal
from server.pager.layout import PAGE_BYTES, SlotLayout
from server.pager.move.ram_disk import PowerCut, RamDisk
from server.pager.move.recover import OpenSlab, SlabOpener
from server.pager.move.slab import SlotWrite, slot_at
from server.pager.moves import Held

LAYOUT = SlotLayout(KVSpec(layers=1, tokens=4, width=16, head_width=16))
FOLDER = Path("/world")
MARK = b"f" * 16
NUM_SLOTS = 6
IMAGES_PER_CUT = 5


def opener(disk):
    return SlabOpener(disk, LAYOUT, MARK, slot_at(LAYOUT, NUM_SLOTS), piece_bytes=PAGE_BYTES, num_hands=1)


def content(slab, block, generation):
    """The one true content of a block's slot."""
    slot = memoryview(bytearray(random.Random(block * 1_000_003 + generation).randbytes(LAYOUT.moved_bytes)))
    seal(slot, LAYOUT, Identity(slab.fingerprint, slab.store_id, block, generation))
    return slot


def parts_of(slot):
    """Everything but the header and the padding."""
    return [bytes(slot[part.offset : part.offset + part.num_bytes]) for part in LAYOUT.sections]


class Walk:
    """Writes and erases at random, and knows what must be there, what may be, and what must not."""

    def __init__(self, disk, rng, acknowledged=None, next_block=0):
        self.disk, self.rng = disk, rng
        self.acknowledged: dict[int, int] = dict(acknowledged or {})  # block -> generation, durable for certain
        self.doubtful: dict[int, int] = {}  # being written or erased when the power failed
        self.next_block = next_block

    def run(self, num_steps):
        opened = opener(self.disk).open(FOLDER)
        self.free = [slot for slot in range(opened.num_slots) if slot not in opened.held]
        self.slots = {held.block: slot for slot, held in opened.held.items()}
        self.generation = opened.first_generation
        for _ in range(num_steps):
            if self.free and (self.rng.random() < 0.7 or not self.slots):
                self.write(opened.slab, self.rng.randint(1, min(3, len(self.free))))
            else:
                self.erase(opened.slab)
        return opened

    def write(self, slab, count):
        items = []
        for _ in range(count):
            block, self.next_block = self.next_block, self.next_block + 1
            self.generation += 1
            self.doubtful[block] = self.generation
            data = content(slab, block, self.generation)
            items.append(SlotWrite(self.free.pop(), block, self.generation, data))
        assert [written.error for written in slab.write(items)] == [None] * count
        for item in items:
            self.acknowledged[item.block] = self.doubtful.pop(item.block)
            self.slots[item.block] = item.slot

    def erase(self, slab):
        block = self.rng.choice(sorted(self.slots))
        self.doubtful[block] = self.acknowledged.pop(block, 0)
        assert slab.erase([self.slots[block]]) is None
        del self.doubtful[block]
        self.free.append(self.slots.pop(block))


def check(opened: OpenSlab, walk: Walk):
    held = {each.block: each.generation for each in opened.held.values()}
    assert len(held) == len(opened.held), "one slot per block"
    assert all(0 <= slot < opened.num_slots for slot in opened.held)
    readable = set()
    for slot, each in opened.held.items():
        into = memoryview(bytearray(LAYOUT.moved_bytes))
        fault = opened.slab.read(slot, each.block, each.generation, into, lambda: False)
        if fault is None:
            true = content(opened.slab, each.block, each.generation)
            assert parts_of(into) == parts_of(true), "a wrong byte"
            readable.add(Held(each.block, each.generation))
    lost = {Held(*item) for item in walk.acknowledged.items()} - readable
    assert not lost, f"durable blocks lost: {lost}"
    ghosts = {each.block for each in readable} - set(walk.acknowledged) - set(walk.doubtful)
    assert not ghosts, f"blocks that were durably erased came back: {ghosts}"


def simulate(seed, num_steps=6):
    """One walk, cut at each of its calls in turn; several images of each cut. Returns how many were checked."""
    rng = random.Random(seed)
    base, before = RamDisk(), Walk(RamDisk(), rng)
    if seed % 2:  # also crash in worlds that have a past
        before = Walk(base, rng)
        before.run(rng.randint(1, 5))
        base = base.after_crash(rng)
    script, num_images, fuse = rng.random(), 0, 0
    while True:
        disk = base.after_crash(random.Random(script))
        disk.fuse = fuse
        walk = Walk(disk, random.Random(script), before.acknowledged, before.next_block)
        try:
            walk.run(num_steps)
            is_cut = False
        except PowerCut:
            is_cut = True
        for _ in range(IMAGES_PER_CUT):
            image = disk.after_crash(rng)
            check(opener(image).open(FOLDER), walk)
            check(opener(image.after_crash(rng)).open(FOLDER), walk)  # what recovery did is durable too
            num_images += 2
        if not is_cut:
            return num_images
        fuse += 1


def run_until(num_images, first_seed):
    seed = first_seed
    while num_images > 0:
        num_images -= simulate(seed)
        seed += 1


def test_500_crashes_lose_nothing_durable_and_read_nothing_wrong():
    run_until(500, first_seed=1)


@pytest.mark.slow
def test_10000_crashes_lose_nothing_durable_and_read_nothing_wrong():
    run_until(10_000, first_seed=1000)
