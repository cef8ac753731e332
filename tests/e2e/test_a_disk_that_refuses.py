"""What a full disk refused is written once it has room, and whoever asked for it is told; the plain model."""

import asyncio
import errno
import time

import pytest

from bench.drive import start
from models.plain import PlainModel
from server import record_log
from server.faults import SnapshotFault
from server.world_log import read_world_log
from server.worlds import branch_of_token, token_hash
from shared.controls import Controls, Key
from shared.protocol import SnapshotRequest, pack
from tests.e2e.whole_server import small_budgets, whole_server
from tests.e2e.wire_client import WireClient, close_all

WALK = [Controls(Key.FORWARD, 8.0, 0.0)] * 8
HANGS_S = 120.0


class Disk:
    """A disk for state files that can be full."""

    def __init__(self, monkeypatch):
        self.is_full = False
        self._write = record_log.write_aside
        monkeypatch.setattr("server.journal.write_aside", self)
        monkeypatch.setattr("server.scribe.RETRY_S", 0.0)

    def __call__(self, path, data):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(path, data)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture
def drive(tmp_path):
    model = PlainModel()
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        drive.walk(WALK)
        yield drive


def until(is_so, settle):
    """Let the world settle until something is so."""
    until_s = time.monotonic() + HANGS_S
    while not is_so():
        assert time.monotonic() < until_s
        settle()
        time.sleep(0.01)


def test_snapshots_and_branches_that_were_refused_are_written_when_there_is_room(drive, disk, tmp_path):
    session, timeline = drive.session, drive.session.timeline
    disk.is_full = True
    first = session.snapshot("first")
    drive.walk(WALK)
    second, gone = session.snapshot("second"), session.snapshot("gone")
    cellar = session.fork("cellar")
    for kept in (first, second, gone):
        assert not kept.durable.result(HANGS_S)
    until(lambda: cellar.durability is not None and cellar.durability.done(), session.settle)
    assert "No space" in session.journal.fault
    assert list((tmp_path / session.world / "states").glob("*.new")) == []
    timeline.drop(gone)
    disk.is_full = False
    until(lambda: all(kept.rest is not None for kept in (first, second, cellar)), session.settle)
    assert first.durable.result(HANGS_S)
    assert gone.rest is None
    log = read_world_log(tmp_path / session.world)
    assert set(log.snapshots) == {"first", "second"}
    assert log.branches["cellar"].start == cellar.moment == log.head("cellar")


def test_what_is_still_refused_when_the_world_is_closed_gets_one_more_chance(tmp_path, disk):
    model = PlainModel()
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        drive.walk(WALK)
        disk.is_full = True
        door = drive.session.snapshot("door")
        assert not door.durable.result(HANGS_S)
        disk.is_full = False
    with start(model, small_budgets(model), tmp_path, seed=0, world="attic") as drive:
        drive.session.restore("door")
        assert drive.session.head.moment == door.moment


def test_a_head_that_autosave_could_not_save_is_saved_the_next_time_although_nobody_moved(drive, disk, tmp_path):
    resident, session = drive.resident, drive.session
    disk.is_full = True
    resident.save(time.monotonic())
    assert not resident._save.result(HANGS_S)
    disk.is_full = False
    resident.save(time.monotonic())
    assert resident._save.result(HANGS_S)
    saved = resident._save
    resident.save(time.monotonic())
    assert resident._save is saved, "what is saved is not saved again"
    assert read_world_log(tmp_path / session.world).head("main") == session.head.moment


def test_without_room_in_ram_and_on_disk_nothing_more_is_kept_and_the_player_is_told_why(drive, disk):
    session = drive.session
    disk.is_full = True
    door = session.snapshot("door")
    assert not door.durable.result(HANGS_S)
    session.settle()
    session._shelf.budget_bytes = 0
    for keep in (session.snapshot, session.fork):
        with pytest.raises(SnapshotFault, match=r"no room to keep another moment.*No space left"):
            keep("window")
    assert session.snapshot().name == "quick 1", "of quick ones there are only so many"
    assert door.head is not None, "what is on no disk stays"
    disk.is_full = False
    until(lambda: door.head is None, session.settle)
    assert session.snapshot("window").name == "window"


def test_a_driver_who_only_looked_around_him_is_known_again_after_a_kill(tmp_path):
    """A clean stop saves his token; so does the first autosave, although he has not moved."""
    model = PlainModel()
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        drive.session.branch.resume_hash = token_hash(drive.resident.resume)
        drive.resident.save(time.monotonic())
        assert drive.resident._save.result(HANGS_S)
        log = read_world_log(tmp_path / drive.session.world)
        assert branch_of_token(log, drive.resident.resume) == "main"


async def test_a_player_hears_once_that_a_snapshot_is_not_on_the_disk_and_then_that_it_is(tmp_path, disk):
    with whole_server(tmp_path) as server:
        client = await WireClient.enter(server.url, world="attic")
        await client.next_frame()
        disk.is_full = True
        await client.socket.send(pack(SnapshotRequest(name="door")))
        assert not (await client.next("snapshot", HANGS_S)).durable
        error = await client.next("error", HANGS_S)
        assert (error.code, error.fatal) == ("snapshot", False)
        assert "door is not on the disk" in error.text
        assert "No space left on device. Free space" in error.text
        others = []
        await asyncio.sleep(0.3)  # refused a few times more, and not told again
        disk.is_full = False
        async with asyncio.timeout(HANGS_S):
            while (note := await client.next_of("snapshot", "error")).type == "error":
                others.append(note)
        assert (note.durable, others) == (True, [])
        await close_all()
