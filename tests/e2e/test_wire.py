"""The shell over real sockets: frames, credit, the dead man's switch, and the end of a connection."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable

import pytest
import websockets

from server.connection import DEAD_MAN_S, HELLO_TIMEOUT_S
from shared.protocol import PROTOCOL_VERSION, ExactStep, Goodbye, Hello, Pause, Ping, pack
from tests.e2e.conftest import Running
from tests.e2e.tiny_engine import FPS, FRAMES_PER_CHUNK, TinySession, decode_numbers
from tests.e2e.wire_client import WireClient, connect, pixels_of

pytestmark = pytest.mark.usefixtures("no_socket_left_open")
FRAME_S = 1.0 / FPS


async def until(is_so: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110 - the tiny engine's thread makes it true, and knows no events of this loop
            await asyncio.sleep(0.005)


def assert_paced(gaps_s: list[float]) -> None:
    """Frames came one by one: a chunk sent as a burst would show as gaps of 0 and one of six frame times.

    No upper bound: a machine may be busy. The bench measures how even it really is.
    """
    at_once = sum(gap_s < 0.1 * FRAME_S for gap_s in gaps_s)
    assert at_once < 0.7 * len(gaps_s)


async def walk(client: WireClient, num_frames: int) -> tuple[list[int], list[float]]:
    """(frame ids, gaps_s) of a client that reads and acknowledges at once."""
    ids, times_s = [], []
    for _ in range(num_frames):
        ids.append((await client.next_frame(keys=1)).id)
        times_s.append(time.monotonic())
    return ids, [b - a for a, b in itertools.pairwise(times_s)]


# ---- frames ----


async def test_a_fast_client_gets_its_frames_in_order_and_evenly_paced(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="fast")
    ids, gaps_s = await walk(client, 30)
    assert ids == sorted(set(ids))
    assert_paced(gaps_s)
    assert sum(gaps_s) > 26 * FRAME_S  # model time passes no faster than real time does


async def test_a_frame_shows_the_session_and_the_input_it_was_drawn_with(shared_server: Running) -> None:
    one = await WireClient.enter(shared_server.url, world="one")
    two = await WireClient.enter(shared_server.url, world="two")
    for _ in range(2 * FRAMES_PER_CHUNK):
        for client in (one, two):
            frame = await client.next_frame(keys=1)
            session, number, seq = decode_numbers(pixels_of(frame))
            assert str(session) == client.welcome.session
            assert number == frame.id
            assert seq == max(frame.input_seq, 0)
    assert frame.input_seq > 0
    assert frame.held_ms > 0.0


async def test_a_reader_that_stops_pauses_its_own_world_and_no_other(shared_server: Running) -> None:
    other = await WireClient.enter(shared_server.url, world="other")
    stopped = await WireClient.enter(shared_server.url, world="stopped")
    await walk(stopped, 3)
    session = shared_server.engine.worlds["stopped"]
    await asyncio.sleep(2 * FRAME_S)  # its last acknowledgement arrives
    driver = session.driver
    assert driver is not None
    await until(lambda: session.why == "reader" and not driver.outbox.has_credit)
    made = session.num_frames
    await walk(other, 4)  # what waited meanwhile
    _, gaps_s = await walk(other, 20)  # a second, in which nobody reads the other socket
    assert session.num_frames == made
    assert_paced(gaps_s)
    first = await first_after_return(stopped)
    assert made - 1 - first <= 4
    ids, _ = await walk(stopped, 10)
    assert ids == sorted(ids)
    assert session.why == ""
    assert session.num_frames > made


async def first_after_return(client: WireClient) -> int:
    """Read on, and give the id of the first frame that was not already in the socket."""
    in_flight = client.welcome.credit
    for _ in range(in_flight):
        client.ack = (await client.next()).id
    await client.send_input()
    return (await client.next_frame()).id


async def test_a_client_that_never_acknowledges_gets_its_credit_and_no_more(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="silent")
    for _ in range(client.welcome.credit):
        await client.next()
    with pytest.raises(TimeoutError):
        await client.next(timeout_s=5 * FRAME_S)
    await client.send_input(ack=2**52)  # a lie gives back what is in flight, and no more
    for _ in range(client.welcome.credit):
        await client.next()
    with pytest.raises(TimeoutError):
        await client.next(timeout_s=5 * FRAME_S)


async def test_a_slow_client_gets_fewer_frames_and_never_older_ones(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="slow")
    session, ids, ages = shared_server.engine.worlds["slow"], [], []
    for _ in range(9):
        frame = await client.next()
        await asyncio.sleep(3 * FRAME_S)  # this client decodes slowly
        client.ack = frame.id
        await client.send_input()
        ids.append(frame.id)
        ages.append(session.num_frames - frame.id)
    assert ids == sorted(set(ids))
    assert max(b - a for a, b in itertools.pairwise(ids)) > 1
    assert max(ages) <= 3 * FRAMES_PER_CHUNK  # and not those of seconds ago


async def test_a_viewer_that_stops_reading_does_not_hold_the_driver_up(shared_server: Running) -> None:
    driver = await WireClient.enter(shared_server.url, world="seen")
    viewer = await WireClient.enter(shared_server.url, world="seen", role="viewer")
    _, gaps_s = await walk(driver, 24)
    assert_paced(gaps_s)
    assert shared_server.engine.worlds["seen"].num_frames - 1 - await first_after_return(viewer) <= FRAMES_PER_CHUNK + 4


async def test_exact_mode_sends_every_frame_and_then_says_done(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="exact", mode="exact")
    controls = [(1, 0.0, 0.0)] * (5 * FRAMES_PER_CHUNK)
    await client.socket.send(pack(ExactStep(seq=7, controls=controls)))
    for number in range(len(controls)):
        assert (await client.next_frame()).id == number
    assert (await client.next("done")).seq == 7


# ---- steering ----


async def test_an_input_reaches_its_session_at_once(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="at-once")
    await client.send_input(keys=5, mouse_x=-3.5)
    session = shared_server.engine.worlds["at-once"]
    await until(lambda: session.inputs)
    assert (session.inputs[-1].keys, session.inputs[-1].mouse_x) == (5, -3.5)


async def test_keys_are_released_once_when_the_driver_falls_silent(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="dead-man")
    session = shared_server.engine.worlds["dead-man"]
    for _ in range(6):
        await client.send_input(keys=1)
        await asyncio.sleep(DEAD_MAN_S / 3)
    assert session.releases_s == []
    sent_s = time.monotonic()
    await until(lambda: session.releases_s)
    assert session.releases_s[0] - sent_s < DEAD_MAN_S * 1.5
    await asyncio.sleep(2 * DEAD_MAN_S)
    assert len(session.releases_s) == 1
    await client.send_input(keys=1)
    await until(lambda: len(session.releases_s) == 2)


async def test_a_viewer_cannot_steer_and_is_told_so_once_a_second(shared_server: Running) -> None:
    await WireClient.enter(shared_server.url, world="watched")
    viewer = await WireClient.enter(shared_server.url, world="watched", role="viewer")
    session = shared_server.engine.worlds["watched"]
    for _ in range(5):
        await viewer.send_input(keys=1)
    await viewer.socket.send(pack(Pause(on=True)))
    await viewer.socket.send(pack(ExactStep(seq=1, controls=[(1, 0.0, 0.0)] * FRAMES_PER_CHUNK)))
    error = await viewer.next("error")
    assert (error.code, error.fatal) == ("viewer_cannot_steer", False)
    with pytest.raises(TimeoutError):
        await viewer.next("error", timeout_s=0.3)
    assert (session.inputs, session.is_paused, session.orders) == ([], False, [])


async def test_the_driver_pauses_and_goes_on(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url, world="paused")
    await walk(client, 3)
    await client.socket.send(pack(Pause(on=True)))
    assert (await client.next("paused")).why == "player"
    await client.socket.send(pack(Pause(on=False)))
    assert (await client.next("paused")).why == ""


async def test_a_ping_comes_back(shared_server: Running) -> None:
    client = await WireClient.enter(shared_server.url)
    await client.socket.send(pack(Ping(t_ms=12.5)))
    assert (await client.next("pong")).t_ms == 12.5


# ---- coming and going ----


async def test_a_client_that_comes_early_is_told_what_is_loading(server: Running) -> None:
    server.engine.is_ready = False
    socket = await connect(server.url)
    client = WireClient(socket, None)
    await socket.send(pack(Hello(version=PROTOCOL_VERSION)))
    assert (await client.next("loading")).stage == "weights"
    await socket.send(pack(Ping(t_ms=1.0)))
    await client.next("pong")
    server.engine.is_ready = True
    assert (await client.next("welcome")).model == "tiny"


async def test_a_client_is_told_when_the_model_will_never_load(server: Running) -> None:
    server.engine.is_ready, server.engine.failure = False, "no such weights: /secret/path"
    socket = await connect(server.url)
    await socket.send(pack(Hello(version=PROTOCOL_VERSION)))
    error = await WireClient(socket, None).next("error")
    assert error.code == "not_ready"
    assert "/secret" not in error.text


async def test_a_refusal_comes_with_its_code_and_closes(shared_server: Running) -> None:
    await WireClient.enter(shared_server.url, world="taken")
    for world, code, close_code in [("taken", "world_in_use", 4409), ("broken", "bad_world", 4404)]:
        socket = await connect(shared_server.url)
        await socket.send(pack(Hello(version=PROTOCOL_VERSION, world=world)))
        error = await WireClient(socket, None).next("error")
        assert (error.code, error.fatal) == (code, True)
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()
        assert (socket.close_code, socket.close_reason) == (close_code, code)


async def test_our_own_fault_ends_one_connection_in_words(
    shared_server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    socket = await connect(shared_server.url)
    await socket.send(pack(Hello(version=PROTOCOL_VERSION, world="buggy")))
    assert (await WireClient(socket, None).next("error")).code == "fault"
    await socket.wait_closed()
    assert socket.close_code == 4500
    assert "ZeroDivisionError" in caplog.text
    assert (await (await WireClient.enter(shared_server.url)).next_frame()).id == 0


async def test_goodbye_leaves_for_good_and_a_lost_connection_does_not(shared_server: Running) -> None:
    polite = await WireClient.enter(shared_server.url, world="polite")
    await polite.socket.send(pack(Goodbye()))
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:
            await polite.socket.recv()
    assert polite.socket.close_code == 1000
    assert shared_server.engine.worlds["polite"].left_for_good
    lost = await WireClient.enter(shared_server.url, world="lost")
    lost.socket.transport.abort()
    session = shared_server.engine.worlds["lost"]
    await until(lambda: not session.seats)
    assert not session.left_for_good


async def test_who_leaves_while_the_world_is_opened_keeps_no_seat(server: Running) -> None:
    server.engine.open_takes_s = 0.3
    socket = await connect(server.url)
    await socket.send(pack(Hello(version=PROTOCOL_VERSION, world="hurry")))
    await asyncio.sleep(0.1)
    socket.transport.abort()
    sessions: dict[str, TinySession] = server.engine.worlds
    await until(lambda: "hurry" in sessions)
    await until(lambda: not sessions["hurry"].seats)


async def test_who_says_nothing_is_closed_after_a_while(
    shared_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HELLO_TIMEOUT_S == 3.0  # as docs/protocol.md says
    monkeypatch.setattr("server.connection.HELLO_TIMEOUT_S", 0.3)
    socket = await connect(shared_server.url)
    started_s = time.monotonic()
    assert (await WireClient(socket, None).next("error")).code == "hello_timeout"
    assert time.monotonic() - started_s >= 0.25
    with pytest.raises(websockets.ConnectionClosed):
        await socket.recv()
    assert socket.close_code == 4408


async def test_a_server_that_stops_says_so_and_saves(server: Running) -> None:
    client = await WireClient.enter(server.url, world="w")
    await client.next_frame()
    await asyncio.to_thread(server.stop)
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:
            await client.socket.recv()
    assert client.socket.close_code == 1012
    assert server.engine.has_stopped
