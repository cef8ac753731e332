"""A disk around another one that misbehaves on purpose: slow, short-counting, failing, full. For tests and benches."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from server.pager.move.disk import DiskIO


@dataclass(slots=True)
class Trouble:
    """What is wrong now. May be changed while the disk is in use; `errors` hold errnos for the calls to come."""

    read_s: float = 0.0  # added to each read
    write_s: float = 0.0  # added to each write
    read_bytes_per_s: float = 0.0  # 0: as fast as the disk below
    max_bytes: int = 0  # the most that one call moves; 0: all
    is_stalled: bool = False  # calls hang until it is lifted
    num_hanging: int = 0  # calls that hang now
    refuses_direct: bool = False  # accepts it when opening and refuses the first call
    read_errors: deque[int] = field(default_factory=deque[int])  # 0: this call succeeds
    write_errors: deque[int] = field(default_factory=deque[int])
    sync_errors: deque[int] = field(default_factory=deque[int])


class BadDisk:
    """Passes each call on to `below`, after its trouble."""

    def __init__(self, below: DiskIO) -> None:
        self._below = below
        self._direct: set[int] = set()
        self._throttle = threading.Lock()
        self._counting = threading.Lock()
        self.trouble = Trouble()

    def open(self, path: Path, *, is_direct: bool, create: bool) -> int:
        fd = self._below.open(path, is_direct=is_direct and not self.trouble.refuses_direct, create=create)
        if is_direct:
            self._direct.add(fd)
        return fd

    def read(self, fd: int, into: memoryview, offset: int) -> int:
        self._suffer(fd, self.trouble.read_s, self.trouble.read_errors)
        if self.trouble.read_bytes_per_s:
            with self._throttle:  # the readers share one bandwidth
                time.sleep(len(into) / self.trouble.read_bytes_per_s)
        return self._below.read(fd, into[: self.trouble.max_bytes or None], offset)

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        self._suffer(fd, self.trouble.write_s, self.trouble.write_errors)
        return self._below.write(fd, data[: self.trouble.max_bytes or None], offset)

    def sync(self, fd: int) -> None:
        self._suffer(fd, 0.0, self.trouble.sync_errors)
        self._below.sync(fd)

    def close(self, fd: int) -> None:
        self._direct.discard(fd)
        self._below.close(fd)

    def size(self, fd: int) -> int:
        return self._below.size(fd)

    def allocate(self, fd: int, num_bytes: int) -> None:
        self._below.allocate(fd, num_bytes)

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        self._below.drop_cache(fd, offset, num_bytes)

    def exists(self, path: Path) -> bool:
        return self._below.exists(path)

    def rename(self, old: Path, new: Path) -> None:
        self._below.rename(old, new)

    def unlink(self, path: Path) -> None:
        self._below.unlink(path)

    def sync_folder(self, folder: Path) -> None:
        self._below.sync_folder(folder)

    def lock(self, folder: Path) -> int:
        return self._below.lock(folder)

    def free_bytes(self, folder: Path) -> int:
        return self._below.free_bytes(folder)

    def _suffer(self, fd: int, delay_s: float, errors: deque[int]) -> None:
        if self.trouble.is_stalled:
            self._hang()
        if delay_s:
            time.sleep(delay_s)
        if errors and (code := errors.popleft()):
            raise OSError(code, "made to fail")
        if self.trouble.refuses_direct and fd in self._direct:
            raise OSError(22, "direct IO refused")

    def _hang(self) -> None:
        with self._counting:
            self.trouble.num_hanging += 1
        while self.trouble.is_stalled:
            time.sleep(0.002)
        with self._counting:
            self.trouble.num_hanging -= 1
