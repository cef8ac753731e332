"""The wire: every message between client and server, and how one is packed and unpacked. Pure; any thread.

PROTOCOL_VERSION rises by one whenever an old peer would misread a new message: a field removed, renamed or given
another meaning, or a new required field. A new optional field or a new message that is only sent on request does not
raise it. docs/protocol.md is this file in words.
"""

from typing import Annotated, Any, Literal, cast, get_args

import msgpack
from pydantic import Field, Strict, TypeAdapter, ValidationError

from shared.message import Message, News
from shared.msgpack_limits import MAX_DEPTH, MAX_ITEMS, ProtocolError, parse
from shared.timeline import (
    MAX_NAME,
    AskTree,
    Fork,
    HeadNote,
    Restore,
    Rewind,
    SnapshotNote,
    SnapshotRequest,
    SwitchRecall,
    Tree,
)

__all__ = ["MAX_DEPTH", "MAX_ITEMS", "Message", "News", "ProtocolError"]  # for those who speak the protocol

PROTOCOL_VERSION = 1
MAX_CLIENT_MESSAGE_BYTES = 65_536
MAX_SERVER_MESSAGE_BYTES = 8_388_608
MAX_COUNTS = 1e9  # of a cumulative mouse sum: 4,000 km of travel
RANDOM_WEIGHTS = "random-weights"  # a capability: what is drawn is noise, for measuring
FRAME_CREDIT = 2  # unacknowledged frames per client; serving measurements: 0.24 s of age at 2, 0.66 s at 4

Codec = Literal["jpeg", "png"]
Role = Literal["driver", "viewer"]
Mode = Literal["live", "exact"]

# msgpack knows arrays only, so a tuple field takes a list; what is inside stays strict
PoseTuple = Annotated[tuple[float, float, float, float, float], Strict(False)]  # shared.pose.Pose.as_tuple
FrameControls = Annotated[tuple[int, float, float], Strict(False)]  # keys, mouse_dx, mouse_dy
BlockPlace = Annotated[tuple[int, float, float, float, int, bool], Strict(False)]
BlockMove = Annotated[tuple[int, int, int], Strict(False)]


# ---- client to server ----


class Hello(Message):
    """First message of a connection. An absent world is made; an empty name asks for a new one."""

    type: Literal["hello"] = "hello"
    version: int = Field(ge=0, le=1_000_000)
    world: str = Field(default="", max_length=64)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    mode: Mode = "live"
    role: Role = "driver"
    codec: Codec = "jpeg"
    token: str = Field(default="", max_length=256)  # for clients that cannot send a Bearer header
    resume: str = Field(default="", max_length=64)
    at: str = Field(default="", max_length=MAX_NAME)  # branch to enter, or snapshot at which a new branch begins


class Input(Message):
    """The newest controls: sent at 60 Hz when something changed, else as a heartbeat at 10 Hz.

    Mouse sums are cumulative since the welcome, in counts, right and down positive: a merged or lost message loses no
    travel. `ack` is the id of the newest frame that was taken from the socket: it gives credit.
    """

    type: Literal["input"] = "input"
    seq: int = Field(ge=0, lt=2**53)
    t_ms: float = Field(ge=0.0, le=1e15)  # the client's monotonic clock
    keys: int = Field(ge=0, le=15)  # shared.controls.Key
    mouse_x: float = Field(ge=-MAX_COUNTS, le=MAX_COUNTS)
    mouse_y: float = Field(ge=-MAX_COUNTS, le=MAX_COUNTS)
    ack: int = Field(ge=-1, lt=2**53)
    buffered: int = Field(default=0, ge=0, le=1_000)  # frames waiting to be shown


class Ping(Message):
    """Asks for a Pong with the same time: the round trip as the user's loop sees it."""

    type: Literal["ping"] = "ping"
    t_ms: float = Field(ge=0.0, le=1e15)


class Pause(Message):
    """The driver stops or resumes the world."""

    type: Literal["pause"] = "pause"
    on: bool


class ExactStep(Message):
    """Exact mode only: the controls of whole chunks by frame, to be drawn in order, none skipped.

    `controls` holds [keys, mouse_dx, mouse_dy] for each frame; its length is a multiple of frames_per_chunk.
    """

    type: Literal["exact_step"] = "exact_step"
    seq: int = Field(ge=0, lt=2**53)
    controls: list[FrameControls] = Field(min_length=1, max_length=512)


class Goodbye(Message):
    """The client leaves for good: its session may be closed at once."""

    type: Literal["goodbye"] = "goodbye"


# ---- server to client: unknown types are passed over as well ----


class Unknown(News):
    """A message of a type that this version does not know."""

    type: str


class Loading(News):
    """The server is not ready to draw yet; `share` runs from 0 to 1."""

    type: Literal["loading"] = "loading"
    stage: str
    share: float


