"""What one connection may say, and the code that closes it when it says something else. Pure; event loop."""

from typing import cast

import msgpack  # pyright: ignore[reportMissingTypeStubs] - it has none

from shared.protocol import PROTOCOL_VERSION, Hello, ProtocolError, unpack_client

MESSAGES_PER_S = 120.0
# ten seconds of 60 Hz input may arrive at once after the network stood still; nobody honest gets past this
BURST_MESSAGES = 600.0
# wishes about the timeline keep states, redraw chunks and write files; a held Backspace asks seven times a second
TRAVELS_PER_S = 10.0
BURST_TRAVELS = 30.0

# error code of docs/protocol.md -> WebSocket close code
CLOSE_CODES: dict[str, int] = {
    "malformed": 4400,
    "invalid": 4400,
    "too_deep": 4400,
    "unexpected": 4400,
    "text_frame": 1003,
    "unauthorized": 4401,
    "bad_world": 4404,
    "other_model": 4404,
    "no_such_session": 4404,
    "hello_timeout": 4408,
    "world_in_use": 4409,
    "taken_over": 4410,
    "session_over": 4411,
    "too_large": 1009,
    "too_much": 4429,
    "disk": 4507,
    "version": 4426,
    "too_fast": 4429,
    "fault": 4500,
    "busy": 4503,
    "not_ready": 4503,
}
CLOSE_OTHER = 4403  # refused by the engine for another reason


class TokenBucket:
    """A budget of messages that fills at MESSAGES_PER_S up to BURST_MESSAGES. Times are given, never read."""

    def __init__(self, now_s: float, per_s: float = MESSAGES_PER_S, burst: float = BURST_MESSAGES) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Take one message from the budget; False when there is none left."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def give(self) -> None:
        """Add one message: the acknowledgement that a sent frame will bring."""
        self._left = min(self._burst, self._left + 1.0)


def read_hello(data: bytes) -> Hello:
    """The first message of a connection. Raises ProtocolError when it is none, or one of another version."""
    try:
        message = unpack_client(data)
    except ProtocolError as error:
        # another version may have other fields: say so instead of naming a field
        version = _peek_version(data) if error.code == "invalid" else PROTOCOL_VERSION
        if version == PROTOCOL_VERSION:
            raise
        raise _wrong_version(version) from error
    if not isinstance(message, Hello):
        raise ProtocolError("unexpected", "the first message must be a hello")
    if message.version != PROTOCOL_VERSION:
        raise _wrong_version(message.version)
    return message


def _peek_version(data: bytes) -> object:
    """The version of a hello that is invalid, but whose size and depth were found in order."""
    value = cast("object", msgpack.unpackb(data))  # pyright: ignore[reportUnknownMemberType]
    fields = cast("dict[object, object]", value) if isinstance(value, dict) else {}
    return fields.get("version", PROTOCOL_VERSION) if fields.get("type") == "hello" else PROTOCOL_VERSION


def _wrong_version(version: object) -> ProtocolError:
    spoken = version if isinstance(version, int) else "unknown"
    text = f"This server speaks version {PROTOCOL_VERSION} of the protocol, the client {spoken}. Update the older one."
    return ProtocolError("version", text)
