"""The link: one asyncio thread that keeps a visit's WebSocket, through cuts and restarts of the server.

Owns the socket, decoding and the two mailboxes. Does not own what is shown or when: that is the player's thread,
which calls the public methods here. Everything private runs on the link's own thread.
"""

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from client.inputs import SEND_HZ, Inputs
from client.mailbox import Arrivals, ControlsBox
from client.picture import decode
from client.status import Notice, Phase, Status
from client.stepping import Stepper, Stepping
from client.wire import WIRE_ERRORS, RefusedError, Trouble, Visit, hello, open_socket, receive, trouble_of
from shared.protocol import (
    BlockNote,
    Done,
    Error,
    Frame,
    Goodbye,
    HeadNote,
    Loading,
    Message,
    Pause,
    Paused,
    Ping,
    Pong,
    ProtocolError,
    SnapshotNote,
    Stats,
    Tree,
    Welcome,
    pack,
    unpack_server,
)

_BACKOFF_S = (0.25, 0.5, 1.0, 2.0, 4.0)
_PING_S = 1.0
_MAX_ASKED = 32
_log = logging.getLogger(__name__)


class Link:
    """A visit's connection. Made and closed by the player's thread; a closed link is not opened again."""

    def __init__(self, visit: Visit, stepper: Stepper | None = None) -> None:
        """`stepper` says what an exact session draws; by itself it follows the player's hands."""
        self.controls = ControlsBox()
        self.arrivals = Arrivals()
        self.rtt_ms: float | None = None
        self._visit = visit
        self._inputs = Inputs()
        self._stepping = stepper or Stepping()
        self._welcome: Welcome | None = None  # of this connection
        self._has_met = False  # the server has answered once
        self._resume = ""
        self._world = self._branch = ""
        self._newest_id = -1
        self._ack = -1
        self._asked: deque[Message] = deque(maxlen=_MAX_ASKED)
        self._loop: asyncio.AbstractEventLoop | None = None  # from start to the end of the thread
        self._closing = asyncio.Event()
        self._frame_came = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    def close(self, timeout_s: float = 3.0) -> None:
        """Say goodbye and end the thread. Blocks for at most `timeout_s`."""
        if self._loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(timeout_s)

    def pause(self, *, on: bool) -> None:
        """Ask the server to stop or resume the world."""
        self.ask(Pause(on=on))

    def ask(self, message: Message) -> None:
        """Send a wish of the player's soon. What was asked for before a connection stood is not sent."""
        self._asked.append(message)

    def sent_at_s(self, seq: int) -> float | None:
        """When an input was sent, by time.perf_counter."""
        return self._inputs.sent_at_s(seq)

    def submit(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        """Run a coroutine on the link's event loop, for files that must not block the player's thread."""
        if self._loop is None:
            raise RuntimeError("the link was not started")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            loop.run_until_complete(self._keep_visiting())
        except Exception:  # noqa: BLE001 - the top of the thread: the player must see it, whatever it was
            _log.exception("event=link_failed")
            text = "The client's connection thread failed; its log says why. Start the client again."
            self._say(Status(Phase.REFUSED, text=text, code="internal"))
        finally:
            loop.close()

    async def _keep_visiting(self) -> None:
        attempt = 0
        while not self._closing.is_set():
            if attempt == 0:
                self._say(Status(Phase.CONNECTING))
            trouble = await self._visit_once()
            if self._closing.is_set():
                return
            attempt = 1 if self._welcome is not None else attempt + 1
            self._welcome = None
            if trouble.is_refusal:
                self._say(Status(Phase.REFUSED, text=trouble.text, code=trouble.code))
                await self._closing.wait()
                return
            step = 0 if self._is_starting else min(attempt, len(_BACKOFF_S)) - 1
            wait_s = _BACKOFF_S[step] * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            self._say(Status(Phase.LOST, text=trouble.text, code=trouble.code, attempt=attempt, retry_s=wait_s))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), wait_s)

    @property
    def _is_starting(self) -> bool:
        return self._visit.is_starting and not self._has_met

    def _say(self, status: Status) -> None:
        if self._is_starting and status.phase is not Phase.REFUSED:
            status = Status(Phase.STARTING)
        self.arrivals.put_news(replace(status, url=self._visit.url, has_walked=bool(self._world)))

    async def _visit_once(self) -> Trouble:
        """One connection, from its opening to its end; why it ended."""
        try:
            async with open_socket(self._visit) as socket:
                self._has_met = True
                await socket.send(pack(hello(self._visit, self._resume, self._world, self._branch)))
                await self._converse(socket)
            return Trouble("The visit ended.")
        except (RefusedError, *WIRE_ERRORS) as error:
            return trouble_of(error)

    async def _converse(self, socket: ClientConnection) -> None:
        """Read and speak until the connection ends or the player leaves."""
        tasks = [
            asyncio.create_task(self._read(socket)),
            asyncio.create_task(self._speak(socket)),
            asyncio.create_task(self._leave(socket)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # the reader knows best why a connection ended: its error comes first
        for task in sorted(done, key=tasks.index):
            task.result()

    async def _leave(self, socket: ClientConnection) -> None:
        await self._closing.wait()
        with contextlib.suppress(ConnectionClosed):
            await socket.send(pack(Goodbye()))

    async def _read(self, socket: ClientConnection) -> None:
        while True:
            self._take(unpack_server(await receive(socket)))

    def _take(self, message: Message) -> None:
        if isinstance(message, Frame):
            self._take_frame(message)
        elif isinstance(message, HeadNote):
            self._branch = message.branch
            self.arrivals.put_news(message)
        elif isinstance(message, Stats | BlockNote | Paused | SnapshotNote | Tree):
            self.arrivals.put_news(message)
        elif isinstance(message, Pong):
            self.rtt_ms = time.perf_counter() * 1_000.0 - message.t_ms
        elif isinstance(message, Welcome):
            self._take_welcome(message)
        elif isinstance(message, Loading):
            self._say(Status(Phase.LOADING, text=message.stage, share=min(1.0, max(0.0, message.share))))
        elif isinstance(message, Done):
            self._stepping.done(message.seq)
        elif isinstance(message, Error):
            if message.fatal:
                raise RefusedError(message)
            self.arrivals.put_news(Notice(message.text, message.code))

    def _take_welcome(self, welcome: Welcome) -> None:
        self._welcome = welcome
        self._resume, self._world = welcome.resume, welcome.world
        self._newest_id = self._ack = -1
        self._asked.clear()
        steering = self.controls.read(time.perf_counter())
        self._inputs.welcome(steering)
        self._stepping.welcome(steering, welcome.frames_per_chunk)
        self.arrivals.put_news(welcome)
        self._say(Status(Phase.WALKING))

    def _take_frame(self, frame: Frame) -> None:
        if self._welcome is None:
            raise ProtocolError("invalid", "a frame before the welcome")
        picture = decode(frame, self._welcome.width, self._welcome.height)
        self.arrivals.put_frame(picture, time.perf_counter())
        self._newest_id = frame.id
        self._frame_came.set()  # acknowledge it at once

    async def _speak(self, socket: ClientConnection) -> None:
        """Send what the player does, 60 times a second at most, from the welcome on."""
        pinged_s = 0.0
        while True:
            now_s = time.perf_counter()
            if self._welcome is not None:
                for message in self._due(now_s):
                    await socket.send(pack(message))
                if now_s - pinged_s >= _PING_S:
                    pinged_s = now_s
                    await socket.send(pack(Ping(t_ms=now_s * 1_000.0)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._frame_came.wait(), 1.0 / SEND_HZ)
            self._frame_came.clear()

    def _due(self, now_s: float) -> list[Message]:
        """What is to be sent now: wishes, the newest input, and in exact mode the next chunk's controls."""
        messages: list[Message] = []
        while self._asked:
            messages.append(self._asked.popleft())
        if self.arrivals.has_room():
            self._ack = self._newest_id
        steering = self.controls.read(now_s)
        due = self._inputs.next(steering, self._ack, now_s)
        if due is not None:
            messages.append(due)
        if self._visit.mode == "exact":
            step = self._stepping.next(steering)
            if step is not None:
                messages.append(step)
        return messages
