"""A world on disk: its card, its log of moments, and the state of its head. Owns the folder, not the blocks in it.

    worlds/<id>/world.json      the card: who the world is
    worlds/<id>/moments.log     every moment, and which one was the head when it was saved (record_log.py)
    worlds/<id>/states/         the saved states of heads (safetensors; hash and size stand in the log)
    worlds/<id>/blocks.*        the pager's

Opening and making a world block on the disk: call them off the event loop. Writing goes through `journal.py`.
"""

import fcntl
import hashlib
import hmac
import json
import os
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from server.faults import WorldFault
from server.folder_lock import FolderLock
from server.moments import NO_MOMENT, Moment
from server.record_log import sync_folder, write_durably
from server.world_card import WorldCard, check_name, is_id, new_id, read_card
from server.world_log import Branch, Kept, WorldLog, load_head, read_world_log

if TYPE_CHECKING:  # the list of worlds is read without torch
    from models.base import SavedState
    from server.states import RestingHead

ARRIVING, DELETED = ".import-", ".deleted-"  # folders that are no worlds yet, or any more
STATES_KEPT = 2  # of the newest heads of each branch


@dataclass(frozen=True, slots=True)
class Entry:
    """Where somebody enters: a head at rest. `lost_chunks` were drawn after it was saved."""

    branch: str  # it goes on; empty: a new one begins
    kept: Kept
    resting: "RestingHead"
    lost_chunks: int = 0
    is_resumed: bool = False  # by the token of whoever walked there last


@dataclass(frozen=True, slots=True)
class OpenedWorld:
    """What was found in a world's folder."""

    folder: Path
    card: WorldCard
    log: WorldLog
    is_new: bool  # nothing was ever saved in it
    entry: Entry | None = None  # None: it begins
    notes: tuple[str, ...] = ()
    is_made: bool = False  # just now, and nobody has entered yet

    @property
    def moments(self) -> dict[int, Moment]:
        return self.log.moments

    @property
    def log_end(self) -> int:
        return self.log.end

    @property
    def branches(self) -> dict[str, Branch]:
        return self.log.branches

    @property
    def snapshots(self) -> dict[str, Kept]:
        return self.log.snapshots

    @property
    def head(self) -> int:
        """The moment at which one enters."""
        return NO_MOMENT if self.entry is None else self.entry.kept.moment

    @property
    def state(self) -> "SavedState | None":
        return None if self.entry is None else self.entry.resting.saved

    @property
    def lost_chunks(self) -> int:
        if self.entry is not None:
            return self.entry.lost_chunks
        return sum(not moment.seeded for moment in self.moments.values())  # nothing was saved: it begins anew

    @property
    def next_id(self) -> int:
        return max(self.moments, default=NO_MOMENT) + 1


class Worlds:
    """The folder of all worlds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def cards(self) -> Iterator[WorldCard]:
        """The cards of all worlds that have a readable one."""
        for folder in sorted(self.root.iterdir()):
            if is_id(folder.name):
                try:
                    yield read_card(folder)
                except WorldFault:
                    continue

    def card(self, world_id: str) -> WorldCard:
        """The card of one world. Raises WorldFault when it is missing, damaged, a link or of another version."""
        return read_card(self.root / world_id)

    def find(self, name_or_id: str) -> WorldCard | None:
        """The world with this id, or the newest one with this name. Raises WorldFault when its card is damaged."""
        if is_id(name_or_id) and (self.root / name_or_id).is_dir():
            return self.card(name_or_id)
        named = [card for card in self.cards() if name_or_id in (card.id, card.name)]
        return max(named, key=lambda card: (card.id == name_or_id, card.created_s), default=None)

    def make(self, name: str, seed: int, model: str, fingerprint: str) -> OpenedWorld:
        """A new, empty world. An absent name becomes one that a person can read."""
        world_id = new_id()
        name = name or f"world {time.strftime('%Y-%m-%d %H.%M.%S')} {world_id[:4]}"
        check_name(name)
        card = WorldCard(world_id, name, seed, model, fingerprint, time.time())
        folder = self.root / world_id
        (folder / "states").mkdir(parents=True)
        write_durably(folder / "world.json", json.dumps(asdict(card)).encode())
        sync_folder(self.root)
        return OpenedWorld(folder, card, WorldLog(), is_new=True, is_made=True)

    @contextmanager
    def lock(self) -> Generator[None]:
        """While it is held, nobody else puts a world here or takes one away by a command. Waits for its turn."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def sweep(self) -> None:
        """Remove what a killed import or delete left behind. Under `lock`."""
        for path in self.root.iterdir():
            if path.name.startswith((ARRIVING, DELETED)) and not path.is_symlink():
                with suppress(WorldFault), FolderLock(path, "removed"):  # or somebody is at work in it now
                    shutil.rmtree(path, ignore_errors=True)

    def drop_empty(self, world_id: str) -> None:
        """Take back a world that was just made and that nobody could enter."""
        folder = self.root / world_id
        if not (folder / "moments.log").exists():
            shutil.rmtree(folder, ignore_errors=True)

    def open(self, card: WorldCard, at: str = "", resume: str = "") -> OpenedWorld:
        """Read a world's log, and the head at which one enters. Changes nothing.

        `at` names a branch or a snapshot; without it, whoever holds the `resume` token goes on where he was, and
        everybody else where somebody walked last. Raises WorldFault when the world was saved and what is asked for
        cannot be read: it is not begun anew.
        """
        folder = self.root / card.id
        log = read_world_log(folder)
        is_new = not log.heads and _states_of(folder) <= _beginning_of(log)
        entry, notes = find_entry(folder, log, at, resume)
        if entry is None and not is_new:
            raise WorldFault(
                f"world {card.name!r} cannot be continued: "
                f"{'; '.join(notes) or f'its log is damaged at byte {log.end}'}. "
                "Nothing was changed: restore its folder from a copy, or name a new world."
            )
        return OpenedWorld(folder, card, log, is_new, entry, notes)


