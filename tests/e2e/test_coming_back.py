"""A session survives its server: the same token goes on at the same moment, and after a kill it says what was lost."""

import asyncio
import signal

import pytest

from shared.protocol import Fork, Goodbye, HeadNote, SnapshotRequest, pack
from tests.e2e.server_process import server_process
from tests.e2e.whole_server import whole_server
from tests.e2e.wire_client import WireClient, close_all, pixels_of, receive

HANGS_S = 120.0  # nothing takes so long, on however busy a machine
PLAIN = ("--model", "plain", "--autosave-s", "0.5")


async def walk(client, frames):
    for at in range(frames):
        last = await client.next_frame(keys=1, mouse_x=20.0 * at)
    return last


async def hear(client, kind):
    """The next message of this kind; frames that come before it are acknowledged, or no more would come."""
    while (message := await client.next_of(kind, "frame", timeout_s=HANGS_S)).type != kind:
        client.ack = message.id
        await client.send_input()
    return message


async def stop(process, how):
    process.send_signal(how)
    await asyncio.to_thread(process.wait, 20)


async def test_after_a_clean_restart_the_same_token_goes_on_at_the_same_moment(tmp_path):
    with server_process(tmp_path, *PLAIN) as (process, url):
        client = await WireClient.enter(url, world="attic")
        await walk(client, 40)
        token, session = client.welcome.resume, client.welcome.session
        await stop(process, signal.SIGTERM)
        await close_all()
    with server_process(tmp_path, *PLAIN) as (process, url):
        client = await WireClient.enter(url, world="attic", resume=token)
        welcome = client.welcome
        assert (welcome.resumed, welcome.session, welcome.resume) == (True, session, token)
        assert welcome.notes == []
        shown = await client.next()
        assert shown.chunk <= welcome.chunk, "the frame of the moment, unless the next one is there already"
        stranger = await WireClient.enter(url, world="other", resume="x" * 32)
        assert not stranger.welcome.resumed
        await close_all()


async def test_after_a_kill_the_token_goes_on_at_the_last_saved_moment_and_says_what_was_lost(tmp_path):
    with server_process(tmp_path, *PLAIN) as (process, url):
        client = await WireClient.enter(url, world="attic")
        last = await walk(client, 60)
        token = client.welcome.resume
        await stop(process, signal.SIGKILL)
        await close_all()
    with server_process(tmp_path, *PLAIN) as (process, url):
        client = await WireClient.enter(url, world="attic", resume=token)
        welcome = client.welcome
        assert welcome.resumed
        assert 0 < welcome.chunk <= last.chunk + 4
        lost = [int(word) for note in welcome.notes if "are lost" in note for word in note.split() if word.isdigit()]
        assert sum(lost) <= last.chunk + 4 - welcome.chunk + 4
        await close_all()


async def test_a_snapshot_said_to_be_safe_survives_a_kill_and_a_branch_can_begin_there(tmp_path):
    with server_process(tmp_path, "--model", "plain", "--autosave-s", "600") as (process, url):
        client = await WireClient.enter(url, world="attic")
        await walk(client, 30)
        await client.socket.send(pack(SnapshotRequest(name="door")))
        while not (note := await hear(client, "snapshot")).durable:
            pass
        shown = await walk(client, 10)
        await stop(process, signal.SIGKILL)
        await close_all()
    with server_process(tmp_path, *PLAIN) as (process, url):
        client = await WireClient.enter(url, world="attic", at="door", token="")
        assert client.welcome.chunk == note.chunk + 1 <= shown.chunk
        assert pixels_of(await client.next()).any()
        await close_all()


async def test_two_players_walk_on_two_branches_of_one_world(tmp_path):
    with server_process(tmp_path, *PLAIN) as (process, url):
        one = await WireClient.enter(url, world="attic")
        await walk(one, 10)
        await one.socket.send(pack(SnapshotRequest(name="door")))
        await hear(one, "snapshot")
        two = await WireClient.enter(url, world="attic", at="door")
        frames = [(await one.next_frame(keys=1)).chunk for _ in range(10)]
        others = [(await two.next_frame(keys=4)).chunk for _ in range(10)]
        assert frames == sorted(frames)
        assert others == sorted(others)
        await one.socket.send(pack(Fork(name="cellar")))
        while not isinstance(head := await receive(one.socket), HeadNote) or head.why != "fork":
            pass
        assert head.branch == "cellar"
        await stop(process, signal.SIGTERM)
        await close_all()
    with server_process(tmp_path, *PLAIN) as (process, url):
        client = await WireClient.enter(url, world="attic", at="cellar", resume=one.welcome.resume)
        assert client.welcome.resumed
        await close_all()


async def test_whoever_comes_back_late_to_a_world_that_others_walk_in_goes_on_on_his_own_branch(tmp_path, monkeypatch):
    """His session was parked; the world is open still, and has another free branch that is newer than his."""
    monkeypatch.setattr("server.resident.GRACE_S", 0.1)
    with whole_server(tmp_path) as server:
        his = await WireClient.enter(server.url, world="attic")
        await walk(his, 10)
        await his.socket.send(pack(SnapshotRequest(name="door")))
        await hear(his, "snapshot")
        other, third = [await WireClient.enter(server.url, world="attic", at="door") for _ in range(2)]
        await walk(other, 4)
        await third.socket.send(pack(Goodbye()))
        his.socket.transport.abort()
        async with asyncio.timeout(HANGS_S):
            while len(server.engine.residents) > 1:
                await other.next_frame()
        back = await WireClient.enter(server.url, world="attic", resume=his.welcome.resume)
        assert back.welcome.resumed
        assert back.welcome.resume == his.welcome.resume
        assert (await back.next("head", timeout_s=HANGS_S)).branch == "main"
        with pytest.raises(RuntimeError, match="world_in_use"):
            await WireClient.enter(server.url, world="attic", resume="u" * 32)
        await close_all()
