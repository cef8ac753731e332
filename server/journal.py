"""The journal: the thread that writes a world's moments and kept heads. Owns the log file; decides nothing.

The engine hands records over and never waits. A disk that is full or fails is a value, and `fault` says so in words:
moments and drops are kept and written later, up to a limit; a save is refused, leaves nothing behind, and is to be
asked for again. Order of a save: blocks, state file, sync, record, sync; of a drop: record, sync, its file goes. Saves
that wait together share the syncs.
"""

import errno
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import xxhash

from models.base import SavedState
from server.compress import compress
from server.moments import MAIN, Moment, moment_to_record
from server.record_log import RecordLog, sync_folder, write_aside, write_durably
from server.resting_files import RestingFiles
from server.saves import Job, Record, Save, exactness_record, head_record, in_turn
from server.states import state_bytes
from server.world_card import card_to_record
from server.worlds import OpenedWorld

MAX_UNWRITTEN = 20_000  # moments kept in memory while the disk refuses them: about half an hour of walking
BLOCKS_WAIT_S = 10.0
MAX_TOGETHER = 64  # saves that share their syncs

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

_log = logging.getLogger(__name__)


class Journal:
    """One world's writer. `fault` is empty while everything asked for is written."""

    def __init__(
        self,
        world: OpenedWorld,
        flush_blocks: Callable[[float], bool],
        exactness: Mapping[str, Any] | None = None,
    ) -> None:
        """`flush_blocks(timeout_s)` makes the committed blocks durable; it is called before a head is saved.

        `exactness` is the fingerprint of the moments to come; it is written unless the log ends with the same one.
        """
        self.fault = ""
        self.dropped_moments = 0
        self._folder = world.folder
        self._flush_blocks = flush_blocks
        self._log_file = RecordLog(world.folder / "moments.log", world.log_end)
        self._unwritten: deque[Record] = deque([card_to_record(world.card)] if world.log_end == 0 else [])
        if exactness is not None and (
            not world.log.exactness or dict(world.log.exactness[-1][1]) != exactness_record(exactness)
        ):
            self._unwritten.append(exactness_record(exactness))
        self._states = world.folder / "states"
        self._files = RestingFiles(self._states, world.log)
        self._is_suspect = False  # a sync failed: the pages it was to save may be gone
        self._dropped: list[tuple[str, str]] = []  # recorded, and the record is not durable yet
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"journal-{world.card.id[:6]}", daemon=True)
        self._thread.start()

    # ---- any thread; never waits ----

    def note(self, moment: Moment) -> None:
        """Write a moment soon."""
        if self._jobs.qsize() >= MAX_UNWRITTEN:
            self.dropped_moments += 1  # the disk hangs
        else:
            self._jobs.put(moment)

    def keep(self, save: Save) -> Future[bool]:
        """Save a head: True once it is durable, False when the disk refused."""
        self._jobs.put(save)
        return save.done

    def save(self, moment: int, state: SavedState) -> Future[bool]:
        """Save the head of the branch that a world begins with."""
        return self.keep(Save(moment, state, (head_record(MAIN, moment, moment + 1),)))

    def drop(self, what: str, name: str) -> None:
        """Write that a snapshot or a branch is there no more, and then let go of its file."""
        self._jobs.put({"kind": "dropped", "what": what, "name": name})

    def close(self, timeout_s: float = 20.0) -> None:
        """Write what was asked for, then stop."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    # ---- the journal's thread ----

    def _run(self) -> None:
        is_open = True
        while is_open:
            jobs = [self._jobs.get()]
            while not self._jobs.empty() and len(jobs) < MAX_TOGETHER:
                jobs.append(self._jobs.get())
            is_open = None not in jobs
            for first, saves in in_turn(job for job in jobs if job is not None):
                is_saved = False
                try:
                    is_saved = self._do(first, saves)
                except Exception as error:  # noqa: BLE001 - top of the thread: our own fault must not end the writing
                    _log.exception("journal fault of ours folder=%s", self._folder.name)
                    self.fault = f"the world could not be saved, by an error of the server: {error}"
                for save in saves:
                    save.done.set_result(is_saved)
        self._log_file.close()

    def _do(self, first: Sequence[Moment | Record], saves: Sequence[Save]) -> bool:
        """Write moments and records in order, then the saves; returns whether these are durable."""
        for job in first:
            self._keep(moment_to_record(job) if isinstance(job, Moment) else job)
        if not saves:
            return self._write() and self._forget()
        if self._save(saves):
            return True
        for record in (record for save in saves for record in save.records if record["kind"] == "branch"):
            self._keep(record)  # its heads are saved again later, and where it began is said only once
        return False

    def _keep(self, record: Record) -> None:
        if len(self._unwritten) >= MAX_UNWRITTEN:
            self.dropped_moments += 1
            return  # a gap would cut the line of ancestors: everything after it waits for room as well
        self._unwritten.append(record)

    def _write(self) -> bool:
        try:
            while self._unwritten:
                record = self._unwritten[0]
                self._log_file.append(record)
                self._unwritten.popleft()
                if record["kind"] == "dropped":
                    self._dropped.append((record["what"], record["name"]))
        except OSError as error:
            self._fail("the walk is not being saved", error)
            return False
        return True

    def _forget(self) -> bool:
        try:
            self._let_go_of_dropped()
        except OSError as error:
            self._fail("the walk is not being saved", error)
            return False
        return True

    def _save(self, saves: Sequence[Save]) -> bool:
        if not self._write() or self._has_gap():
            return False
        is_logged = False
        try:
            is_whole = self._flush(saves)
            self._mend()
            self._let_go_of_dropped()
            self._write_files(saves)
            named = [(save, self._with_file(record, save)) for save in saves for record in save.records]
            self._sync()
            self._log_file.append(*(record for _, record in named))
            is_logged = True
            self._sync()
            for save, record in named:
                if "state" in record:
                    save.at_rest(self._files.refer(record))
        except OSError as error:
            self._files.refused([save.moment for save in saves], is_logged=is_logged)
            self._fail("the world could not be saved", error)
            return False
        self.fault = ""
        return is_whole

    def _has_gap(self) -> bool:
        """Whether moments were dropped: nothing after them may be saved, since its line of ancestors is cut."""
        if self.dropped_moments:
            self.fault = (
                f"the disk of the worlds folder kept nothing for so long that {self.dropped_moments} chunks are lost "
                "and this walk cannot be saved any more. Leave the world and enter it again: it goes on where it was "
                "saved last."
            )
        return self.dropped_moments > 0

    def _flush(self, saves: Sequence[Save]) -> bool:
        """Whether the blocks are durable. If not, heads are saved all the same: a walk without some blocks goes on."""
        began_s = time.monotonic()
        is_flushed = self._flush_blocks(BLOCKS_WAIT_S)
        if not is_flushed:
            _log.warning("blocks not durable before a save folder=%s moment=%d", self._folder.name, saves[-1].moment)
        # a block that never will be written is lost, and counted so; one that only is late makes the save worth asking
        # for again
        return is_flushed or time.monotonic() - began_s < BLOCKS_WAIT_S

    def _mend(self) -> None:
        """Write the log anew when a sync of it failed."""
        if self._is_suspect:
            self._log_file.renew()
            self._is_suspect = False

    def _let_go_of_dropped(self) -> None:
        """The files go of what the log says is dropped, once that is durable."""
        if self._dropped:
            self._sync()
        while self._dropped:
            self._files.drop(*self._dropped.pop(0))

    def _write_files(self, saves: Sequence[Save]) -> None:
        """Write each head's file, unless this process has; one sync of the folder serves all of them."""
        fresh: dict[int, tuple[Path, Record]] = {}
        for save in saves:
            if save.moment not in fresh and not self._files.written(save.moment):
                data = state_bytes(save.state, save.frame, save.recalled)
                name = f"{save.moment}.safetensors"
                file = {"state": name, "bytes": len(data), "hash": xxhash.xxh3_128_digest(data)}
                fresh[save.moment] = (write_aside(self._states / name, data), file)
        for moment, (aside, file) in fresh.items():
            aside.replace(self._states / file["state"])
            self._files.note_written(moment, file)
        if fresh:
            sync_folder(self._states)

    def _with_file(self, record: Record, save: Save) -> Record:
        if record["kind"] == "branch":
            return record
        named = record | self._files.written(save.moment)
        return named if record["kind"] == "head" else named | {"thumbnail": self._thumbnail(save)}

    def _thumbnail(self, save: Save) -> str:
        if save.frame is None:
            return ""
        name = f"{save.moment}.jpg"
        if self._files.has_picture(name):
            return name
        (self._folder / "thumbnails").mkdir(exist_ok=True)
        write_durably(self._folder / "thumbnails" / name, compress(save.frame.pixels, "jpeg"))
        return name

    def _sync(self) -> None:
        self._is_suspect = True
        self._log_file.sync()
        self._is_suspect = False

    def _fail(self, what: str, error: OSError) -> None:
        todo = "Free space on" if error.errno in _NO_SPACE else "Check"
        text = f"{what}: {error.strerror or error}. {todo} the disk of the worlds folder; it is tried again."
        if text != self.fault:
            _log.error("journal fault folder=%s error=%s", self._folder.name, error)
        self.fault = text
