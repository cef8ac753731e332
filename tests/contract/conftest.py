"""A small pager with real threads, and blocks whose bytes are known."""

import time

import numpy as np
import pytest
import torch

from models.base import FreshBlock, KVSpec, SidePlane
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from server.pager.move.bad_disk import BadDisk
from server.pager.move.disk import RealDisk
from server.pager.move.slab import slots_at
from server.pager.pager import Pager

SPEC = KVSpec(layers=2, tokens=8, width=32, head_width=32, side=(SidePlane("depth", (8,), torch.float32),))
LAYOUT = SlotLayout(SPEC)


class Paging:
    """What a story about the pager needs: pagers that are closed at its end, blocks, and their true bytes."""

    def __init__(self, folder):
        self.folder = folder
        self.disk = BadDisk(RealDisk())
        self.trouble = self.disk.trouble
        self.layout = LAYOUT
        self.pagers = []

    def pager(
        self, *, gpu=6, dram=6, nvme=20, max_recall=2, disk=None, world="w", fingerprint="weights", opens=True, **more
    ):
        budgets = Budgets(
            gpu * LAYOUT.slot_bytes + buffer_bytes(LAYOUT, max_recall, torch.bfloat16),
            dram * LAYOUT.slot_bytes,
            nvme * LAYOUT.slot_bytes + slots_at(LAYOUT),
        )
        pager = Pager(SPEC, fingerprint, budgets, max_recall=max_recall, disk=disk or self.disk, **more)
        self.pagers.append(pager)
        if opens:
            pager.durable_at_start = pager.open_world(world, self.folder)
            pager.stats(world)  # the world's head counts from here on
        return pager

    @staticmethod
    def key(block, world="w"):
        return BlockKey(world, block)

    @staticmethod
    def fresh(block):
        numbers = torch.Generator().manual_seed(block)
        kv = torch.randn(SPEC.shape, generator=numbers).bfloat16()
        return FreshBlock(kv, {"depth": torch.randn(8, generator=numbers)}, np.zeros(1), ())

    def commit(self, pager, blocks, *, flushes=True):
        for block in blocks:
            pager.commit(self.key(block), self.fresh(block))
            wait_for(lambda block=block: pager.tiers_of([self.key(block)])[0] or not flushes)
        if flushes:
            assert pager.flush(60.0)

    def parts(self, slot):
        return torch.cat([slot[part.offset : part.offset + part.num_bytes] for part in LAYOUT.sections])

    def encoded(self, block):
        slot = torch.zeros(LAYOUT.slot_bytes, dtype=torch.uint8)
        fresh = self.fresh(block)
        Codec(LAYOUT).encode(fresh.kv, slot)
        Codec(LAYOUT).store_side(fresh.side, slot)
        return self.parts(slot)

    def is_right(self, lease):
        return all(torch.equal(self.parts(each.packed), self.encoded(each.key.block)) for each in lease.blocks)

    def recall_exact(self, pager, blocks, head="h", timeout_s=60.0):
        """Recalls, checks every byte, releases. Returns the blocks that came."""
        with pager.recall_exact(head, [self.key(block) for block in blocks], timeout_s) as lease:
            assert self.is_right(lease)
            return [key.block for key in lease.keys]

    def wait_for(self, condition, timeout_s=60.0):
        wait_for(condition, timeout_s)


def wait_for(condition, timeout_s=60.0):
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, "it never came about"
        time.sleep(0.001)


@pytest.fixture
def paging(tmp_path):
    paging = Paging(tmp_path)
    yield paging
    paging.trouble.is_stalled = False
    for pager in paging.pagers:
        pager.close()
        assert pager._keeper.num_faults == 0
        pager._table.check()
