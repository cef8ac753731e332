"""One WebSocket: bytes to messages and back, the hello, the limits, the dead man's switch. Event loop.

A reader and a writer run side by side and end together: a connection that only sends never learns that its peer left.
It holds a seat and knows nothing of worlds, chunks or tiers. docs/protocol.md is its behaviour in words.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable

from starlette.websockets import WebSocket, WebSocketDisconnect

from server.access import LET_IN, Rules
from server.door import Door
from server.faults import Refused
from server.limits import BURST_TRAVELS, CLOSE_CODES, CLOSE_OTHER, TRAVELS_PER_S, TokenBucket, read_hello
from server.metrics import Traffic
from server.seat import Seat
from server.thumbnail import write_thumbnail
from shared.protocol import (
    Error,
    ExactStep,
    FromClient,
    FromTraveller,
    Goodbye,
    Hello,
    Input,
    Loading,
    Message,
    Pause,
    Ping,
    Pong,
    ProtocolError,
    pack,
    unpack_client,
)

HELLO_TIMEOUT_S = 3.0
LOADING_EVERY_S = 0.25
DEAD_MAN_S = 0.25  # keys are released after this long without a message from the driver
CLOSE_TIMEOUT_S = 2.0
VIEWER_ERROR_EVERY_S = 1.0
log = logging.getLogger(__name__)


class Gone(Exception):  # noqa: N818 - it is an event, not a fault
    """The peer closed the socket, or it broke."""


class Connection:
    """One client from accept to close. It lives in the task of `run` and its two children, all on the event loop."""

    def __init__(
        self,
        socket: WebSocket,
        door: Door,
        rules: Rules,
        traffic: Traffic,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = socket
        self._door = door
        self._rules = rules
        self._traffic = traffic
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()  # frames, notes, credit or replies to look at
        self._bucket = TokenBucket(clock())
        self._travels = TokenBucket(clock(), TRAVELS_PER_S, BURST_TRAVELS)
        self._replies: deque[Message] = deque(maxlen=8)  # a peer that pings without reading loses its oldest pongs
        self._seat: Seat | None = None
        self._heard_s = clock()
        self._last_seq = -1
        self._viewer_told_s = float("-inf")
        self._is_goodbye = False

    async def run(self) -> None:
        """Serve this client until it leaves, breaks the rules or the server stops."""
        self._traffic.connections.inc()
        try:
            await self._socket.accept()
            await self._serve()
        except Gone:
            pass
        except (ProtocolError, Refused) as fault:
            self._traffic.refused.labels(code=fault.code).inc()
            log.info("connection_refused code=%s", fault.code)
            await self._say_and_close(fault.code, fault.text)
        except Exception:  # top of the task: our own fault ends this connection in words, and no other
            log.exception("connection ended by a fault")
            await self._say_and_close("fault", "The server made an error and closed this connection. Connect again.")
        finally:
            self._traffic.connections.dec()
            if self._seat is not None:
                thumbnail = self._seat.thumbnail()
                self._seat.leave(self._is_goodbye)
                if thumbnail is not None:
                    await write_thumbnail(thumbnail)

    async def _serve(self) -> None:
        hello = await self._take_hello()
        tasks = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._write(hello)),
            asyncio.create_task(self._watch_silence()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            # the seat may only be left when nobody uses it any more
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        await self._close(1000, "goodbye")

    # ---- bytes ----

    async def _receive(self) -> bytes:
        try:
            event = await self._socket.receive()
        except RuntimeError as error:  # starlette: after a disconnect
            raise Gone from error
        if event["type"] == "websocket.disconnect":
            raise Gone
        if not self._bucket.take(self._clock()):
            raise ProtocolError("too_fast", "more messages than a client may send; 60 inputs a second are enough")
        data = event.get("bytes")
        if data is None:
            raise ProtocolError("text_frame", "a text frame; messages are msgpack in binary frames")
        return data

    async def _send(self, message: Message) -> None:
        try:
            await self._socket.send_bytes(pack(message))
        except (RuntimeError, WebSocketDisconnect) as error:  # starlette raises RuntimeError after a close
            raise Gone from error

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            # a peer that stopped reading would hold the close back for ever
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close(code, reason)

    async def _say_and_close(self, code: str, text: str) -> None:
        with contextlib.suppress(Gone, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._send(Error(code=code, text=text, fatal=True))
        await self._close(CLOSE_CODES.get(code, CLOSE_OTHER), code)

    # ---- the hello ----

    async def _take_hello(self) -> Hello:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                hello = read_hello(await self._receive())
        except TimeoutError as error:
            raise ProtocolError("hello_timeout", f"no hello within {HELLO_TIMEOUT_S:g} seconds") from error
        if not (self._socket.scope.get(LET_IN, False) or self._rules.is_token(hello.token)):
            raise ProtocolError(
                "unauthorized",
                "This server wants a token, and none or a wrong one was sent. It was printed at the server's start; "
                "start the client with --token TOKEN.",
            )
        return hello

    async def _sit_down(self, hello: Hello) -> Seat:
        while not self._door.is_ready:
            if self._door.failure:
                raise Refused("not_ready", "The server cannot draw: its model did not load. Its operator can see why.")
            stage, share = self._door.loading
            await self._send(Loading(stage=stage, share=share))
            await self._wait(LOADING_EVERY_S)
            await self._send_replies()
        opening = asyncio.ensure_future(asyncio.to_thread(self._door.open, hello, self._wake))
        try:
            while not (await asyncio.wait({opening}, timeout=LOADING_EVERY_S))[0]:  # which does not cancel it
                await self._send(Loading(stage="opening your world", share=1.0))
                await self._send_replies()
            return opening.result()
        except asyncio.CancelledError:
            opening.add_done_callback(_leave_unused)  # the client left while its world was being opened
            raise

    # ---- the two directions ----

    async def _read(self) -> None:
        while not self._is_goodbye:
            message = unpack_client(await self._receive())
            self._heard_s = self._clock()
            self._traffic.received.inc()
            self._take(message)

    def _take(self, message: FromClient) -> None:
        seat = self._seat
        match message:
            case Ping():
                self._replies.append(Pong(t_ms=message.t_ms))
                self._changed.set()
            case Goodbye():
                self._is_goodbye = True
            case Hello():
                raise ProtocolError("unexpected", "a second hello; open another connection for another session")
            case Input() if seat is not None:
                self._take_input(seat, message)
            case _ if seat is not None and seat.role == "viewer":
                self._tell_viewer()
            case Pause() if seat is not None:
                seat.pause(message.on)
            case ExactStep() if seat is not None:
                self._take_exact(seat, message)
            case _ if seat is not None and isinstance(message, FromTraveller):
                self._take_travel(seat, message)
            case _:
                pass  # sent before the welcome: there is nothing to steer yet

    def _take_input(self, seat: Seat, message: Input) -> None:
        if seat.role == "viewer" and (message.keys or message.mouse_x or message.mouse_y):
            self._tell_viewer()
        if message.seq > self._last_seq:
            self._last_seq = message.seq
            seat.input(message, self._heard_s)
        else:
            seat.outbox.ack(message.ack)
        self._changed.set()  # there may be credit

    def _take_exact(self, seat: Seat, message: ExactStep) -> None:
        if seat.welcome.mode != "exact":
            raise ProtocolError("unexpected", "exact_step belongs to exact mode; this session is live")
        if len(message.controls) % seat.welcome.frames_per_chunk:
            raise ProtocolError("invalid", "controls: not a multiple of frames_per_chunk")
        seat.exact(message)

    def _take_travel(self, seat: Seat, message: FromTraveller) -> None:
        if not self._travels.take(self._heard_s):
            raise ProtocolError("too_fast", f"more than {TRAVELS_PER_S:g} wishes a second about the timeline")
        seat.travel(message)

    def _tell_viewer(self) -> None:
        if self._heard_s - self._viewer_told_s >= VIEWER_ERROR_EVERY_S:
            self._viewer_told_s = self._heard_s
            text = "You are watching this world. Only its driver moves in it; join as driver to walk yourself."
            self._replies.append(Error(code="viewer_cannot_steer", text=text, fatal=False))
            self._changed.set()

    async def _write(self, hello: Hello) -> None:
        self._seat = seat = await self._sit_down(hello)
        await self._send(seat.welcome)
        while True:
            self._changed.clear()  # before looking: what comes after this is seen in the next round
            await self._send_replies()
            for note in seat.take_notes():
                if isinstance(note, Error) and note.fatal:
                    raise ProtocolError(note.code, note.text)
                await self._send(note)
            frame, wait_s = seat.outbox.pull(self._clock())
            if frame is None:
                await self._wait(wait_s)
            else:
                await self._send(frame.message(self._clock()))
                self._bucket.give()  # a model may draw more than MESSAGES_PER_S frames a second
                self._traffic.frames.inc()
                self._traffic.frame_bytes.inc(len(frame.data))

    async def _send_replies(self) -> None:
        while self._replies:
            await self._send(self._replies.popleft())

    async def _watch_silence(self) -> None:
        """Let go of the keys once, each time the driver falls silent."""
        released_s = float("-inf")
        while True:
            silence_s = self._clock() - self._heard_s
            seat = self._seat
            if silence_s >= DEAD_MAN_S and seat is not None and seat.role == "driver" and released_s < self._heard_s:
                released_s = self._clock()
                seat.release_keys()
            await asyncio.sleep(DEAD_MAN_S - silence_s if silence_s < DEAD_MAN_S else DEAD_MAN_S / 4)

    # ---- waking ----

    async def _wait(self, timeout_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def _wake(self) -> None:
        """Called by the engine from its own thread."""
        with contextlib.suppress(RuntimeError):  # the loop has closed: there is nobody left to wake
            self._loop.call_soon_threadsafe(self._changed.set)


def _leave_unused(opening: "asyncio.Future[Seat]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().leave(False)
