"""A world's log as a value: its moments, and every state that was kept of them. Reads, never writes; any thread.

For commands that look at a world without opening it. A record that makes no sense is a fault in words, not an
exception: the commands say it and go on.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash
from safetensors import SafetensorError

from server.moments import MAIN, Moment, moment_from_record
from server.record_log import read_records

if TYPE_CHECKING:  # a log is read without torch
    from models.base import SavedState
    from server.states import RestingHead

STATE_FILE = re.compile(r"[\w.\-]{1,96}\.safetensors", re.ASCII)
PICTURE_FILE = re.compile(r"[\w.\-]{1,96}\.jpg", re.ASCII)
MAX_STATE_BYTES = 4 << 30
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Kept:
    """A state at rest: of a branch's head when it was saved, or of a snapshot."""

    name: str  # of the branch or of the snapshot
    moment: int
    file: str  # in states/
    num_bytes: int
    hash: bytes
    created_s: float = 0.0
    thumbnail: str = ""  # in thumbnails/; empty: none
    next_id: int = -1  # of a head: the id that its next moment would have had; -1: written by an older version
    resume_hash: bytes = b""  # of a head: of the token of whoever walked there


@dataclass(frozen=True, slots=True)
class Branch:
    """A named head of a world. `start` is the moment at which it left another branch; -1: it began the world."""

    name: str
    start: int = -1
    created_s: float = 0.0


@dataclass(slots=True)
class WorldLog:
    """What a log says. `heads` holds each branch's saved heads, oldest first; dropped things are left out."""

    moments: dict[int, Moment] = field(default_factory=dict[int, Moment])
    heads: dict[str, list[Kept]] = field(default_factory=dict[str, list[Kept]])
    branches: dict[str, Branch] = field(default_factory=lambda: {MAIN: Branch(MAIN)})
    snapshots: dict[str, Kept] = field(default_factory=dict[str, Kept])
    exactness: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list[tuple[int, Mapping[str, Any]]])
    card: Mapping[str, Any] | None = None
    faults: list[str] = field(default_factory=list[str])
    end: int = 0  # of the last whole record
    num_bytes: int = 0  # of the file

    def head(self, branch: str = MAIN) -> int | None:
        """The moment at which a branch was last saved; where it began when it never was."""
        if heads := self.heads.get(branch):
            return heads[-1].moment
        found = self.branches.get(branch)
        return None if found is None or found.start < 0 else found.start

    def kept(self) -> Iterator[Kept]:
        """Every state that the log names, of snapshots and of heads."""
        yield from self.snapshots.values()
        for heads in self.heads.values():
            yield from heads

    def take(self, record: dict[str, Any]) -> None:
        """Add what one record says. Raises KeyError, TypeError, ValueError when it makes no sense."""
        kind = record.get("kind")
        if kind == "moment":
            moment = moment_from_record(record)
            self.moments[moment.id] = moment
        elif kind == "head":
            kept = kept_from_record(record)
            self.branches.setdefault(kept.name, Branch(kept.name))
            self.heads.setdefault(kept.name, []).append(kept)
        elif kind == "snapshot":
            kept = kept_from_record(record)
            self.snapshots[kept.name] = kept
        elif kind == "branch":
            branch = Branch(_name(record["name"]), int(record["moment"]), float(record.get("created_s", 0.0)))
            self.branches[branch.name] = branch
        elif kind == "dropped":
            self._drop(str(record["what"]), str(record["name"]))
        elif kind == "exactness":
            self.exactness.append((max(self.moments, default=-1) + 1, record))
        elif kind == "card":
            self.card = record

    def _drop(self, what: str, name: str) -> None:
        if what == "snapshot":
            self.snapshots.pop(name, None)
        elif what == "branch":
            self.branches.pop(name, None)
            self.heads.pop(name, None)


def read_world_log(folder: Path) -> WorldLog:
    """Read `moments.log` to its last whole record. An absent log is an empty one."""
    log, path = WorldLog(), folder / "moments.log"
    if not path.exists():
        return log
    log.num_bytes = path.stat().st_size
    try:
        for record, end in read_records(path):
            log.end = end
            _take(log, record)
    except ValueError as error:  # sealed, and yet no msgpack
        log.faults.append(f"the record at byte {log.end} cannot be read: {error}")
    return log


def _take(log: WorldLog, record: dict[str, Any]) -> None:
    try:
        log.take(record)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        log.faults.append(f"the record before byte {log.end} makes no sense: {error}")


def state_fault(folder: Path, kept: Kept) -> str:
    """What is wrong with the file of a kept state, in words; empty when it is the one that was saved."""
    path = folder / "states" / kept.file
    try:
        if path.stat().st_size != kept.num_bytes:
            return f"it has {path.stat().st_size:,} bytes instead of {kept.num_bytes:,}"
        num_bytes, digest = file_mark(path)
    except FileNotFoundError:
        return "its file is gone"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if (num_bytes, digest) == (kept.num_bytes, kept.hash) else "its bytes are not the ones that were saved"


def file_mark(path: Path) -> tuple[int, bytes]:
    """(size, hash) of a file, as records name them. Raises OSError."""
    digest, num_bytes = xxhash.xxh3_128(), 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            num_bytes += len(piece)
    return num_bytes, digest.digest()


def load_state(folder: Path, kept: Kept) -> "SavedState":
    """A kept state, its bytes checked before they are parsed. Raises ValueError in words when it is damaged."""
    return load_head(folder, kept).saved


def load_head(folder: Path, kept: Kept) -> "RestingHead":
    """As `load_state`, with the frame that was seen there."""
    from server.states import head_from_bytes  # noqa: PLC0415 - torch only when a state is read

    if fault := state_fault(folder, kept):
        raise ValueError(f"the state of moment {kept.moment} is refused: {fault}")
    try:
        return head_from_bytes((folder / "states" / kept.file).read_bytes())
    except (KeyError, TypeError, SafetensorError) as error:
        raise ValueError(f"the state of moment {kept.moment} is refused: it is not one of ours: {error}") from error


def kept_from_record(record: Mapping[str, Any]) -> Kept:
    """The state that a record of kind head or snapshot names. Raises KeyError, TypeError or ValueError."""
    name = _name(record.get("branch", MAIN) if record["kind"] == "head" else record["name"])
    file, num_bytes, thumbnail = str(record["state"]), int(record["bytes"]), str(record.get("thumbnail") or "")
    if not STATE_FILE.fullmatch(file) or not 8 < num_bytes <= MAX_STATE_BYTES:
        raise ValueError("its state is not one of ours")
    if thumbnail and not PICTURE_FILE.fullmatch(thumbnail):
        raise ValueError("its thumbnail is not one of ours")
    return Kept(
        name=name,
        moment=int(record["moment"]),
        file=file,
        num_bytes=num_bytes,
        hash=bytes(record["hash"]),
        created_s=float(record.get("created_s", 0.0)),
        thumbnail=thumbnail,
        next_id=int(record.get("next", -1)),
        resume_hash=bytes(record.get("resume", b"")),
    )


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME:
        raise ValueError("its name is none")
    return value
