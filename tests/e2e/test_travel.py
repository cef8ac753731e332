"""Snapshots, going back, branches and the list of worlds, over real sockets and the real engine; the plain model."""

import asyncio
import contextlib
import time
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from websockets.exceptions import ConnectionClosed

from client.link import Link
from client.picture import Picture
from client.split import Both, Split
from client.walk import Walk
from client.wire import Visit
from models.plain import read_label
from server.limits import CLOSE_CODES
from shared.controls import Key
from shared.protocol import (
    AskTree,
    ExactStep,
    Fork,
    Goodbye,
    Pause,
    Restore,
    Rewind,
    SnapshotRequest,
    SwitchRecall,
    pack,
)
from tests.e2e.whole_server import whole_server
from tests.e2e.wire_client import WireClient, pixels_of, receive

HANGS_S = 120.0  # nothing takes so long, on however busy a machine
NUM_PAIRS = 16


async def walk_until(client: WireClient, chunk: int, **controls) -> None:
    """Take frames until one of this chunk, or a later one, came."""
    async with asyncio.timeout(HANGS_S):
        while (await client.next_frame(**controls)).chunk < chunk:
            pass


async def hear(client: WireClient, *kinds: str):
    """The next message of one of these kinds; frames that come before it are acknowledged."""
    async with asyncio.timeout(HANGS_S):
        while (message := await receive(client.socket)).type not in kinds:
            if message.type == "frame":
                client.ack = message.id
                await client.send_input()
    return message


async def ask(client: WireClient, wish, answer: str):
    """Send a wish, and take its answer: a message of this kind."""
    await client.socket.send(pack(wish))
    message = await hear(client, answer)
    while answer == "head" and message.why == "enter":
        message = await hear(client, answer)
    return message


ENTERED: list[WireClient] = []  # of the running test


async def enter(served, name: str, **hello) -> WireClient:
    ENTERED.append(await WireClient.enter(served.url, world=name, **hello))
    return ENTERED[-1]


@pytest.fixture(autouse=True)
async def goodbye(no_socket_left_open):
    """Whoever entered leaves for good, so that the server has room for the next test."""
    yield
    while ENTERED:
        with contextlib.suppress(ConnectionClosed):
            await ENTERED.pop().socket.send(pack(Goodbye()))


async def test_a_driver_is_told_where_it_stands(served) -> None:
    client = await enter(served, "stands")
    head = await hear(client, "head")
    assert (head.branch, head.why) == ("main", "enter")


async def test_a_snapshot_is_told_when_made_and_when_durable_and_restores_to_its_own_frame(served) -> None:
    client = await enter(served, "saves")
    await walk_until(client, 6, keys=1)
    await client.socket.send(pack(Pause(on=True)))
    made = await ask(client, SnapshotRequest(), "snapshot")
    assert (made.name, made.durable) == ("quick 1", False)
    assert (await hear(client, "snapshot")).durable
    await client.socket.send(pack(Pause(on=False)))
    await walk_until(client, made.chunk + 8, keys=8)
    head = await ask(client, Restore(), "head")
    assert (head.why, head.moment, head.chunk, head.branch) == ("restore", made.moment, made.chunk, "main")
    assert head.redrawn == 0
    frame = await client.next_frame()
    shown = read_label(pixels_of(frame))
    assert (frame.chunk, shown["chunk"]) == (made.chunk, made.chunk)
    assert (await client.next_frame()).chunk > made.chunk  # and from there it goes on; what is late is skipped


async def test_nothing_that_was_drawn_before_comes_after_a_jump(served) -> None:
    client = await enter(served, "jumps")
    await walk_until(client, 4, keys=1)
    await ask(client, SnapshotRequest(name="here"), "snapshot")
    await walk_until(client, 12, keys=1)
    head = await ask(client, Restore(name="here"), "head")
    chunks = [(await client.next_frame()).chunk for _ in range(6)]
    assert chunks == sorted(chunks)
    assert chunks[0] == head.chunk


