"""Is a world whole? Every hash of its log, states, snapshots, thumbnails and blocks. Changes nothing. One thread.

A block that was forgotten under a budget is no damage; it is counted. The folder should be locked by the caller.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from server.block_layouts import layout_for
from server.faults import WorldFault
from server.moments import NO_MOMENT
from server.stored_blocks import StoredBlocks
from server.world_card import WorldCard
from server.world_log import Kept, WorldLog, load_state, read_world_log
from server.worlds import newest_heads

JPEG_MAGIC = b"\xff\xd8\xff"


@dataclass(slots=True)
class Health:
    """What was looked at, and what is damaged, each by name and in words."""

    moments: int = 0
    blocks: int = 0
    states: int = 0
    snapshots: int = 0
    forgotten_blocks: int = 0
    damaged: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def blame(self, what: str, why: str) -> None:
        self.damaged.append({"what": what, "why": why})


def check_world(folder: Path, card: WorldCard) -> Health:
    """Look at all of a world. What cannot be read is damaged; nothing is raised for it."""
    health = Health()
    log = read_world_log(folder)
    _check_card(folder, card, health)
    _check_log(log, health)
    _check_states(folder, log, health)
    try:
        with StoredBlocks(folder) as blocks:
            _check_blocks(card, log, blocks, health)
    except (WorldFault, OSError) as error:
        health.blame("blocks.log", str(error))
    return health


def _check_card(folder: Path, card: WorldCard, health: Health) -> None:
    try:
        fields: Any = json.loads((folder / "world.json").read_bytes())
    except (OSError, ValueError) as error:
        health.blame("world.json", f"it cannot be read ({error}); the log has the card as well, which is used")
        return
    if fields != asdict(card):
        health.blame("world.json", "it is not the card of this world")


def _check_log(log: WorldLog, health: Health) -> None:
    health.moments = len(log.moments)
    for fault in log.faults:
        health.blame("moments.log", fault)
    if log.end != log.num_bytes:
        health.blame("moments.log", f"its last {log.num_bytes - log.end:,} bytes, from byte {log.end:,}, are no record")
    for moment in log.moments.values():
        if moment.parent != NO_MOMENT and moment.parent not in log.moments:
            health.blame(f"moment {moment.id}", f"its parent {moment.parent} is missing")


def _check_states(folder: Path, log: WorldLog, health: Health) -> None:
    for kept in log.snapshots.values():
        health.snapshots += 1
        _check_state(folder, log, kept, f'snapshot "{kept.name}"', health)
        if kept.thumbnail and not _is_picture(folder / "thumbnails" / kept.thumbnail):
            health.blame(f'thumbnail of snapshot "{kept.name}"', "it is missing or no JPEG")
    for branch, heads in log.heads.items():
        for kept in newest_heads(heads):
            health.states += 1
            _check_state(folder, log, kept, f"saved head of {branch} at moment {kept.moment}", health)


def _check_state(folder: Path, log: WorldLog, kept: Kept, what: str, health: Health) -> None:
    if kept.moment not in log.moments:
        health.blame(what, f"its moment {kept.moment} is not in the log")
    try:
        load_state(folder, kept)
    except Exception as error:  # noqa: BLE001 - whatever its bytes do to the parser, the state is damaged
        health.blame(what, str(error))


def _is_picture(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(JPEG_MAGIC)) == JPEG_MAGIC
    except OSError:
        return False


def _check_blocks(card: WorldCard, log: WorldLog, blocks: StoredBlocks, health: Health) -> None:
    health.forgotten_blocks = sum(moment.has_block and moment.id not in blocks for moment in log.moments.values())
    if blocks.log is None:
        return
    if not blocks.log.state.is_tail_clean:
        health.blame("blocks.log", "it ends in something that is no record; opening the world in a server mends it")
    layout = layout_for(card.model, card.fingerprint, blocks.log.terms.fingerprint)
    if layout is None:
        health.blame("blocks", "they are of a layout that this build does not know: they were not looked at")
        return
    for block in sorted(blocks.slots):
        health.blocks += 1
        _, fault = blocks.read(block, layout)
        if fault:
            health.blame(f"block {block}", fault)
