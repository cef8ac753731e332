"""What a world is, as plain values for JSON and as text for people. Reads the folder, changes nothing. Any thread."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server.faults import WorldFault
from server.moments import ancestors
from server.stored_blocks import StoredBlocks
from server.world_card import WorldCard
from server.world_log import Kept, WorldLog, read_world_log, state_fault

_BLOCK_BYTES = 512  # of st_blocks: what a file really takes


def facts_of(folder: Path, card: WorldCard) -> dict[str, Any]:
    """Everything that can be said about a world without loading its model."""
    log = read_world_log(folder)
    held, blocks_fault = _held_blocks(folder)
    drawn = [moment for moment in log.moments.values() if not moment.seeded]
    return {
        "id": card.id,
        "name": card.name,
        "seed": card.seed,
        "model": card.model,
        "fingerprint": card.fingerprint,
        "created_s": card.created_s,
        "chunks": len(drawn),
        "frames": sum(len(moment.frame_hashes) for moment in drawn),
        "stale_chunks": sum(moment.stale for moment in drawn),
        "bytes": sum(path.stat().st_blocks * _BLOCK_BYTES for path in folder.rglob("*") if path.is_file()),
        "branches": [_branch_facts(log, name) for name in sorted(log.branches)],
        "snapshots": [_snapshot_facts(folder, log, kept, held) for kept in log.snapshots.values()],
        "blocks": {
            "left": sum(moment.has_block for moment in log.moments.values()),
            "kept": len(held),
            "fault": blocks_fault,
        },
        "exactness": [{name: value for name, value in record.items() if name != "kind"} for _, record in log.exactness],
        "faults": log.faults,
    }


def _held_blocks(folder: Path) -> tuple[frozenset[int], str]:
    try:
        with StoredBlocks(folder) as blocks:
            return frozenset(blocks.slots), ""
    except (WorldFault, OSError) as error:
        return frozenset(), str(error)


def _branch_facts(log: WorldLog, name: str) -> dict[str, Any]:
    head = log.head(name)
    moment = log.moments.get(-1 if head is None else head)
    return {
        "name": name,
        "moment": head,
        "chunk": moment.chunk_index if moment else None,
        "began_at": log.branches[name].start,
        "created_s": log.branches[name].created_s,
    }


def _snapshot_facts(folder: Path, log: WorldLog, kept: Kept, held: frozenset[int]) -> dict[str, Any]:
    line = ancestors(log.moments, kept.moment)
    left = [moment.id for moment in line if moment.has_block]
    return {
        "name": kept.name,
        "moment": kept.moment,
        "chunk": line[-1].chunk_index if line else None,
        "created_s": kept.created_s,
        "thumbnail": bool(kept.thumbnail),
        "state_bytes": kept.num_bytes,
        "blocks": len(left),
        "blocks_gone": sum(block not in held for block in left),
        "fault": state_fault(folder, kept),
    }


def world_line(facts: Mapping[str, Any]) -> str:
    """One world in one line."""
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["created_s"]))
    extra = f", {len(facts['snapshots'])} snapshots" if facts["snapshots"] else ""
    branches = f", {len(facts['branches'])} branches" if len(facts["branches"]) > 1 else ""
    return (
        f"{facts['name']:32} {facts['model']:14} {made}  {facts['chunks']:>6} chunks  {in_megabytes(facts['bytes']):>9}"
        f"{branches}{extra}"
    )


def in_megabytes(num_bytes: float) -> str:
    """Bytes for people."""
    return f"{num_bytes / 1e6:,.1f} MB"


def describe(facts: Mapping[str, Any]) -> str:
    """One world for people."""
    blocks = facts["blocks"]
    gone = blocks["left"] - blocks["kept"]
    lines = [
        f"{facts['name']}  ({facts['id']})",
        f"  model       {facts['model']}, weights {facts['fingerprint'][:12]}, seed {facts['seed']}",
        f"  made        {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(facts['created_s']))}",
        f"  walked      {facts['chunks']} chunks, {facts['frames']} frames; {facts['stale_chunks']} stale",
        f"  on disk     {in_megabytes(facts['bytes'])}",
        f"  memory      {blocks['kept']} of {blocks['left']} blocks" + (f"; {gone} are forgotten" if gone > 0 else ""),
    ]
    if blocks["fault"]:
        lines.append(f"              {blocks['fault']}")
    lines += [f"  branch      {_branch_line(branch)}" for branch in facts["branches"]]
    lines += [f"  snapshot    {_snapshot_line(snapshot)}" for snapshot in facts["snapshots"]]
    lines += [
        f"  drawn with  {', '.join(f'{key} {value}' for key, value in record.items())}" for record in facts["exactness"]
    ]
    return "\n".join([*lines, *(f"  damaged     {fault}" for fault in facts["faults"])])


def _branch_line(branch: Mapping[str, Any]) -> str:
    if branch["moment"] is None:
        return f"{branch['name']}: never saved"
    began = f", begun at moment {branch['began_at']}" if branch["began_at"] >= 0 else ""
    return f"{branch['name']} at moment {branch['moment']} (chunk {branch['chunk']}){began}"


def _snapshot_line(snapshot: Mapping[str, Any]) -> str:
    words = f"{snapshot['name']!r} at moment {snapshot['moment']} (chunk {snapshot['chunk']})"
    if snapshot["blocks_gone"]:
        words += f"; {snapshot['blocks_gone']} of its {snapshot['blocks']} blocks are forgotten"
    return words + (f"; REFUSED: {snapshot['fault']}" if snapshot["fault"] else "")
