"""The append-only log: whole records come back, and nothing after a torn, zeroed or flipped one."""

import random

import pytest

from server.record_log import RecordLog, read_records


def written(path, records):
    log = RecordLog(path, 0)
    for record in records:
        log.append(record)
    log.close()


def read(path):
    return [record for record, _ in read_records(path)]


RECORDS = [{"kind": "moment", "id": number, "data": bytes(number * 7)} for number in range(12)]


def test_records_come_back_in_order(tmp_path):
    written(tmp_path / "log", RECORDS)
    assert read(tmp_path / "log") == RECORDS


def test_a_log_cut_at_any_byte_ends_at_its_last_whole_record(tmp_path):
    path = tmp_path / "log"
    written(path, RECORDS)
    data = path.read_bytes()
    ends = [end for _, end in read_records(path)]
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        assert read(path) == RECORDS[: sum(end <= cut for end in ends)]


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_ends_the_log_before_it(tmp_path, seed):
    path = tmp_path / "log"
    written(path, RECORDS)
    data = bytearray(path.read_bytes())
    at = random.Random(seed).randrange(len(data))
    ends = [end for _, end in read_records(path)]
    data[at] ^= 1 << (seed % 8)
    path.write_bytes(data)
    assert read(path) == RECORDS[: sum(end <= at for end in ends)]


def test_a_tail_of_zeros_is_the_end_of_the_log(tmp_path):
    path = tmp_path / "log"
    written(path, RECORDS)
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert read(path) == RECORDS


def test_appending_after_a_torn_tail_cuts_the_tail_off(tmp_path):
    path = tmp_path / "log"
    written(path, RECORDS)
    end = [end for _, end in read_records(path)][-1]
    path.write_bytes(path.read_bytes() + b"torn")
    log = RecordLog(path, end)
    log.append({"kind": "more"})
    log.close()
    assert read(path) == [*RECORDS, {"kind": "more"}]
