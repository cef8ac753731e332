"""`python -m bench io`: the slab against fio in the same minute, on blocks of Matrix-Game 2.0, beside file formats.

Each round measures fio, the slab, fio again and the formats. The slab is compared with the mean of the two runs of fio
around it, because a disk that rations its bandwidth gives more to whoever comes first; the median of the rounds is
reported. The slab's figures are those of the product: two readers that check every byte, one writer whose group is
data, sync, record, sync. At last, whether memory grows with the number of blocks.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

from bench.codec import MATRIX_GAME_2
from bench.io_flat import walk_flat
from bench.io_formats import Format, forget_cached, formats
from bench.report import command_line, write_report
from models.base import Array
from server.pager.header import Identity, block_fingerprint, seal
from server.pager.layout import SlotLayout
from server.pager.move.arena import Arena
from server.pager.move.disk import RealDisk
from server.pager.move.recover import SlabOpener
from server.pager.move.slab import Slab, SlotWrite, slot_at
from server.pager.move.workers import NUM_READERS

INSTALL_FIO = "fio is not installed. On Debian or Ubuntu: sudo apt-get install fio; on Fedora: sudo dnf install fio."
CHUNK_S = 1.2  # three reads and one write in each
NUM_CHUNKS = 8
Speeds = dict[str, list[float]]


class Field:
    """A folder with a slab and the blocks to write: `num_blocks` of them in memory, sealed."""

    def __init__(self, folder: Path, num_blocks: int) -> None:
        self.folder = folder
        self.layout = SlotLayout(MATRIX_GAME_2)
        self.num_blocks = num_blocks
        marks = block_fingerprint("bench", self.layout)
        self._opener = SlabOpener(RealDisk(), self.layout, marks, slot_at(self.layout, 2 * num_blocks))
        opened = self._opener.open(folder)
        self.slab: Slab = opened.slab
        self._lock_fd = opened.lock_fd
        self.blocks, self.room = Arena(self.layout, num_blocks), Arena(self.layout, num_blocks)
        numbers = np.random.default_rng(0)
        for index in range(num_blocks):
            self.blocks.array(index)[:] = numbers.integers(0, 256, self.layout.slot_bytes, dtype=np.uint8)
            seal(self.blocks.view(index), self.layout, Identity(marks, self.slab.store_id, index, index + 1))
        self._readers = ThreadPoolExecutor(NUM_READERS)

    @property
    def num_bytes(self) -> int:
        return self.num_blocks * self.layout.moved_bytes

    def block(self, index: int) -> Array:
        return self.blocks.array(index)[: self.layout.moved_bytes]

    def write(self, indices: Sequence[int]) -> None:
        size = self.layout.moved_bytes
        items = [SlotWrite(index, index, index + 1, self.blocks.view(index)[:size]) for index in indices]
        faults = [written.error for written in self.slab.write(items) if written.error]
        if faults:
            raise OSError(faults[0])

    def read(self, indices: Sequence[int]) -> None:
        def one(index: int) -> None:
            into = self.room.view(index)[: self.layout.moved_bytes]
            if fault := self.slab.read(index, index, index + 1, into, lambda: False):
                raise OSError(fault.error)

        list(self._readers.map(one, indices))

    def close(self) -> None:
        self._readers.shutdown()
        self.slab.close()
        RealDisk().close(self._lock_fd)


def fio_gbps(folder: Path, num_bytes: int, way: str) -> tuple[float, str]:
    """Speed of `way` (read or write) by fio, and the line that was run."""
    size = f"{num_bytes // (4 << 20) * 4}m"
    line = (
        f"fio --name=limit --filename={folder / 'fio.file'} --rw={way} --size={size} --ioengine=libaio --direct=1 "
        "--bs=4m --iodepth=8 --end_fsync=1 --output-format=json"
    )
    done = subprocess.run(line.split(), capture_output=True, text=True, check=True)  # noqa: S603  # our own line
    job = json.loads(done.stdout)["jobs"][0][way]
    return job["io_bytes"] / (job["runtime"] / 1e3) / 1e9, line


def timed_gbps(num_bytes: int, work: Callable[[], object]) -> float:
    """Speed of some work that moves so many bytes."""
    begin_s = time.perf_counter()
    work()
    return num_bytes / (time.perf_counter() - begin_s) / 1e9


def beside_fio(field: Field, way: str, work: Callable[[], object], speeds: Speeds) -> str:
    """Measure `work` between two runs of fio; returns fio's line."""
    before, line = fio_gbps(field.folder, field.num_bytes, way)
    ours = timed_gbps(field.num_bytes, work)
    after, _ = fio_gbps(field.folder, field.num_bytes, way)
    speeds.setdefault(f"fio {way}", []).append((before + after) / 2)
    speeds.setdefault(f"slab {way}", []).append(ours)
    return line


