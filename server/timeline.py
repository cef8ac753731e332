"""The timeline of one open world: its tree of moments, its branches, its snapshots. Shared by the world's sessions.

`snapshot`, `fork` and finding a head cost the same however long the world is: a head is a value, kept by reference.
What they leave to do (writing, counting bytes) `settle` does between chunks. Engine thread, but for `read`: any thread.
"""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from models.base import WorldModel
from server.catalog import Gone
from server.faults import SnapshotFault, WorldFault
from server.head import QUICK, Branch, Head, KeptHead, Snapshot, is_quick_name
from server.journal import Journal
from server.moment_tree import MomentTree
from server.moments import Moment
from server.pager.blocks import BlockKey
from server.rows import blocks_of
from server.scribe import Scribe
from server.shelf import Shelf
from server.world_card import check_name
from server.world_log import load_head
from server.worlds import is_token_of

QUICK_KEPT = 8  # quick snapshots of a world; older ones are dropped
MAX_BRANCHES = 65_536
MAX_SNAPSHOTS = 10_000


def _nobody(_: frozenset[int]) -> None:
    """Nobody forgets blocks."""


class Timeline:
    """One open world. `seeded` are the moments that it was given; `gone` the blocks that no tier holds any more."""

    def __init__(
        self,
        world: str,
        seed: int,
        folder: Path,
        model: WorldModel,
        journal: Journal,
        shelf: Shelf,
        next_id: int,
        pin: Callable[[frozenset[int]], None] = _nobody,
    ) -> None:
        """`pin` is told which blocks are to be forgotten last: those of the ancestors of named snapshots."""
        self.world = world
        self.seed = seed
        self.folder = folder
        self.journal = journal
        self.shelf = shelf
        self.gone = Gone()
        self.seeded: frozenset[int] = frozenset()
        self.tree = MomentTree()
        self.branches: dict[str, Branch] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.root: KeptHead | None = None  # the head with which the world began, while it is kept
        self.num_sessions = 0  # that use it, or are about to
        self._model = model
        self._next_id = next_id
        self._next_head = 0
        self._quick: list[Snapshot] = []
        self._num_quick = 0
        self.scribe = Scribe(journal, model, self.is_kept)
        self._pin = pin
        self._is_pin_due = False
        self._news: list[Snapshot | Branch] = []  # made, and not looked at by `settle` yet

    # ---- moments ----

    @property
    def next_id(self) -> int:
        """The id of the moment to come, on whichever branch."""
        return self._next_id

    def take_id(self) -> int:
        """A new moment's id. Ids are the world's: no two branches have the same."""
        self._next_id += 1
        return self._next_id - 1

    def commit(self, moment: Moment) -> None:
        """A chunk was drawn: enter its moment and write it soon."""
        self.tree.enter(moment)
        self.journal.note(moment)

    # ---- snapshots and branches; O(1) ----

    def snapshot(self, head: Head, name: str = "") -> Snapshot:
        """Keep a head under a name; without one, as the next quick snapshot. Raises SnapshotFault."""
        if name:
            self._check_room()
            self._check_free(name, self.snapshots)
            if len(self.snapshots) >= MAX_SNAPSHOTS:
                raise SnapshotFault(f"a world keeps at most {MAX_SNAPSHOTS:,} snapshots: drop some of them first")
            made = Snapshot(name, head, self)
            self._is_pin_due = True
        else:
            self._num_quick += 1
            made = Snapshot(f"{QUICK}{self._num_quick}", head, self, is_quick=True)
            self._quick.append(made)
            if len(self._quick) > QUICK_KEPT:
                self.drop(self._quick[0])
        self.snapshots[made.name] = made
        self._news.append(made)
        return made

    def fork(self, head: Head, name: str = "") -> Branch:
        """Begin a branch at a head. Raises SnapshotFault when the name is taken, or none."""
        self._check_room()
        if len(self.branches) >= MAX_BRANCHES:
            raise SnapshotFault(f"a world has at most {MAX_BRANCHES:,} branches: drop some of them first")
        name = name or self._free_branch_name()
        self._check_free(name, self.branches)
        made = self.branches[name] = Branch(name, head, head.moment)
        self._news.append(made)
        return made

    def left_by(self, resume: str) -> Branch | None:
        """The branch from which the holder of this resume token left the world, while nobody walks on it."""
        left = (branch for branch in self.branches.values() if branch.resume_hash and not branch.is_taken)
        return next((branch for branch in left if resume and is_token_of(resume, branch.resume_hash)), None)

    def place(self, at: str, resume: str = "") -> Snapshot | Branch:
        """Where one enters: at this name; else on the branch that he left, or on a free one. Raises SnapshotFault."""
        if at in self.branches:
            return self.branches[at]
        left = self.left_by(resume)
        if at and (at in self.snapshots or left is None):
            return self.find(at)
        free = left or next((branch for branch in reversed(self.branches.values()) if not branch.is_taken), None)
        if free is None:
            raise SnapshotFault("somebody walks on every branch of this world: begin one of your own at a snapshot")
        return free

    def drop(self, snapshot: Snapshot) -> None:
        """Keep a snapshot no more. A session that stands there goes on."""
        if self.snapshots.get(snapshot.name) is not snapshot:
            return
        del self.snapshots[snapshot.name]
        if snapshot.is_quick and snapshot in self._quick:
            self._quick.remove(snapshot)
        self._is_pin_due |= not snapshot.is_quick
        self.scribe.unwatch(snapshot)
        self.shelf.release(snapshot)
        if snapshot.durability is not None or snapshot.rest is not None:
            self.journal.drop("snapshot", snapshot.name)

    def leave(self, branch: Branch) -> None:
        """Its session goes elsewhere: where it was left is made durable with `settle`."""
        if self.is_kept(branch) and branch.rest is None:
            self._news.append(branch)

    def drop_branch(self, branch: Branch) -> None:
        """Keep a branch no more. Raises SnapshotFault while somebody walks on it, and for the world's last one."""
        if branch.is_taken or len(self.branches) == 1:
            raise SnapshotFault(f"branch {branch.name!r} is in use, or the world's only one")
        del self.branches[branch.name]
        self.shelf.release(branch)
        if branch.name in self.scribe.recorded:
            self.scribe.recorded.discard(branch.name)
            self.journal.drop("branch", branch.name)

    def kept_heads(self) -> dict[int, KeptHead]:
        """By moment: a head that is kept of it, at best one whose state is in RAM. A root without its state is none."""
        found: dict[int, KeptHead] = {}
        for kept in ([] if self.root is None else [self.root], self.snapshots.values(), self.branches.values()):
            at_rest = {each.moment: each for each in kept if each.rest is not None}
            found = at_rest | found | {each.moment: each for each in kept if each.head is not None}
        return found

    def find(self, name: str) -> Snapshot:
        """The snapshot of this name; without one, the newest quick one. Raises SnapshotFault."""
        if not name and self._quick:
            return self._quick[-1]
        if name not in self.snapshots:
            what = f"no snapshot named {name!r}" if name else "no quick snapshot yet"
            raise SnapshotFault(f"this world has {what}. Nothing was changed.")
        return self.snapshots[name]

    def _check_room(self) -> None:
        shelf, fault = self.shelf, self.journal.fault
        if shelf.is_crowded or (fault and shelf.used_bytes > shelf.budget_bytes):
            raise SnapshotFault(
                "there is no room to keep another moment: the RAM for it is full, and the disk does not take what is "
                f"kept ({fault or 'it is slow'}). Nothing was changed."
            )

    def _check_free(self, name: str, taken: dict[str, Snapshot] | dict[str, Branch]) -> None:
        try:
            check_name(name)
        except WorldFault as fault:
            rule = str(fault).partition(" world: ")[2]
            raise SnapshotFault(f"the name {name!r} cannot be given: {rule}") from fault
        if name in taken or is_quick_name(name):
            raise SnapshotFault(f"there is a {name!r} already, or quick snapshots are called so: choose another name")

    def _free_branch_name(self) -> str:
        number = len(self.branches) + 1
        while f"branch {number}" in self.branches:
            number += 1
        return f"branch {number}"

    # ---- heads in RAM and at rest ----

    def read(self, kept: KeptHead) -> Head:
        """The head of a snapshot or branch, from its state file when it is not in RAM. Blocks on the disk; any thread.

        Raises SnapshotFault, with its name and what is wrong, when the file is not what was saved.
        """
        if (head := kept.head) is not None:
            return head
        rest = kept.rest
        assert rest is not None, "a kept head is in RAM or at rest"
        try:
            resting = load_head(self.folder, rest)
            state = self._model.load(resting.saved)
        except (OSError, ValueError) as error:
            raise SnapshotFault(
                f"{rest.name!r} is damaged: {error}. Everything else in this world is as it was; choose another."
            ) from error
        recalled = tuple(BlockKey(self.world, block) for block in resting.recalled)
        return Head(kept.moment, state, kept.line, resting.frame, recalled)

    def wake(self, kept: KeptHead, head: Head) -> None:
        """Its head is in RAM again."""
        kept.head = head
        self.shelf.hold(kept, self)

    def head_of(self, kept: KeptHead) -> Head:
        """Its head, at once when it is in RAM, else from the disk. Raises SnapshotFault."""
        if kept.head is None:
            self.wake(kept, self.read(kept))
        else:
            self.shelf.touch(kept)
        assert kept.head is not None
        return kept.head

    def adopt(self, kept: Snapshot | Branch) -> None:
        """Enter a snapshot or branch that was found on disk."""
        if isinstance(kept, Branch):
            self.branches[kept.name] = kept
            self.scribe.recorded.add(kept.name)
        else:
            self.snapshots[kept.name] = kept
            self._is_pin_due = True
            if kept.is_quick:
                self._quick.append(kept)
                self._quick.sort(key=lambda quick: int(quick.name.removeprefix(QUICK)))
                self._num_quick = int(self._quick[-1].name.removeprefix(QUICK))

    def write(self, kept: KeptHead) -> Future[bool]:
        """Make a snapshot or a branch durable, in the background. When the disk refuses, `settle` tries it again."""
        return self.scribe.write(kept, self._next_id)

    def settle(self) -> None:
        """What snapshots and forks left to do: write them, count their bytes. Never waits."""
        if self._news:
            news, self._news = self._news, []
            for kept in news:
                if self.is_kept(kept):
                    if kept.durability is None:
                        self.write(kept)
                    if not (isinstance(kept, Branch) and kept.is_taken):
                        self.shelf.hold(kept, self)
        self.scribe.settle(self._next_id)
        if self._is_pin_due:
            self._is_pin_due = False
            # a quick snapshot keeps its state alone: it is always near, and would keep what is new from being kept
            self._pin(blocks_of(kept.line for kept in self.snapshots.values() if not kept.is_quick))
        self.shelf.settle()

    def is_kept(self, kept: Snapshot | Branch) -> bool:
        """Whether the world keeps it under its name: it was not dropped, nor made without one."""
        named = self.branches if isinstance(kept, Branch) else self.snapshots
        return named.get(kept.name) is kept

    def close(self) -> None:
        """Nobody uses it any more: hand over what is not written yet, and take its heads off the shelf."""
        self.settle()
        self.scribe.settle(self._next_id, is_last=True)
        for kept in (self.root, *self.snapshots.values(), *self.branches.values()):
            if kept is not None:
                self.shelf.release(kept)

    # ---- who uses it ----

    def head_id(self) -> str:
        """A name for one session's head, as the pager knows it: the first of a world bears the world's."""
        self._next_head += 1
        return self.world if self._next_head == 1 else f"{self.world}/{self._next_head}"

    def memory_gone(self, kept: KeptHead) -> tuple[int, int]:
        """Of the blocks that a kept head's ancestors left: how many no tier holds any more, and how many they were."""
        ids = kept.line.ids()
        return int(np.count_nonzero(self.gone.among(ids))), len(ids)
