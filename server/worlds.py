"""A world on disk: its card, its log of moments, and the state of its head. Owns the folder, not the blocks in it.

    worlds/<id>/world.json      the card: who the world is
    worlds/<id>/moments.log     every moment, and which one was the head when it was saved (record_log.py)
    worlds/<id>/states/         the saved states of heads (safetensors; hash and size stand in the log)
    worlds/<id>/blocks.*        the pager's

Opening and making a world block on the disk: call them off the event loop. Writing goes through `journal.py`.
"""

import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_of_tensors

from models.base import SavedState
from server.faults import WorldFault
from server.record_log import read_records, sync_folder, write_durably
from server.timeline import NO_MOMENT, Moment, moment_from_record

WORLD_VERSION = 1
MAX_CARD_BYTES = 65_536
MAX_STATE_BYTES = 4 << 30
STATES_KEPT = 2  # of the newest heads
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_ID = re.compile(r"[a-z2-7]{26}")
_NAME = re.compile(r"[\w][\w .\-]{0,63}")


@dataclass(frozen=True, slots=True)
class WorldCard:
    """Who a world is. `name` is a label for people; the folder bears the id."""

    id: str
    name: str
    seed: int
    model: str
    fingerprint: str
    created_s: float
    version: int = WORLD_VERSION


@dataclass(frozen=True, slots=True)
class OpenedWorld:
    """What was found in a world's folder. `lost_chunks` were drawn after the head was last saved."""

    folder: Path
    card: WorldCard
    moments: dict[int, Moment]
    log_end: int
    is_new: bool  # nothing was ever saved in it
    head: int = NO_MOMENT
    state: SavedState | None = None
    lost_chunks: int = 0
    notes: tuple[str, ...] = ()
    is_made: bool = False  # just now, and nobody has entered yet

    @property
    def next_id(self) -> int:
        return max(self.moments, default=NO_MOMENT) + 1


def check_name(name: str) -> None:
    """Raises WorldFault unless `name` may label a world."""
    if not _NAME.fullmatch(name):
        raise WorldFault(
            f"{name!r} cannot name a world: use 1 to 64 letters, digits, spaces, dots and dashes, "
            "beginning with a letter or digit"
        )


def card_to_record(card: WorldCard) -> dict[str, Any]:
    """The card as the first record of a world's log, which is where a damaged world.json is restored from."""
    return {"kind": "card", **asdict(card)}


def _read_card(folder: Path) -> WorldCard:
    try:
        card = _card_from(json.loads((folder / "world.json").read_bytes()[:MAX_CARD_BYTES]))
    except (OSError, ValueError, TypeError) as error:
        card = _card_from_log(folder)
        if card is None:
            raise WorldFault(f"the card of world {folder.name} is damaged ({error}): restore its world.json") from error
    if card.version != WORLD_VERSION:
        raise WorldFault(f"world {card.name!r} has version {card.version}; this server reads {WORLD_VERSION}")
    return card


def _card_from(fields: Any) -> WorldCard:
    card = WorldCard(**fields)
    if not _ID.fullmatch(card.id) or card.seed < 0:
        raise ValueError("its fields are not ours")
    return card


def _card_from_log(folder: Path) -> WorldCard | None:
    try:
        record, _ = next(iter(read_records(folder / "moments.log")))
        if record.pop("kind", None) != "card":
            return None
        return _card_from(record)
    except (OSError, StopIteration, ValueError, TypeError):
        return None


