"""The whole product over a real socket: client, server, engine and three tiers, on the plain model."""

import asyncio
import errno
import time

import numpy as np
import pytest
from PIL import Image

from client.headless import walk, walk_exact
from client.wire import Visit
from models.plain import PlainModel, read_label
from server.pager.move.disk import RealDisk
from shared.controls import Key
from tests.e2e.turning import SECONDS
from tests.e2e.turning import write_turning_route as turning
from tests.e2e.whole_server import small_budgets, whole_server
from tests.e2e.wire_client import WireClient, close_all, pixels_of

DISK_S = 4.0  # of the slow disk, for each block
LONGEST_WAIT_MS = 3_500.0  # a busy machine may be late; a disk that takes longer, or fails, may not make it so


def test_looking_around_twice_shows_frames_and_recalls_from_memory_and_from_disk(tmp_path):
    with whole_server(tmp_path) as server:
        report = walk(Visit(server.url), turning(tmp_path), SECONDS)
    assert report.frames_shown > SECONDS  # of 20 a second: it goes on, however busy the machine
    assert report.longest_wait_ms < LONGEST_WAIT_MS
    assert report.recalled_from.nvme > 0
    assert report.recalled_from.dram > 0


def test_a_walk_in_exact_mode_draws_the_same_bytes_twice(tmp_path):
    with whole_server(tmp_path) as server:
        walks = [walk_exact(Visit(server.url, seed=3, mode="exact"), "square", 4.0) for _ in range(2)]
    hashes = [[frame.sha for frame in frames] for _, frames in walks]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 1 + int(4.0 * PlainModel().fps)  # the first view was given, the others were drawn


def test_a_world_continues_by_its_name_after_the_server_stopped(tmp_path):
    with whole_server(tmp_path) as server:
        walk(Visit(server.url, world="attic", seed=11), "square", 2.0)
    (thumbnail,) = tmp_path.glob("*/thumbnail.jpg")
    assert read_label(np.asarray(Image.open(thumbnail)))["seed"] == 11
    with whole_server(tmp_path) as server:
        pictures = []
        report = walk(Visit(server.url, world="attic"), "square", 1.0, on_picture=pictures.append)
    assert report.seed == 11
    assert pictures[0].chunk > 10


class Faulty(RealDisk):
    """A disk that fails reads or writes of blocks once it is told to."""

    def __init__(self):
        self.read_error = self.write_error = 0
        self.num_refused = 0

    def read(self, fd, into, offset):
        if self.read_error and len(into) > 4096:
            self.num_refused += 1
            raise OSError(self.read_error, "injected")
        return super().read(fd, into, offset)

    def write(self, fd, data, offset):
        if self.write_error and len(data) > 4096:
            self.num_refused += 1
            raise OSError(self.write_error, "injected")
        return super().write(fd, data, offset)


@pytest.mark.parametrize(("kind", "number"), [("read_error", errno.EIO), ("write_error", errno.ENOSPC)])
def test_the_walk_goes_on_when_the_disk_fails(tmp_path, kind, number):
    disk = Faulty()
    with whole_server(tmp_path, disk=disk) as server:
        report = walk(Visit(server.url), turning(tmp_path), SECONDS, on_picture=lambda _: setattr(disk, kind, number))
        setattr(disk, kind, 0)
    assert report.frames_shown > SECONDS  # of 20 a second: it goes on, however busy the machine
    assert report.longest_wait_ms < LONGEST_WAIT_MS
    assert disk.num_refused > 0
    if kind == "read_error":  # what cannot be written is lost only once DRAM is full of it
        assert report.missed > 0


class Slow(RealDisk):
    """A disk that takes seconds for each block."""

    def read(self, fd, into, offset):
        time.sleep(DISK_S if len(into) > 4096 else 0.0)
        return super().read(fd, into, offset)


def test_a_slow_disk_costs_staleness_and_no_waiting(tmp_path):
    with whole_server(tmp_path, disk=Slow()) as server:
        report = walk(Visit(server.url), turning(tmp_path), SECONDS)
    assert report.frames_shown > SECONDS  # of 20 a second: it goes on, however busy the machine
    assert report.longest_wait_ms < LONGEST_WAIT_MS
    assert report.stale_share > 0.0


def test_the_walk_goes_on_when_nvme_is_full(tmp_path):
    model = PlainModel()
    with whole_server(tmp_path, budgets=small_budgets(model, nvme_slots=30)) as server:
        forgotten = []

        def look(_):
            forgotten.extend(stats.forgotten for stats in server.engine.sessions())

        report = walk(Visit(server.url), turning(tmp_path), SECONDS, on_picture=look)
    assert report.frames_shown > SECONDS
    assert report.longest_wait_ms < LONGEST_WAIT_MS
    assert forgotten[-1] > 0


async def read_frames(client, number, keys=int(Key.FORWARD)):
    """So many frames of walking, acknowledged."""
    return [await client.next_frame(keys=keys) for _ in range(number)]


async def test_a_reader_that_stops_pauses_its_own_world_and_no_other(tmp_path):
    with whole_server(tmp_path) as server:
        stopped = await WireClient.enter(server.url, seed=1)
        other = await WireClient.enter(server.url, seed=2)
        await asyncio.gather(read_frames(other, 20), read_frames(stopped, 20))
        during = await read_frames(other, 40)  # meanwhile nobody reads the first one's frames
        resident = next(r for r in server.engine.residents if r.session.seed == 1)
        newest = resident.session.show.driver.outbox.newest_id
        await asyncio.sleep(0.3)
        assert resident.session.show.driver.outbox.newest_id == newest, "its world goes on without a reader"
        in_flight = [await stopped.next() for _ in range(2)]
        stopped.ack = in_flight[-1].id
        await stopped.send_input(keys=1)
        first = await stopped.next()
        assert newest - first.id <= 4
        assert {read_label(pixels_of(frame))["seed"] for frame in during} == {2}
        await close_all()
