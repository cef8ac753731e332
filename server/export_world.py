"""A world as one file: what goes into it, and in which order. The file is framed by archive.py. One thread.

about.json            who the world is, how many bytes come, and the layout of its blocks
moments.log           the log, without who may continue the walk
states/…  thumbnails/…  thumbnail.jpg
blocks/<id>           each block as it lies in its slot, with its own header and hashes
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import torch

from server.about import About, Blocks, Card, spec_fields
from server.archive import PIECE_BYTES, ArchiveWriter
from server.block_layouts import layout_for
from server.faults import WorldFault
from server.pager.layout import SlotLayout
from server.record_log import RecordLog, read_records, sync_folder
from server.stored_blocks import StoredBlocks
from server.world_card import WorldCard, card_to_record
from server.world_log import WorldLog, read_world_log, state_fault

TOLD_KINDS = ("moment", "head", "branch", "snapshot", "dropped", "exactness")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    num_bytes: int
    moments: int
    blocks: int
    left_out: tuple[str, ...]  # what was damaged or gone, in words


def export_world(folder: Path, card: WorldCard, target: Path) -> Exported:
    """Write the world into one file, beside it first and then in its place. Its folder must be locked by the caller.

    A damaged block or state is left out and named. Raises WorldFault, OSError; then nothing is left beside the target.
    """
    log = read_world_log(folder)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    told = part.with_suffix(".log")
    try:
        with StoredBlocks(folder) as blocks, part.open("xb") as file:
            copy_log(folder / "moments.log", told, card)
            exported = _write(folder, card, log, blocks, told, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)
        told.unlink(missing_ok=True)
    return exported


def _write(folder: Path, card: WorldCard, log: WorldLog, blocks: StoredBlocks, told: Path, file: BinaryIO) -> Exported:
    layout = _layout(card, blocks)
    files, left_out = _files(folder, log)
    paths = {"moments.log": told, **files}
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    total = sum(sizes.values()) + (len(blocks) * layout.moved_bytes if layout else 0)
    _check_room(told.parent, total)
    about = _about(card, layout, blocks, total).model_dump_json().encode()
    writer = ArchiveWriter(file)
    writer.add("about.json", len(about), [about])
    for name, path in paths.items():
        writer.add(name, sizes[name], _pieces(path))
    num_blocks = 0
    for block in sorted(blocks.slots) if layout else ():
        packed, fault = blocks.read(block, layout) if layout else (torch.empty(0), "")
        if fault:
            left_out.append(f"block {block}: {fault}")
            continue
        writer.add(f"blocks/{block}", len(packed), [packed.numpy().data])
        num_blocks += 1
    writer.end()
    return Exported(file.tell(), len(log.moments), num_blocks, tuple(left_out))


def _check_room(folder: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise WorldFault(
            f"the exported world needs {num_bytes:,} bytes and the disk of {folder} has {free:,} free. Free some, or "
            "name a file on another disk. The world is as it was."
        )


def copy_log(source: Path, target: Path, card: WorldCard) -> None:
    """The log anew, record by record, under this card: only what another machine may know."""
    copy = RecordLog(target, 0)
    try:
        copy.append(card_to_record(card))
        for record, _ in read_records(source) if source.exists() else ():
            if record.get("kind") in TOLD_KINDS:
                record.pop("resume", None)  # who may continue a walk here has no business there
                copy.append(record)
        copy.sync()
    finally:
        copy.close()


def _layout(card: WorldCard, blocks: StoredBlocks) -> SlotLayout | None:
    if blocks.log is None:
        return None
    layout = layout_for(card.model, card.fingerprint, blocks.log.terms.fingerprint)
    if layout is None:
        raise WorldFault(
            f"this build does not know the block layout of world {card.name!r} ({card.model}): export it with the "
            "version that drew it."
        )
    return layout


def _about(card: WorldCard, layout: SlotLayout | None, blocks: StoredBlocks, total: int) -> About:
    described = None
    if layout is not None and blocks.log is not None:
        terms, state = blocks.log.terms, blocks.log.state
        described = Blocks(
            count=len(blocks),
            spec=spec_fields(layout.spec),
            fingerprint=terms.fingerprint.hex(),
            store_id=terms.store_id.hex(),
            opening=state.opening,
            newest=state.newest,
        )
    return About(world=Card(**asdict(card)), bytes=total, blocks=described)


def _files(folder: Path, log: WorldLog) -> tuple[dict[str, Path], list[str]]:
    """Everything beside log and blocks that the log names and that is there; and what of it is left out, in words."""
    states = {kept.file: kept for kept in log.kept()}
    pictures = {f"thumbnails/{kept.thumbnail}" for kept in log.kept() if kept.thumbnail} | {"thumbnail.jpg"}
    files: dict[str, Path] = {}
    left_out: list[str] = []
    for name in sorted({*(f"states/{file}" for file in states), *pictures}):
        path = folder / name
        if not path.is_file():
            continue
        fault = "it is a link to another place" if path.is_symlink() or path.parent.is_symlink() else ""
        if not fault and (kept := states.get(path.name)) is not None:
            fault = state_fault(folder, kept)
        if fault:
            left_out.append(f"{name}: {fault}")
        else:
            files[name] = path
    return files, left_out


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
