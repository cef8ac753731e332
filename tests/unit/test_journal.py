"""What is asked of a journal happens in the order in which it was asked for, and a disk that refuses loses nothing."""

import errno
import threading

import numpy as np
import pytest
import torch

from models.base import SavedState
from server import record_log
from server.journal import Journal
from server.moments import Moment
from server.record_log import RecordLog, read_records
from server.saves import Save, branch_record, head_record, in_turn, snapshot_record
from server.world_check import check_world
from server.world_log import load_head, read_world_log
from server.worlds import Worlds
from shared.pose import Pose

POSES = (Pose(), Pose())


def moment(number):
    footprint = np.zeros((2, 3), np.float32)
    hashes = (b"h" * 16,)
    return Moment(number, number - 1, number, 5, (), POSES, (), False, False, hashes, True, POSES, footprint)


def save(number, *records):
    state = SavedState({"chunk_index": number}, {"window.0": torch.full((2, 3), float(number))})
    return Save(number, state, records)


def kept(name, number):
    return save(number, snapshot_record(name, number, 1.0))


def dropped(name, what="snapshot"):
    return {"kind": "dropped", "what": what, "name": name}


class Held:
    """A disk that holds the journal up in its first save, so that what is asked for meanwhile comes as one batch."""

    def __init__(self):
        self.is_in = threading.Event()
        self.may_go = threading.Event()

    def __call__(self, timeout_s):
        self.is_in.set()
        assert self.may_go.wait(60.0)
        return True


@pytest.fixture
def made(tmp_path):
    return Worlds(tmp_path).make("attic", 7, "plain", "ff")


def in_one_batch(made, *jobs):
    """Have a journal do these at once; returns the results of the saves."""
    held = Held()
    journal = Journal(made, held)
    for number in range(6):
        journal.note(moment(number))
    first = journal.keep(save(0, head_record("main", 0, 1)))
    assert held.is_in.wait(60.0)
    done = []
    for job in jobs:
        if isinstance(job, Save):
            done.append(journal.keep(job))
        else:
            journal.drop(job["what"], job["name"])
    held.may_go.set()
    journal.close(60.0)
    assert first.result(0)
    return [each.result(0) for each in done]


def states_of(made):
    return sorted(path.name for path in (made.folder / "states").iterdir())


def test_a_drop_waits_for_the_save_of_what_it_drops_and_goes_before_every_other():
    a, b, c = kept("a", 1), kept("b", 2), save(3, branch_record("a", 3, 0.0))
    drop_a, drop_x = dropped("a"), dropped("x")
    assert list(in_turn([a, b, drop_x])) == [([drop_x], [a, b])]
    assert list(in_turn([a, drop_a, b])) == [([], [a]), ([drop_a], [b])]
    assert list(in_turn([drop_a, a])) == [([drop_a], [a])]
    assert list(in_turn([c, drop_a])) == [([drop_a], [c])], "a branch is no snapshot"
    assert list(in_turn([c, moment(1), dropped("a", "branch")])) == [
        ([moment_of(1)], [c]),
        ([dropped("a", "branch")], []),
    ]


class moment_of:  # noqa: N801 - reads as a value: equal to the moment of this id, whose arrays cannot be compared
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return other.id == self.number

    __hash__ = None


def test_a_snapshot_that_was_dropped_before_it_was_written_stays_dropped(made):
    assert in_one_batch(made, kept("a", 1), dropped("a"), kept("b", 2)) == [True, True]
    log = read_world_log(made.folder)
    assert set(log.snapshots) == {"b"}
    assert states_of(made) == ["0.safetensors", "2.safetensors"]


def test_a_name_that_is_given_again_means_what_it_was_given_to_last(made):
    assert in_one_batch(made, kept("a", 1), dropped("a"), kept("a", 2)) == [True, True]
    log = read_world_log(made.folder)
    assert log.snapshots["a"].moment == 2
    assert load_head(made.folder, log.snapshots["a"]).saved.facts["chunk_index"] == 2


def test_a_drop_leaves_the_file_of_what_is_kept_of_the_same_moment_in_the_same_breath(made):
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    journal.note(moment(1))
    assert journal.keep(kept("a", 1)).result(60)
    journal.close(60.0)
    opened = Worlds(made.folder.parent).open(made.card, at="a")
    assert in_one_batch(opened, dropped("a"), kept("b", 1)) == [True]
    log = read_world_log(made.folder)
    assert load_head(made.folder, log.snapshots["b"]).saved.facts["chunk_index"] == 1


def test_a_file_goes_only_once_the_disk_has_the_record_that_drops_it(made, monkeypatch):
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    assert journal.keep(kept("a", 0)).result(60)

    def refuse(file):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(record_log.os, "fdatasync", refuse)
        journal.drop("snapshot", "a")
        assert not journal.save(0, save(0).state).result(60)
        assert states_of(made) == ["0.safetensors"]
        assert "Check the disk" in journal.fault
    journal.note(moment(1))
    assert journal.save(1, save(1).state).result(60)
    journal.close(60.0)
    assert states_of(made) == ["1.safetensors"]
    assert read_world_log(made.folder).snapshots == {}


