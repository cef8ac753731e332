"""What went wrong in other people's KV stores, once each, with our pager in their place.

Numbers are those of the list of 26 in the study of issue trackers that the pager was designed from.
"""

import errno
import os
import shutil
import subprocess
import threading
import time

import pytest

from server.pager.errors import WorldFault
from server.pager.move.arena import Arena
from server.pager.move.bad_disk import BadDisk
from server.pager.move.disk import RealDisk
from server.pager.move.ram_disk import RamDisk
from server.pager.moves import Route
from server.pager.table import Slots
from shared.tiers import Tier


def wait_for(condition, timeout_s=10.0):
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, "it never came about"
        time.sleep(0.001)


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
    wait_for(lambda: pager._keeper._traffic.retiring == [])


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
    wait_for(lambda: Route.WRITE in {route for _, route in pager._keeper._traffic.moves})
    slot = table.blocks[paging.key(0)].slots[Tier.NVME]
    pager.forget([paging.key(0)])
    pager.commit(paging.key(1), paging.fresh(1))
    wait_for(lambda: paging.key(1) in table.blocks)
    assert slot not in table.worlds["w"].slots.free
    paging.trouble.is_stalled = False
    assert pager.flush(10.0)
    wait_for(lambda: paging.key(0) not in table.blocks)
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


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOMEM, errno.EINVAL, errno.ENODEV, errno.EBADF, errno.EAGAIN])
def test_05_every_failed_read_is_a_miss_and_never_a_hit(paging, code):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    paging.trouble.read_errors.extend([code] * 2)
    assert paging.recall_exact(pager, [0]) == []
    assert pager.recall("h", [paging.key(0)]).missing == (paging.key(0),)
    assert pager.stats("w").missed > 0
    assert pager.stats("w").notes
    assert paging.recall_exact(pager, [1, 2]) == [1, 2]


class LyingDisk(BadDisk):
    """Says that it has read everything, and has not touched the buffer."""

    lies = False

    def read(self, fd, into, offset):
        return len(into) if self.lies else super().read(fd, into, offset)


def test_06_a_buffer_that_was_never_filled_is_not_returned_as_a_hit(paging):
    disk = LyingDisk(RealDisk())
    pager = paging.pager(dram=4, gpu=4, disk=disk)
    paging.commit(pager, range(8))
    disk.lies = True
    assert paging.recall_exact(pager, [0, 1]) == []
    disk.lies = False
    assert paging.recall_exact(pager, [2, 3]) == [2, 3]


def test_07_short_reads_and_short_writes_are_carried_on_until_all_is_there(paging):
    paging.trouble.max_bytes = 4096
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    assert paging.recall_exact(pager, [0, 5]) == [0, 5]


class WatchedDisk(BadDisk):
    """Remembers the order of writes and syncs, by file."""

    def __init__(self, below):
        super().__init__(below)
        self.paths, self.calls = {}, []

    def open(self, path, *, is_direct, create):
        fd = super().open(path, is_direct=is_direct, create=create)
        self.paths[fd] = path.name
        return fd

    def write(self, fd, data, offset):
        self.calls.append(("write", self.paths[fd]))
        return super().write(fd, data, offset)

    def sync(self, fd):
        self.calls.append(("sync", self.paths[fd]))
        super().sync(fd)


def test_08_a_record_is_written_only_after_its_data_was_synced(paging):
    disk = WatchedDisk(RealDisk())
    pager = paging.pager(disk=disk)
    disk.calls.clear()
    paging.commit(pager, [0])
    order = list(dict.fromkeys(disk.calls))
    assert [kind for kind, _ in order] == ["write", "sync", "write", "sync"]
    assert order[0][1] == order[1][1] == "blocks.slab"
    assert order[2][1] == order[3][1] != "blocks.slab"


def overwrite_slot(paging, pager, block, data=None, at=0):
    """Damage a block's slot behind the pager's back, by page cache and sync."""
    slot = pager._table.blocks[paging.key(block)].slots[Tier.NVME]
    offset = pager.layout.slot_bytes * slot + 8192 + at
    with (paging.folder / "blocks.slab").open("r+b") as slab:
        slab.seek(offset)
        slab.write(bytes(pager.layout.slot_bytes) if data is None else data)
        slab.flush()
        os.fsync(slab.fileno())


