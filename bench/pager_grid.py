"""The analytical model against the real pager: configurations that it was not fitted on, in fast mode.

`python -m bench.pager_grid` runs them all; `--json PATH` keeps what came out. A spill point must be met to within one
chunk; the class of stalls must be right in every configuration, all of which lie farther than a tenth from the critical
rate.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench.pager import Run, walk_record
from bench.pager_scale import FAST_TIME, scale_of
from bench.report import write_report
from server.pager.budgets import Budgets
from server.pager.capacity import SHIPPED, critical_read_gbps, stall_class, stored_chunks
from server.pager.layout import SlotLayout
from server.trace import WINDOW_CHUNKS, TraceChunk
from shared.controls import Key
from shared.pose import Pose
from shared.tiers import Tier

GEOMETRY = SHIPPED["matrix-game-2"]
GB = 1_000_000_000
SPILL_CHUNK_MS = 500.0  # 25 ms in fast mode
POOL = 12  # blocks that the stall runs recall, again and again
STALL_CHUNKS = 24
ATTEMPTS = 3  # a busy machine makes waits, and never takes one away: the least of so many walks counts
NOISE_SHARE = 0.04  # of the time; a rate a tenth below the critical one loses 11 %
ROOM = Budgets(6 * GB, 5 * GB // 2, 7 * GB)  # of the stall runs


@dataclass(frozen=True, slots=True)
class Spill:
    """When does each tier overflow with these budgets? Budgets in tenths of a GB."""

    gpu: int
    dram: int
    nvme: int

    @property
    def budgets(self) -> Budgets:
        return Budgets(self.gpu * GB // 10, self.dram * GB // 10, self.nvme * GB // 10)

    def predict(self) -> dict[Tier, int]:
        """The first chunk whose commit finds the tier full; the GPU takes a block once it may be recalled."""
        stored = stored_chunks(GEOMETRY, self.budgets, GEOMETRY.k)
        return {
            Tier.GPU: stored["gpu_int4"] + WINDOW_CHUNKS + 1,
            Tier.DRAM: stored["dram_int4"],
            Tier.NVME: stored["nvme_int4"],
        }

    def measure(self, folder: Path) -> dict[Tier, int]:
        num = max(self.predict().values()) + 4
        wanted = [(index - WINDOW_CHUNKS - 1,) if index > WINDOW_CHUNKS else () for index in range(num)]
        run = Run(
            GEOMETRY,
            straight(wanted),
            self.budgets,
            chunk_ms=SPILL_CHUNK_MS,
            extrapolator="none",
            fast=True,
            is_patient=True,  # blocks that a slow machine loses would never fill the lower tiers
        )
        return walk_record(run, folder)[1].first_drop

    def is_right(self, folder: Path) -> tuple[bool, str]:
        predicted, measured = self.predict(), self.measure(folder)
        off = {tier.name: measured.get(tier, -99) - chunk for tier, chunk in predicted.items()}
        return all(abs(each) <= 1 for each in off.values()), f"{self}: {predicted} off by {off}"


@dataclass(frozen=True, slots=True)
class Stall:
    """Are there waits when every chunk reads so many blocks anew, at this share of the critical rate?"""

    new: int
    chunk_ms: float
    share: float

    @property
    def read_gbps(self) -> float:
        return self.share * critical_read_gbps(SlotLayout(GEOMETRY.spec).moved_bytes, self.new, self.chunk_ms)

    def predict(self) -> str:
        critical = critical_read_gbps(SlotLayout(GEOMETRY.spec).moved_bytes, self.new, self.chunk_ms)
        return stall_class(self.read_gbps, critical)

    def measure(self, folder: Path) -> float:
        """Mean wait of the chunks that recall something, as a share of a chunk's time.

        Near the critical rate waits come in bursts, so a median may be zero while time is lost; and on a busy machine
        single chunks are late whatever the rate. What is lost on average is what the model speaks of.
        """
        warm_up = POOL + 2
        wanted: list[tuple[int, ...]] = [()] * warm_up
        wanted += [tuple((at * self.new + j) % POOL for j in range(self.new)) for at in range(STALL_CHUNKS)]
        run = Run(
            GEOMETRY,
            straight(wanted),
            ROOM,
            chunk_ms=self.chunk_ms,
            policy="wait",
            extrapolator="constant-velocity",
            read_gbps=self.read_gbps,
            from_nvme=True,
            fast=True,
        )
        folder.mkdir()
        scale, record, _ = walk_record(run, folder)
        return fmean(record.waits_ms[warm_up + 2 :]) / (scale.real_s(self.chunk_ms) * 1e3)

    def is_right(self, folder: Path) -> tuple[bool, str]:
        lost = self.measure(folder / "0")
        for attempt in range(1, ATTEMPTS):
            if lost > NOISE_SHARE:
                lost = min(lost, self.measure(folder / str(attempt)))
        measured = "non-zero" if lost > NOISE_SHARE else "zero"
        return measured == self.predict(), f"{self}: {self.predict()}, waits are {lost:.2%} of the time"


def straight(wanted: Sequence[tuple[int, ...]]) -> list[TraceChunk]:
    """A walk straight ahead whose chunks want what is said."""
    return [TraceChunk(Pose(z_m=float(at)), Key.FORWARD, wanted=keys) for at, keys in enumerate(wanted)]


SPILLS = [
    Spill(gpu, dram, nvme)
    for gpu, dram in ((23, 6), (27, 13), (33, 20), (40, 10), (45, 31))
    for nvme in (37, 46, 58, 71)
]
STALLS = [
    Stall(new, chunk_ms, share)
    for new, chunk_ms in ((1, 1200.0), (2, 1200.0), (3, 1200.0), (2, 800.0), (3, 2000.0))
    for share in (0.5, 0.8, 0.88, 1.12, 1.3, 2.5)
]
GRID: list[Spill | Stall] = [*SPILLS, *STALLS]


def main() -> int:
    """Run the grid; 1 when the model was wrong anywhere."""
    parser = argparse.ArgumentParser(prog="python -m bench.pager_grid", description=__doc__)
    parser.add_argument("--json", dest="path")
    path = parser.parse_args().path
    rows: list[dict[str, object]] = []
    for config in GRID:
        with tempfile.TemporaryDirectory(prefix="pager-", dir=Path.cwd()) as folder:
            is_right, words = config.is_right(Path(folder))
        rows.append({"is_right": is_right, "words": words})
        print("ok   " if is_right else "WRONG", words, flush=True)
    right = sum(bool(row["is_right"]) for row in rows)
    print(f"{right} of {len(GRID)} right")
    figures = {"configurations": len(GRID), "right": right, "rows": rows}
    byte_ratio = scale_of(GEOMETRY, "int4", fast=True).byte_ratio
    scaled = {"time": f"1/{FAST_TIME:.0f}", "byte_ratio": round(byte_ratio, 3)}
    write_report(path, "python -m bench.pager_grid", figures, scaled)
    return 0 if right == len(GRID) else 1


if __name__ == "__main__":
    sys.exit(main())
