"""What a walk measured: for the HUD and `--report`. Pure but for `write_report`; one thread per record."""

import json
from collections import deque
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import aiofiles

from client.atlas import tier_of
from client.picture import Picture
from shared.protocol import Stats

_LATELY_S = 3.0  # the HUD's frame rate
_LATELY_INPUTS = 200  # the HUD's latency


def percentile(values: list[float], share: float) -> float | None:
    """The value below which `share` of the values lie, interpolated; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True, slots=True)
class RecalledFrom:
    """Recalled blocks by hit tier. A block counts each time that it enters the recall."""

    gpu: int = 0
    dram: int = 0
    nvme: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One walk in numbers; the fields are the keys of docs/client.md. None where nothing was measured."""

    fps_shown: float | None
    frame_time_ms: float | None
    gap_p50_ms: float | None
    gap_p95_ms: float | None
    frames_shown: int
    frames_dropped: int
    input_to_photon_p50_ms: float | None
    input_to_photon_p95_ms: float | None
    stalls: int
    longest_wait_ms: float
    stale_share: float
    recalled_from: RecalledFrom
    lost: int
    missed: int = 0
    chunks: int = 0
    seconds: float = 0.0  # from the first shown frame to the last
    reconnects: int = 0
    world: str = ""
    seed: int | None = None
    model: str = ""
    mode: str = ""
    route: str = ""
    rtt_ms: float | None = None
    random_weights: bool = False  # what was drawn is noise: the figures count, the pictures do not

    def to_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps(asdict(self), indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class _Totals:
    """The session totals that are reported; they start again when the server begins a new session."""

    stalls: int = 0
    longest_wait_ms: float = 0.0
    chunks: int = 0
    stale_chunks: int = 0
    lost: int = 0
    missed: int = 0

    def plus(self, other: "_Totals") -> "_Totals":
        return _Totals(
            self.stalls + other.stalls,
            max(self.longest_wait_ms, other.longest_wait_ms),
            self.chunks + other.chunks,
            self.stale_chunks + other.stale_chunks,
            self.lost + other.lost,
            self.missed + other.missed,
        )


class Record:
    """Collects one walk. Call `shown` right after a frame reached the screen."""

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._latencies_ms: list[float] = []
        self._recent_s: deque[float] = deque(maxlen=256)
        self._earlier = _Totals()
        self._now = _Totals()
        self._recall: set[int] = set()
        self._recalled = [0, 0, 0]
        self.dropped = 0

    @property
    def first_s(self) -> float | None:
        """When the first frame was shown."""
        return self._times_s[0] if self._times_s else None

    def shown(self, picture: Picture, sent_s: float | None, now_s: float) -> None:
        """A frame is on the screen; `sent_s` is when the input that it was drawn with was sent."""
        self._times_s.append(now_s)
        self._recent_s.append(now_s)
        if sent_s is not None and picture.input_seq >= 0:
            self._latencies_ms.append((now_s - sent_s) * 1_000.0)

    def learn(self, stats: Stats) -> None:
        """What the memory did for one more chunk. Totals that fall are of a server that was started again."""
        if stats.chunks < self._now.chunks:
            self.new_session()
        self._now = _Totals(
            stats.stalls, stats.longest_wait_ms, stats.chunks, stats.stale_chunks, stats.lost, stats.missed
        )
        for block, tier in zip(stats.recalled, stats.recalled_tiers, strict=False):
            if block not in self._recall and tier_of(tier) is not None:
                self._recalled[tier] += 1
        self._recall = set(stats.recalled)

    def new_session(self) -> None:
        """The server began a new session: its totals start at zero."""
        self._earlier, self._now = self._earlier.plus(self._now), _Totals()
        self._recall = set()

    def fps_lately(self, now_s: float) -> float:
        """Frames a second over the last seconds: what the HUD shows."""
        recent = [time_s for time_s in self._recent_s if now_s - time_s <= _LATELY_S]
        if len(recent) < 2 <= len(self._recent_s):  # slower than that: as long as the newest two took, or longer
            return 1.0 / max(1e-6, now_s - self._recent_s[-2])
        if len(recent) < 2:
            return 0.0
        return (len(recent) - 1) / max(1e-6, max(recent[-1], now_s - 0.5) - recent[0])

    def latency_lately_ms(self) -> tuple[float | None, float | None]:
        """Input to photon, p50 and p95, of the newest frames."""
        lately = self._latencies_ms[-_LATELY_INPUTS:]
        return (percentile(lately, 0.5), percentile(lately, 0.95))

    def report(self) -> Report:
        """Everything so far. `fps_shown` counts the frames after the first, over the time from first to last."""
        times_s = self._times_s
        gaps_ms = [(b - a) * 1_000.0 for a, b in pairwise(times_s)]
        span_s = times_s[-1] - times_s[0] if times_s else 0.0
        fps = len(gaps_ms) / span_s if span_s > 0.0 else None
        totals = self._earlier.plus(self._now)
        return Report(
            fps_shown=fps,
            frame_time_ms=1_000.0 / fps if fps else None,
            gap_p50_ms=percentile(gaps_ms, 0.5),
            gap_p95_ms=percentile(gaps_ms, 0.95),
            frames_shown=len(times_s),
            frames_dropped=self.dropped,
            input_to_photon_p50_ms=percentile(self._latencies_ms, 0.5),
            input_to_photon_p95_ms=percentile(self._latencies_ms, 0.95),
            stalls=totals.stalls,
            longest_wait_ms=totals.longest_wait_ms,
            stale_share=totals.stale_chunks / totals.chunks if totals.chunks else 0.0,
            recalled_from=RecalledFrom(*self._recalled),
            lost=totals.lost,
            missed=totals.missed,
            chunks=totals.chunks,
            seconds=span_s,
        )


async def write_report(path: Path, report: Report) -> None:
    """Write the JSON of a report. Raises OSError."""
    async with aiofiles.open(path, "w", encoding="utf-8") as file:
        await file.write(report.to_json())
