"""The frame of an exported world: what is damaged, cut, reordered or too large is refused before it is used."""

import io

import pytest

from server.archive import MAGIC, ArchiveWriter, read_archive
from server.faults import WorldFault

ENTRIES = [("about.json", b"{}"), ("moments.log", bytes(range(256)) * 9000), ("empty", b""), ("states/1", b"abc")]


def archive(entries=ENTRIES):
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    for name, data in entries:
        writer.add(name, len(data), [data[at : at + 1000] for at in range(0, len(data), 1000)])
    writer.end()
    return file.getvalue()


def read(data, limit_of=lambda name: 1 << 30):
    return [(entry.name, entry.whole()) for entry in read_archive(io.BytesIO(data), limit_of)]


def test_entries_come_back_in_order():
    assert read(archive()) == ENTRIES


def test_a_flipped_byte_anywhere_is_refused():
    data = archive([("a", b"0123456789"), ("b", b"x")])
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x20
        with pytest.raises(WorldFault):
            read(bytes(damaged))


def test_a_file_cut_at_any_byte_is_refused():
    data = archive([("a", b"0123456789"), ("b", b"x")])
    for end in range(len(data)):
        with pytest.raises(WorldFault):
            read(data[:end])


def test_a_file_with_something_behind_its_end_is_refused():
    with pytest.raises(WorldFault, match="end"):
        read(archive() + b"\0")


def test_an_entry_that_is_left_out_is_missed():
    whole, without = archive([("a", b"1"), ("b", b"2")]), archive([("b", b"2")])
    with pytest.raises(WorldFault):
        read(whole[: whole.index(b'{"name": "b"') - 4] + without[without.index(b'{"end"') - 4 :])


def test_an_entry_larger_than_allowed_is_refused_before_it_is_read():
    class Counting(io.BytesIO):
        num_read = 0

        def read(self, size=-1):
            self.num_read += size
            return super().read(size)

    file = Counting(archive([("a", bytes(50_000))]))
    with pytest.raises(WorldFault, match="50,000 bytes"):
        list(read_archive(file, lambda name: 49_999))
    assert file.num_read < 1000


def test_an_entry_of_an_unknown_name_is_refused():
    with pytest.raises(WorldFault, match="not allowed"):
        read(archive([("../../etc/passwd", b"")]), lambda name: -1)


def test_a_header_that_is_no_object_or_too_long_is_refused():
    for text in (b"[]", b"nul", b'{"name": 3, "bytes": 1}', b'{"name": "a", "bytes": -1}', b"[" * 900):
        with pytest.raises(WorldFault):
            read(MAGIC + len(text).to_bytes(4, "little") + text)
    with pytest.raises(WorldFault, match="too long"):
        read(MAGIC + (1 << 30).to_bytes(4, "little"))


def test_an_entry_that_changes_while_it_is_written_is_our_own_fault():
    with pytest.raises(ValueError, match="changed"):
        ArchiveWriter(io.BytesIO()).add("a", 3, [b"ab"])
