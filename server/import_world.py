"""From one file to a world: everything that comes is limited and checked before it is used. One thread.

The world is put together in a folder of its own beside the others and becomes a world in one step, when all of it has
arrived and checks. Names inside the file are looked up, never followed: nothing can be written anywhere else.
"""

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import ValidationError

from server.about import MAX_ABOUT_BYTES, MAX_BLOCK_BYTES, About
from server.archive import Entry, read_archive
from server.arrived_log import check_arrived
from server.export_world import copy_log
from server.faults import WorldFault
from server.folder_lock import FolderLock
from server.imported_slab import ImportedSlab
from server.moments import MAX_MOMENTS
from server.pager.header import block_fingerprint
from server.pager.layout import SlotLayout
from server.pager.move.manifest import Terms
from server.record_log import sync_folder, write_durably
from server.timeline import MAX_BRANCHES, MAX_SNAPSHOTS
from server.world_card import WorldCard, check_name, new_id
from server.world_log import MAX_STATE_BYTES, PICTURE_FILE, STATE_FILE
from server.worlds import ARRIVING, Worlds

MAX_LOG_BYTES = 4 << 30
MAX_PICTURE_BYTES = 4 << 20
MAX_FILES = 2 * (MAX_SNAPSHOTS + MAX_BRANCHES)  # beside blocks: a state and a picture of each, or two states
_SPARE_BYTES = 64 << 20  # that a disk keeps free
_BLOCK = re.compile(r"blocks/(\d{1,15})", re.ASCII)


def import_world(source: Path, worlds: Worlds, name: str = "") -> WorldCard:
    """Make the world of an exported file. Raises WorldFault in words, OSError; then nothing is left of it.

    `name` gives it another name, and an id of its own where the old one is taken.
    """
    with source.open("rb") as file:
        entries = read_archive(file, _limit_of)
        first = next(entries, None)
        if first is None or first.name != "about.json":
            raise WorldFault("the exported world does not begin by saying what it is: it is damaged")
        about = _about(first.whole())
        with worlds.lock():
            worlds.sweep()
            card = _card_here(about.card, worlds, name)
            _check_room(worlds.root, about.bytes)
            folder = worlds.root / f"{ARRIVING}{new_id()}"
            folder.mkdir()
            held = FolderLock(folder, "imported")
        with held:
            try:
                _unpack(folder, about, card, entries)
                _move_in(folder, card, worlds, name)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return card


def _move_in(folder: Path, card: WorldCard, worlds: Worlds, name: str) -> None:
    """It is a world from here on, unless one of its name or id came here meanwhile."""
    with worlds.lock():
        if _card_here(card, worlds, name) != card:
            raise WorldFault(f"another world {card.name!r} came here meanwhile: import this one again")
        folder.rename(worlds.root / card.id)
        sync_folder(worlds.root)


def _check_room(root: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(root).free
    if num_bytes + _SPARE_BYTES > free:
        raise WorldFault(
            f"the world needs {num_bytes:,} bytes and the disk of {root} has {free:,} free. Free some, or give "
            "--worlds a folder on another disk."
        )


def _limit_of(name: str) -> int:
    """How many bytes an entry of this name may have; below 0: it has no business here."""
    folder, _, file = name.partition("/")
    if name == "about.json":
        return MAX_ABOUT_BYTES
    if name == "moments.log":
        return MAX_LOG_BYTES
    if name == "thumbnail.jpg" or (folder == "thumbnails" and PICTURE_FILE.fullmatch(file)):
        return MAX_PICTURE_BYTES
    if folder == "states" and STATE_FILE.fullmatch(file):
        return MAX_STATE_BYTES
    return MAX_BLOCK_BYTES if _BLOCK.fullmatch(name) else -1


def _about(data: bytes) -> About:
    try:
        about = About.model_validate_json(data)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise WorldFault(f"what the exported world says of itself cannot be read ({where}: {fault['msg']})") from None
    check_name(about.world.name)
    layout = about.layout
    if layout is not None and about.blocks is not None:
        proven = block_fingerprint(about.world.fingerprint, layout).hex()
        is_too_much = layout.moved_bytes > MAX_BLOCK_BYTES or about.blocks.count * layout.moved_bytes > about.bytes
        if proven != about.blocks.fingerprint or is_too_much:
            raise WorldFault("the layout of the exported world's blocks is not the one of its model: it is damaged")
    return about


def _card_here(card: WorldCard, worlds: Worlds, name: str) -> WorldCard:
    """The card under which the world will live here. Raises WorldFault when its name or id is taken."""
    if name:
        check_name(name)
    taken = {other.id for other in worlds.cards()} | {path.name for path in worlds.root.iterdir()}
    names = {other.name for other in worlds.cards()}
    wanted = name or card.name
    if wanted in names or (card.id in taken and not name):
        raise WorldFault(f"there is a world {wanted!r} here already. Import it under another one: --name NAME")
    if card.id not in taken:
        return replace(card, name=wanted)
    return replace(card, id=new_id(), name=wanted)


def _unpack(folder: Path, about: About, card: WorldCard, entries: Iterable[Entry]) -> None:
    """All that follows `about.json`, each into its place."""
    for part in ("states", "thumbnails"):
        (folder / part).mkdir()
    layout, slab = about.layout, None
    left, num_files = about.bytes, 0
    try:
        for entry in entries:
            left -= entry.num_bytes
            num_files += not entry.name.startswith("blocks/")
            if left < 0 or num_files > MAX_FILES or entry.name == "about.json":
                raise WorldFault("the exported world holds more than it says: it is damaged")
            if (match := _BLOCK.fullmatch(entry.name)) is None:
                _write(folder / entry.name, entry)
            elif layout is None or entry.num_bytes != layout.moved_bytes or int(match[1]) >= MAX_MOMENTS:
                raise WorldFault(f"{entry.name} of the exported world has not the size or the number of a block")
            else:
                slab = slab or _slab(folder, about, layout)
                slab.put(int(match[1]), entry.whole())
        if slab is not None:
            slab.close()
    finally:
        if slab is not None:
            slab.abandon()
    _settle(folder, card)


def _write(path: Path, entry: Entry) -> None:
    with path.open("xb") as file:
        for piece in entry.pieces:
            file.write(piece)


def _slab(folder: Path, about: About, layout: SlotLayout) -> ImportedSlab:
    blocks = about.blocks
    assert blocks is not None
    terms = Terms(bytes.fromhex(blocks.fingerprint), bytes.fromhex(blocks.store_id), blocks.count)
    return ImportedSlab(folder, layout, terms, blocks.opening, blocks.newest)


def _settle(folder: Path, card: WorldCard) -> None:
    """Look at what has come, and give the world its name here."""
    arrived = folder / "moments.log"
    if not arrived.exists():
        raise WorldFault("the exported world has no log: it is damaged")
    check_arrived(folder)
    copy_log(arrived, folder / "moments.new", card)
    (folder / "moments.new").replace(arrived)
    write_durably(folder / "world.json", json.dumps(asdict(card)).encode())
