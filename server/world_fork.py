"""A new branch in a world that no server has open: a kept state becomes the head of a line of its own. One thread.

Nothing is copied: the new head names the file that the kept state lies in, as heads and snapshots of one moment do.
"""

import time
from pathlib import Path

from server.faults import WorldFault
from server.record_log import RecordLog
from server.world_card import WorldCard, check_name
from server.world_log import Kept, WorldLog, load_state, read_world_log


def fork_world(folder: Path, card: WorldCard, branch: str, at: str) -> int:
    """Begin `branch` where `at` says: a branch, a snapshot, or the number of a kept moment. Returns its moment.

    The world's folder must be locked by the caller. Raises WorldFault in words.
    """
    check_name(branch)
    log = read_world_log(folder)
    if branch in log.branches or branch in log.snapshots:
        raise WorldFault(f"world {card.name!r} has a branch or a snapshot {branch!r} already: choose another name")
    if log.end != log.num_bytes:
        raise WorldFault(f"the log of world {card.name!r} is damaged at byte {log.end}: open it in a server first")
    kept = _kept_at(folder, log, at)
    if kept is None:
        raise WorldFault(
            f"world {card.name!r} keeps no state at {at!r}. There is one at {_places(log)}; any other moment is "
            "reached by walking there, or by rewinding in the client."
        )
    now_s, next_id = time.time(), max(log.moments, default=-1) + 1
    file = {"state": kept.file, "bytes": kept.num_bytes, "hash": kept.hash}
    head = {"kind": "head", "branch": branch, "moment": kept.moment, "next": next_id, "created_s": now_s, **file}
    records = RecordLog(folder / "moments.log", log.end)
    try:
        records.append({"kind": "branch", "name": branch, "moment": kept.moment, "created_s": now_s})
        records.append(head)
        records.sync()
    finally:
        records.close()
    return kept.moment


def _kept_at(folder: Path, log: WorldLog, at: str) -> Kept | None:
    """The newest whole state that `at` names."""
    named = log.snapshots.get(at)
    found = [named] if named else list(reversed(log.heads.get(at, [])))
    if not found and at.isdigit():
        found = [kept for kept in log.kept() if kept.moment == int(at)]
    for kept in found:
        try:
            load_state(folder, kept)
        except ValueError:
            continue
        return kept
    return None


def _places(log: WorldLog) -> str:
    names = [*(f"snapshot {name!r}" for name in log.snapshots), *(f"branch {name!r}" for name in log.heads)]
    return ", ".join(names) or "no place: it was never saved"