def run_round(field: Field, others: Sequence[Format], speeds: Speeds) -> str:
    """One round: every method writes all blocks, then every method reads them. Returns fio's line."""
    everything = range(field.num_blocks)
    into = field.room.array(0)[: field.layout.moved_bytes]

    def paths(other: Format) -> list[Path]:
        return [field.folder / f"{other.name}-{index}" for index in everything]

    def write(other: Format) -> None:
        for index, path in enumerate(paths(other)):
            other.write(path, field.block(index))

    def read(other: Format) -> None:
        for path in paths(other):
            other.read(path, into)

    def note(other: Format, way: str, work: Callable[[], object]) -> None:
        speeds.setdefault(f"{other.name} {way}", []).append(timed_gbps(field.num_bytes, work))

    beside_fio(field, "write", lambda: field.write(everything), speeds)
    for other in others:
        note(other, "write", lambda o=other: write(o))
    line = beside_fio(field, "read", lambda: field.read(everything), speeds)
    for other in others:
        for path in paths(other):
            forget_cached(path)
        note(other, "read", lambda o=other: read(o))
    return line


def cpu_share(field: Field) -> float:
    """Share of one core that three checked reads and one hashed, durable write take, every 1.2 seconds."""
    begin_s, begin_cpu_s = time.monotonic(), time.process_time()
    for chunk in range(NUM_CHUNKS):
        index = chunk % field.num_blocks
        slot = field.blocks.view(index)
        seal(slot, field.layout, Identity(field.slab.fingerprint, field.slab.store_id, index, index + 1))
        field.write([index])
        field.read([(index + step) % field.num_blocks for step in range(3)])
        time.sleep(max(0.0, begin_s + (chunk + 1) * CHUNK_S - time.monotonic()))
    return (time.process_time() - begin_cpu_s) / (time.monotonic() - begin_s)


def summary(speeds: Speeds, others: Sequence[Format]) -> dict[str, object]:
    """Medians of the rounds; ratios are taken within a round."""

    def over_fio(name: str, way: str) -> float:
        pairs = zip(speeds[f"{name} {way}"], speeds[f"fio {way}"], strict=True)
        return round(median(one / limit for one, limit in pairs), 3)

    return {
        "fio_read_gbps": round(median(speeds["fio read"]), 3),
        "fio_write_gbps": round(median(speeds["fio write"]), 3),
        "slab_read_over_fio": over_fio("slab", "read"),
        "slab_write_over_fio": over_fio("slab", "write"),
        "others": {
            each.name: {
                "read": over_fio(each.name, "read"),
                "write": over_fio(each.name, "write"),
                "read_gbps": round(median(speeds[f"{each.name} read"]), 3),
                "write_gbps": round(median(speeds[f"{each.name} write"]), 3),
            }
            for each in others
        },
    }


def flat_figures(folder: Path, num_blocks: int) -> dict[str, object]:
    """Whether memory stays flat, on this disk as it is and as it would be without direct IO."""
    figures = walk_flat(folder / "as-it-is", num_blocks, refuses_direct=False)
    without = walk_flat(folder / "without", num_blocks, refuses_direct=True)
    slopes = {key: figures[key] for key in ("rss_slope_bytes_per_block", "page_cache_slope_bytes_per_block")}
    return {**slopes, "flat": {"as_it_is": figures, "without_direct_io": without}}


def main(argv: Sequence[str]) -> int:
    """Measure and print. Exit 2 without fio."""
    parser = argparse.ArgumentParser(prog="python -m bench io", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on the file system to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=3, help="129 MB each, in each round")
    parser.add_argument("--flat-blocks", type=int, default=10_000, help="130 kB each, walked twice; 0 leaves it out")
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(argv)
    if shutil.which("fio") is None:
        print(INSTALL_FIO)
        return 2
    speeds: Speeds = {}
    others = formats()
    with tempfile.TemporaryDirectory(prefix="bench-io-", dir=options.folder) as name:
        field = Field(Path(name), options.blocks)
        try:
            lines = [run_round(field, others, speeds) for _ in range(options.rounds)]
            share = cpu_share(field)
            is_direct = field.slab.is_direct
        finally:
            field.close()
        flat = flat_figures(Path(name), options.flat_blocks) if options.flat_blocks else {}
    figures: dict[str, object] = {
        "fio_line": lines[-1],
        **summary(speeds, others),
        "cpu_share": round(share, 4),
        "direct_io": is_direct,
        **flat,
        "rounds": {way: [round(gbps, 3) for gbps in each] for way, each in speeds.items()},
    }
    write_report(options.path, command_line(), figures)
    for key, value in figures.items():
        print(f"{key:32} {value}")
    return 0
