"""What is asked of a world's journal: saves of heads, the records that name them, and in which order. Pure values."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from models.base import DrawnFrame, SavedState
from server.moments import MAIN, Moment
from server.world_log import Kept

Record = dict[str, Any]


def _nobody(_: Kept) -> None:
    """Nobody asked where it lies."""


@dataclass(frozen=True, slots=True)
class Save:
    """A head to be made durable, and the records that then name its file: of kind head, snapshot or branch."""

    moment: int
    state: SavedState
    records: tuple[Record, ...]
    frame: DrawnFrame | None = None
    recalled: tuple[int, ...] = ()
    at_rest: Callable[[Kept], None] = _nobody  # journal thread: where the head lies now
    done: Future[bool] = field(default_factory=Future[bool])

    @property
    def names(self) -> set[tuple[str, str]]:
        """(kind, name) of what its records begin to keep, as a drop names it."""
        return {(record["kind"], record.get("name", "")) for record in self.records}


Job = Moment | Save | Record


def in_turn(jobs: Iterable[Job]) -> Iterator[tuple[list[Moment | Record], list[Save]]]:
    """Jobs as rounds of what is written first and what is saved after it.

    A moment may always go before the saves that it came after. A drop may not go before the save of what it drops.
    """
    first: list[Moment | Record] = []
    saves: list[Save] = []
    for job in jobs:
        if isinstance(job, Save):
            saves.append(job)
            continue
        if isinstance(job, dict) and any((job["what"], job["name"]) in save.names for save in saves):
            yield first, saves
            first, saves = [], []
        first.append(job)
    yield first, saves


def head_record(branch: str, moment: int, next_id: int, resume_hash: bytes = b"") -> Record:
    """That a branch's head was saved. `next_id`: every moment from it on was drawn later."""
    record: Record = {"kind": "head", "moment": moment, "next": next_id, "created_s": time.time()}
    if branch != MAIN:
        record["branch"] = branch
    return record | ({"resume": resume_hash} if resume_hash else {})


def branch_record(name: str, moment: int, created_s: float) -> Record:
    """That a branch began at a moment."""
    return {"kind": "branch", "name": name, "moment": moment, "created_s": created_s}


def snapshot_record(name: str, moment: int, created_s: float) -> Record:
    """That a moment is kept under a name."""
    return {"kind": "snapshot", "name": name, "moment": moment, "created_s": created_s}


def exactness_record(exactness: Mapping[str, Any]) -> Record:
    """Under which conditions the moments after it are drawn."""
    return {"kind": "exactness", **exactness}
