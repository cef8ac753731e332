"""What went wrong in other people's KV stores, once each, with our pager in their place: slots, moves and leases.

Numbers are those of the list of 26 in the study of issue trackers that the pager was designed from.
"""

import os
import subprocess
import threading
import time

import pytest

from server.pager.move.arena import Arena
from server.pager.moves import Route
from server.pager.table import Slots
from shared.tiers import Tier


class SlowDevice:
    """Copies in two halves with a pause between them, as an asynchronous engine may."""

    def __init__(self, device, pause_s):
        self.device, self.pause_s = device, pause_s

    def encode(self, move, dram_slot):
        self.device.encode(move, dram_slot)

    def raise_(self, dram_slot, gpu_slot):
        source, target = self.device._dram.array(dram_slot), self.device._gpu.array(gpu_slot)
        middle = len(source) // 2
        target[:middle] = source[:middle]
        time.sleep(self.pause_s)
        target[middle:] = source[middle:]


def slow_copies(pager, pause_s):
    carrier = pager._movers._carrier
    carrier._device = SlowDevice(carrier._device, pause_s)


def test_01_a_dram_slot_is_not_refilled_while_a_copy_to_the_gpu_still_reads_it(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(12))
    slow_copies(pager, 0.01)
    for first in range(0, 12, 2):
        assert paging.recall_exact(pager, [first, first + 1]) == [first, first + 1]


class Gate:
    """The fence of a device whose decode kernels end when the test says so."""

    is_open = False

    def is_passed(self):
        return self.is_open


def test_01_a_gpu_slot_is_not_refilled_while_the_device_still_decodes_from_it(paging):
    pager = paging.pager(dram=4, gpu=6)
    paging.commit(pager, range(8))
    gate = Gate()
    pager._recaller._fence = lambda: gate
    lease = pager.recall_exact("h", [paging.key(0), paging.key(1)], 10.0)
    lease.release()  # by the host; the kernels still run
    pager._recaller._fence = lambda: None
    pager.leave("h")
    for first in (2, 4, 6):
        assert paging.recall_exact(pager, [first, first + 1], head="other") == [first, first + 1]
        assert paging.is_right(lease)
    gate.is_open = True
    for first in (0, 4, 2, 6):
        assert paging.recall_exact(pager, [first, first + 1], head="other") == [first, first + 1]
    paging.wait_for(lambda: pager._keeper._traffic.retiring == [])


def test_02_a_block_is_not_encoded_before_its_tensors_are_complete(paging):
    pager = paging.pager()
    fresh = paging.fresh(0)
    true_kv = fresh.kv.clone()
    fresh.kv.zero_()

    class LateKernel:
        """An event whose kernel has not run when the block is committed."""

        def synchronize(self):
            time.sleep(0.02)
            fresh.kv.copy_(true_kv)

    device = pager._movers._carrier._device
    encode = device.encode

    def encode_with_event(move, dram_slot):
        move.event = LateKernel()
        encode(move, dram_slot)

    device.encode = encode_with_event
    pager.commit(paging.key(0), fresh)
    assert paging.recall_exact(pager, [0]) == [0]


def test_03_a_slot_whose_old_owner_is_still_being_written_is_not_given_away(paging):
    pager = paging.pager(nvme=4)
    paging.trouble.is_stalled = True
    pager.commit(paging.key(0), paging.fresh(0))
    table = pager._table
    paging.wait_for(lambda: Route.WRITE in {route for _, route in pager._keeper._traffic.moves})
    paging.wait_for(lambda: paging.trouble.num_hanging > 0)  # a write that was only queued may be taken back
    slot = table.blocks[paging.key(0)].slots[Tier.NVME]
    pager.forget([paging.key(0)])
    pager.commit(paging.key(1), paging.fresh(1))
    paging.wait_for(lambda: paging.key(1) in table.blocks)
    assert slot not in table.worlds["w"].slots.free
    paging.trouble.is_stalled = False
    assert pager.flush(60.0)
    paging.wait_for(lambda: paging.key(0) not in table.blocks)
    assert paging.recall_exact(pager, [0, 1]) == [1]


def test_04_a_storm_of_cancelled_prefetches_frees_nothing_that_a_reader_still_uses(paging):
    pager = paging.pager(gpu=6, dram=5)
    paging.commit(pager, range(16))
    paging.trouble.read_s = 0.003
    for turn in range(120):
        keys = [paging.key((5 * turn + step) % 16) for step in range(2)]
        pager.foresee("h", lambda keys=keys: [(time.monotonic() + 0.01, keys)])
        time.sleep(0.001 * (turn % 3))
    paging.trouble.read_s = 0.0
    for first in range(0, 16, 2):
        assert paging.recall_exact(pager, [first, first + 1]) == [first, first + 1]


