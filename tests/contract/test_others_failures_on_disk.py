"""What went wrong in other people's KV stores, once each, with our pager in their place: reads, writes, log and slab.

Numbers are those of the list of 26 in the study of issue trackers that the pager was designed from.
"""

import errno
import os
import shutil
import subprocess

import pytest

from server.pager.errors import WorldFault
from server.pager.move.bad_disk import BadDisk
from server.pager.move.disk import RealDisk
from server.pager.move.ram_disk import RamDisk
from server.pager.moves import Route
from shared.tiers import Tier


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


@pytest.mark.parametrize(("max_bytes", "is_direct"), [(4096, True), (8192, True), (97, False), (4095, False)])
def test_07_short_reads_and_short_writes_are_carried_on_until_all_is_there(paging, max_bytes, is_direct):
    paging.trouble.max_bytes = max_bytes
    paging.trouble.refuses_direct = not is_direct
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    assert paging.recall_exact(pager, [0, 5]) == [0, 5]


class EndingDisk(BadDisk):
    """Reads as from a file that was cut short: half of the bytes, then none, and no error."""

    ends = False

    def read(self, fd, into, offset):
        if not self.ends:
            return super().read(fd, into, offset)
        return super().read(fd, into[: len(into) // 2 & -4096], offset) if len(into) > 4096 else 0


def test_07_a_read_that_ends_early_is_a_miss_and_not_the_rest_of_an_older_block(paging):
    disk = EndingDisk(RealDisk())
    pager = paging.pager(dram=4, gpu=4, disk=disk)
    paging.commit(pager, range(8))
    disk.ends = True
    assert paging.recall_exact(pager, [0]) == []
    disk.ends = False
    assert paging.recall_exact(pager, [1, 2]) == [1, 2]


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
    pager.flush(60.0)
    paging.pagers.pop().close()
    again = paging.pager(nvme=6)
    shelf = again._table.worlds["w"]
    assert len(shelf.slots.free) + len(shelf.order) == shelf.slots.num_slots == 6


def test_12_the_free_list_is_derived_so_that_slots_in_flight_at_the_end_come_back(paging):
    pager = paging.pager(nvme=6)
    paging.trouble.is_stalled = True
    for block in range(3):
        pager.commit(paging.key(block), paging.fresh(block))
    paging.wait_for(lambda: Route.WRITE in {route for _, route in pager._keeper._traffic.moves})
    image = (paging.folder / "blocks.log").read_bytes()
    paging.trouble.is_stalled = False
    assert pager.flush(60.0)
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
    pager.flush(60.0)
    assert any("could not write the log" in note for note in pager.stats("w").notes)
    paging.commit(pager, [3])
    paging.pagers.pop().close()
    assert {0, 1, 3} <= paging.pager(nvme=8).durable_at_start


@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_17_a_write_error_leaks_neither_a_buffer_nor_the_quota(paging, nth, code):
    pager = paging.pager(dram=4)
    paging.commit(pager, [0])
    paging.trouble.write_errors.extend([0] * nth + [code])
    paging.commit(pager, range(1, 6))
    assert [pager.is_durable(paging.key(block)) for block in range(6)] == [True] * 6
    paging.wait_for(lambda: not pager._keeper._traffic.moves)
    pager._table.check()
    assert len(pager._table.worlds["w"].slots.bad) == 1


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
