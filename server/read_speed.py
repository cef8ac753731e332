"""How fast a folder's disk reads blocks: a short measurement on a temporary file of its own. Any thread; blocks."""

import mmap
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from server.pager.move.disk import RealDisk, read_fully, write_fully
from server.pager.move.workers import NUM_READERS

MEASURED_BYTES = 256 << 20
MAX_READ_BYTES = 32 << 20
MAX_READS = 500  # of small blocks
PAGE_BYTES = 4096
_ROUNDS = 3  # the median counts: the first one may find the disk still writing


@dataclass(frozen=True, slots=True)
class ReadSpeed:
    """What was measured. Without direct I/O the figure may be that of the page cache, and says little."""

    gbps: float
    is_direct: bool


def existing_folder(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def measure_read_speed(folder: Path, block_bytes: int, num_bytes: int = MEASURED_BYTES) -> ReadSpeed:
    """Write a file below `folder`, read it as the pager does (blocks, two at a time, past the page cache), remove it.

    Raises OSError when the folder cannot be written to, or is full.
    """
    disk = RealDisk()
    size = min(max(PAGE_BYTES, block_bytes // PAGE_BYTES * PAGE_BYTES), MAX_READ_BYTES)
    count = min(MAX_READS, max(NUM_READERS, num_bytes // size))
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=folder) as temporary:
        fd, is_direct = _open(disk, Path(temporary) / "blocks")
        try:
            with mmap.mmap(-1, size) as buffer:  # page-aligned, as direct I/O wants it
                buffer[:] = os.urandom(PAGE_BYTES) * (size // PAGE_BYTES)
                with memoryview(buffer) as data:
                    for index in range(count):
                        write_fully(disk, fd, data, index * size)
            disk.sync(fd)
            rates = sorted(_read_gbps(disk, fd, size, count) for _ in range(_ROUNDS))
            return ReadSpeed(rates[_ROUNDS // 2], is_direct)
        finally:
            disk.close(fd)


def _open(disk: RealDisk, path: Path) -> tuple[int, bool]:
    try:
        return disk.open(path, is_direct=True, create=True), True
    except OSError:  # a filesystem without direct I/O, such as tmpfs
        return disk.open(path, is_direct=False, create=True), False


def _read_gbps(disk: RealDisk, fd: int, size: int, count: int) -> float:
    disk.drop_cache(fd, 0, size * count)

    def read_every(first: int) -> None:
        with mmap.mmap(-1, size) as buffer, memoryview(buffer) as into:
            for index in range(first, count, NUM_READERS):
                read_fully(disk, fd, into, index * size)

    with ThreadPoolExecutor(NUM_READERS) as readers:
        began_s = time.perf_counter()
        list(readers.map(read_every, range(NUM_READERS)))
        return size * count / (time.perf_counter() - began_s) / 1e9
