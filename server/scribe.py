"""The scribe: makes a world's kept heads durable, and tries again what the disk refused. Waits for nothing.

Engine thread, except what is said to run on the journal's.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from models.base import WorldModel
from server.head import Branch, KeptHead, Snapshot
from server.journal import Journal
from server.moments import MAIN
from server.saves import Record, Save, branch_record, head_record, snapshot_record
from server.world_log import Kept

RETRY_S = 5.0  # between two attempts to write what the disk refused
TOGETHER = 8  # that are written again at once when it takes them


class Scribe:
    """Writes snapshots and branches of one world through its journal."""

    def __init__(self, journal: Journal, model: WorldModel, is_kept: Callable[[Snapshot | Branch], bool]) -> None:
        """`is_kept` says whether the world still keeps it: what was dropped meanwhile is not written again."""
        self.recorded: set[str] = {MAIN}  # branches that the log names
        self._journal = journal
        self._model = model
        self._is_kept = is_kept
        self._refused: deque[Snapshot | Branch] = deque()  # the journal's thread appends
        self._retry_s = 0.0
        self._watchers: dict[Snapshot, Callable[[bool], None]] = {}

    def write(self, kept: KeptHead, next_id: int) -> Future[bool]:
        """Begin to make it durable. `next_id`: of the moment to come in its world."""
        assert isinstance(kept, Snapshot | Branch), "a head of the rewind ring is not written"
        head = kept.head
        assert head is not None, "what is not in RAM is at rest"

        def at_rest(rest: Kept) -> None:
            if kept.moment == rest.moment:
                kept.rest = rest

        records = self._records(kept, next_id)
        save = Save(head.moment, self._model.dump(head.state), records, head.frame, head.block_ids, at_rest)
        kept.durability = writing = self._journal.keep(save)
        writing.add_done_callback(lambda done: self._attempted(kept, is_durable=done.result()))
        return writing

    def watch(self, snapshot: Snapshot, told: Callable[[bool], None]) -> None:
        """Each attempt to write it is told, and whether it is durable now, until it is. On the journal's thread."""
        self._watchers[snapshot] = told

    def unwatch(self, snapshot: Snapshot) -> None:
        self._watchers.pop(snapshot, None)

    def settle(self, next_id: int, *, is_last: bool = False) -> None:
        """Write again what was refused: one now and then, which shows whether the disk takes it; then all, bit by bit.

        `is_last`: the world is being closed, and each gets one more chance.
        """
        if not self._refused:
            return
        num = len(self._refused)
        if not is_last and self._journal.fault:
            if time.monotonic() < self._retry_s:
                return
            self._retry_s = time.monotonic() + RETRY_S
            num = 1
        for _ in range(num if is_last else min(num, TOGETHER)):
            self._write_again(self._refused.popleft(), next_id)

    def _write_again(self, kept: Snapshot | Branch, next_id: int) -> None:
        writing = kept.durability
        is_refused = writing is not None and writing.done() and not writing.result()
        if is_refused and kept.head is not None and self._is_kept(kept):
            self.write(kept, next_id)

    def _attempted(self, kept: Snapshot | Branch, *, is_durable: bool) -> None:
        """On the journal's thread."""
        if not is_durable:
            self._refused.append(kept)
        if isinstance(kept, Snapshot) and (told := self._watchers.get(kept)) is not None:
            told(is_durable)
            if is_durable:
                self._watchers.pop(kept, None)

    def _records(self, kept: Snapshot | Branch, next_id: int) -> tuple[Record, ...]:
        if isinstance(kept, Snapshot):
            return (snapshot_record(kept.name, kept.moment, kept.created_s),)
        head = head_record(kept.name, kept.moment, next_id, kept.resume_hash)
        if kept.name in self.recorded:
            return (head,)
        self.recorded.add(kept.name)
        return (branch_record(kept.name, kept.start, kept.created_s), head)
