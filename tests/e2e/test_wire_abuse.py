"""Clients that ask for more than is theirs: each is told no in words, memory stays bounded, and others walk on."""

import asyncio
import threading

import httpx
import pytest

from server.head import KeptHead
from server.session import Session
from server.timeline import Timeline
from shared.protocol import AskTree, ExactStep, Goodbye, Input, Restore, Rewind, SnapshotRequest, pack
from shared.timeline import MAX_TREE_NODES
from tests.e2e.whole_server import whole_server
from tests.e2e.wire_client import WireClient, close_all

HANGS_S = 120.0  # nothing takes so long, on however busy a machine
MANY = 3_000


@pytest.fixture(autouse=True)
async def goodbye(served):
    """Whoever is left leaves for good, so that the server has room for the next test."""
    yield
    for resident in served.engine.residents:
        if (driver := resident.session.show.driver) is not None:
            driver.leave(for_good=True)
    await close_all()
    async with asyncio.timeout(HANGS_S):
        while served.engine.residents:  # noqa: ASYNC110 - the engine's own thread ends them
            await asyncio.sleep(0.01)


async def hear(client, *kinds):
    """The next message of one of these kinds; frames that come before it are acknowledged."""
    while (message := await client.next_of(*kinds, "frame", timeout_s=HANGS_S)).type not in kinds:
        client.ack = message.id
        await client.send_input(keys=1)
    return message


def session_of(served, world) -> Session:
    return next(each.session for each in served.engine.residents if each.name == world)


async def test_thousands_of_snapshots_are_kept_up_to_a_limit_and_cost_neither_ram_nor_a_long_message(
    served, monkeypatch
):
    client = await WireClient.enter(served.url, world="hoard")
    await hear(client, "stats")
    monkeypatch.setattr("server.timeline.MAX_SNAPSHOTS", MANY)
    session = session_of(served, "hoard")

    def keep_many():
        for number in range(MANY):
            session.snapshot(f"{number} {'x' * 50}")

    await asyncio.to_thread(served.engine.call, keep_many)
    state_bytes = session.head.state.num_bytes
    await client.socket.send(pack(SnapshotRequest(name="one more")))
    error = await hear(client, "error")
    assert f"at most {MANY:,} snapshots" in error.text
    await client.socket.send(pack(AskTree()))
    tree = await hear(client, "tree")
    assert len(tree.nodes) <= MAX_TREE_NODES
    assert session._shelf.used_bytes <= session._shelf.budget_bytes + 8 * state_bytes
    async with httpx.AsyncClient(timeout=HANGS_S) as http:
        listed = (await http.get(f"{served.http}/worlds")).json()
    assert len(next(one for one in listed if one["name"] == "hoard")["snapshots"]) <= 100


async def test_going_back_as_far_as_one_may_looks_at_each_snapshot_once(served, monkeypatch):
    client = await WireClient.enter(served.url, world="far")
    for _ in range(3):
        await hear(client, "stats")
    looked = []
    real = Timeline.kept_heads
    monkeypatch.setattr(Timeline, "kept_heads", lambda timeline: looked.append(1) or real(timeline))
    await client.socket.send(pack(Rewind(chunks=512)))
    head = await hear(client, "head")
    while head.why == "enter":
        head = await hear(client, "head")
    assert (head.why, looked) == ("rewind", [1])


async def test_wishes_that_the_engine_has_no_time_for_are_refused_and_not_put_in_a_queue_without_end(served):
    client = await WireClient.enter(served.url, world="hasty")
    await hear(client, "stats")
    may_go = threading.Event()
    served.engine._post(lambda: may_go.wait(HANGS_S))  # the engine is busy with somebody else
    for _ in range(20):
        await client.socket.send(pack(Rewind(chunks=1)))
    error = await hear(client, "error")
    assert (error.code, error.fatal) == ("snapshot", False)
    assert "still busy" in error.text
    may_go.set()
    await hear(client, "head")
    await hear(client, "stats")  # it walks on


async def test_a_branch_has_one_driver_and_the_second_is_told_what_he_can_do(served):
    first = await WireClient.enter(served.url, world="narrow")
    await hear(first, "stats")
    for hello in ({}, {"at": "main"}, {"resume": "r" * 32}, {"at": "main", "resume": "r" * 32}):
        with pytest.raises(RuntimeError, match="world_in_use"):
            await WireClient.enter(served.url, world="narrow", **hello)
    with pytest.raises(RuntimeError, match="snapshot"):
        await WireClient.enter(served.url, world="narrow", at="nowhere")
    await hear(first, "stats")
    assert len(served.engine.residents) == 1


async def test_a_token_of_somebody_else_opens_nothing_of_his(served):
    his = await WireClient.enter(served.url, world="his")
    await hear(his, "stats")
    mine = await WireClient.enter(served.url, world="mine")
    token = mine.welcome.resume
    await mine.socket.send(pack(Goodbye()))
    async with asyncio.timeout(HANGS_S):
        while len(served.engine.residents) > 1:
            await hear(his, "stats")
    with pytest.raises(RuntimeError, match="world_in_use"):
        await WireClient.enter(served.url, world="his", resume=token)
    await hear(his, "stats")


async def test_a_viewer_who_gives_orders_moves_nothing(served):
    driver = await WireClient.enter(served.url, world="watched", mode="exact")
    viewer = await WireClient.enter(served.url, world="watched", mode="exact", role="viewer")
    session = session_of(served, "watched")
    stood = session.head.moment
    orders = (
        ExactStep(seq=1, controls=[(1, 0.0, 0.0)] * viewer.welcome.frames_per_chunk * 4),
        Input(seq=1, t_ms=0.0, keys=1, mouse_x=50.0, mouse_y=0.0, ack=-1),
        Restore(name=""),
        Rewind(chunks=1),
    )
    for order in orders:
        await viewer.socket.send(pack(order))
    assert (await viewer.next("error", HANGS_S)).code == "viewer_cannot_steer"
    await driver.socket.send(pack(AskTree()))
    await driver.next("tree", HANGS_S)  # the engine has had a turn since
    assert session.head.moment == stood
    assert session.orders.is_empty


def test_a_slow_disk_does_not_let_what_is_kept_grow_without_end(tmp_path):
    with whole_server(tmp_path) as server:
        asyncio.run(_fill_ram(server))


async def _fill_ram(server):
    client = await WireClient.enter(server.url, world="attic")
    await hear(client, "stats")
    session = session_of(server, "attic")
    session._shelf.budget_bytes = 0
    session._shelf.hold(_Huge(session.head), session.timeline)
    await client.socket.send(pack(SnapshotRequest(name="door")))
    error = await hear(client, "error")
    assert "no room to keep another moment" in error.text
    assert "it is slow" in error.text
    await close_all()


class _Huge(KeptHead):
    """Something on the shelf that the disk has not taken yet."""

    def __init__(self, head):
        super().__init__(head.moment, head.chunk_index, head.line, _Large(head))
        self.durability = _Pending()


class _Large:
    def __init__(self, head):
        self.state, self.frame = self, None
        self.num_bytes = 1 << 30
        self.moment = head.moment


class _Pending:
    def done(self):
        return False
