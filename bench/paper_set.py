"""The set of `python -m bench paper`: which commands are run for which claim, and about how long. Pure.

Entries are named, and a name's file in the cache counts for as long as the entry's command stays the same. The order is
that of running: first what everything else leans on, last the points of the throttle sweep.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GB = 1_000_000_000
RATES_GBPS = (1.0, 0.5, 0.25, 0.15, 0.1)
TAIL_RATES_GBPS = (0.25, 0.15, 0.1)  # around and below the critical one
SWEEP_POLICIES = ("live", "on-demand", "recompute", "wait")
TAIL_POLICIES = ("on-demand", "wait")
SWEEP_CHUNKS = 60
ROOMS_TRACES = ("rooms-out-and-back", "rooms-random", "rooms-square", "rooms-figure-8")
PAPER_GPU, PAPER_DRAM = "10.22GB", "29.25GB"  # facts.md derives them: 21 and 60 bf16 blocks
RECOMPUTE_MS = 585.5  # the paper's, of one block on its GPU
SLAB_SPARE_BYTES = 2 * GB  # logs, states, and air


@dataclass(frozen=True, slots=True)
class Entry:
    """One command of the set. `arguments` follow `python -m`, without the flag that names the JSON."""

    name: str
    arguments: tuple[str, ...]
    seconds: float
    disk_bytes: int = 0
    prints_json: bool = False  # to stdout; the others take --json PATH

    @property
    def command(self) -> str:
        """The command as a reader would type it."""
        return " ".join(("python -m", *self.arguments))


def pager(name: str, seconds: float, *flags: object, nvme: str = "10GB", is_fast: bool = False) -> Entry:
    """A run of `bench pager`."""
    words = ("bench", "pager", *(str(flag) for flag in flags), "--nvme", nvme, *(("--fast",) if is_fast else ()))
    disk_bytes = 0 if is_fast else round(float(nvme.removesuffix("GB")) * GB) + SLAB_SPARE_BYTES
    return Entry(name, words, seconds, disk_bytes)


def sweep_name(trace: str, policy: str, rate: float) -> str:
    """The name of one point of the throttle sweep."""
    return f"throttle-{trace}-{policy}-{rate:g}"


def sweep(trace: str, policy: str, rates: Sequence[float]) -> list[Entry]:
    """Reads throttled from fast to slow. GPU and DRAM are as small as can be walked with, so that recalls are read."""
    flags = ("--trace", trace, "--chunks", SWEEP_CHUNKS, "--policy", policy, "--gpu", "2.4GB", "--dram", "0.7GB")
    waits_s = 0.0 if policy == "live" else 40.0
    return [
        pager(sweep_name(trace, policy, rate), 80.0 + waits_s * 0.1 / rate, *flags, "--read-gbps", f"{rate:g}")
        for rate in rates
    ]


def forced(name: str, policy: str, *, chunks: int = SWEEP_CHUNKS, more: Sequence[object] = ()) -> Entry:
    """A run in which every recall has to come from NVME."""
    flags = ("--trace", "a_yaw", "--chunks", chunks, "--policy", policy, "--recall-from", "nvme")
    return pager(name, 1.5 * chunks + 15.0, *flags, *more)


BF16 = ("--codec", "bf16", "--gpu", "5GB", "--dram", "2.5GB")
MODEL_RUNS = [
    Entry("plan", ("server", "plan", "--gpu", PAPER_GPU, "--dram", PAPER_DRAM, "--nvme", "400GB"), 5.0),
    Entry("codec", ("bench", "codec"), 40.0),
    Entry("rotation", ("models.matrix_game_2.measure",), 90.0, prints_json=True),
]
LONG_RUNS = [
    pager("long-real", 400.0, "--trace", "out-and-back", "--chunks", 300, nvme="25GB"),
    pager(
        "long-fast",
        260.0,
        *("--trace", "random", "--chunks", 3000, "--gpu", PAPER_GPU, "--dram", PAPER_DRAM),
        nvme="400GB",
        is_fast=True,
    ),
    pager("round-trip", 180.0, "--trace", "long-round-trip", "--chunks", 1984, nvme="400GB", is_fast=True),
]
FORCED_RUNS = [
    forced("forced-on-demand", "on-demand"),
    forced("forced-wait", "wait"),
    forced("forced-live", "live"),
    forced("read-one-int4", "on-demand", chunks=20, more=("--k", 1)),
    forced("read-three-bf16", "on-demand", chunks=20, more=BF16),
    forced("prefetch-three-bf16", "wait", chunks=20, more=BF16),
]
ROOMS = ("--geometry", "rooms", "--chunk-ms", 167, "--k", 4, "--gpu", "12MB", "--dram", "4MB")
ROOMS_RUNS = [pager(trace, 65.0, "--trace", trace, *ROOMS, nvme="0.1GB") for trace in ROOMS_TRACES]
GRID = Entry("grid", ("bench.pager_grid",), 180.0)
SWEEPS = [
    *(entry for policy in SWEEP_POLICIES for entry in sweep("a_yaw", policy, RATES_GBPS)),
    *(entry for policy in TAIL_POLICIES for entry in sweep("b1_ws", policy, TAIL_RATES_GBPS)),
]
ENTRIES: list[Entry] = [*MODEL_RUNS, *LONG_RUNS, *FORCED_RUNS, *ROOMS_RUNS, GRID, *SWEEPS]


def chosen(names: Iterable[str]) -> list[Entry]:
    """The entries named, in order; a name that is none stands for all that begin so; no names stand for all.

    Raises ValueError for a name that chooses nothing.
    """
    known = {entry.name for entry in ENTRIES}
    wanted = list(names)
    for name in wanted:
        if not any(entry.name.startswith(name) for entry in ENTRIES):
            raise ValueError(f"there is no run {name!r}; there are {', '.join(entry.name for entry in ENTRIES)}")
    beginnings = tuple(name for name in wanted if name not in known)
    return [
        entry
        for entry in ENTRIES
        if not wanted or entry.name in wanted or (beginnings and entry.name.startswith(beginnings))
    ]
