"""An exact walk: a whole route drawn chunk by chunk, waited for, lossless. Runs its own event loop; blocks."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

from websockets.asyncio.client import ClientConnection

from client.picture import Picture, decode
from client.report import Record, Report, write_report
from client.routes import Route, route
from client.stepping import steps_for
from client.wire import RefusedError, Visit, hello, open_socket, receive
from shared.protocol import (
    RANDOM_WEIGHTS,
    Done,
    Error,
    Frame,
    Goodbye,
    Input,
    Message,
    Stats,
    Welcome,
    pack,
    unpack_server,
)


@dataclass(frozen=True, slots=True)
class ExactFrame:
    """One frame of an exact walk: its compressed bytes, and the server's hash of the raw pixels."""

    picture: Picture
    png: bytes
    sha: str


class _ExactWalk:
    """The state of one exact walk; everything runs on one event loop."""

    def __init__(self, visit: Visit, route_name: str, seconds: float) -> None:
        self._visit = visit
        self._route_name = route_name
        self._seconds = seconds
        self._acks = 0
        self.record = Record()
        self.frames: list[ExactFrame] = []

    async def run(self, report_path: Path | None) -> Report:
        path = route(self._route_name, self._seconds)
        async with open_socket(self._visit) as socket:
            await socket.send(pack(hello(self._visit, "", "")))
            welcome = await self._welcome(socket)
            await self._walk(socket, welcome, path)
            await socket.send(pack(Goodbye()))
        report = replace(self.record.report(), world=welcome.world, seed=welcome.seed, model=welcome.model,
                       mode=welcome.mode, route=path.name,
                       random_weights=RANDOM_WEIGHTS in welcome.capabilities)  # fmt: skip
        if report_path is not None:
            await write_report(report_path, report)
        return report

    async def _welcome(self, socket: ClientConnection) -> Welcome:
        while True:
            message = await self._next(socket)
            if isinstance(message, Welcome):
                return message

    async def _walk(self, socket: ClientConnection, welcome: Welcome, path: Route) -> None:
        """Ask for the route in pieces, each when the one before is drawn, and keep every frame."""
        num_frames = max(1, round(self._seconds * welcome.fps))
        for step in steps_for(path.frames(welcome.fps, num_frames), welcome.frames_per_chunk):
            await socket.send(pack(step))
            message = await self._next(socket)
            while not (isinstance(message, Done) and message.seq == step.seq):
                if isinstance(message, Frame):
                    self._keep(message, welcome)
                    await socket.send(pack(self._acknowledge(message.id)))
                elif isinstance(message, Stats):
                    self.record.learn(message)
                message = await self._next(socket)

    def _keep(self, frame: Frame, welcome: Welcome) -> None:
        picture = decode(frame, welcome.width, welcome.height)
        self.frames.append(ExactFrame(picture, frame.data, frame.sha))
        self.record.shown(picture, None, time.perf_counter())

    def _acknowledge(self, frame_id: int) -> Input:
        self._acks += 1
        now_ms = time.perf_counter() * 1_000.0
        return Input(seq=self._acks, t_ms=now_ms, keys=0, mouse_x=0.0, mouse_y=0.0, ack=frame_id)

    async def _next(self, socket: ClientConnection) -> Message:
        message = unpack_server(await receive(socket))
        if isinstance(message, Error) and message.fatal:
            raise RefusedError(message)
        return message


def walk_exact(
    visit: Visit, route_name: str, seconds: float, *, report_path: Path | None = None
) -> tuple[Report, list[ExactFrame]]:
    """Walk a route in exact mode. Returns the report and every frame in order. Raises wire.WIRE_ERRORS, RefusedError.

    A broken connection ends the walk: a second attempt on the same world would not draw the same frames.
    """
    walk = _ExactWalk(visit, route_name, seconds)
    report = asyncio.run(walk.run(report_path))
    return (report, walk.frames)
