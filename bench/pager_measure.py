"""Percentiles, slopes, and this process's memory and page cache. Reads /proc; owns no figure."""

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
WARM_UP_SHARE = 0.25  # of a run, whose memory still grows to its size
_LIBC = ctypes.CDLL(None, use_errno=True)


def rss_bytes() -> int:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES


def cached_bytes(folder: Path) -> int:
    """What the page cache holds of the files in a folder."""
    return sum(_cached_in(path) for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def _cached_in(path: Path) -> int:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        view = np.frombuffer(mapped, dtype=np.uint8)
        pages = np.zeros(-(-len(mapped) // PAGE_BYTES), dtype=np.uint8)
        failed = _LIBC.mincore(
            ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(mapped)), ctypes.c_void_p(pages.ctypes.data)
        )
        del view  # or the mapping could not be closed
        if failed:
            raise OSError(ctypes.get_errno(), f"mincore of {path}")
        return int((pages & 1).sum()) * PAGE_BYTES


def slope(samples: Sequence[tuple[int, int]]) -> float:
    """Median rate of change per chunk over (chunk, bytes) pairs, the warm-up left out. One outlier moves nothing."""
    kept = samples[int(len(samples) * WARM_UP_SHARE) :]
    if len(kept) < 4:
        return 0.0
    half = len(kept) // 2
    pairs = zip(kept[:half], kept[len(kept) - half :], strict=True)
    return float(median((late[1] - early[1]) / (late[0] - early[0]) for early, late in pairs))


def percentile(values: Sequence[float], percent: float) -> float:
    """0 of nothing."""
    return float(np.percentile(values, percent)) if len(values) else 0.0
