"""The journal: the thread that writes a world's moments and saved states. Owns the log file; decides nothing.

The engine hands records over and never waits. A disk that is full or fails is a value: what could not be written is
kept and tried again, up to a limit, and `fault` says so in words. Order of a save: blocks, state file, record, sync.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from models.base import SavedState
from server.record_log import RecordLog, write_durably
from server.timeline import Moment, moment_to_record
from server.worlds import STATES_KEPT, OpenedWorld, card_to_record, state_bytes

MAX_UNWRITTEN = 20_000  # moments kept in memory while the disk refuses them: about half an hour of walking
BLOCKS_WAIT_S = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Save:
    moment: int
    state: SavedState
    done: Future[bool]


class Journal:
    """One world's writer. `fault` is empty while everything asked for is written."""

    def __init__(self, world: OpenedWorld, flush_blocks: Callable[[float], bool]) -> None:
        """`flush_blocks(timeout_s)` makes the committed blocks durable; it is called before a state is saved."""
        self.fault = ""
        self.dropped_moments = 0
        self._folder = world.folder
        self._flush_blocks = flush_blocks
        self._log_file = RecordLog(world.folder / "moments.log", world.log_end)
        self._unwritten: deque[dict[str, Any]] = deque([card_to_record(world.card)] if world.log_end == 0 else [])
        self._is_suspect = False  # a sync failed: the pages it was to save may be gone
        self._jobs: queue.SimpleQueue[Moment | _Save | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"journal-{world.card.id[:6]}", daemon=True)
        self._thread.start()

    def note(self, moment: Moment) -> None:
        """Write a moment soon. Any thread; never waits."""
        if self._jobs.qsize() >= MAX_UNWRITTEN:
            self.dropped_moments += 1  # the disk hangs
        else:
            self._jobs.put(moment)

    def save(self, moment: int, state: SavedState) -> Future[bool]:
        """Save the head: True once it is durable, False when the disk refused. Any thread; never waits."""
        done: Future[bool] = Future()
        self._jobs.put(_Save(moment, state, done))
        return done

    def close(self, timeout_s: float = 20.0) -> None:
        """Write what was asked for, then stop."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, Moment):
                self._keep(moment_to_record(job))
                self._write()
            else:
                job.done.set_result(self._save(job))
        self._write()
        self._log_file.close()

    def _keep(self, record: dict[str, Any]) -> None:
        if len(self._unwritten) >= MAX_UNWRITTEN:
            self.dropped_moments += 1
            return  # a gap would cut the line of ancestors: everything after it waits for room as well
        self._unwritten.append(record)

    def _write(self) -> bool:
        try:
            while self._unwritten:
                self._log_file.append(self._unwritten[0])
                self._unwritten.popleft()
        except OSError as error:
            self._fail("the walk is not being saved", error)
            return False
        return True

    def _save(self, job: _Save) -> bool:
        if not self._write() or self.dropped_moments:
            return False
        try:
            if not self._flush_blocks(BLOCKS_WAIT_S):
                _log.warning("blocks not durable before a save folder=%s moment=%d", self._folder.name, job.moment)
            if self._is_suspect:
                self._log_file.renew()
                self._is_suspect = False
            data = state_bytes(job.state)
            name = f"{job.moment}.safetensors"
            write_durably(self._folder / "states" / name, data)
            record = {"kind": "head", "moment": job.moment, "state": name, "bytes": len(data)}
            self._sync()
            self._log_file.append(record | {"hash": xxhash.xxh3_128_digest(data)})
            self._sync()
            self._drop_old_states()
        except OSError as error:
            self._fail("the world could not be saved", error)
            return False
        self.fault = ""
        return True

    def _sync(self) -> None:
        self._is_suspect = True
        self._log_file.sync()
        self._is_suspect = False

    def _drop_old_states(self) -> None:
        files = sorted((self._folder / "states").glob("*.safetensors"), key=_moment_of)
        for path in files[:-STATES_KEPT]:
            path.unlink(missing_ok=True)

    def _fail(self, what: str, error: OSError) -> None:
        text = f"{what}: {error.strerror or error}. Free space on the disk of the worlds folder."
        if text != self.fault:
            _log.error("journal fault folder=%s error=%s", self._folder.name, error)
        self.fault = text


def _moment_of(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else -1
