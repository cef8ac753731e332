"""Prometheus metrics: what the memory and the wire did, summed over sessions and never labelled by one. Event loop.

A session's totals are of its own world, so their sum counts nothing twice; the tiers are of all worlds in each.
"""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
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
    "queued_moves": "Moves that wait",
    "stalls": "Chunks that waited more than 0.5 ms for their recall",
    "preempted": "Waits during which the thread was only descheduled",
}


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
    """What the pager did for the open sessions, added up. Gauges: a session that ends takes its part away."""

    def __init__(self, sessions: Callable[[], Sequence[PagerStats]]) -> None:
        self._sessions = sessions

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: sessions are asked only when somebody reads the metrics."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """One reading of every session."""
        sessions = self._sessions()
        yield GaugeMetricFamily("worldpager_sessions", "Open sessions", len(sessions))
        for name, text in _TOTALS.items():
            total = sum(int(getattr(stats, name)) for stats in sessions)
            yield GaugeMetricFamily(f"worldpager_{name}", f"{text}, by the open sessions", total)
        longest_ms = max((stats.longest_wait_ms for stats in sessions), default=0.0)
        yield GaugeMetricFamily("worldpager_longest_wait_seconds", "Longest wait for a recall", longest_ms / 1000.0)
        hits = GaugeMetricFamily("worldpager_hits", "Wanted blocks by hit tier, by the open sessions", labels=["tier"])
        for tier in Tier:
            hits.add_metric([tier.name.lower()], sum(stats.hits[tier] for stats in sessions))
        yield hits
        yield from _tier_families(sessions)


def _tier_families(sessions: Sequence[PagerStats]) -> Iterable[Metric]:
    used = GaugeMetricFamily("worldpager_tier_used_bytes", "Bytes of blocks in a tier", labels=["tier"])
    budget = GaugeMetricFamily("worldpager_tier_budget_bytes", "Budget of a tier", labels=["tier"])
    blocks = GaugeMetricFamily("worldpager_tier_blocks", "Blocks in a tier", labels=["tier"])
    for tier in Tier:
        # the tiers are shared by all sessions: each of them tells of the whole
        usages = [usage for stats in sessions for usage in stats.tiers if usage.tier == tier]
        label = [tier.name.lower()]
        used.add_metric(label, max((usage.used_bytes for usage in usages), default=0))
        budget.add_metric(label, max((usage.budget_bytes for usage in usages), default=0))
        blocks.add_metric(label, max((usage.blocks for usage in usages), default=0))
    return (used, budget, blocks)