def test_09_a_slot_of_the_right_size_and_all_zeros_is_not_a_block(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    overwrite_slot(paging, pager, 0)
    assert paging.recall_exact(pager, [0, 1]) == [1]
    assert pager.stats("w").lost == 1


@pytest.mark.parametrize("harm", ["torn", "zeroed", "flipped"])
def test_10_a_harmed_log_tail_is_the_end_of_the_log_and_costs_no_durable_block(paging, harm):
    paging.commit(paging.pager(), range(6))
    paging.pagers.pop().close()
    log = paging.folder / "blocks.log"
    whole = log.read_bytes()
    half = len(whole) // 2
    used = [at for at in range(0, len(whole), 64) if whole[at : at + 4] == b"WPrc"]
    first = used[len(used) // 2] if max(used) > half else 0
    for at in range(first, max(used) + 64, 37):
        harmed = bytearray(whole)
        if harm == "flipped":
            harmed[at] ^= 0x40
        else:
            end = len(whole) if harm == "torn" else min(len(whole), at + 64)
            harmed[at:end] = bytes(end - at)
        log.write_bytes(harmed)
        pager = paging.pager()
        assert pager.durable_at_start == frozenset(range(6)), f"{harm} at {at}"
        pager.close()
        paging.pagers.pop()


def test_11_an_orphan_of_a_crash_leaves_no_slot_behind(paging):
    pager = paging.pager(nvme=6)
    paging.commit(pager, range(3))
    paging.trouble.sync_errors.extend([0, errno.EIO])  # the data is there, its record is not
    paging.commit(pager, [3], flushes=False)
    pager.flush(5.0)
    paging.pagers.pop().close()
    again = paging.pager(nvme=6)
    shelf = again._table.worlds["w"]
    assert len(shelf.slots.free) + len(shelf.order) == shelf.slots.num_slots == 6


def test_12_the_free_list_is_derived_so_that_slots_in_flight_at_the_end_come_back(paging):
    pager = paging.pager(nvme=6)
    paging.trouble.is_stalled = True
    for block in range(3):
        pager.commit(paging.key(block), paging.fresh(block))
    wait_for(lambda: Route.WRITE in {route for _, route in pager._keeper._traffic.moves})
    image = (paging.folder / "blocks.log").read_bytes()
    paging.trouble.is_stalled = False
    assert pager.flush(5.0)
    paging.pagers.pop().close()
    (paging.folder / "blocks.log").write_bytes(image)  # as the log was while the writes were under way
    again = paging.pager(nvme=6)
    shelf = again._table.worlds["w"]
    assert len(shelf.slots.free) + len(shelf.order) == 6


def test_13_a_full_log_is_rewritten_or_says_that_it_could_not_be(paging):
    pager = paging.pager(nvme=8)
    manifest = pager._slabs["w"]._manifest
    paging.commit(pager, range(2))
    manifest._num_records = (manifest._region_bytes - 4096) // 64  # as after thousands of records
    paging.trouble.sync_errors.extend([0, errno.EIO])  # data, then the rewriting
    paging.commit(pager, [2], flushes=False)
    pager.flush(5.0)
    assert any("could not write the log" in note for note in pager.stats("w").notes)
    paging.commit(pager, [3])
    paging.pagers.pop().close()
    assert {0, 1, 3} <= paging.pager(nvme=8).durable_at_start


def test_14_a_block_that_is_being_written_is_read_from_memory_never_from_the_disk(paging):
    pager = paging.pager()
    paging.trouble.is_stalled = True
    pager.commit(paging.key(0), paging.fresh(0))
    assert paging.recall_exact(pager, [0]) == [0]
    assert pager.stats("w").disk_read_bytes == 0
    assert not pager.is_durable(paging.key(0))
    paging.trouble.is_stalled = False
    assert pager.flush(10.0)


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
    begin_s = time.perf_counter()
    assert pager.recall("h", [paging.key(4), paging.key(5)]).stale
    assert pager.recall_exact("other", [paging.key(6)], 0.05).missing == (paging.key(6),)
    assert time.perf_counter() - begin_s < 5.0
    for lease in leases:
        lease.release()
    for lease, _ in pager._keeper._view._pins._leases:
        lease.release()
    assert pager._keeper._view._pins._leases == ()
    assert paging.recall_exact(pager, [4, 5]) == [4, 5]


@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_17_a_write_error_leaks_neither_a_buffer_nor_the_quota(paging, nth, code):
    pager = paging.pager(dram=4)
    paging.commit(pager, [0])
    paging.trouble.write_errors.extend([0] * nth + [code])
    paging.commit(pager, range(1, 6))
    assert [pager.is_durable(paging.key(block)) for block in range(6)] == [True] * 6
    wait_for(lambda: not pager._keeper._traffic.moves)
    pager._table.check()
    assert len(pager._table.worlds["w"].slots.bad) == 1


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


def test_20_a_disk_too_small_for_the_slab_says_so_before_the_walk_begins(paging):
    pager = paging.pager(opens=False, disk=RamDisk(capacity_bytes=100_000))
    with pytest.raises(WorldFault, match=r"needs [\d,]+ bytes .* --nvme"):
        pager.open_world("w", paging.folder)


def test_20_a_disk_that_others_fill_costs_no_block_because_the_slab_has_its_space(paging):
    disk = RamDisk(capacity_bytes=4_000_000)
    pager = paging.pager(disk=disk)
    fd = disk.open(paging.folder / "hog", is_direct=False, create=True)
    disk.allocate(fd, disk.free_bytes(paging.folder))
    paging.commit(pager, range(30))
    assert pager.stats("w").lost == 0
    assert not [note for note in pager.stats("w").notes if "direct" not in note]


def test_21_one_victim_that_cannot_leave_does_not_wedge_forgetting(paging):
    pager = paging.pager(nvme=4, dram=4)
    paging.commit(pager, range(4))
    real_erase, failed = pager._slabs["w"].erase, []

    def erase(slots):
        if slots and not failed:
            failed.extend(slots)
        return "made to fail" if failed and slots[:1] == failed[:1] and len(failed) == 1 else real_erase(slots)

    pager._slabs["w"].erase = erase
    paging.commit(pager, range(4, 7))
    assert pager.is_durable(paging.key(6))
    assert pager._table.worlds["w"].slots.bad == set(failed)


def test_22_direct_io_that_is_accepted_and_then_refused_is_seen_and_told(paging):
    class Refusing(BadDisk):
        def open(self, path, *, is_direct, create):
            fd = super().open(path, is_direct=False, create=create)
            if is_direct:
                self._direct.add(fd)
            return fd

    disk = Refusing(RealDisk())
    disk.trouble.refuses_direct = True
    pager = paging.pager(disk=disk, dram=4, gpu=4)
    paging.commit(pager, range(8))
    assert paging.recall_exact(pager, [0, 1]) == [0, 1]
    assert not pager.stats("w").direct_io
    assert any("direct IO" in note for note in pager.stats("w").notes)
    if fincore := shutil.which("fincore"):
        line = [fincore, "--bytes", "--noheadings", "--output", "RES", paging.folder / "blocks.slab"]
        resident = int(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
        assert resident <= 2 * pager.layout.slot_bytes, "the page cache is bounded all the same"


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


def test_25_blocks_of_other_weights_are_not_taken_for_ours(paging):
    paging.commit(paging.pager(), range(2))
    paging.pagers.pop().close()
    stranger = paging.pager(fingerprint="other weights", opens=False)
    with pytest.raises(WorldFault, match="other weights"):
        stranger.open_world("w", paging.folder)
    assert paging.pager().durable_at_start == {0, 1}


def test_25_scales_are_inside_the_checksum(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    overwrite_slot(paging, pager, 0, data=b"\x55", at=pager.layout.scales_at + 3)
    assert paging.recall_exact(pager, [0, 1]) == [1]
    assert any("scales is damaged" in note for note in pager.stats("w").notes)


def test_26_an_opening_that_fails_leaves_the_open_worlds_as_they_were(paging, tmp_path_factory):
    pager = paging.pager()
    paging.commit(pager, range(4))
    other = tmp_path_factory.mktemp("other")
    (other / "blocks.log").write_bytes(bytes(300_000))
    (other / "blocks.slab").write_bytes(b"x" * 8192)
    with pytest.raises(WorldFault):
        pager.open_world("broken", other)
    assert paging.recall_exact(pager, [0, 1]) == [0, 1]
    assert set(pager._table.worlds) == {"w"}
    RealDisk().close(RealDisk().lock(other))  # and its folder is not locked
