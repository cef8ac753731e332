"""Moments: the nodes of a world's timeline, and a moment as a record of its log. Pure values; any thread."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shared.controls import Controls, Key
from shared.pose import Pose

if TYPE_CHECKING:  # whoever only looks at worlds need not load torch
    from models.base import Array

NO_MOMENT = -1
MAIN = "main"  # the branch that a world begins with
FOOTPRINT_DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")
MAX_FOOTPRINT_VALUES = 1 << 18  # and the record that holds them stays below record_log.MAX_RECORD_BYTES
MAX_MOMENTS = 1 << 24  # of a world, whose tree is arrays by id; five chunks a second reach it after 38 days
MAX_CHUNK = 1 << 53


@dataclass(frozen=True, slots=True)
class Moment:
    """One committed chunk. Enough to draw it again: parent, controls, what was recalled, and the noise seed.

    A block bears the id of the moment that left it; `has_block` says whether there is one.
    """

    id: int
    parent: int
    chunk_index: int
    seed: int
    controls: tuple[Controls, ...]
    poses: tuple[Pose, ...]
    recalled: tuple[int, ...]
    stale: bool
    seeded: bool
    frame_hashes: tuple[bytes, ...]  # xxh3_128 of each frame's pixels
    has_block: bool
    block_poses: tuple[Pose, ...] = ()
    footprint: "Array | None" = None
    branch: str = MAIN  # on which it was drawn


def moment_to_record(moment: Moment) -> dict[str, Any]:
    """The moment as plain values for the log."""
    footprint = moment.footprint
    record = {} if moment.branch == MAIN else {"branch": moment.branch}
    return record | {
        "kind": "moment",
        "id": moment.id,
        "parent": moment.parent,
        "chunk": moment.chunk_index,
        "seed": moment.seed,
        "controls": [[int(held.keys), held.mouse_dx, held.mouse_dy] for held in moment.controls],
        "poses": [list(pose.as_tuple()) for pose in moment.poses],
        "recalled": list(moment.recalled),
        "stale": moment.stale,
        "seeded": moment.seeded,
        "hashes": list(moment.frame_hashes),
        "block": moment.has_block,
        "block_poses": [list(pose.as_tuple()) for pose in moment.block_poses],
        "footprint": None
        if footprint is None
        else [footprint.dtype.name, list(footprint.shape), np.ascontiguousarray(footprint).tobytes()],
    }


def _footprint(value: Any) -> "Array | None":
    if value is None:
        return None
    dtype, shape, data = cast(tuple[str, list[int], bytes], value)
    if dtype not in FOOTPRINT_DTYPES or int(np.prod(shape)) > MAX_FOOTPRINT_VALUES:
        raise ValueError("footprint: not a known type, or too large")
    return np.frombuffer(data, dtype).reshape(shape)


def moment_from_record(record: dict[str, Any]) -> Moment:
    """The moment in a log record. Raises ValueError when a field is absent or does not fit."""
    try:
        number, parent, chunk_index = int(record["id"]), int(record["parent"]), int(record["chunk"])
        if not (NO_MOMENT <= parent < number < MAX_MOMENTS and 0 <= chunk_index < MAX_CHUNK):
            # whoever follows parents must come to an end, and a tree must fit into RAM
            raise ValueError(f"moment {number} of chunk {chunk_index} cannot follow {parent}")
        return Moment(
            id=number,
            parent=parent,
            chunk_index=chunk_index,
            seed=int(record["seed"]),
            controls=tuple(Controls(Key(keys), dx, dy) for keys, dx, dy in record["controls"]),
            poses=tuple(Pose(*pose) for pose in record["poses"]),
            recalled=tuple(int(block) for block in record["recalled"]),
            stale=bool(record["stale"]),
            seeded=bool(record["seeded"]),
            frame_hashes=tuple(record["hashes"]),
            has_block=bool(record["block"]),
            block_poses=tuple(Pose(*pose) for pose in record["block_poses"]),
            footprint=_footprint(record["footprint"]),
            branch=str(record.get("branch", MAIN)),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a moment record: {error}") from error


def ancestors(moments: dict[int, Moment], head: int) -> list[Moment]:
    """The moments from the world's first to `head`, oldest first. A missing parent ends the list there."""
    line: list[Moment] = []
    at = head
    while at in moments:
        line.append(moments[at])
        at = moments[at].parent
    return line[::-1]
