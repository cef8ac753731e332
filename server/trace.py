"""Traces: a walk as one line a chunk, with what each chunk wants. Owns the file format; blocks while it reads a file.

`{"pose": [x_m, y_m, z_m, yaw_rad, pitch_rad], "keys": "W", "mouse": [dx, dy], "wanted": [chunk indices] (optional)}`
A chunk that left no block says so: `"block": false`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from models.base import Array, Catalog
from models.matrix_game_2 import retrieval
from shared.controls import NO_KEYS, Key, keys_from_letters, letters_from_keys
from shared.pose import Pose

SHIPPED_FOLDER = Path(__file__).parents[1] / "bench" / "traces"
WINDOW_CHUNKS = 1  # chunks before the one that is drawn which attention still sees
_FIELDS = {"pose", "keys", "mouse", "wanted", "block"}


class TraceError(ValueError):
    """A trace that cannot be walked; the text names the file, the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TraceChunk:
    """One chunk of a walk: where it ended, what was held meanwhile, and the chunks whose blocks it wants."""

    pose: Pose
    keys: Key = NO_KEYS
    mouse: tuple[float, float] = (0.0, 0.0)  # counts over the whole chunk
    wanted: tuple[int, ...] | None = None  # None: by the retrieval rule
    leaves_block: bool = True


def shipped_traces() -> list[str]:
    """Names of the files in bench/traces."""
    return sorted(path.stem for path in SHIPPED_FOLDER.glob("*.jsonl"))


def read_trace(name_or_path: str) -> list[TraceChunk]:
    """The chunks of a shipped trace or of a file. Raises TraceError. Reads a file; blocks."""
    shipped = SHIPPED_FOLDER / f"{name_or_path}.jsonl"
    path = shipped if shipped.is_file() else Path(name_or_path)
    if not path.is_file():
        raise TraceError(f"there is no trace {name_or_path!r}; shipped: {', '.join(shipped_traces())}")
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is not text: {error}") from error
    chunks: list[TraceChunk] = []
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                chunks.append(_parse(line, len(chunks)))
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}, line {number}: {error}") from error
    if not chunks:
        raise TraceError(f"{path} has no lines")
    return chunks


def write_trace(chunks: Iterable[TraceChunk]) -> str:
    """The text of a trace file."""
    rows: list[str] = []
    for chunk in chunks:
        row: dict[str, object] = {
            "pose": [round(value, 4) for value in chunk.pose.as_tuple()],
            "keys": letters_from_keys(chunk.keys),
            "mouse": [round(value, 3) for value in chunk.mouse],
        }
        if chunk.wanted is not None:
            row["wanted"] = list(chunk.wanted)
        if not chunk.leaves_block:
            row["block"] = False
        rows.append(json.dumps(row) + "\n")
    return "".join(rows)


def with_wanted(chunks: Sequence[TraceChunk], k: int) -> list[TraceChunk]:
    """The same walk; chunks that do not say what they want get it from the rule."""
    poses = pose_rows(chunks)
    full: list[TraceChunk] = []
    for index, chunk in enumerate(chunks):
        wanted = by_rule(chunk.pose, poses, index, k) if chunk.wanted is None else chunk.wanted[:k]
        full.append(replace(chunk, wanted=wanted))
    return full


def pose_rows(chunks: Sequence[TraceChunk]) -> Array:
    """`[B, 1, 5]`, a catalog's poses."""
    return np.array([[chunk.pose.as_tuple()] for chunk in chunks])


def by_rule(pose: Pose, poses: Array, chunk_index: int, k: int) -> tuple[int, ...]:
    """What a chunk wants from `pose` when `chunk_index` chunks were drawn before it, by Matrix-Game 2.0's rule."""
    if chunk_index == 0:
        return ()
    chunks = np.arange(chunk_index)
    catalog = Catalog(chunks, chunks, poses[:chunk_index], chunks, window_start=chunk_index - WINDOW_CHUNKS)
    return retrieval.wanted(pose, catalog, k)


def _parse(line: str, index: int) -> TraceChunk:
    value: object = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("a line is one JSON object")  # noqa: TRY004 - the file is wrong, not the program
    entry = cast("dict[str, object]", value)
    if unknown := sorted(set(entry) - _FIELDS):
        raise ValueError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    pose = _numbers(entry.get("pose"), "pose", 5)
    letters = entry.get("keys", "")
    if not isinstance(letters, str):
        raise ValueError("keys is a text of the letters W, A, S and D")  # noqa: TRY004 - likewise
    mouse = _numbers(entry.get("mouse", [0.0, 0.0]), "mouse", 2)
    wanted = _chunk_indices(entry["wanted"], index) if "wanted" in entry else None
    leaves_block = entry.get("block", True)
    if not isinstance(leaves_block, bool):
        raise ValueError("block is true or false")  # noqa: TRY004 - likewise
    return TraceChunk(Pose(*pose), keys_from_letters(letters), (mouse[0], mouse[1]), wanted, leaves_block)


def _numbers(value: object, name: str, count: int) -> list[float]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    numbers = [float(item) for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is a list of {count} finite numbers")
    return numbers


def _chunk_indices(value: object, index: int) -> tuple[int, ...]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    found = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < index]
    if len(found) != len(items) or len(set(found)) != len(found):
        raise ValueError(f"wanted is a list of different chunks before this one, {index}")
    return tuple(found)
