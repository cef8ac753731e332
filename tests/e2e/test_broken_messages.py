"""A thousand broken messages over real sockets: each gets a typed error and a close, and the server goes on."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
import websockets

from server.limits import BURST_MESSAGES, CLOSE_CODES
from shared.protocol import PROTOCOL_VERSION, Hello, Input, Ping, pack
from tests.e2e.conftest import Running
from tests.e2e.wire_client import WireClient, connect

pytestmark = pytest.mark.usefixtures("no_socket_left_open")
NUM_BROKEN = 1_000
AT_ONCE = 20
HELLO: dict[str, Any] = {"type": "hello", "version": PROTOCOL_VERSION}
INPUT: dict[str, Any] = Input(seq=1, t_ms=1.0, keys=0, mouse_x=0.0, mouse_y=0.0, ack=-1).model_dump()
GOOD = msgpack.packb(INPUT)
WRONG_VALUES: tuple[Any, ...] = (
    None, "x", b"x", [], {}, [[]], True, -1, -(2**63), 2**64 - 1, 1e300, float("nan"), float("inf"), float("-inf"),
    "x" * 5_000, msgpack.Timestamp(1), msgpack.ExtType(5, b"x"),
)  # fmt: skip
WRONG_TYPES = ("", "hellO", "frame", "welcome", "__class__", "x" * 10_000, 1, None, ["hello"])


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def wrong_field(dice: random.Random) -> dict[str, Any]:
    field = dice.choice(["seq", "keys", "mouse_x", "mouse_y", "ack", "t_ms", "buffered"])
    return {field: dice.choice([value for value in WRONG_VALUES if value not in (-1, 1e300)])}


# each makes one message that no client may send
MAKERS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda dice: msgpack.packb({**INPUT, **wrong_field(dice)}),
    lambda dice: msgpack.packb({**INPUT, "type": dice.choice(WRONG_TYPES)}),
    lambda dice: msgpack.packb({**INPUT, "x": nested(dice.choice([7, 50, 400]))}),  # deep
    lambda dice: b"\x91" * dice.choice([1_000, 60_000]) + b"\xc0",  # so deep that a recursive parser breaks
    lambda dice: msgpack.packb({"type": "exact_step", "seq": 1, "controls": [0] * dice.choice([513, 5_000, 60_000])}),
    lambda dice: GOOD[: dice.randrange(len(GOOD))],  # cut short
    lambda dice: dice.choice(
        [b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdc\xff\xff"]
    ),
    lambda dice: dice.choice([GOOD + b"\xc0", msgpack.packb({**INPUT, "extra": 1}), GOOD[:-1] + b"\xc1"]),
    lambda dice: dice.randbytes(dice.randrange(1, 300)),
)


async def send_broken(url: str, data: bytes, *, first: bool) -> str:
    """Send one broken message, first of all or after a good hello. The code of the error that answers it."""
    async with await connect(url) as socket:
        if not first:
            await socket.send(pack(Hello(version=PROTOCOL_VERSION, world="hit", role="viewer")))
        await socket.send(data)
        try:
            error = await WireClient(socket, None).next("error")
        except websockets.ConnectionClosed:
            pytest.fail(f"closed with {socket.close_code} and without an error for {data[:60]!r}")
        await socket.wait_closed()
        assert error.fatal
        assert socket.close_code == CLOSE_CODES[error.code]
        return error.code


async def test_a_thousand_broken_messages_and_then_a_normal_client_walks(server: Running) -> None:
    dice = random.Random(7)
    free = asyncio.Semaphore(AT_ONCE)

    async def send_one(number: int) -> str:
        async with free:
            return await send_broken(server.url, dice.choice(MAKERS)(dice), first=number % 3 > 0)

    codes = await asyncio.gather(*(send_one(number) for number in range(NUM_BROKEN)))
    assert {"invalid", "too_deep", "malformed"} <= set(codes)
    client = await WireClient.enter(server.url, world="after")
    ids = [(await client.next_frame()).id for _ in range(20)]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("value", WRONG_VALUES)
async def test_a_hello_with_a_wrong_field_is_answered(shared_server: Running, value: Any) -> None:
    async with await connect(shared_server.url) as socket:
        await socket.send(msgpack.packb({**HELLO, "world": value if value != "x" else "x" * 65}))
        error = await WireClient(socket, None).next("error")
        assert error.code in ("invalid", "too_deep", "malformed")
        assert error.fatal


async def test_a_text_frame_is_refused(server: Running) -> None:
    async with await connect(server.url) as socket:
        await socket.send("hello")
        assert (await WireClient(socket, None).next("error")).code == "text_frame"
        await socket.wait_closed()
        assert socket.close_code == 1003


async def test_a_message_beyond_the_size_is_closed_unread(server: Running) -> None:
    async with await connect(server.url) as socket:
        await socket.send(pack(Hello(version=PROTOCOL_VERSION)))
        await socket.send(b"\x00" * 65_537)
        await socket.wait_closed()
        assert socket.close_code == 1009


async def test_a_second_hello_is_refused(server: Running) -> None:
    client = await WireClient.enter(server.url)
    await client.socket.send(pack(Hello(version=PROTOCOL_VERSION)))
    assert (await client.next("error")).code == "unexpected"
    await client.socket.wait_closed()
    assert client.socket.close_code == 4400


async def test_another_version_is_told_which_one_is_spoken(server: Running) -> None:
    async with await connect(server.url) as socket:
        await socket.send(msgpack.packb({"type": "hello", "version": 99, "a_field_of_tomorrow": 1}))
        error = await WireClient(socket, None).next("error")
        assert error.code == "version"
        assert str(PROTOCOL_VERSION) in error.text
        await socket.wait_closed()
        assert socket.close_code == 4426


async def test_a_flood_is_closed_and_disturbs_nobody(server: Running) -> None:
    other = await WireClient.enter(server.url, world="other")
    flooding = await WireClient.enter(server.url, world="flooding")
    ping = pack(Ping(t_ms=1.0))

    async def flood() -> None:
        for _ in range(int(3 * BURST_MESSAGES)):
            await flooding.socket.send(ping)

    sending = asyncio.create_task(flood())
    for number in range(10):
        assert (await other.next_frame()).id >= number
    assert (await flooding.next("error")).code == "too_fast"
    await flooding.socket.wait_closed()
    assert flooding.socket.close_code == 4429
    await asyncio.gather(sending, return_exceptions=True)
