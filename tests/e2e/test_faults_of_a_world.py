"""When something is wrong with a world, its owner is told, nothing is destroyed, and nobody else notices."""

import asyncio
import contextlib
import errno
import time

import pytest
from websockets.exceptions import ConnectionClosed

from bench.drive import start
from client.headless import walk, walk_exact
from client.wire import Visit
from models.plain import PlainModel
from server import record_log
from server.faults import Refused
from server.pager.move.disk import RealDisk
from server.pager.pager import Budgets
from shared.controls import Controls
from shared.protocol import ExactStep, Goodbye, Hello, Input, pack
from tests.e2e.whole_server import small_budgets, whole_server
from tests.e2e.wire_client import WireClient, close_all, receive

WALK = [Controls(mouse_dx=31.4)] * 80


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".slab"}


def walked_world(tmp_path, model):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        drive.walk(WALK)
        return tmp_path / drive.session.world


@pytest.mark.parametrize("damage", ["log", "states"])
def test_a_world_that_cannot_be_read_is_refused_and_not_begun_anew(tmp_path, damage):
    model = PlainModel()
    folder = walked_world(tmp_path, model)
    for path in [folder / "moments.log"] if damage == "log" else (folder / "states").iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2 if damage == "states" else 300] ^= 1
        path.write_bytes(data)
    before = snapshot(folder)
    with (
        pytest.raises(Refused, match="Nothing was changed"),
        start(model, small_budgets(model), tmp_path, seed=0, world="attic"),
    ):
        pytest.fail("it was opened")
    assert snapshot(folder) == before


def test_a_damaged_card_is_restored_from_the_log(tmp_path):
    model = PlainModel()
    folder = walked_world(tmp_path, model)
    (folder / "world.json").write_text("{")
    with start(model, small_budgets(model), tmp_path, seed=0, world="attic") as drive:
        assert drive.session.seed == 9
        assert drive.session.head.state.chunk_index > 10


def test_a_refused_visit_leaves_no_folder_and_no_lock(tmp_path):
    model = PlainModel()
    too_large = small_budgets(model)
    too_large = Budgets(too_large.gpu_bytes, too_large.dram_bytes, 1 << 60)
    for _ in range(3):
        with pytest.raises(Refused), start(model, too_large, tmp_path, seed=1):
            pytest.fail("it was opened")
    assert list(tmp_path.iterdir()) == []


class Unbegun(PlainModel):
    """A model that fails the first time a world begins, as one does that runs out of memory."""

    failures = 1

    def begin(self, seed, image=None):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("out of memory")
        return super().begin(seed, image)


async def test_a_world_whose_beginning_failed_can_be_opened_again(tmp_path):
    with whole_server(tmp_path, model=Unbegun()) as server:
        with pytest.raises(RuntimeError, match="fault"):
            await WireClient.enter(server.url, world="attic")
        client = await WireClient.enter(server.url, world="attic")
        assert await client.next()
        await close_all()


class Faulty(PlainModel):
    """A model that makes an error in one world."""

    def step(self, state, controls, recall):
        if state.seed == 666 and state.chunk_index > 4:
            raise ZeroDivisionError("our own fault")
        return (yield from super().step(state, controls, recall))

    def dump(self, state):
        if state.seed == 667 and state.chunk_index > 4:
            raise ZeroDivisionError("our own fault")
        return super().dump(state)


async def test_a_fault_of_ours_ends_one_session_in_words_and_no_other(tmp_path):
    with whole_server(tmp_path, model=Faulty(), autosave_s=0.5) as server:
        other = await WireClient.enter(server.url, seed=1)
        for seed in (666, 667):
            guilty = await WireClient.enter(server.url, seed=seed)
            error, frames = await asyncio.gather(walk_until_error(guilty), walk_for(other, 20))
            assert error.code == "fault"
            assert frames == 20
        assert server.engine.is_ready
        assert await walk_for(other, 10) == 10
        await close_all()


async def walk_for(client, number):
    """Turn until so many frames were read; their number."""
    for _ in range(number):
        await client.send_input(mouse_x=20.0 * client.seq)
        client.ack = (await client.next()).id
    return number


async def walk_until_error(client):
    """The error that ends a walk."""
    while True:
        with contextlib.suppress(ConnectionClosed):  # the error came first: it is read below
            await client.send_input(mouse_x=20.0 * client.seq)
        message = await receive(client.socket)
        if message.type == "error":
            return message
        if message.type == "frame":
            client.ack = message.id


