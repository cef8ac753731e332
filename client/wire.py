"""Opening the socket and naming what went wrong with it. Used by the link and by exact walks, on their event loops."""

from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI

from client.status import is_passing
from shared.protocol import MAX_SERVER_MESSAGE_BYTES, PROTOCOL_VERSION, Codec, Error, Hello, Mode, ProtocolError

_SILENCES: dict[type[BaseException], str] = {
    TimeoutError: "It did not answer within 5 seconds.",
    ConnectionRefusedError: "Nothing listens there.",
}
_CLOSES = {1001: "The server went away.", 1011: "The connection fell silent.", 1012: "The server restarts."}
_TOO_MANY = 1013
_FIRST_OWN_CODE, _LAST_OWN_CODE = 4400, 4599
WIRE_ERRORS = (OSError, TimeoutError, ConnectionClosed, InvalidHandshake, InvalidURI, ProtocolError)


@dataclass(frozen=True, slots=True)
class Visit:
    """Which server and which world the player asks for."""

    url: str
    world: str = ""
    seed: int | None = None
    mode: Mode = "live"
    token: str = field(default="", repr=False)
    at: str = ""  # branch or snapshot to enter at
    is_starting: bool = False  # the server was started together with this client: it may not answer for a while

    @property
    def codec(self) -> Codec:
        """Exact walks compare pixels, so their frames come lossless."""
        return "png" if self.mode == "exact" else "jpeg"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a connection ended. A refusal is not tried again by itself."""

    text: str
    code: str = ""
    is_refusal: bool = False


class RefusedError(Exception):
    """The server sent a fatal error."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.text)
        self.error = error


def open_socket(visit: Visit) -> connect:
    """A connection in the making, with the settings of docs/protocol.md; `async with` opens and closes it."""
    return connect(
        visit.url,
        compression=None,
        proxy=None,
        max_size=MAX_SERVER_MESSAGE_BYTES,
        max_queue=2,
        ping_interval=5,
        ping_timeout=10,
        open_timeout=5,
        close_timeout=1,
        additional_headers={"Authorization": f"Bearer {visit.token}"} if visit.token else None,
    )


async def receive(socket: ClientConnection) -> bytes:
    """The next message. Raises ProtocolError for a text message."""
    data = await socket.recv()
    if isinstance(data, str):
        raise ProtocolError("malformed", "a text message; the server speaks binary messages only")
    return data


def hello(visit: Visit, resume: str, world: str, branch: str = "") -> Hello:
    """The first message: a return to the session on `branch` of `world` that was lost, or a new visit."""
    return Hello(
        version=PROTOCOL_VERSION,
        world=world or visit.world,
        seed=None if world else visit.seed,
        mode=visit.mode,
        codec=visit.codec,
        resume=resume,
        at=branch if world else visit.at,
    )


def trouble_of(error: BaseException) -> Trouble:
    """What a failure means to the player."""
    if isinstance(error, RefusedError):
        return Trouble(error.error.text, error.error.code, is_refusal=not is_passing(error.error.code))
    if isinstance(error, ProtocolError):
        return Trouble(f"The server sent something that this client cannot read: {error.text}", error.code)
    if isinstance(error, InvalidStatus):
        return _of_http(error.response.status_code)
    if isinstance(error, InvalidMessage | InvalidURI):
        return Trouble(str(error), "address", is_refusal=True)
    if isinstance(error, ConnectionClosed):
        return _of_close(error)
    return Trouble(_SILENCES.get(type(error), f"{error}".rstrip(".") + "."))


def _of_http(status: int) -> Trouble:
    if status in (401, 403):
        return Trouble("", "unauthorized", is_refusal=True)
    if status == 400:
        return Trouble("", "host", is_refusal=True)
    if status in (429, 502, 503, 504):
        return Trouble(f"HTTP {status}", "not_ready")
    return Trouble(f"HTTP {status}", "address", is_refusal=True)


def _of_close(error: ConnectionClosed) -> Trouble:
    if error.rcvd is None:
        return Trouble("The connection broke.")
    code, reason = error.rcvd.code, error.rcvd.reason
    if code == _TOO_MANY:
        return Trouble("The server asks to try again later.", "busy")
    if _FIRST_OWN_CODE <= code <= _LAST_OWN_CODE:  # its error message was lost: the reason repeats the error's code
        return Trouble("", reason, is_refusal=not is_passing(reason))
    return Trouble(_CLOSES.get(code, reason or f"The server closed the connection ({code})."))
