"""A disk in memory that can lose its power: every image that a crash may leave can be built. For tests.

What was written and not synced may be there or not, page by page and independently; a page may hold any of the
versions written since the last sync, or be torn between two of them at a sector. New files, names and sizes become
certain in the order in which they were made, at the latest when the folder (or the file) is synced.
"""

import errno
import random
from dataclasses import dataclass, field
from pathlib import Path

from server.pager.layout import PAGE_BYTES

SECTOR_BYTES = 512


class PowerCut(Exception):  # noqa: N818  # an event, not an error of anyone
    """The power failed in this call. Nobody but the test may catch it."""


@dataclass(slots=True, eq=False)
class RamFile:
    """`now` is what a reader sees, `synced` what is certain; `unsynced` holds each page's versions since."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    unsynced: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])

    def after_crash(self, chance: random.Random) -> "RamFile":
        """One of the contents that a crash may leave."""
        size = len(chance.choice((self.synced, self.now)))
        data = self.synced.ljust(len(self.now), b"\0")
        for page, versions in self.unsynced.items():
            at = page * PAGE_BYTES
            old, new = chance.choices([bytes(data[at : at + PAGE_BYTES]), *versions], k=2)
            cut = chance.choice((0, 0, PAGE_BYTES, SECTOR_BYTES * chance.randrange(PAGE_BYTES // SECTOR_BYTES)))
            data[at : at + PAGE_BYTES] = new[:cut] + old[cut:]
        data = data[:size].ljust(size, b"\0")
        return RamFile(bytearray(data), bytearray(data))


class RamDisk:
    """Files by path. `fuse` calls from now (None: never) the power fails, in the middle of a write if it is one."""

    def __init__(self, *, capacity_bytes: int = 1 << 40) -> None:
        self.names: dict[Path, RamFile] = {}
        self.fuse: int | None = None
        self.num_calls = 0
        self._capacity_bytes = capacity_bytes
        self._histories: list[dict[Path, RamFile]] = [{}]  # the names after each change since the folder's last sync
        self._open: dict[int, tuple[RamFile, bool]] = {}
        self._locked: dict[Path, int] = {}
        self._next_fd = 3

    def after_crash(self, chance: random.Random) -> "RamDisk":
        """A disk as the machine may find it when it has power again."""
        disk = RamDisk(capacity_bytes=self._capacity_bytes)
        disk.names = {path: file.after_crash(chance) for path, file in chance.choice(self._histories).items()}
        disk._histories = [dict(disk.names)]
        return disk

    def open(self, path: Path, *, is_direct: bool, create: bool) -> int:
        self._burn()
        if path not in self.names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self._rename_to({**self.names, path: RamFile()})
        return self._new_fd(self.names[path], is_direct=is_direct)

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        self._locked = {folder: lock for folder, lock in self._locked.items() if lock != fd}

    def size(self, fd: int) -> int:
        return len(self._open[fd][0].now)

    def allocate(self, fd: int, num_bytes: int) -> None:
        self._burn()
        file, _ = self._open[fd]
        others = sum(len(each.now) for each in self.names.values() if each is not file)
        if others + num_bytes > self._capacity_bytes:
            raise OSError(errno.ENOSPC, "no space left on device")
        file.now.extend(bytes(max(0, num_bytes - len(file.now))))

    def read(self, fd: int, into: memoryview, offset: int) -> int:
        file, is_direct = self._open[fd]
        _check_alignment(is_direct, offset, len(into))
        data = file.now[offset : offset + len(into)]
        into[: len(data)] = data
        return len(data)

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        file, is_direct = self._open[fd]
        _check_alignment(is_direct, offset, len(data))
        try:
            self._burn()
        except PowerCut:
            _write(file, bytes(data[: len(data) // 2]), offset)
            raise
        _write(file, bytes(data), offset)
        return len(data)

    def sync(self, fd: int) -> None:
        self._burn()
        file, _ = self._open[fd]
        file.synced[:] = file.now
        file.unsynced.clear()

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        pass

    def exists(self, path: Path) -> bool:
        return path in self.names

    def rename(self, old: Path, new: Path) -> None:
        self._burn()
        names = dict(self.names)
        names[new] = names.pop(old)
        self._rename_to(names)

    def unlink(self, path: Path) -> None:
        self._burn()
        self._rename_to({name: file for name, file in self.names.items() if name != path})

    def sync_folder(self, folder: Path) -> None:
        self._burn()
        self._histories = [dict(self.names)]

    def lock(self, folder: Path) -> int:
        if folder in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        self._locked[folder] = self._new_fd(RamFile(), is_direct=False)
        return self._locked[folder]

    def free_bytes(self, folder: Path) -> int:
        return self._capacity_bytes - sum(len(file.now) for file in self.names.values())

    def _burn(self) -> None:
        self.num_calls += 1
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise PowerCut

    def _rename_to(self, names: dict[Path, RamFile]) -> None:
        self.names = names
        self._histories.append(dict(names))

    def _new_fd(self, file: RamFile, *, is_direct: bool) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = (file, is_direct)
        return self._next_fd


def _check_alignment(is_direct: bool, offset: int, length: int) -> None:  # noqa: FBT001  # two facts of one call
    if is_direct and (offset % PAGE_BYTES or length % PAGE_BYTES):
        raise OSError(errno.EINVAL, "direct IO needs whole pages")


def _write(file: RamFile, data: bytes, offset: int) -> None:
    end = offset + len(data)
    file.now.extend(bytes(max(0, end - len(file.now))))
    file.now[offset:end] = data
    for page in range(offset // PAGE_BYTES, -(-end // PAGE_BYTES)):
        version = bytes(file.now[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]).ljust(PAGE_BYTES, b"\0")
        file.unsynced.setdefault(page, []).append(version)
