"""Worlds on disk: what was saved continues, what was damaged is refused by name, what was lost is counted."""

import errno
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.base import SavedState
from server.faults import WorldFault
from server.journal import Journal
from server.moments import Moment
from server.saves import Save, branch_record, head_record, snapshot_record
from server.world_log import load_head, read_world_log
from server.worlds import Worlds, token_hash
from shared.pose import Pose


def moment(moment_id):
    footprint = np.zeros((2, 3), np.float32)
    poses = (Pose(), Pose())
    return Moment(
        moment_id, moment_id - 1, moment_id, 5, (), poses, (), False, False, (b"h" * 16,), True, poses, footprint
    )


def state(value):
    return SavedState({"chunk_index": value}, {"window.0": torch.full((2, 3), float(value), dtype=torch.bfloat16)})


@pytest.fixture
def worlds(tmp_path):
    return Worlds(tmp_path)


def walk(worlds, opened, saves, moments):
    journal = Journal(opened, lambda timeout_s: True)
    for number in range(opened.next_id, opened.next_id + moments):
        journal.note(moment(number))
        if number in saves:
            assert journal.save(number, state(number)).result(10)
    journal.close()


def test_a_world_continues_at_its_last_saved_head_and_counts_what_was_lost(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    walk(worlds, made, saves={3, 6}, moments=9)
    opened = worlds.open(worlds.find("attic"))
    assert (opened.head, opened.lost_chunks, opened.next_id) == (6, 2, 9)
    assert opened.state.facts == {"chunk_index": 6}
    assert torch.equal(opened.state.tensors["window.0"], state(6).tensors["window.0"])


@pytest.mark.parametrize("num_drawn", [0, 3])
def test_a_world_whose_server_was_killed_before_its_first_save_begins_anew_and_counts_what_was_lost(worlds, num_drawn):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True)
    journal.note(replace(moment(0), seeded=True))
    for number in range(1, num_drawn + 1):
        journal.note(moment(number))
    journal.close()
    (made.folder / "states" / "0.safetensors").write_bytes(b"written, and its record was not")
    opened = worlds.open(worlds.find("attic"))
    assert opened.is_new
    assert (opened.entry, opened.lost_chunks, opened.next_id) == (None, num_drawn, num_drawn + 1)


def test_a_world_whose_log_lost_every_head_is_not_begun_anew(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True)
    journal.note(replace(moment(0), seeded=True))
    journal.close()
    (made.folder / "states" / "5.safetensors").write_bytes(b"of a chunk that was drawn")
    with pytest.raises(WorldFault, match="cannot be continued"):
        worlds.open(worlds.find("attic"))