class Welcome(News):
    """Answer to Hello: what will be drawn, and how."""

    type: Literal["welcome"] = "welcome"
    version: int
    session: str
    world: str
    seed: int
    model: str
    mode: Mode
    role: Role
    codec: Codec
    fps: float
    width: int
    height: int
    frames_per_chunk: int
    max_recall: int
    walk_m_s: float
    turn_rad_s: float
    max_pitch_rad: float
    credit: int
    resume: str
    resumed: bool = False
    chunk: int = 0  # the next chunk to be drawn
    capabilities: list[str] = Field(default_factory=list[str])
    notes: list[str] = Field(default_factory=list[str])  # what the player should know, for example what a crash lost


class Frame(News):
    """One frame. `pts_s` is model time since the session's first frame; frames come in order, some may be left out."""

    type: Literal["frame"] = "frame"
    id: int
    pts_s: float
    chunk: int
    index: int  # within the chunk
    pose: PoseTuple
    input_seq: int  # the newest input that this frame was drawn with; -1: none yet
    held_ms: float  # from that input's arrival at the server to the sending of this frame
    seeded: bool
    codec: Codec
    data: bytes
    sha: str = ""  # exact mode: hexadecimal xxh3_128 of the raw pixels


class TierState(News):
    """One tier in a Stats message."""

    blocks: int
    used_bytes: int
    budget_bytes: int


class Stats(News):
    """What the memory did for one chunk. Totals count since the session began."""

    type: Literal["stats"] = "stats"
    chunk: int
    tiers: list[TierState]  # GPU, DRAM, NVME
    wanted: list[int]
    recalled: list[int]
    recalled_tiers: list[int]  # hit tier of each recalled block, shared.tiers.Tier
    stale: bool
    hits: list[int]  # by hit tier
    chunks: int
    stale_chunks: int
    lost: int
    forgotten: int
    missed: int
    fetched_bytes: int
    spilled_bytes: int
    disk_read_bytes: int
    disk_written_bytes: int
    queued_moves: int
    stalls: int
    preempted: int
    longest_wait_ms: float
    prediction_error_m: float
    prediction_error_rad: float
    foreseen: PoseTuple | None  # the extrapolated pose
    stages_ms: dict[str, float]
    notes: list[str]
    held: bool = False  # nobody moved for long: the last frame was shown again, and nothing was kept
    recalls: bool = True  # False: the player switched the memory off
    controls: list[FrameControls] = Field(default_factory=list[FrameControls])  # it was drawn with, for each frame


class BlockNote(News):
    """Blocks that are new, moved or gone since the last note: [id, x_m, z_m, yaw_rad, tier or -1, seeded]."""

    type: Literal["blocks"] = "blocks"
    blocks: list[BlockPlace]
    moves: list[BlockMove]  # [id, from tier or -1, to tier or -1]


class Paused(News):
    """The world stands still, and why: "player", "reader" (your acknowledgements stopped) or "" (it runs)."""

    type: Literal["paused"] = "paused"
    why: str


class Pong(News):
    """Answer to Ping."""

    type: Literal["pong"] = "pong"
    t_ms: float


class Done(News):
    """Exact mode: every chunk that ExactStep `seq` asked for was drawn and sent."""

    type: Literal["done"] = "done"
    seq: int


class Error(News):
    """What went wrong, in words for the player. The socket closes after it when `fatal`."""

    type: Literal["error"] = "error"
    code: str
    text: str
    fatal: bool


FromTraveller = SnapshotRequest | Restore | Rewind | Fork | SwitchRecall | AskTree
FromClient = Hello | Input | Ping | Pause | ExactStep | Goodbye | FromTraveller
FromServer = (
    Loading | Welcome | Frame | Stats | BlockNote | Paused | Pong | Done | Error | SnapshotNote | HeadNote | Tree
)
_CLIENT: TypeAdapter[Any] = TypeAdapter(Annotated[FromClient, Field(discriminator="type")])
_SERVER: TypeAdapter[Any] = TypeAdapter(Annotated[FromServer, Field(discriminator="type")])
_SERVER_TYPES = {str(message.model_fields["type"].default) for message in get_args(FromServer)}


def pack(message: Message) -> bytes:
    """The bytes of a message: a msgpack map with its `type`."""
    return msgpack.packb(message.model_dump(), use_bin_type=True)


def _validate(value: Any, adapter: TypeAdapter[Any]) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProtocolError("invalid", f"{where or 'message'}: {first['msg']}") from error


def unpack_client(data: bytes) -> FromClient:
    """The client's message in `data`. Raises ProtocolError when it is too large, too deep, malformed or invalid."""
    return _validate(parse(data, MAX_CLIENT_MESSAGE_BYTES), _CLIENT)


def unpack_server(data: bytes) -> FromServer | Unknown:
    """The server's message in `data`. Raises ProtocolError when it is too large, too deep, malformed or invalid."""
    value = parse(data, MAX_SERVER_MESSAGE_BYTES)
    kind: object = cast(dict[object, object], value).get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in _SERVER_TYPES:
        return Unknown(type=kind)
    return _validate(value, _SERVER)