class Worlds:
    """The folder of all worlds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def cards(self) -> Iterator[WorldCard]:
        """The cards of all worlds that have a readable one."""
        for folder in sorted(self.root.iterdir()):
            if _ID.fullmatch(folder.name) and not folder.is_symlink():
                try:
                    yield _read_card(folder)
                except WorldFault:
                    continue

    def card(self, world_id: str) -> WorldCard:
        """The card of one world. Raises WorldFault when it is missing, damaged or of another version."""
        return _read_card(self.root / world_id)

    def find(self, name_or_id: str) -> WorldCard | None:
        """The world with this id, or the newest one with this name. Raises WorldFault when its card is damaged."""
        if _ID.fullmatch(name_or_id) and (self.root / name_or_id).is_dir():
            return self.card(name_or_id)
        named = [card for card in self.cards() if name_or_id in (card.id, card.name)]
        return max(named, key=lambda card: (card.id == name_or_id, card.created_s), default=None)

    def make(self, name: str, seed: int, model: str, fingerprint: str) -> OpenedWorld:
        """A new, empty world. An absent name becomes one that a person can read."""
        world_id = "".join(secrets.choice(_ID_LETTERS) for _ in range(26))
        name = name or f"world {time.strftime('%Y-%m-%d %H.%M.%S')} {world_id[:4]}"
        check_name(name)
        card = WorldCard(world_id, name, seed, model, fingerprint, time.time())
        folder = self.root / world_id
        (folder / "states").mkdir(parents=True)
        write_durably(folder / "world.json", json.dumps(asdict(card)).encode())
        sync_folder(self.root)
        return OpenedWorld(folder, card, {}, 0, is_new=True, is_made=True)

    def drop_empty(self, world_id: str) -> None:
        """Take back a world that was just made and that nobody could enter."""
        folder = self.root / world_id
        if not (folder / "moments.log").exists():
            shutil.rmtree(folder, ignore_errors=True)

    def open(self, card: WorldCard) -> OpenedWorld:
        """Read a world's log, and the newest saved state that is whole. Changes nothing.

        Raises WorldFault when the world was saved and none of what was saved can be read: it is not begun anew.
        """
        folder = self.root / card.id
        moments: dict[int, Moment] = {}
        heads: list[dict[str, Any]] = []
        end = 0
        log = folder / "moments.log"
        for record, record_end in read_records(log) if log.exists() else ():
            kind = record.get("kind")
            if kind == "head":
                heads.append(record)
            elif kind == "moment":
                moment = moment_from_record(record)
                moments[moment.id] = moment
            end = record_end
        head, state, notes = _newest_state(folder, heads[-STATES_KEPT:], moments)
        is_new = not heads and not any((folder / "states").glob("*.safetensors"))
        if state is None and not is_new:
            raise WorldFault(
                f"world {card.name!r} cannot be continued: {'; '.join(notes) or f'its log is damaged at byte {end}'}. "
                "Nothing was changed: restore its folder from a copy, or name a new world."
            )
        lost = sum(1 for moment in moments.values() if moment.id > head and not moment.seeded)
        return OpenedWorld(folder, card, moments, end, is_new, head, state, lost, notes)


def _newest_state(
    folder: Path, heads: list[dict[str, Any]], moments: dict[int, Moment]
) -> tuple[int, SavedState | None, tuple[str, ...]]:
    """The newest head whose state file is there and whole; what was refused, in words."""
    notes: list[str] = []
    for record in reversed(heads):
        moment = int(record["moment"])
        try:
            return moment, _read_state(folder / "states", record, moments), tuple(notes)
        except (OSError, ValueError, SafetensorError) as error:
            notes.append(f"the saved state of moment {moment} is refused: {error}")
    return NO_MOMENT, None, tuple(notes)


def state_bytes(saved: SavedState) -> bytes:
    """A state as one safetensors file, its facts as JSON in the file's metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in saved.tensors.items()}
    return bytes_of_tensors(tensors, {"facts": json.dumps(dict(saved.facts))})


def _read_state(folder: Path, record: dict[str, Any], moments: dict[int, Moment]) -> SavedState:
    if int(record["moment"]) not in moments:
        raise ValueError("its moment is not in the log")
    name, num_bytes = str(record["state"]), int(record["bytes"])
    if not re.fullmatch(r"\d+\.safetensors", name) or not 8 < num_bytes <= MAX_STATE_BYTES:
        raise ValueError("its record is not ours")
    with (folder / name).open("rb") as file:
        data = file.read(num_bytes + 1)
    if len(data) != num_bytes or xxhash.xxh3_128_digest(data) != record["hash"]:
        raise ValueError("its bytes are not the ones that were saved")
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return SavedState(json.loads(header["__metadata__"]["facts"]), tensors_from_bytes(data))
