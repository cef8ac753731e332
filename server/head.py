"""A head, and the heads that are kept: of snapshots, of branches, of the rewind ring. Values and small records.

A head is everything of a walk that cannot be worked out again, by reference. Its model state never changes (promise 9),
its line of blocks only ever grows behind it, so holding one costs a reference and nothing that happens later shows in
it. What is not in it is the player's own: the keys held now and how fast the mouse moves, which live in the session and
go on across a jump; the extrapolator is a function of them and of the head's pose.
"""

import re
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from models.base import DrawnFrame, ModelState
from server.pager.blocks import BlockKey
from server.rows import Line
from server.world_log import Kept


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Where a walk stands: its newest moment, the state that it left, and what was seen and recalled there."""

    moment: int
    state: ModelState
    line: Line  # of its ancestors' blocks
    frame: DrawnFrame | None = None  # the newest one; None in worlds that older versions saved
    recalled: tuple[BlockKey, ...] = ()  # blocks it was drawn with: what a live recall falls back on

    @property
    def chunk_index(self) -> int:
        """Of the chunk to come."""
        return self.state.chunk_index

    @property
    def block_ids(self) -> tuple[int, ...]:
        """What it was drawn with, as the log names it."""
        return tuple(key.block for key in self.recalled)


class Writer(Protocol):
    """What makes a kept head durable. Engine thread; never waits."""

    def write(self, kept: "KeptHead") -> Future[bool]: ...


class KeptHead:
    """A head that is kept: in RAM (`head`), at rest in a file (`rest`), or both. Engine thread, but for `rest`."""

    __slots__ = ("chunk_index", "durability", "head", "line", "moment", "num_bytes", "rest")

    can_drop = False  # whether it may go when there is no room: it can be drawn again

    def __init__(self, moment: int, chunk_index: int, line: Line, head: Head | None, rest: Kept | None = None) -> None:
        self.moment = moment
        self.chunk_index = chunk_index
        self.line = line
        self.head = head
        self.rest = rest  # set once by the journal's thread when it is durable
        self.durability: Future[bool] | None = None  # of the writing that is under way or done
        self.num_bytes = -1  # of its state in RAM; not counted yet


class Recent(KeptHead):
    """A head in the rewind ring."""

    __slots__ = ("order",)

    can_drop = True

    def __init__(self, head: Head, order: int) -> None:
        super().__init__(head.moment, head.state.chunk_index, head.line, head)
        self.order = order  # in which it was drawn


class Snapshot(KeptHead):
    """A named moment whose head is kept until it is dropped."""

    __slots__ = ("created_s", "is_quick", "name", "thumbnail", "writer")

    def __init__(self, name: str, head: Head, writer: Writer, *, is_quick: bool = False) -> None:
        self.moment = head.moment
        self.chunk_index = head.state.chunk_index
        self.line = head.line
        self.head: Head | None = head
        self.rest: Kept | None = None
        self.durability: Future[bool] | None = None
        self.num_bytes = -1
        self.name = name
        self.is_quick = is_quick
        self.created_s = time.time()
        self.thumbnail = ""
        self.writer = writer

    @classmethod
    def at_rest(cls, kept: Kept, chunk_index: int, line: Line, writer: Writer) -> "Snapshot":
        """A snapshot as it was found on disk."""
        snapshot = cls.__new__(cls)
        KeptHead.__init__(snapshot, kept.moment, chunk_index, line, None, kept)
        snapshot.name, snapshot.created_s, snapshot.thumbnail = kept.name, kept.created_s, kept.thumbnail
        snapshot.is_quick = is_quick_name(kept.name)
        snapshot.writer = writer
        return snapshot

    @property
    def durable(self) -> Future[bool]:
        """True once it survives a power cut, False when the disk refused: then its world tries again, and this is
        another future. Writing begins after the next chunk, or when this is first read.
        """
        if self.durability is None:
            if self.rest is None:
                return self.writer.write(self)
            self.durability = Future()
            self.durability.set_result(True)
        return self.durability


class Branch(KeptHead):
    """A named head of a world. While a session stands on it, it moves with that session."""

    __slots__ = ("created_s", "is_taken", "name", "resume_hash", "start")

    def __init__(self, name: str, head: Head, start: int) -> None:
        self.moment = head.moment
        self.chunk_index = head.state.chunk_index
        self.line = head.line
        self.head: Head | None = head
        self.rest: Kept | None = None
        self.durability: Future[bool] | None = None
        self.num_bytes = -1
        self.name = name
        self.start = start  # the moment at which it left another branch
        self.is_taken = False  # a session stands on it
        self.created_s = time.time()
        self.resume_hash = b""  # of the token of whoever walks here, or left the world from here

    @classmethod
    def at_rest(cls, name: str, kept: Kept, start: int, chunk_index: int, line: Line) -> "Branch":
        """A branch as it was found on disk."""
        branch = cls.__new__(cls)
        KeptHead.__init__(branch, kept.moment, chunk_index, line, None, kept)
        branch.name, branch.start, branch.is_taken = name, start, False
        branch.created_s, branch.resume_hash = kept.created_s, kept.resume_hash
        return branch

    def stand_at(self, head: Head) -> None:
        """Point at another moment."""
        self.head, self.rest, self.durability = head, None, None
        self.moment, self.chunk_index, self.line = head.moment, head.state.chunk_index, head.line
        self.num_bytes = -1


QUICK = "quick "
_QUICK_NAME = re.compile(rf"{QUICK}\d{{1,15}}", re.ASCII)


def is_quick_name(name: str) -> bool:
    """Whether the server made this name up for a quick snapshot."""
    return _QUICK_NAME.fullmatch(name) is not None