def test_a_damaged_state_is_refused_by_name_and_the_one_before_is_used(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    walk(worlds, made, saves={3, 6}, moments=9)
    path = made.folder / "states" / "6.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    opened = worlds.open(worlds.find("attic"))
    assert opened.head == 3
    assert any("moment 6" in note for note in opened.notes)


def test_a_second_walk_appends_to_the_first(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    walk(worlds, made, saves={3}, moments=4)
    walk(worlds, worlds.open(worlds.find("attic")), saves={7}, moments=4)
    opened = worlds.open(worlds.find(made.card.id))
    assert (opened.head, sorted(opened.moments)) == (7, list(range(8)))


def test_only_the_newest_states_are_kept(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    walk(worlds, made, saves=set(range(9)), moments=9)
    assert sorted(path.name for path in (made.folder / "states").iterdir()) == ["7.safetensors", "8.safetensors"]


def test_a_damaged_card_is_refused_in_words(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    (made.folder / "world.json").write_text('{"id": 3')
    assert worlds.find("attic") is None
    with pytest.raises(WorldFault, match="damaged"):
        worlds.card(made.card.id)


@pytest.mark.parametrize("name", ["", "../evil", "a/b", ".hidden", "x" * 65, "a\0b", "\n", "attic\n"])
def test_names_that_are_no_labels_are_refused(worlds, name):
    from server.world_card import check_name

    with pytest.raises(WorldFault):
        check_name(name)


def test_a_full_disk_keeps_moments_in_memory_and_writes_them_later(worlds, monkeypatch):
    from server import record_log

    made = worlds.make("attic", 7, "plain", "ff")
    full = {"now": True}
    real = record_log.os.pwrite

    def pwrite(file, data, at):
        if full["now"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data, at)

    monkeypatch.setattr(record_log.os, "pwrite", pwrite)
    journal = Journal(made, lambda timeout_s: True)
    for number in range(4):
        journal.note(moment(number))
    assert not journal.save(3, state(3)).result(10)
    assert "No space" in journal.fault
    full["now"] = False
    journal.note(moment(4))
    assert journal.save(4, state(4)).result(10)
    assert journal.fault == ""
    journal.close()
    opened = worlds.open(worlds.find("attic"))
    assert (opened.head, len(opened.moments)) == (4, 5)


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def save(number, *records):
    return Save(number, state(number), records)


def test_a_branch_that_began_on_a_full_disk_still_says_where(worlds, monkeypatch):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True)
    for number in range(4):
        journal.note(moment(number))
    assert journal.save(3, state(3)).result(10)
    with monkeypatch.context() as full:
        full.setattr("server.journal.write_aside", _no_space)
        journal.note(moment(4))
        began = save(4, branch_record("cellar", 4, 6.0), head_record("cellar", 4, 5))
        assert not journal.keep(began).result(10)
    journal.note(replace(moment(5), branch="cellar"))
    assert journal.keep(save(5, head_record("cellar", 5, 6))).result(10)
    journal.close()
    log = worlds.open(worlds.find("attic")).log
    assert (log.branches["cellar"].start, log.head("cellar")) == (4, 5)


def test_snapshots_and_branches_come_back_and_each_branch_counts_what_it_lost(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True, {"threads": 2})
    for number in range(6):
        journal.note(moment(number))
    done = [
        journal.keep(save(3, snapshot_record("door", 3, 5.0))),
        journal.keep(save(3, branch_record("cellar", 3, 6.0), head_record("cellar", 3, 6, b"h" * 32))),
        journal.save(5, state(5)),
    ]
    journal.note(replace(moment(6), parent=3, branch="cellar"))
    journal.note(replace(moment(7), branch="cellar"))
    assert all(each.result(10) for each in done)
    journal.drop("snapshot", "door")
    journal.close()
    opened = worlds.open(worlds.find("attic"), at="cellar")
    assert (opened.head, opened.lost_chunks, set(opened.branches)) == (3, 2, {"main", "cellar"})
    assert opened.snapshots == {}
    assert worlds.open(worlds.find("attic"), at="main").lost_chunks == 0
    assert (made.folder / "states" / "3.safetensors").exists(), "the branch still stands on it"
    with pytest.raises(WorldFault, match="no branch and no snapshot named 'door'"):
        worlds.open(worlds.find("attic"), at="door")


def test_at_every_point_of_the_log_the_snapshots_that_it_names_are_whole(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True)
    for number in range(8):
        journal.note(moment(number))
        assert journal.keep(save(number, snapshot_record(f"at {number}", number, 0.0))).result(10)
    journal.close()
    path = made.folder / "moments.log"
    whole = path.read_bytes()
    for end in range(0, len(whole), 37):
        path.write_bytes(whole[:end])
        log = read_world_log(made.folder)
        assert all(
            load_head(made.folder, kept).saved.facts["chunk_index"] == kept.moment for kept in log.snapshots.values()
        )
    assert len(log.snapshots) >= 7


def test_a_token_is_known_again_and_another_is_not(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    token = "t" * 32
    records = (branch_record("cellar", 0, 1.0), head_record("cellar", 0, 1, token_hash(token)))
    assert journal.keep(save(0, *records)).result(10)
    assert journal.save(0, state(0)).result(10)
    journal.close()
    assert token.encode() not in (made.folder / "moments.log").read_bytes()
    assert worlds.open(worlds.find("attic"), resume=token).entry.is_resumed
    assert worlds.open(worlds.find("attic"), resume=token).entry.branch == "cellar"
    stranger = worlds.open(worlds.find("attic"), resume="u" * 32)
    assert (stranger.entry.is_resumed, stranger.entry.branch) == (False, "main")


def test_an_error_of_ours_in_one_save_does_not_end_the_journal(worlds):
    made = worlds.make("attic", 7, "plain", "ff")
    journal = Journal(made, lambda timeout_s: True)
    journal.note(moment(0))
    assert not journal.keep(save(0, {"kind": "snapshot"})).result(10)
    assert "error of the server" in journal.fault
    assert journal.save(0, state(0)).result(10)
    journal.close()
