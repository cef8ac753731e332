"""The worlds of a server, as its list over HTTP tells them: names, snapshots and thumbnails. One thread of its own.

What comes from the network is bounded before it is parsed: bytes before JSON, bytes and pixels before a picture is
unpacked. Redirects are not followed, because the request may carry the token.
"""

import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage, HTTPResponse
from io import BytesIO
from typing import IO
from urllib.parse import quote, urlsplit, urlunsplit

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MAX_LIST_BYTES = 4 << 20
MAX_PICTURE_BYTES = 1 << 20
MAX_PICTURE_PX = 2_048
MAX_WORLDS = 200
MAX_PICTURES = 300  # of worlds, and then of snapshots, those of the last played world first
ANSWER_S = 4.0
AGAIN_S = 1.0
_KEPT_PX = (360, 240)  # thumbnails are shrunk to this


class SnapshotEntry(BaseModel):
    """A snapshot in the list; `n` names its picture."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(max_length=64)
    n: int = Field(default=0, ge=0)
    chunk: int = 0
    created_s: float = Field(default=0.0, allow_inf_nan=False)
    thumbnail: bool = False


class WorldEntry(BaseModel):
    """A world in the list. Times are Unix seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(pattern=r"^[a-z2-7]{26}$")
    name: str = Field(max_length=64)
    seed: int = 0
    model: str = Field(default="", max_length=64)
    created_s: float = Field(default=0.0, allow_inf_nan=False)
    played_s: float = Field(default=0.0, allow_inf_nan=False)
    chunks: int = 0
    thumbnail: bool = False
    branches: list[str] = Field(default_factory=list[str])
    snapshots: list[SnapshotEntry] = Field(default_factory=list[SnapshotEntry])


_LIST = TypeAdapter(list[WorldEntry])


class UnlistedError(Exception):
    """The server did not tell its worlds; the text says why. `is_silent`: it did not answer at all."""

    def __init__(self, text: str, *, is_silent: bool = False) -> None:
        super().__init__(text)
        self.is_silent = is_silent


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Nowhere: the answer is an error then."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def http_address(url: str, path: str) -> str:
    """The HTTP address of a path on the server whose WebSocket is at `url`."""
    parts = urlsplit(url)
    return urlunsplit(("https" if parts.scheme == "wss" else "http", parts.netloc, path, "", ""))


def fetch(url: str, path: str, token: str, max_bytes: int) -> bytes:
    """The body at a path of the server. Raises UnlistedError when it is absent, refused, late or too large."""
    request = urllib.request.Request(http_address(url, path))  # noqa: S310 - http or https, made above
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        response: HTTPResponse
        with _OPENER.open(request, timeout=ANSWER_S) as response:
            body = response.read(max_bytes + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise UnlistedError(f"HTTP {error.code}") from error
    except (OSError, HTTPException) as error:
        reason: object = getattr(error, "reason", error)
        raise UnlistedError(getattr(reason, "strerror", None) or str(reason), is_silent=True) from error
    if len(body) > max_bytes:
        raise UnlistedError(f"more than {max_bytes:,} bytes")
    return body


def read_list(body: bytes) -> list[WorldEntry]:
    """The worlds in a list, the last played first. Raises UnlistedError when it is not one."""
    try:
        worlds = _LIST.validate_json(body)
    except ValidationError as error:
        raise UnlistedError("not a list of worlds") from error
    return sorted(worlds, key=lambda world: world.played_s, reverse=True)[:MAX_WORLDS]


def read_picture(body: bytes) -> Image.Image:
    """A small RGB picture from a JPEG. Raises UnlistedError when it is damaged or too large."""
    try:
        with Image.open(BytesIO(body), formats=("JPEG",)) as image:
            if max(image.size) > MAX_PICTURE_PX:
                raise UnlistedError(f"a picture of {image.width} x {image.height} pixels")
            small = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnlistedError("a damaged picture") from error
    small.thumbnail(_KEPT_PX, Image.Resampling.LANCZOS)
    return small


class Listing:
    """Fetches the list, then its pictures, on a thread. `worlds` is None until the list is there.

    A silent server is asked again; `silence` says meanwhile why it does not answer, `fault` why it never will.
    `pictures` grows while they come; a key is ("world", id) or ("snapshot", id, n).
    """

    def __init__(self, url: str, token: str, get: Callable[[str, str, str, int], bytes] = fetch) -> None:
        """`get` fetches a body, as `fetch` does."""
        self.worlds: list[WorldEntry] | None = None
        self.fault = self.silence = ""
        self.attempts = 0
        self.pictures: dict[tuple[str | int, ...], Image.Image] = {}
        self._url, self._token, self._get = url, token, get
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worlds", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Fetch no more pictures; the one under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        worlds = self._ask()
        while worlds is None and not self.fault and not self._stopping.wait(AGAIN_S):
            worlds = self._ask()
        if worlds is None:
            return
        self.worlds = worlds
        for world in worlds:
            if world.thumbnail:
                self._fetch_picture(("world", world.id), f"/worlds/{quote(world.id)}/thumbnail.jpg")
        for world in worlds:
            for one in sorted(world.snapshots, key=lambda one: one.created_s, reverse=True):
                if one.thumbnail:
                    path = f"/worlds/{quote(world.id)}/snapshots/{one.n}.jpg"
                    self._fetch_picture(("snapshot", world.id, one.n), path)

    def _ask(self) -> list[WorldEntry] | None:
        self.attempts += 1
        try:
            return read_list(self._get(self._url, "/worlds", self._token, MAX_LIST_BYTES))
        except UnlistedError as error:
            if error.is_silent:
                self.silence = str(error)
            else:
                self.fault = str(error)
            return None

    def _fetch_picture(self, key: tuple[str | int, ...], path: str) -> None:
        if self._stopping.is_set() or len(self.pictures) >= MAX_PICTURES:
            return
        try:
            self.pictures[key] = read_picture(self._get(self._url, path, self._token, MAX_PICTURE_BYTES))
        except UnlistedError:
            return  # a card without a picture says all the rest
