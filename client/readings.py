"""The HUD's numbers in words: labels, values and how worried to be. Pure; any thread."""

from dataclasses import dataclass

from client.atlas import Atlas
from client.report import Record
from shared.protocol import RANDOM_WEIGHTS, Stats, Welcome

NOT_MEASURED = "-"
_STALE_WORRY = 0.1


@dataclass(frozen=True, slots=True)
class Reading:
    """One line of the HUD; `is_bad` makes it stand out."""

    label: str
    value: str
    is_bad: bool = False


def bytes_in_words(num_bytes: float) -> str:
    """Three digits and a decimal unit: 940 B, 12.4 MB, 1.20 GB."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
        value /= 1_000.0
    return f"{value:.2f} TB"


def ms_in_words(value_ms: float | None) -> str:
    """Milliseconds without needless digits; a hyphen when nothing was measured."""
    if value_ms is None:
        return NOT_MEASURED
    return f"{value_ms:.0f}" if value_ms >= 9.5 or value_ms == 0.0 else f"{value_ms:.2g}"


def fill_share(used_bytes: int, budget_bytes: int) -> float:
    """How full a tier is, from 0 to 1."""
    return min(1.0, used_bytes / budget_bytes) if budget_bytes > 0 else 0.0


def marks(welcome: Welcome | None, stats: Stats | None) -> list[Reading]:
    """What the player must know about the picture itself; nothing when it is what it seems."""
    found: list[Reading] = []
    if welcome is not None and RANDOM_WEIGHTS in welcome.capabilities:
        found.append(Reading("weights", "random · this is noise", is_bad=True))
    if stats is not None and not stats.recalls:
        found.append(Reading("recall", "off · M switches it on", is_bad=True))
    if stats is not None and stats.held:
        found.append(Reading("picture", "held until you move"))
    return found


def readings(record: Record, atlas: Atlas, rtt_ms: float | None, now_s: float) -> list[Reading]:
    """What the full HUD says below the tiers, from the top down."""
    stats = atlas.stats
    p50_ms, p95_ms = record.latency_lately_ms()
    fetch, spill = atlas.rates(now_s)
    latency = f"{ms_in_words(p50_ms)} · p95 {ms_in_words(p95_ms)} ms"
    first = [
        Reading("frames/s", NOT_MEASURED if record.first_s is None else f"{record.fps_lately(now_s):.1f}"),
        Reading("input→photon", NOT_MEASURED if p50_ms is None else latency),
        Reading("round trip", NOT_MEASURED if rtt_ms is None else f"{ms_in_words(rtt_ms)} ms"),
    ]
    if stats is None:
        return first
    stale_share = stats.stale_chunks / stats.chunks if stats.chunks else 0.0
    gone = f"{stats.lost} · missed {stats.missed}"
    return [
        *first,
        Reading("stalls", f"{stats.stalls} · longest {ms_in_words(stats.longest_wait_ms)} ms", stats.stalls > 0),
        Reading("stale recalls", f"{stats.stale_chunks} · {stale_share:.1%}", stale_share > _STALE_WORRY),
        Reading("lost", gone, stats.lost > 0),
        Reading("fetch", f"{bytes_in_words(fetch)}/s"),
        Reading("spill", f"{bytes_in_words(spill)}/s"),
    ]
