"""The few file calls that the slab and the manifest make, behind a protocol. Owns no file and makes no choice.

Tests put slow, short-counting, failing and crashing disks behind the same protocol. Every call may raise OSError.
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol


class DiskIO(Protocol):
    """A file system. `read` and `write` may move fewer bytes than they were given, and say how many."""

    def open(self, path: Path, *, is_direct: bool, create: bool) -> int: ...

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def allocate(self, fd: int, num_bytes: int) -> None:
        """Make the file at least this long and reserve its space; new bytes read as zeros."""
        ...

    def read(self, fd: int, into: memoryview, offset: int) -> int: ...

    def write(self, fd: int, data: memoryview, offset: int) -> int: ...

    def sync(self, fd: int) -> None:
        """Return when the file's written data would survive a power cut."""
        ...

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        """Let go of the page cache behind a stretch of the file."""
        ...

    def exists(self, path: Path) -> bool: ...

    def rename(self, old: Path, new: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...

    def lock(self, folder: Path) -> int:
        """Take the folder for this process, or raise BlockingIOError. Closing the returned fd gives it back."""
        ...

    def free_bytes(self, folder: Path) -> int: ...


class RealDisk:
    """The operating system's calls, unchanged. They release the GIL."""

    def open(self, path: Path, *, is_direct: bool, create: bool) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_DIRECT if is_direct else 0) | (os.O_CREAT if create else 0)
        fd = os.open(path, flags, 0o600)
        if not is_direct:  # reading ahead would fill the page cache with neighbours that nobody asked for
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def allocate(self, fd: int, num_bytes: int) -> None:
        os.posix_fallocate(fd, 0, num_bytes)

    def read(self, fd: int, into: memoryview, offset: int) -> int:
        return os.preadv(fd, [into], offset)

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        return os.pwritev(fd, [data], offset)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def drop_cache(self, fd: int, offset: int, num_bytes: int) -> None:
        os.posix_fadvise(fd, offset, num_bytes, os.POSIX_FADV_DONTNEED)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, folder: Path) -> int:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def free_bytes(self, folder: Path) -> int:
        stat = os.statvfs(folder)
        return stat.f_bavail * stat.f_frsize


def read_fully(disk: DiskIO, fd: int, into: memoryview, offset: int) -> None:
    """Read until `into` is full. Raises OSError when the file ends before."""
    done = 0
    while done < len(into):
        count = disk.read(fd, into[done:], offset + done)
        if count <= 0:
            raise OSError(f"the file ended {len(into) - done} bytes early")
        done += count


def write_fully(disk: DiskIO, fd: int, data: memoryview, offset: int) -> None:
    """Write all of `data`: a disk that runs full takes a part and says so only on the next call."""
    done = 0
    while done < len(data):
        count = disk.write(fd, data[done:], offset + done)
        if count <= 0:
            raise OSError(f"the disk took no more, {len(data) - done} bytes short")
        done += count
