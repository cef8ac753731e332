"""The memory of a tier: where it lies, that it is there from the start, and that no child has it."""

from pathlib import Path

import pytest

from models.base import KVSpec
from server.pager.layout import PAGE_BYTES, SlotLayout
from server.pager.move import arena as arena_module
from server.pager.move.arena import PIECE_BYTES, Arena

LAYOUT = SlotLayout(KVSpec(layers=2, tokens=40, width=1536, head_width=128))
NUM_SLOTS = 40


def mapping_of(address):
    """The lines of /proc/self/smaps about the mapping that an address lies in: {name: words}."""
    found, is_it = {}, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *words = line.split()
        if not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            is_it = start <= address < end
        elif is_it:
            found[first[:-1]] = words
    return found


def test_slots_stand_on_pages_and_do_not_overlap():
    arena = Arena(LAYOUT, 5, piece_bytes=2 * LAYOUT.slot_bytes)
    starts = [arena.array(slot).ctypes.data for slot in range(5)]
    assert all(start % PAGE_BYTES == 0 for start in starts)
    for slot in range(5):
        arena.array(slot)[:] = slot + 1
    assert [set(arena.array(slot).tolist()) for slot in range(5)] == [{slot + 1} for slot in range(5)]
    assert bytes(arena.view(3)) == bytes(arena.tensor(3).numpy())


def test_a_piece_is_at_most_a_gibibyte_because_registering_rounds_up():
    assert PIECE_BYTES == 1 << 30
    arena = Arena(LAYOUT, 10, piece_bytes=3 * LAYOUT.slot_bytes)
    assert [len(piece) // LAYOUT.slot_bytes for piece in arena.pieces] == [3, 3, 3, 1]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's account of mappings")
def test_all_of_it_is_there_from_the_start_and_no_child_has_it():
    arena = Arena(LAYOUT, NUM_SLOTS)
    mapping = mapping_of(arena.array(0).ctypes.data)
    assert int(mapping["Rss"][0]) << 10 >= NUM_SLOTS * LAYOUT.slot_bytes
    assert "dc" in mapping["VmFlags"], "a fork() during direct IO could leave a page behind"


def test_memory_that_cannot_be_mapped_makes_the_tier_smaller_and_says_so(monkeypatch):
    real, pieces = arena_module._map_piece, []

    def map_piece(num_bytes):
        if len(pieces) == 2:
            raise OSError(12, "no memory")
        pieces.append(num_bytes)
        return real(num_bytes)

    monkeypatch.setattr(arena_module, "_map_piece", map_piece)
    arena = Arena(LAYOUT, 10, piece_bytes=4 * LAYOUT.slot_bytes)
    assert arena.num_slots == 8
    assert "memory for 10 slots was asked for, 8 could be mapped" in arena.note