async def test_rewinding_goes_back_by_chunks_and_ends_at_the_beginning(served) -> None:
    client = await enter(served, "rewinds")
    await walk_until(client, 8, keys=1)
    await client.socket.send(pack(Pause(on=True)))
    before = await ask(client, Rewind(chunks=1), "head")
    after = await ask(client, Rewind(chunks=3), "head")
    assert (after.why, after.chunk) == ("rewind", before.chunk - 3)
    first = await ask(client, Rewind(chunks=512), "head")
    assert first.chunk <= 1
    await client.socket.send(pack(Rewind(chunks=1)))  # there is nothing before it: it stays, or says so
    answer = await hear(client, "head", "error")
    assert answer.code == "snapshot" if answer.type == "error" else answer.chunk == first.chunk


async def test_a_fork_goes_on_on_a_new_branch_and_the_tree_tells_both(served) -> None:
    client = await enter(served, "forks")
    await walk_until(client, 4, keys=1)
    head = await ask(client, Fork(name="other way"), "head")
    assert (head.branch, head.why) == ("other way", "fork")
    await walk_until(client, head.chunk + 4, keys=8)
    tree = await ask(client, AskTree(), "tree")
    labels = [label for *_, label in tree.nodes if label]
    moments = {moment for moment, *_ in tree.nodes}
    assert {"main", "other way"} <= set(labels)
    assert (tree.branch, tree.here in moments) == ("other way", True)
    assert all(parent in moments or parent == -1 for _, parent, *_ in tree.nodes)
    back = await ask(client, Restore(name="main"), "head")
    assert (back.branch, back.chunk) == ("main", head.chunk)


@pytest.mark.parametrize("wish", [Restore(name="nowhere"), Restore(), SnapshotRequest(name="../x"), Fork(name="main")])
async def test_what_cannot_be_done_is_said_and_the_walk_goes_on(served, wish) -> None:
    client = await enter(served, f"refuses {wish.type} {len(wish.name)}")
    error = await ask(client, wish, "error")
    assert (error.code, error.fatal) == ("snapshot", False)
    assert error.text[0].isupper()
    await client.next_frame()
    await client.next_frame()


async def test_a_viewer_does_not_travel(served) -> None:
    driver = await enter(served, "watched")
    await driver.next_frame()
    viewer = await enter(served, "watched", role="viewer")
    for wish in (SnapshotRequest(), Rewind(chunks=1), SwitchRecall(on=False), AskTree()):
        await viewer.socket.send(pack(wish))
    assert (await hear(viewer, "error")).code == "viewer_cannot_steer"
    tree = await ask(driver, AskTree(), "tree")
    assert not [label for *_, label in tree.nodes if "*" in label]


async def test_more_wishes_than_allowed_end_the_connection(served) -> None:
    client = await enter(served, "hasty")
    codes = []

    async def ask_until_closed() -> None:
        for _ in range(60):
            await client.socket.send(pack(AskTree()))
        while True:
            codes.append((await hear(client, "error")).code)

    with pytest.raises(ConnectionClosed) as closed:
        await ask_until_closed()
    assert closed.value.rcvd.code == CLOSE_CODES["too_fast"]
    assert set(codes) <= {"too_fast", "snapshot"}  # before that, the engine may have been behind with them


async def test_recall_off_draws_without_memory_from_the_next_chunk_on(served) -> None:
    client = await enter(served, "forgets")
    await walk_until(client, 10, mouse_x=0.0)
    await client.socket.send(pack(SwitchRecall(on=False)))
    stats = await hear(client, "stats")
    while stats.recalls:
        stats = await hear(client, "stats")
    assert (stats.recalled, stats.stale) == ([], False)
    await client.socket.send(pack(SwitchRecall(on=True)))
    while not stats.recalls:
        stats = await hear(client, "stats")


async def test_two_branches_of_one_world_are_walked_at_once_with_the_same_controls(served) -> None:
    """What split mode does, message by message."""
    one = await enter(served, "twins")
    await walk_until(one, 4, keys=1)
    await one.socket.send(pack(Pause(on=True)))
    made = await ask(one, SnapshotRequest(name="parting"), "snapshot")
    two = await enter(served, "twins", at="parting", mode="exact")
    head = await hear(two, "head")
    assert (head.chunk, head.why) == (made.chunk, "enter")
    assert head.branch != "main"
    assert one.welcome.session != two.welcome.session
    await one.socket.send(pack(Pause(on=False)))
    drawn, num_given = {}, 0
    while num_given < 4:
        message = await receive(one.socket)
        if message.type == "frame":
            one.ack = message.id
            drawn[(message.chunk, message.index)] = message.pose
            await one.send_input(keys=9)
        elif message.type == "stats" and message.chunk > made.chunk:
            assert len(message.controls) == one.welcome.frames_per_chunk
            await two.socket.send(pack(ExactStep(seq=num_given, controls=message.controls)))
            num_given += 1
    followed = {}
    while (made.chunk + 4, 1) not in followed:
        frame = await two.next_frame()
        followed[(frame.chunk, frame.index)] = frame.pose
    both = [place for place in followed if place in drawn and place[0] > made.chunk]
    assert both
    assert [followed[place] for place in both] == [drawn[place] for place in both]