def _states_of(folder: Path) -> set[str]:
    return {path.name for path in (folder / "states").glob("*.safetensors")}


def _beginning_of(log: WorldLog) -> set[str]:
    """State files that a new world writes before its log names them: a server killed in between leaves no more."""
    return {f"{moment.id}.safetensors" for moment in log.moments.values() if moment.seeded}


def find_entry(folder: Path, log: WorldLog, at: str, resume: str) -> tuple[Entry | None, tuple[str, ...]]:
    """The head at which one enters, read whole; and what was refused on the way, in words. Raises WorldFault."""
    if at in log.snapshots and at not in log.branches:
        return _read_snapshot(folder, log, at), ()
    notes: list[str] = []
    if at and at not in log.branches:
        if not resume:
            raise WorldFault(f"this world has no branch and no snapshot named {at!r}. Its tree shows their names.")
        notes.append(f"Branch {at!r} was not saved before the server stopped: you are where you were before it began.")
        at = ""
    resumed = branch_of_token(log, resume)
    for name in [at] if at else _newest_first(log, resumed):
        for kept in reversed(log.heads.get(name, [])[-STATES_KEPT:]):
            try:
                resting = read_head(folder, log, kept)
            except (OSError, ValueError) as error:
                notes.append(str(error))
                continue
            return Entry(name, kept, resting, _lost_after(log, kept), is_resumed=name == resumed), tuple(notes)
    return None, tuple(notes)


def _read_snapshot(folder: Path, log: WorldLog, name: str) -> Entry:
    kept = log.snapshots[name]
    try:
        return Entry("", kept, read_head(folder, log, kept))
    except (OSError, ValueError) as error:
        raise WorldFault(
            f"snapshot {name!r} is damaged: {error}. Everything else in this world can be entered; choose another."
        ) from error


def newest_heads(heads: Sequence[Kept]) -> list[Kept]:
    """The saved heads of one branch whose state files are kept: the newest STATES_KEPT, one of each file."""
    by_file: dict[str, Kept] = {}
    for kept in heads:
        by_file.pop(kept.file, None)  # saved again: it is the newest now
        by_file[kept.file] = kept
    return list(by_file.values())[-STATES_KEPT:]


def read_head(folder: Path, log: WorldLog, kept: Kept) -> "RestingHead":
    """A head at rest. Raises OSError or ValueError, in words."""
    if kept.moment not in log.moments:
        raise ValueError(f"the state of moment {kept.moment} is refused: its moment is not in the log")
    return load_head(folder, kept)


def branch_of_token(log: WorldLog, token: str) -> str:
    """The branch on which the holder of a resume token walked last; empty when there is none."""
    if not token:
        return ""
    newest = [heads[-1] for heads in log.heads.values() if heads]
    his = [kept for kept in newest if is_token_of(token, kept.resume_hash)]
    return max(his, key=_saved_at).name if his else ""


def token_hash(token: str) -> bytes:
    """What is kept of a resume token: enough to know it again, not enough to make it."""
    return hashlib.sha256(token.encode()).digest()


def is_token_of(token: str, kept_hash: bytes) -> bool:
    """Whether this is the token of which the hash was kept."""
    return hmac.compare_digest(kept_hash, token_hash(token))


def _newest_first(log: WorldLog, resumed: str) -> list[str]:
    """The branches in the order in which one would enter them: the one that the token names, then the last walked."""
    newest = {name: _saved_at(heads[-1]) for name, heads in log.heads.items() if heads}
    return sorted(newest, key=lambda name: (name == resumed, newest[name]), reverse=True)


def _saved_at(kept: Kept) -> tuple[float, int]:
    return (kept.created_s, kept.next_id)


def _lost_after(log: WorldLog, kept: Kept) -> int:
    """How many chunks were drawn on this branch after its head was saved."""
    since = kept.next_id if kept.next_id >= 0 else kept.moment + 1
    return sum(1 for m in log.moments.values() if m.branch == kept.name and m.id >= since and not m.seeded)
