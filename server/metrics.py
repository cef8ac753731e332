"""Prometheus metrics: what the memory and the wire did, summed over sessions and never labelled by one. Event loop."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.tiers import PagerStats, Tier

_TOTALS: dict[str, str] = {
    "chunks": "Chunks drawn",
    "stale_chunks": "Chunks drawn with another recall than the wanted one",
    "lost": "Blocks dropped because no tier could take them in time",
    "forgotten": "Blocks dropped under a budget",
    "missed": "Blocks that were damaged, failed or late",
    "fetched_bytes": "Bytes moved to a higher tier",
    "spilled_bytes": "Bytes moved to a lower tier",
    "disk_read_bytes": "Bytes read from disk",
    "disk_written_bytes": "Bytes written to disk",
    "stalls": "Chunks that waited more than 0.5 ms for their recall",
    "preempted": "Waits during which the thread was only descheduled",
}


class SessionReport(Protocol):
    """What the engine tells about one open session."""

    @property
    def session(self) -> str: ...
    @property
    def stats(self) -> PagerStats: ...


class Traffic:
    """Counters of the wire, and the registry that holds all metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = Gauge("worldpager_connections", "Open WebSockets", registry=self.registry)
        self.received = Counter("worldpager_messages_received", "Messages from clients", registry=self.registry)
        self.frames = Counter("worldpager_frames_sent", "Frames sent", registry=self.registry)
        self.frame_bytes = Counter("worldpager_frame_bytes_sent", "Compressed bytes of frames", registry=self.registry)
        self.refused = Counter(
            "worldpager_refused", "Connections that were refused or closed", ["code"], registry=self.registry
        )

    def text(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self.registry)


class MemoryCollector(Collector):
    """Adds up the totals of sessions, those that have closed included, so that no counter ever falls."""

    def __init__(self, sessions: Callable[[], Sequence[SessionReport]]) -> None:
        self._sessions = sessions
        self._seen: dict[str, PagerStats] = {}
        self._totals = dict.fromkeys(_TOTALS, 0)
        self._hits = [0, 0, 0]

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: sessions are asked only when somebody reads the metrics."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """One reading of every session."""
        reports = self._sessions()
        for report in reports:
            self._add(self._seen.get(report.session, PagerStats()), report.stats)
        self._seen = {report.session: report.stats for report in reports}
        for name, text in _TOTALS.items():
            yield CounterMetricFamily(f"worldpager_{name}", text, self._totals[name])
        yield self._hit_family()
        yield GaugeMetricFamily("worldpager_sessions", "Open sessions", len(reports))
        queued = sum(report.stats.queued_moves for report in reports)
        yield GaugeMetricFamily("worldpager_queued_moves", "Moves that wait", queued)
        longest = max((report.stats.longest_wait_ms for report in reports), default=0.0)
        yield GaugeMetricFamily("worldpager_longest_wait_seconds", "Longest wait for a recall", longest / 1000.0)
        yield from _tier_families(reports)

    def _add(self, before: PagerStats, now: PagerStats) -> None:
        for name in _TOTALS:
            self._totals[name] += max(0, int(getattr(now, name)) - int(getattr(before, name)))
        for tier in Tier:
            self._hits[tier] += max(0, now.hits[tier] - before.hits[tier])

    def _hit_family(self) -> Metric:
        family = CounterMetricFamily("worldpager_hits", "Wanted blocks by hit tier", labels=["tier"])
        for tier in Tier:
            family.add_metric([tier.name.lower()], self._hits[tier])
        return family


def _tier_families(reports: Sequence[SessionReport]) -> Iterable[Metric]:
    used = GaugeMetricFamily("worldpager_tier_used_bytes", "Bytes of blocks in a tier", labels=["tier"])
    budget = GaugeMetricFamily("worldpager_tier_budget_bytes", "Budget of a tier", labels=["tier"])
    blocks = GaugeMetricFamily("worldpager_tier_blocks", "Blocks in a tier", labels=["tier"])
    for tier in Tier:
        usages = [usage for report in reports for usage in report.stats.tiers if usage.tier == tier]
        used.add_metric([tier.name.lower()], sum(usage.used_bytes for usage in usages))
        budget.add_metric([tier.name.lower()], sum(usage.budget_bytes for usage in usages))
        blocks.add_metric([tier.name.lower()], sum(usage.blocks for usage in usages))
    return (used, budget, blocks)