async def test_the_worlds_are_listed_with_their_snapshots_and_pictures(served) -> None:
    client = await enter(served, "listed", seed=41)
    await walk_until(client, 5, keys=1)
    await ask(client, SnapshotRequest(name="the door"), "snapshot")
    assert (await hear(client, "snapshot")).durable
    async with httpx.AsyncClient() as http:
        listed = (await http.get(f"{served.http}/worlds")).json()
        world = next(one for one in listed if one["name"] == "listed")
        assert (world["seed"], world["model"], world["branches"]) == (41, "plain", ["main"])
        assert world["chunks"] > 0
        assert world["played_s"] == pytest.approx(time.time(), abs=60.0)
        (snapshot,) = world["snapshots"]
        assert (snapshot["name"], snapshot["thumbnail"]) == ("the door", True)
        picture = await http.get(f"{served.http}/worlds/{world['id']}/snapshots/{snapshot['n']}.jpg")
        assert picture.headers["content-type"] == "image/jpeg"
        assert Image.open(BytesIO(picture.content)).size == (64, 48)
        for path in (f"/worlds/{world['id']}/snapshots/999.jpg", "/worlds/..%2f..%2fetc/thumbnail.jpg"):
            assert (await http.get(served.http + path)).status_code == 404


def walk_split(url: str, seconds: float) -> tuple[list[Both], str, bool]:
    """Drive the client's own split mode without a window: (pairs, why it ended, whether the walk runs afterwards)."""
    visit = Visit(url, world="split", seed=7)
    walk = Walk(Link(visit), url)
    walk.link.start()
    split: Split | None = None
    pairs: list[Both] = []
    shown: list[Picture] = []
    started_s = time.perf_counter()
    try:
        while time.perf_counter() - started_s < HANGS_S and len(pairs) < NUM_PAIRS:
            now_s = time.perf_counter()
            walk.steer(Key.FORWARD, 6.0, 0.0, now_s)
            walk.update(now_s)
            picture = walk.due(now_s)
            if picture is not None:
                shown.append(picture)
                walk.presented(picture, now_s)
            if split is None and len(shown) > 20:
                split = Split(walk, visit, now_s)
            if split is not None and (both := split.update(now_s)) is not None:
                pairs.append(both)
            time.sleep(seconds)
        assert split is not None
        ended = split.ended
        split.end("over")
        count = len(shown)
        until_s = time.perf_counter() + HANGS_S
        while len(shown) <= count and time.perf_counter() < until_s:
            walk.steer(Key.FORWARD, 0.0, 0.0, time.perf_counter())
            walk.update(time.perf_counter())
            if (picture := walk.due(time.perf_counter())) is not None:
                shown.append(picture)
            time.sleep(seconds)
        return pairs, ended, len(shown) > count
    finally:
        walk.link.close()


def rgb_of(picture: Picture) -> np.ndarray:
    return np.frombuffer(picture.rgb, np.uint8).reshape(picture.height_px, picture.width_px, 3)


def test_split_mode_draws_the_same_walk_with_and_without_recall(tmp_path: Path) -> None:
    with whole_server(tmp_path) as served:
        pairs, ended, goes_on = walk_split(served.url, 0.005)
    assert len(pairs) == NUM_PAIRS, ended
    assert goes_on
    for both in pairs:
        assert both.with_recall.pose == both.without.pose
        assert (both.with_recall.chunk, both.with_recall.index) == (both.without.chunk, both.without.index)
    labels = [(read_label(rgb_of(both.with_recall)), read_label(rgb_of(both.without))) for both in pairs]
    later = [pair for pair, both in zip(labels, pairs, strict=True) if both.without.chunk > pairs[0].without.chunk]
    assert {without["recalled"] for _, without in later} == {0}
    assert max(having["recalled"] for having, _ in later) > 0