def test_14_a_block_that_is_being_written_is_read_from_memory_never_from_the_disk(paging):
    pager = paging.pager()
    paging.trouble.is_stalled = True
    pager.commit(paging.key(0), paging.fresh(0))
    assert paging.recall_exact(pager, [0]) == [0]
    assert pager.stats("w").disk_read_bytes == 0
    assert not pager.is_durable(paging.key(0))
    paging.trouble.is_stalled = False
    assert pager.flush(60.0)


def test_15_what_a_lease_names_is_not_evicted_before_it_is_used(paging):
    pager = paging.pager(gpu=4, dram=4)
    paging.commit(pager, range(12))
    with pager.recall_exact("h", [paging.key(0), paging.key(1)], 10.0) as lease:
        for first in range(2, 12, 2):
            paging.recall_exact(pager, [first, first + 1], head="other")
        assert paging.is_right(lease)


def test_16_with_no_slot_free_a_recall_is_a_miss_in_bounded_time_and_pins_do_not_leak(paging):
    pager = paging.pager(gpu=4, dram=4)
    paging.commit(pager, range(8))
    leases = [pager.recall_exact("h", [paging.key(0), paging.key(1)], 10.0)]
    leases.append(pager.recall_exact("h", [paging.key(2), paging.key(3)], 10.0))
    assert pager.recall("h", [paging.key(4), paging.key(5)]).stale
    assert pager.recall_exact("other", [paging.key(6)], 0.05).missing == (paging.key(6),)
    for lease in leases:
        lease.release()
    for lease, _ in pager._keeper._view._pins._leases:
        lease.release()
    assert pager._keeper._view._pins._leases == ()
    assert paging.recall_exact(pager, [4, 5]) == [4, 5]


def test_18_only_the_pager_thread_touches_a_free_list(paging):
    pager = paging.pager(gpu=4, dram=4)
    seen = set()

    class WatchedSlots(Slots):
        def take(self):
            seen.add(threading.current_thread().name)
            return super().take()

        def give_back(self, slot, *, is_bad=False):
            seen.add(threading.current_thread().name)
            super().give_back(slot, is_bad=is_bad)

    table = pager._table
    for tier, slots in table.shared.items():
        table.shared[tier] = WatchedSlots(slots.num_slots, slots.free)
    table.worlds["w"].slots = WatchedSlots(table.worlds["w"].slots.num_slots, table.worlds["w"].slots.free)
    paging.commit(pager, range(12))
    for first in range(0, 12, 2):
        paging.recall_exact(pager, [first, first + 1])
    assert seen == {"pager"}


def test_19_nothing_grows_with_the_length_of_the_walk(paging):
    pager = paging.pager(nvme=8)
    for start in range(0, 200, 4):
        paging.commit(pager, range(start, start + 4))
        paging.recall_exact(pager, [start, start + 2])
    assert len(pager._table.blocks) <= 8 + 6
    assert not pager._keeper._waiting
    assert not pager._keeper._traffic.retiring
    assert len(pager._keeper._traffic.leased) <= 6
    assert pager._keeper._view._pins._leases == ()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # that is what is tested
def test_23_processes_started_while_direct_reads_run_leave_every_byte_in_place(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(12))
    is_over = threading.Event()

    def start_processes():
        while not is_over.is_set():
            subprocess.run(["/bin/true"], check=True)
            if (child := os.fork()) == 0:
                os._exit(0)
            os.waitpid(child, 0)

    starter = threading.Thread(target=start_processes)
    starter.start()
    try:
        for turn in range(24):
            first = (2 * turn) % 12
            assert paging.recall_exact(pager, [first, first + 1]) == [first, first + 1]
    finally:
        is_over.set()
        starter.join()


def test_24_memory_that_cannot_be_registered_makes_the_tier_smaller_and_says_so(paging):
    arena = Arena(paging.layout, 10, piece_bytes=4 * paging.layout.slot_bytes)
    tries = []

    def pin(address, num_bytes):
        tries.append(num_bytes)
        return len(tries) < 3

    arena.register(pin)
    assert len(tries) == 3, "nothing is tried after the first failure"
    assert arena.num_slots == 8
    assert "8 slots" in arena.note
