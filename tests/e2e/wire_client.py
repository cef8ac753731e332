"""A client of forty lines: what docs/protocol.md asks of one, over a real socket."""

import asyncio
import io
from typing import Any

import numpy as np
import websockets
from PIL import Image
from websockets.asyncio.client import ClientConnection

from shared.protocol import PROTOCOL_VERSION, Error, Frame, Hello, Input, Message, Welcome, pack, unpack_server

OPENED: list[ClientConnection] = []  # of the running test, which its fixture closes


async def connect(url: str, **options: Any) -> ClientConnection:
    """A WebSocket with the settings that docs/protocol.md advises."""
    socket = await websockets.connect(url, compression=None, proxy=None, max_size=8_388_608, max_queue=2, **options)
    OPENED.append(socket)
    return socket


async def close_all() -> None:
    """End what a test has left open, also sockets that nobody reads any more."""
    while OPENED:
        socket = OPENED.pop()
        socket.transport.abort()
        await socket.wait_closed()


class WireClient:
    """One connection after its hello; `welcome` is what came back."""

    def __init__(self, socket: ClientConnection, welcome: Welcome) -> None:
        self.socket = socket
        self.welcome = welcome
        self.seq = 0
        self.ack = -1

    @classmethod
    async def enter(cls, url: str, headers: dict[str, str] | None = None, **hello: Any) -> "WireClient":
        socket = await connect(url, additional_headers=headers)
        await socket.send(pack(Hello(**{"version": PROTOCOL_VERSION, "codec": "png", **hello})))
        message = await receive(socket)
        while message.type == "loading":
            message = await receive(socket)
        if isinstance(message, Error):
            raise RuntimeError(message.code)
        assert isinstance(message, Welcome)
        return cls(socket, message)

    async def send_input(self, **fields: Any) -> None:
        self.seq += 1
        values = {"keys": 0, "mouse_x": 0.0, "mouse_y": 0.0, "ack": self.ack, "t_ms": self.seq * 16.0, **fields}
        await self.socket.send(pack(Input(seq=self.seq, **values)))

    async def next(self, kind: str = "frame", timeout_s: float = 30.0) -> Any:
        """The next message of this kind; others are passed over."""
        return await self.next_of(kind, timeout_s=timeout_s)

    async def next_of(self, *kinds: str, timeout_s: float = 30.0) -> Any:
        """The next message of one of these kinds."""
        async with asyncio.timeout(timeout_s):
            while (message := await receive(self.socket)).type not in kinds:
                pass
        return message

    async def next_frame(self, **fields: Any) -> Frame:
        """The next frame, acknowledged at once."""
        frame: Frame = await self.next()
        self.ack = frame.id
        await self.send_input(**fields)
        return frame

    async def close(self) -> None:
        await self.socket.close()


async def receive(socket: ClientConnection) -> Message:
    data = await socket.recv()
    assert isinstance(data, bytes)
    return unpack_server(data)


def pixels_of(frame: Frame) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.asarray(Image.open(io.BytesIO(frame.data), formats=["PNG", "JPEG"]).convert("RGB"))