@pytest.mark.parametrize("refuses", ["write_aside", "append"])
def test_a_save_that_a_full_disk_refuses_leaves_no_file_and_can_be_asked_for_again(made, monkeypatch, refuses):
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    assert journal.save(0, save(0).state).result(60)
    real, num_written = record_log.os.fsync, [0]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def full_at_second(file):
        num_written[0] += 1
        return real(file) if num_written[0] < 2 else full()

    with monkeypatch.context() as disk:
        if refuses == "append":
            disk.setattr(record_log.os, "pwrite", full)
        else:
            disk.setattr(record_log.os, "fsync", full_at_second)
        both = [journal.keep(kept("a", 0)), journal.keep(kept("b", 1)), journal.keep(kept("c", 2))]
        assert False in [each.result(60) for each in both]
        assert "Free space" in journal.fault
    before = set(states_of(made))
    assert not any(name.endswith(".new") for name in before)
    named = {each.file for each in read_world_log(made.folder).kept()}
    assert before <= named, "what no record names is in the way"
    journal.note(moment(1))
    journal.note(moment(2))
    assert all(journal.keep(each).result(60) for each in (kept("a", 0), kept("b", 1), kept("c", 2)))
    assert journal.fault == ""
    journal.close(60.0)
    log = read_world_log(made.folder)
    assert all(load_head(made.folder, each).saved.facts["chunk_index"] == each.moment for each in log.kept())
    assert set(log.snapshots) == {"a", "b", "c"}


def test_a_file_that_a_snapshot_names_is_not_written_over_when_its_moment_is_saved_again(made):
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    assert journal.keep(kept("a", 0)).result(60)
    journal.close(60.0)
    opened = Worlds(made.folder.parent).open(made.card, at="a")
    journal = Journal(opened, lambda timeout_s: True)
    other_build = SavedState({"chunk_index": 0, "told": "otherwise"}, save(0).state.tensors)
    assert journal.save(0, other_build).result(60)
    journal.close(60.0)
    log = read_world_log(made.folder)
    assert load_head(made.folder, log.snapshots["a"]).saved.facts == {"chunk_index": 0}
    assert log.heads["main"][-1].hash == log.snapshots["a"].hash


def test_a_damaged_file_is_written_anew_when_its_moment_is_saved_again(made):
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    journal.note(moment(1))
    assert journal.keep(kept("a", 0)).result(60)
    assert journal.save(1, save(1).state).result(60)
    journal.close(60.0)
    (made.folder / "states" / "0.safetensors").write_bytes(b"damaged")
    journal = Journal(Worlds(made.folder.parent).open(made.card), lambda timeout_s: True)
    assert journal.save(0, save(0).state).result(60)
    journal.close(60.0)
    assert load_head(made.folder, read_world_log(made.folder).snapshots["a"]).saved.facts == {"chunk_index": 0}


def test_a_save_whose_blocks_are_late_is_written_and_not_called_durable(made, monkeypatch):
    monkeypatch.setattr("server.journal.BLOCKS_WAIT_S", 0.0)
    journal = Journal(made, lambda timeout_s: False)
    journal.note(moment(0))
    assert not journal.keep(kept("a", 0)).result(60)
    journal.close(60.0)
    assert set(read_world_log(made.folder).snapshots) == {"a"}


def test_several_records_are_appended_all_or_none(tmp_path, monkeypatch):
    log = RecordLog(tmp_path / "log", 0)
    log.append({"number": 0})
    real = record_log.os.pwrite

    def short(file, data, at):
        if at > 60:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[:20], at)

    with monkeypatch.context() as disk:
        disk.setattr(record_log.os, "pwrite", short)
        with pytest.raises(OSError, match="No space"):
            log.append({"number": 1}, {"number": 2}, {"number": 3})
    log.append({"number": 4}, {"number": 5})
    log.renew()
    log.append({"number": 6})
    log.close()
    assert [record["number"] for record, _ in read_records(tmp_path / "log")] == [0, 4, 5, 6]


def test_a_record_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(record_log, "MAX_RECORD_BYTES", 64)
    log = RecordLog(tmp_path / "log", 0)
    with pytest.raises(ValueError, match="64 is the most"):
        log.append({"number": 1}, {"bytes": b"x" * 65})
    log.close()
    assert list(read_records(tmp_path / "log")) == []


def test_a_head_that_is_saved_twice_does_not_push_the_one_before_it_out(made):
    journal = Journal(made, lambda timeout_s: True)
    for number in range(3):
        journal.note(moment(number))
    for number in (0, 1, 2, 2, 1, 2):
        assert journal.save(number, save(number).state).result(60)
    journal.close(60.0)
    assert states_of(made) == ["1.safetensors", "2.safetensors"]
    assert check_world(made.folder, made.card).damaged == []
