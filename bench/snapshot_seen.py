"""The time until a client sees where it went: from its wish, over a real socket, to the frame of that moment."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import ClientConnection

from bench.pager_measure import percentile
from client.wire import Visit, hello, open_socket, receive
from shared.protocol import Frame, HeadNote, Input, Message, Restore, SnapshotNote, SnapshotRequest, pack, unpack_server

JUMPS = 24
WALK_S = 0.5  # between two jumps
STOP_WAIT_S = 30.0


def seen_ms(scratch: Path, jumps: int = JUMPS) -> dict[str, float]:
    """Milliseconds from a client's wish to go back until the frame of that moment has arrived: p50 and p95."""
    with tempfile.TemporaryDirectory(prefix="seen-", dir=scratch) as worlds:
        command = [sys.executable, "-m", "server", "--worlds", worlds, "--port", "0", "--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own module
            try:
                taken = asyncio.run(_jump(_url(server), jumps))
            finally:
                server.terminate()
                server.wait(STOP_WAIT_S)
    return {f"p{percent}": round(percentile(taken, percent), 1) for percent in (50, 95)}


def _url(server: "subprocess.Popen[str]") -> str:
    assert server.stdout is not None
    line = next(line for line in server.stdout if line.startswith("ready: "))
    return line.removeprefix("ready: ").strip()


async def _jump(url: str, jumps: int) -> list[float]:
    visit = Visit(url, world="seen", seed=900_100)
    async with open_socket(visit) as socket:
        await socket.send(pack(hello(visit, "", "")))
        async with _walking(socket) as walk:
            await walk.for_s(2.0)
            await socket.send(pack(SnapshotRequest(name="here")))
            await walk.until(SnapshotNote)
            return [await walk.jump() for _ in range(jumps)]


@asynccontextmanager
async def _walking(socket: ClientConnection) -> AsyncIterator["_Walk"]:
    yield _Walk(socket)


class _Walk:
    """A driver that turns on the spot and takes frames as they come."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._seq = 0
        self._ack = -1

    async def next(self) -> Message:
        """The next message; frames are acknowledged, with newer mouse travel."""
        message = unpack_server(await receive(self._socket))
        if isinstance(message, Frame):
            self._ack = message.id
            self._seq += 1
            turned = Input(seq=self._seq, t_ms=0.0, keys=0, mouse_x=8.0 * self._seq, mouse_y=0.0, ack=self._ack)
            await self._socket.send(pack(turned))
        return message

    async def until(self, kind: type[Message]) -> None:
        while not isinstance(await self.next(), kind):
            pass

    async def for_s(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            await self.next()

    async def jump(self) -> float:
        """Walk a little, go back, and say how many milliseconds it took to see it."""
        await self.for_s(WALK_S)
        began_s = time.perf_counter()
        await self._socket.send(pack(Restore(name="here")))
        await self.until(HeadNote)
        await self.until(Frame)
        return (time.perf_counter() - began_s) * 1e3
