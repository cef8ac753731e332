"""The list of worlds over HTTP, with their thumbnails: what a start screen shows. Reads folders, changes nothing.

A world's log is read again only when it has grown, and one request reads at a time: whoever asks often costs little.
"""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from server.world_card import WorldCard
from server.world_log import Kept, read_world_log
from server.worlds import Worlds

MAX_PICTURE_BYTES = 1 << 20
MAX_WORLDS = 500
MAX_SNAPSHOTS = 100  # of each world: the newest
_WORLD_ID = re.compile(r"[a-z2-7]{26}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Read:
    """What a log said when it had this size and age."""

    stamp: tuple[int, int]
    entry: dict[str, Any]
    pictures: dict[int, str]  # moment of a snapshot -> file in thumbnails/


class Listing:
    """The worlds of one folder. `worlds` and `picture` block on the disk; the routes call them on a worker thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reads: dict[str, _Read] = {}
        self._lock = asyncio.Lock()

    def add_routes(self, app: FastAPI) -> None:
        """GET /worlds and the pictures of its worlds and snapshots."""

        async def worlds() -> Response:
            """The worlds of this server, the last played first."""
            async with self._lock:
                return JSONResponse(await asyncio.to_thread(self.worlds))

        async def thumbnail(world: str) -> Response:
            """What was seen last in a world."""
            return _jpeg(await asyncio.to_thread(self.picture, world))

        async def snapshot(world: str, number: int) -> Response:
            """What a snapshot keeps."""
            async with self._lock:
                return _jpeg(await asyncio.to_thread(self.picture, world, number))

        app.add_api_route("/worlds", worlds)
        app.add_api_route("/worlds/{world}/thumbnail.jpg", thumbnail)
        app.add_api_route("/worlds/{world}/snapshots/{number}.jpg", snapshot)

    def worlds(self) -> list[dict[str, Any]]:
        """Every world with a readable card, as docs/protocol.md lists them."""
        if not self._root.is_dir():
            return []
        entries = [self._read(card).entry for card in Worlds(self._root).cards()]
        return sorted(entries, key=lambda entry: entry["played_s"], reverse=True)[:MAX_WORLDS]

    def picture(self, world: str, snapshot: int | None = None) -> bytes | None:
        """The JPEG of a world, or of one of its snapshots; None when there is none."""
        folder = self._root / world
        if not _WORLD_ID.fullmatch(world) or not folder.is_dir() or folder.is_symlink():
            return None
        if snapshot is None:
            return _small_file(folder / "thumbnail.jpg")
        card = next((card for card in Worlds(self._root).cards() if card.id == world), None)
        name = self._read(card).pictures.get(snapshot) if card is not None else None
        return None if name is None else _small_file(folder / "thumbnails" / name)

    def _read(self, card: WorldCard) -> _Read:
        folder = self._root / card.id
        stamp = _stamp(folder / "moments.log")
        known = self._reads.get(card.id)
        if known is None or known.stamp != stamp:
            known = self._reads[card.id] = _read(folder, card, stamp)
        is_seen = (folder / "thumbnail.jpg").is_file()  # written by itself, when its driver leaves
        return _Read(stamp, known.entry | {"thumbnail": is_seen}, known.pictures)


def _read(folder: Path, card: WorldCard, stamp: tuple[int, int]) -> _Read:
    log = read_world_log(folder)
    snapshots = sorted(log.snapshots.values(), key=lambda kept: kept.created_s)[-MAX_SNAPSHOTS:]
    pictures = {kept.moment: kept.thumbnail for kept in snapshots if kept.thumbnail}

    def entry_of(kept: Kept) -> dict[str, Any]:
        moment = log.moments.get(kept.moment)
        return {
            "name": kept.name,
            "n": kept.moment,
            "chunk": moment.chunk_index if moment is not None else -1,
            "created_s": kept.created_s,
            "thumbnail": kept.moment in pictures,
        }

    entry = {
        "id": card.id,
        "name": card.name,
        "seed": card.seed,
        "model": card.model,
        "created_s": card.created_s,
        "played_s": stamp[0] / 1e9 if stamp[1] else card.created_s,
        "chunks": sum(1 for moment in log.moments.values() if not moment.seeded),
        "branches": list(log.branches),
        "snapshots": [entry_of(kept) for kept in snapshots],
    }
    return _Read(stamp, entry, pictures)


def _stamp(log: Path) -> tuple[int, int]:
    """(time of the last change in nanoseconds, bytes) of a log; zeros when it is absent."""
    try:
        found = log.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _small_file(path: Path) -> bytes | None:
    """The bytes of a file of ours; None when it is absent, no plain file, or too large."""
    try:
        if path.is_symlink() or path.parent.is_symlink() or path.stat().st_size > MAX_PICTURE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _jpeg(data: bytes | None) -> Response:
    if data is None:
        return Response("No such picture.\n", 404, media_type="text/plain")
    return Response(data, media_type="image/jpeg")
