"""A small server that speaks the wire without a model: for the client's tests, and to try the client on a train.

Owns a thread with an event loop and a listening socket on loopback. Its frames hold their id and input number in
8x8 pixel cells that JPEG cannot blur, so that a test reads from a picture which state made it. Not a server for
players: no worlds, no memory, one thing at a time. `python -m client.rehearsal` serves until interrupted.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from client.fake_memory import FakeMemory
from shared.controls import Controls, Key
from shared.pose import Motion, Pose, advance
from shared.protocol import (
    PROTOCOL_VERSION,
    Done,
    Error,
    ExactStep,
    Frame,
    Hello,
    Input,
    Loading,
    Message,
    Pause,
    Paused,
    Ping,
    Pong,
    Welcome,
    pack,
    unpack_client,
)

WIDTH_PX, HEIGHT_PX, _CELL_PX = 96, 64, 8
_ID_BITS = 48  # of each of the two numbers in a picture
Paint = Callable[[Pose, int, int], NDArray[np.uint8]]


def paint_numbers(_: Pose, frame_id: int, input_seq: int) -> NDArray[np.uint8]:
    """[H, W, 3]: the frame's id and its input's number as black and white cells; the pose is not drawn."""
    numbers = (frame_id << _ID_BITS) | (input_seq + 1)
    num_cells = WIDTH_PX * HEIGHT_PX // _CELL_PX**2
    bits = np.array([(numbers >> index) & 1 for index in range(num_cells)], np.uint8) * 255
    cells = bits.reshape(HEIGHT_PX // _CELL_PX, WIDTH_PX // _CELL_PX)
    plane = cells.repeat(_CELL_PX, axis=0).repeat(_CELL_PX, axis=1)
    return np.stack([plane] * 3, axis=-1)


def read_numbers(rgb: bytes) -> tuple[int, int]:
    """(frame id, input number) from the pixels of a picture that `paint_numbers` drew."""
    plane = np.frombuffer(rgb, np.uint8).reshape(HEIGHT_PX, WIDTH_PX, 3)[
        _CELL_PX // 2 :: _CELL_PX, _CELL_PX // 2 :: _CELL_PX, 0
    ]
    numbers = sum(1 << index for index, value in enumerate(plane.ravel().tolist()) if value > 127)
    return (numbers >> _ID_BITS, (numbers & ((1 << _ID_BITS) - 1)) - 1)


@dataclass(frozen=True, slots=True)
class Play:
    """What the rehearsal server does; the defaults behave."""

    fps: float = 10.0
    frames_per_chunk: int = 2
    token: str = ""
    refuse_with: str = ""  # an error code, instead of a welcome
    loading_s: float = 0.0
    motion: Motion = field(default_factory=lambda: Motion(1.1, 2.0, 0.0))
    paint: Paint = paint_numbers
    port: int = 0


class _Visitor:
    """One connection: what it said last, and where it stands. Lives on the event loop."""

    def __init__(self) -> None:
        self.input: Input | None = None
        self.pose = Pose()
        self.used = (0.0, 0.0)
        self.next_id = 0
        self.is_paused = False
        self.steps: asyncio.Queue[ExactStep] = asyncio.Queue()

    def controls(self) -> Controls:
        """The newest controls, with the mouse travel that no frame has used yet."""
        if self.input is None:
            return Controls()
        dx, dy = self.input.mouse_x - self.used[0], self.input.mouse_y - self.used[1]
        self.used = (self.input.mouse_x, self.input.mouse_y)
        return Controls(Key(self.input.keys), dx, dy)


class Rehearsal:
    """The server as a context manager; `url` is valid inside. `cut` breaks every connection, as a network does."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._sockets: set[ServerConnection] = set()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)
        self._visitors: dict[str, _Visitor] = {}  # by resume token
        self.url = ""
        self.hellos: list[Hello] = []
        self.inputs: list[Input] = []
        self.unacknowledged = 0  # the most frames that were under way

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(5.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()  # bounded by the close timeout of its sockets
        self._loop.close()

    def cut(self) -> None:
        """Break all connections without a word."""
        self._loop.call_soon_threadsafe(lambda: [socket.transport.abort() for socket in self._sockets])

    async def _serve(self) -> None:
        async with serve(self._visit, "127.0.0.1", self._play.port, compression=None, close_timeout=1) as server:
            self.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws"
            self._ready.set()
            await self._stop.wait()

    async def _visit(self, socket: ServerConnection) -> None:
        self._sockets.add(socket)
        try:
            await self._greet(socket, unpack_client(_binary(await socket.recv())))
        except ConnectionClosed:
            pass
        finally:
            self._sockets.discard(socket)

    async def _greet(self, socket: ServerConnection, hello: Message) -> None:
        if not isinstance(hello, Hello):
            return
        self.hellos.append(hello)
        is_let_in = self._play.token in ("", _bearer(socket), hello.token)
        code = self._play.refuse_with or ("" if is_let_in else "unauthorized")
        if code:
            await _send(socket, Error(code=code, text=f"refused with {code}", fatal=True))
            return
        for share in (0.0, 0.5, 0.9) if self._play.loading_s else ():
            await _send(socket, Loading(stage="loading the weights", share=share))
            await asyncio.sleep(self._play.loading_s / 3.0)
        resumed = hello.resume in self._visitors
        visitor = self._visitors.get(hello.resume, _Visitor())
        resume = hello.resume if resumed else f"visit-{len(self._visitors)}"
        self._visitors[resume] = visitor
        visitor.input, visitor.used = None, (0.0, 0.0)
        await _send(socket, self._welcome(hello, resume, resumed=resumed))
        draw = self._draw_exact if hello.mode == "exact" else self._draw
        drawing = asyncio.create_task(draw(socket, visitor, hello))
        try:
            async for data in socket:
                await self._take(socket, visitor, unpack_client(_binary(data)))
        finally:
            drawing.cancel()

    def _welcome(self, hello: Hello, resume: str, *, resumed: bool) -> Welcome:
        play = self._play
        return Welcome(
            version=PROTOCOL_VERSION, session=f"s-{resume}", world=hello.world or "rehearsal", seed=hello.seed or 7,
            model="rehearsal", mode=hello.mode, role=hello.role, codec=hello.codec, fps=play.fps, width=WIDTH_PX,
            height=HEIGHT_PX, frames_per_chunk=play.frames_per_chunk, max_recall=4, walk_m_s=play.motion.walk_m_s,
            turn_rad_s=play.motion.turn_rad_s, max_pitch_rad=play.motion.max_pitch_rad, credit=2, resume=resume,
            resumed=resumed,
        )  # fmt: skip

    async def _take(self, socket: ServerConnection, visitor: _Visitor, message: Message) -> None:
        if isinstance(message, Input):
            visitor.input = message
            self.inputs.append(message)
        elif isinstance(message, Ping):
            await _send(socket, Pong(t_ms=message.t_ms))
        elif isinstance(message, Pause):
            visitor.is_paused = message.on
            await _send(socket, Paused(why="player" if message.on else ""))
        elif isinstance(message, ExactStep):
            await visitor.steps.put(message)

    async def _draw(self, socket: ServerConnection, visitor: _Visitor, hello: Hello) -> None:
        """Live: a frame at each due time, while the credit lasts."""
        memory = FakeMemory()
        due_s = time.perf_counter()
        first_id = visitor.next_id
        while True:
            due_s = max(due_s + 1.0 / self._play.fps, time.perf_counter() - 0.5)
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            acknowledged = max(first_id - 1, visitor.input.ack if visitor.input else -1)
            if visitor.is_paused or visitor.next_id - 1 - acknowledged >= 2:
                continue
            self.unacknowledged = max(self.unacknowledged, visitor.next_id - acknowledged)
            await self._draw_one(socket, visitor, hello, visitor.controls())
            if visitor.next_id % self._play.frames_per_chunk == 0:
                for message in memory.chunk(visitor.next_id // self._play.frames_per_chunk, visitor.pose):
                    await _send(socket, message)

    async def _draw_exact(self, socket: ServerConnection, visitor: _Visitor, hello: Hello) -> None:
        while True:
            step = await visitor.steps.get()
            for keys, dx, dy in step.controls:
                await self._draw_one(socket, visitor, hello, Controls(Key(keys), dx, dy))
            await _send(socket, Done(seq=step.seq))

    async def _draw_one(self, socket: ServerConnection, visitor: _Visitor, hello: Hello, controls: Controls) -> None:
        play, frame_id = self._play, visitor.next_id
        visitor.next_id += 1
        visitor.pose = advance(visitor.pose, controls, play.motion, 1.0 / play.fps)
        seq = visitor.input.seq if visitor.input else -1
        data = BytesIO()
        sha = f"{frame_id:032x}" if hello.mode == "exact" else ""
        Image.fromarray(play.paint(visitor.pose, frame_id, seq)).save(data, hello.codec.upper(), quality=90)
        frame = Frame(
            id=frame_id, pts_s=frame_id / play.fps, chunk=frame_id // play.frames_per_chunk,
            index=frame_id % play.frames_per_chunk, pose=visitor.pose.as_tuple(), input_seq=seq, held_ms=0.0,
            seeded=False, codec=hello.codec, data=data.getvalue(), sha=sha,
        )  # fmt: skip
        await _send(socket, frame)


async def _send(socket: ServerConnection, message: Message) -> None:
    await socket.send(pack(message))


def _binary(data: str | bytes) -> bytes:
    return data if isinstance(data, bytes) else data.encode()


def _bearer(socket: ServerConnection) -> str:
    header: Any = socket.request.headers.get("Authorization", "") if socket.request else ""
    return str(header).removeprefix("Bearer ")


if __name__ == "__main__":
    with Rehearsal(replace(Play(), port=8765)) as rehearsal:
        print(f"rehearsing at {rehearsal.url}; Ctrl+C ends it")  # noqa: T201 - a command line
        threading.Event().wait()
