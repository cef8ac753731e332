"""The slab by itself: pieces, cancelling, reads before writes, failed syncs, and finding blocks without the log."""

import errno
import threading
import time
from pathlib import Path

import pytest

from models.base import KVSpec
from server.pager.errors import WorldFault
from server.pager.header import Identity, seal
from server.pager.layout import PAGE_BYTES, SlotLayout
from server.pager.move.bad_disk import BadDisk
from server.pager.move.manifest import MAX_GENERATION, Kind, Record
from server.pager.move.ram_disk import RamDisk
from server.pager.move.recover import SlabOpener
from server.pager.move.slab import PIECE_BYTES, SlotWrite, slot_at
from server.pager.move.workers import NUM_READERS
from server.pager.moves import Held

LAYOUT = SlotLayout(KVSpec(layers=2, tokens=40, width=256, head_width=128))
FOLDER = Path("/world")
NUM_SLOTS = 6
NUM_PIECES = -(-LAYOUT.moved_bytes // PAGE_BYTES)


def opener(disk, num_slots=NUM_SLOTS):
    return SlabOpener(disk, LAYOUT, b"f" * 16, slot_at(LAYOUT, num_slots), piece_bytes=PAGE_BYTES, num_hands=1)


def block_of(slab, block, generation):
    data = memoryview(bytearray(bytes([block]) * LAYOUT.moved_bytes))
    seal(data, LAYOUT, Identity(slab.fingerprint, slab.store_id, block, generation))
    return data


def write(slab, slot, block, generation):
    (written,) = slab.write([SlotWrite(slot, block, generation, block_of(slab, block, generation))])
    return written


def read(slab, slot, block, generation, is_cancelled=lambda: False):
    into = memoryview(bytearray(LAYOUT.moved_bytes))
    return slab.read(slot, block, generation, into, is_cancelled), into


class CountingDisk(BadDisk):
    """Remembers how long each read and write was, in order, and what was let go of from the page cache."""

    def __init__(self, below):
        super().__init__(below)
        self.calls, self.dropped = [], []

    def drop_cache(self, fd, offset, num_bytes):
        self.dropped.append((offset, num_bytes))

    def read(self, fd, into, offset):
        self.calls.append(("read", len(into)))
        return super().read(fd, into, offset)

    def write(self, fd, data, offset):
        self.calls.append(("write", len(data)))
        return super().write(fd, data, offset)


def test_the_products_pieces_are_a_cancels_worth_and_its_readers_two():
    assert 8 << 20 <= PIECE_BYTES <= 31 << 20
    assert NUM_READERS == 2


def test_a_block_moves_in_pieces_and_comes_back_the_same():
    disk = CountingDisk(RamDisk())
    slab = opener(disk).open(FOLDER).slab
    disk.calls.clear()
    assert write(slab, 2, 9, 1).error is None
    assert [size for kind, size in disk.calls if kind == "write"][:NUM_PIECES] == [PAGE_BYTES] * NUM_PIECES
    fault, into = read(slab, 2, 9, 1)
    assert fault is None
    assert into == block_of(slab, 9, 1)


def test_a_cancelled_read_stops_between_two_pieces():
    disk = CountingDisk(RamDisk())
    slab = opener(disk).open(FOLDER).slab
    write(slab, 0, 1, 1)
    disk.calls.clear()
    fault, _ = read(slab, 0, 1, 1, is_cancelled=lambda: len(disk.calls) == 3)
    assert fault.error == "cancelled"
    assert not fault.is_damaged
    assert len(disk.calls) == 3 < NUM_PIECES


@pytest.mark.parametrize("end", ["good", "cancelled", "damaged", "failed"])
def test_without_direct_io_the_page_cache_is_let_go_of_however_a_read_ends(end):
    disk = CountingDisk(RamDisk())
    disk.trouble.refuses_direct = True
    slab = opener(disk).open(FOLDER).slab
    write(slab, 3, 1, 1)
    assert not slab.is_direct
    disk.dropped.clear()
    disk.trouble.read_errors.extend([errno.EIO] if end == "failed" else [])
    fault, _ = read(slab, 3, 2 if end == "damaged" else 1, 1, is_cancelled=lambda: end == "cancelled")
    assert (fault is None) == (end == "good")
    assert disk.dropped == [(slot_at(LAYOUT, 3), LAYOUT.moved_bytes)]


def test_a_write_waits_for_reads_but_not_for_ever():
    disk = BadDisk(RamDisk())
    slab = opener(disk).open(FOLDER).slab
    write(slab, 0, 1, 1)
    disk.trouble.is_stalled = True
    reader = threading.Thread(target=read, args=(slab, 0, 1, 1))
    reader.start()
    while slab._readers._count == 0:
        time.sleep(0.001)
    begin_s = time.monotonic()
    slab._readers.wait_until_none(0.05)
    assert time.monotonic() - begin_s >= 0.05, "the read goes first"
    disk.trouble.is_stalled = False
    reader.join()
    slab._readers.wait_until_none(1e9)  # returns: nobody reads


def test_a_failed_sync_is_not_tried_again_and_its_slots_are_bad():
    disk = BadDisk(RamDisk())
    opened = opener(disk).open(FOLDER)
    disk.trouble.sync_errors.append(errno.EIO)
    written = write(opened.slab, 0, 1, 1)
    assert written.is_slot_bad
    assert "could not sync the data" in written.error
    assert not disk.trouble.sync_errors
    assert opened.slab._manifest.state.held == {}, "no record of it"
    assert write(opened.slab, 1, 1, 2).error is None, "the block is written elsewhere"
    assert opened.slab._manifest.state.held == {1: Held(1, 2)}


def test_a_log_that_cannot_be_synced_makes_the_slots_bad_as_well():
    disk = BadDisk(RamDisk())
    slab = opener(disk).open(FOLDER).slab
    disk.trouble.sync_errors.extend([0, errno.EIO])  # the data, then the record
    written = write(slab, 0, 1, 1)
    assert written.is_slot_bad
    assert "could not write the log" in written.error


def test_blocks_are_found_by_their_own_headers_when_the_log_is_gone():
    disk = RamDisk()
    slab = opener(disk).open(FOLDER).slab
    for block in range(4):
        write(slab, block, 10 + block, 1 + block)
    slab.close()
    disk._locked.clear()
    disk.unlink(FOLDER / "blocks.log")
    opened = opener(disk).open(FOLDER)
    assert opened.held == {slot: Held(10 + slot, 1 + slot) for slot in range(4)}
    assert any("found by their own headers" in note for note in opened.notes)
    assert all(read(opened.slab, slot, 10 + slot, 1 + slot)[0] is None for slot in range(4))


def test_after_a_kill_only_the_headers_of_logged_blocks_are_read():
    disk = CountingDisk(RamDisk())
    slab = opener(disk).open(FOLDER).slab
    for block in range(4):
        write(slab, block, 10 + block, 1 + block)
    disk._below._locked.clear()
    disk.calls.clear()
    opened = opener(disk).open(FOLDER)
    assert len(opened.held) == 4
    assert LAYOUT.moved_bytes not in [size for kind, size in disk.calls if kind == "read"]


def test_a_slot_whose_header_no_server_of_ours_can_have_written_is_free():
    disk = RamDisk()
    slab = opener(disk).open(FOLDER).slab
    write(slab, 0, 1, 1)
    write(slab, 1, 2, MAX_GENERATION)
    disk._locked.clear()
    opened = opener(disk).open(FOLDER)  # after a kill
    assert opened.held == {0: Held(1, 1)}


@pytest.mark.parametrize("slot", [NUM_SLOTS, (1 << 32) - 1])
def test_a_slot_beyond_the_slab_is_no_slot_whatever_the_log_says(slot):
    disk = RamDisk()
    slab = opener(disk).open(FOLDER).slab
    write(slab, 0, 1, 1)
    slab._manifest.append([Record(Kind.PUT, slot, 5, 5)])
    slab.close()
    disk._locked.clear()
    opened = opener(disk).open(FOLDER)
    assert opened.held == {0: Held(1, 1)}
    assert any("cut short" in note for note in opened.notes)


def test_a_slab_that_is_gone_is_said_to_be_and_a_new_one_is_made():
    disk = RamDisk()
    slab = opener(disk).open(FOLDER).slab
    write(slab, 0, 1, 1)
    slab.close()
    disk._locked.clear()
    disk.unlink(FOLDER / "blocks.slab")
    opened = opener(disk).open(FOLDER)
    assert opened.held == {}
    assert any("was gone" in note for note in opened.notes)


def test_a_folder_is_open_once():
    disk = RamDisk()
    opener(disk).open(FOLDER)
    with pytest.raises(WorldFault, match="open in another process"):
        opener(disk).open(FOLDER)
