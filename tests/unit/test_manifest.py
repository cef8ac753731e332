"""The log of a slab by itself: harmed at any byte, written by a stranger, rewritten when it is full."""

from pathlib import Path

import pytest

from server.pager.move.manifest import (
    MAX_GENERATION,
    MAX_OPENINGS,
    RECORD_BYTES,
    Kind,
    Record,
    Terms,
    base_records,
    make_log,
    pack_record,
    read_log,
    region_bytes,
    reopen_log,
    replay,
)
from server.pager.move.ram_disk import RamDisk
from server.pager.moves import Held

TERMS = Terms(b"f" * 16, b"s" * 16, 8)
PATH = Path("/world/blocks.log")
SALT = 5
RECORDS = [
    Record(Kind.OPENED, 0, 0, 1),
    *(Record(Kind.PUT, slot, 10 + slot, 100 + slot) for slot in range(4)),
    Record(Kind.DROPPED, 1, 0, 0),
    Record(Kind.PUT, 1, 20, 110),
]


def packed(records):
    return b"".join(pack_record(record, SALT, index) for index, record in enumerate(records))


def held_after(num_records):
    return replay(packed(RECORDS[:num_records]), SALT).held


def test_a_log_says_what_was_put_and_not_dropped():
    assert held_after(len(RECORDS)) == {0: Held(10, 100), 1: Held(20, 110), 2: Held(12, 102), 3: Held(13, 103)}


@pytest.mark.parametrize("harm", ["torn", "zeroed", "flipped"])
def test_harm_at_any_byte_ends_the_log_there_and_never_makes_a_record(harm):
    whole = packed(RECORDS) + bytes(RECORD_BYTES)
    for at in range(RECORD_BYTES * len(RECORDS)):
        harmed = bytearray(whole)
        if harm == "torn":
            harmed[at:] = bytes(len(whole) - at)
        elif harm == "zeroed":
            harmed[at : at + RECORD_BYTES] = bytes(RECORD_BYTES)
        else:
            harmed[at] ^= 0x01
        state = replay(bytes(harmed), SALT)
        before = at // RECORD_BYTES
        is_harmless = harmed == whole  # zeros where zeros were
        assert state.held == held_after(len(RECORDS) if is_harmless else before), f"{harm} at {at}"


def test_a_record_of_another_use_of_the_region_or_of_another_place_is_none():
    assert replay(packed(RECORDS), SALT + 2).held == {}
    assert replay(pack_record(RECORDS[1], SALT, 7), SALT).held == {}


@pytest.mark.parametrize(
    "record",
    [
        Record(9, 0, 1, 1),  # a kind that there is not
        Record(Kind.PUT, 0, 1, MAX_GENERATION),
        Record(Kind.OPENED, 0, 0, MAX_OPENINGS),
    ],
    ids=["kind", "generation", "opening"],
)
def test_a_record_that_checks_and_cannot_be_ours_ends_the_log(record):
    state = replay(packed([*RECORDS[:2], record, *RECORDS[2:]]), SALT)
    assert state.held == held_after(2)
    assert not state.is_whole


def made(disk):
    return make_log(disk, PATH, TERMS, replay(b"", SALT), 0)


def test_a_log_that_is_rewritten_says_the_same_with_fewer_records():
    disk = RamDisk()
    manifest = made(disk)
    num_puts = 2 * region_bytes(TERMS.num_slots) // RECORD_BYTES
    for index in range(num_puts):
        manifest.append([Record(Kind.PUT, index % 8, index, index + 1)])
    found = read_log(disk, manifest.fd)
    assert found.state.held == {index % 8: Held(index, index + 1) for index in range(num_puts - 8, num_puts)}
    assert found.state.newest == num_puts
    assert disk.size(manifest.fd) == 2 * region_bytes(TERMS.num_slots), "it never needs more space"
    assert len(base_records(found.state)) == 1 + 8


def test_a_log_goes_on_in_its_other_half_and_leaves_the_one_it_was_read_from():
    disk = RamDisk()
    manifest = made(disk)
    manifest.append([Record(Kind.PUT, 3, 7, 70)])
    before = bytes(disk.names[PATH].now)
    found = read_log(disk, manifest.fd)
    reopen_log(disk, manifest.fd, found).append([Record(Kind.PUT, 4, 8, 80)])
    after, half = disk.names[PATH].now, region_bytes(TERMS.num_slots)
    kept = [before[at : at + half] == after[at : at + half] for at in (0, half)]
    assert sorted(kept) == [False, True]
    assert read_log(disk, manifest.fd).state.held == {3: Held(7, 70), 4: Held(8, 80)}


def test_a_file_beyond_all_reason_is_not_read():
    disk = RamDisk()
    manifest = made(disk)

    class Endless(RamDisk):
        def size(self, fd):
            return 1 << 50

    endless = Endless()
    endless._open = disk._open
    assert read_log(endless, manifest.fd) is None