class Hanging(RealDisk):
    """A disk on which reads of blocks hang while `hangs` is true."""

    hangs = False

    def read(self, fd, into, offset):
        until_s = time.monotonic() + 120.0  # the live walk's patience ends long before
        while self.hangs and len(into) > 4096 and time.monotonic() < until_s:
            time.sleep(0.02)
        return super().read(fd, into, offset)


async def test_an_exact_session_that_waits_for_the_disk_does_not_hold_up_a_live_one(tmp_path):
    disk = Hanging()
    with whole_server(tmp_path, disk=disk) as server:
        exact = await WireClient.enter(server.url, seed=1, mode="exact")
        turn = [(0, 31.4, 0.0)] * 160
        await exact.socket.send(pack(ExactStep(seq=1, controls=turn)))
        while (frame := await exact.next(timeout_s=20.0)).chunk < 70:
            await exact.send_input(ack=frame.id)
        disk.hangs = True  # the second turn wants what only the disk has
        await exact.socket.send(pack(ExactStep(seq=2, controls=turn)))
        live = await WireClient.enter(server.url, seed=2)
        reading = asyncio.create_task(acknowledge_all(exact))
        try:
            frames = await walk_for(live, 30)
        finally:
            disk.hangs = False
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await close_all()
    assert frames == 30


async def acknowledge_all(client):
    while True:
        frame = await client.next(timeout_s=30.0)
        await client.send_input(ack=frame.id)


def test_exact_walks_one_after_the_other_in_one_world_each_get_their_own(tmp_path):
    with whole_server(tmp_path) as server:
        counts = [len(walk_exact(Visit(server.url, world="attic", mode="exact"), "square", 1.0)[1]) for _ in range(3)]
    assert counts == [21, 21, 21], "twenty that were asked for, and before them where the walk stands"


async def test_viewers_are_told_when_the_driver_leaves_for_good(tmp_path):
    with whole_server(tmp_path) as server:
        driver = await WireClient.enter(server.url, world="attic")
        await driver.next()
        viewer = await WireClient.enter(server.url, world="attic", role="viewer")
        await driver.socket.send(pack(Goodbye()))
        assert (await viewer.next("error")).code == "session_over"
        await close_all()


async def test_a_driver_who_was_replaced_steers_no_more(tmp_path):
    with whole_server(tmp_path) as server:
        first = await WireClient.enter(server.url, world="attic")
        await first.next()
        seat = server.engine.residents[0].session.show.driver
        second = await WireClient.enter(server.url, world="attic", resume=first.welcome.resume)
        late = Input(seq=5_000, t_ms=0.0, keys=2, mouse_x=0.0, mouse_y=0.0, ack=-1)
        seat.input(late, time.monotonic())
        await second.send_input(keys=1)
        await asyncio.sleep(0.2)
        assert server.engine.residents[0].session.head.state.pose.z_m > 0.0
        await close_all()


async def test_two_worlds_made_in_one_second_have_two_names(tmp_path):
    with whole_server(tmp_path) as server:
        names = {(await WireClient.enter(server.url)).welcome.world for _ in range(3)}
        await close_all()
    assert len(names) == 3


def test_what_the_journal_cannot_save_is_shown(tmp_path, monkeypatch):
    def full(file, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")

    model = PlainModel()
    with start(model, small_budgets(model), tmp_path, seed=9) as drive:
        drive.walk(WALK[:4])
        monkeypatch.setattr(record_log.os, "pwrite", full)
        until_s = time.monotonic() + 60.0
        while not drive.session.show.journal_fault and time.monotonic() < until_s:
            drive.walk(WALK[:2])
        assert "not being saved" in drive.session.show.journal_fault
        monkeypatch.undo()


def test_a_block_in_the_window_of_a_player_who_stood_still_is_not_wanted(tmp_path):
    model = PlainModel()
    with start(model, small_budgets(model), tmp_path, seed=9) as drive:
        drive.walk(WALK[:20])
        window = drive.session.head.state.window_start
        drive.walk([Controls()] * 20)
        assert drive.session.head.state.window_start == window
        drive.walk(WALK[:2])
        assert all(block < window for block in drive.stats.wanted)


def test_an_engine_that_stops_lets_nobody_wait_for_ever(tmp_path):
    with whole_server(tmp_path) as server:
        walk(Visit(server.url), "square", 0.5)
        server.engine.stop(10.0)
        with pytest.raises(Refused, match="not ready"):
            server.engine.open(Hello(version=1), lambda: None)
