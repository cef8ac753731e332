"""A session survives its server: the same token goes on at the same moment, and after a kill it says what was lost."""

import asyncio
import signal

from shared.protocol import Fork, HeadNote, SnapshotRequest, pack
from tests.e2e.server_process import server_process
from tests.e2e.wire_client import WireClient, close_all, pixels_of, receive

PLAIN = ("--model", "plain", "--autosave-s", "0.5")


async def walk(client, frames):
    for at in range(frames):
        last = await client.next_frame(keys=1, mouse_x=20.0 * at)
    return last


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
        while not (note := await client.next("snapshot", timeout_s=120.0)).durable:
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
        await one.next("snapshot", timeout_s=120.0)
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
