"""From one file to a world: everything that comes is limited and checked before it is used. One thread.

The world is put together in a folder of its own beside the others and becomes a world in one step, when all of it has
arrived and checks. Names inside the file are looked up, never followed: nothing can be written anywhere else.
"""

import json
import re
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import ValidationError

from server.about import MAX_ABOUT_BYTES, MAX_BLOCK_BYTES, About
from server.archive import Entry, read_archive
from server.export_world import copy_log
from server.faults import WorldFault
from server.imported_slab import ImportedSlab
from server.moments import MAX_MOMENTS
from server.pager.header import block_fingerprint
from server.pager.layout import SlotLayout
from server.pager.move.manifest import Terms
from server.record_log import sync_folder, write_durably
from server.world_log import MAX_STATE_BYTES, PICTURE_FILE, STATE_FILE, read_world_log, state_fault
from server.worlds import WorldCard, Worlds, check_name

MAX_LOG_BYTES = 4 << 30
MAX_PICTURE_BYTES = 4 << 20
_SPARE_BYTES = 64 << 20  # that a disk keeps free
_BLOCK = re.compile(r"blocks/(\d{1,15})", re.ASCII)
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


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
        card = _card_here(about.card, worlds, name)
        free = shutil.disk_usage(worlds.root).free
        if about.bytes + _SPARE_BYTES > free:
            raise WorldFault(f"the world needs {about.bytes:,} bytes and the disk has {free:,} free. Free some.")
        folder = worlds.root / f".import-{card.id}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _unpack(folder, about, card, entries)
            folder.rename(worlds.root / card.id)
            sync_folder(worlds.root)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return card


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
    return replace(card, id="".join(secrets.choice(_ID_LETTERS) for _ in range(26)), name=wanted)


def _unpack(folder: Path, about: About, card: WorldCard, entries: Iterable[Entry]) -> None:
    """All that follows `about.json`, each into its place."""
    for part in ("", "states", "thumbnails"):
        (folder / part).mkdir(parents=True)
    layout, slab = about.layout, None
    left = about.bytes
    try:
        for entry in entries:
            left -= entry.num_bytes
            if left < 0 or entry.name == "about.json":
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
    log = read_world_log(folder)
    if log.faults or log.end != log.num_bytes:
        raise WorldFault(f"the log of the exported world is damaged: {'; '.join(log.faults[:1]) or 'it is cut off'}")
    for kept in log.kept():
        if (folder / "states" / kept.file).exists() and (fault := state_fault(folder, kept)):
            raise WorldFault(f"the state of moment {kept.moment} in the exported world is damaged: {fault}")
    copy_log(arrived, folder / "moments.new", card)
    (folder / "moments.new").replace(arrived)
    write_durably(folder / "world.json", json.dumps(asdict(card)).encode())
