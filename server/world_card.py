"""A world's card: who it is. Reads world.json, or what its log has of it; writes nothing. Any thread.

A world is a folder of its own inside the worlds folder, called by its id. A link is none: whoever followed it would
read, write or delete somewhere else.
"""

import json
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from server.faults import WorldFault
from server.record_log import read_records

WORLD_VERSION = 1
MAX_CARD_BYTES = 65_536
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_ID = re.compile(r"[a-z2-7]{26}", re.ASCII)
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


def new_id() -> str:
    """An id that no world has."""
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(26))


def is_id(text: str) -> bool:
    """Whether a world's folder may be called so."""
    return _ID.fullmatch(text) is not None


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


def read_card(folder: Path) -> WorldCard:
    """The card of the world in a folder. Raises WorldFault when it is missing, damaged, of another version or world."""
    if folder.is_symlink():
        raise WorldFault(
            f"{folder.name} is a link to another place, and a world is a folder of its own: it was left alone. Move "
            "here what it leads to, or give --worlds the folder in which that lies."
        )
    try:
        with (folder / "world.json").open("rb") as file:
            card = _card_from(json.loads(file.read(MAX_CARD_BYTES)), folder)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        card = _card_from_log(folder)
        if card is None:
            raise WorldFault(f"the card of world {folder.name} is damaged ({error}): restore its world.json") from error
    if card.version != WORLD_VERSION:
        raise WorldFault(f"world {card.name!r} has version {card.version}; this server reads {WORLD_VERSION}")
    return card


def _card_from(fields: Any, folder: Path) -> WorldCard:
    card = WorldCard(**fields)
    if not is_id(card.id) or card.seed < 0:
        raise ValueError("its fields are not ours")
    if card.id != folder.name:
        raise ValueError(f"it is that of world {card.id}; a copy is made by export and import")
    return card


def _card_from_log(folder: Path) -> WorldCard | None:
    try:
        record, _ = next(iter(read_records(folder / "moments.log")))
        if record.pop("kind", None) != "card":
            return None
        return _card_from(record, folder)
    except (OSError, StopIteration, ValueError, TypeError):
        return None
