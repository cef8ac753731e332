"""The throttle sweep as tables: waits of each policy at each rate, and whose tail is worse. Pure."""

from collections.abc import Mapping, Sequence

from bench.paper_figures import Form, Report, Table, cell, chunk_time, long_waits, share, size, waits
from bench.paper_set import RATES_GBPS, SWEEP_POLICIES, TAIL_POLICIES, TAIL_RATES_GBPS, sweep_name
from server.pager.capacity import SHIPPED, critical_read_gbps
from server.pager.layout import SlotLayout

SWEEP_HEADER = (
    "GB/s",
    "policy",
    "wait: median / p99 / longest",
    "waits > 0.5 ms",
    "stale",
    "in time",
    "read",
    "chunk p50 / p99",
)
SWEEP_FORMS: Sequence[Form] = (
    waits,
    long_waits,
    share("stale_share"),
    share("fetched_in_time_share"),
    size("bytes_read"),
    chunk_time,
)


def _sweep_rows(
    reports: Mapping[str, Report], trace: str, policies: Sequence[str], rates: Sequence[float]
) -> list[tuple[str, ...]]:
    names = [(rate, policy, sweep_name(trace, policy, rate)) for rate in rates for policy in policies]
    return [(f"{rate:g}", policy, *(cell(reports, name, form) for form in SWEEP_FORMS)) for rate, policy, name in names]


def throttled(reports: Mapping[str, Report]) -> Table:
    """All policies at all rates, on the paper's walk of turning on the spot."""
    words = (
        "60 chunks a point, GPU and DRAM as small as they may be. Paper: the median wait stays 0 down to 0.25 GB/s and "
        f"fails at 0.1; on-demand stalls at every rate. {_critical(reports, 'a_yaw')}"
    )
    return Table(
        "Reads throttled, a_yaw", words, SWEEP_HEADER, _sweep_rows(reports, "a_yaw", SWEEP_POLICIES, RATES_GBPS)
    )


def _critical(reports: Mapping[str, Report], trace: str) -> str:
    """What the analytical model says of the sweep: by all new blocks, and by those that were really read."""
    report = reports.get(sweep_name(trace, "on-demand", RATES_GBPS[2]))
    if report is None:
        return ""
    block_bytes, chunk_ms = SlotLayout(SHIPPED["matrix-game-2"].spec).moved_bytes, report["given_chunk_ms"]
    read = report["bytes_read"] / block_bytes / report["trace_chunks"]
    all_new, really_read = (critical_read_gbps(block_bytes, new, chunk_ms) for new in (report["new_per_chunk"], read))
    return (
        f"A chunk wants {report['new_per_chunk']:.2f} blocks that the one before did not ({all_new:.3f} GB/s); "
        f"on-demand, {read:.2f} of them had to be read from NVME ({really_read:.3f} GB/s)."
    )


def tail(reports: Mapping[str, Report]) -> Table:
    """Prefetching against on-demand on the walk where the paper's prefetch had the worse tail."""
    rows = _sweep_rows(reports, "b1_ws", TAIL_POLICIES, TAIL_RATES_GBPS)
    words = (
        "Paper: below the critical rate the prefetch backlog can make the tail worse than on-demand. "
        f"{_critical(reports, 'b1_ws')} {_verdict(reports)}"
    )
    return Table("Reads throttled, b1_ws: the tail", words, SWEEP_HEADER, rows)


def _verdict(reports: Mapping[str, Report]) -> str:
    """At which of all measured rates prefetching had the worse tail."""
    worse: list[str] = []
    compared = 0
    for trace in ("a_yaw", "b1_ws"):
        for rate in RATES_GBPS:
            wait, demand = (reports.get(sweep_name(trace, policy, rate)) for policy in ("wait", "on-demand"))
            if wait is None or demand is None:
                continue
            compared += 1
            figures = ("p99_wait_ms", "longest_wait_ms")
            if any(wait[name] > demand[name] for name in figures):
                worse.append(f"{trace} at {rate:g}")
    if not compared:
        return ""
    where = ", ".join(worse)
    return (
        f"In {compared - len(worse)} of {compared} points on both walks *wait* has neither a longer p99 nor a longer "
        f"worst wait than on-demand{f'; not so on {where} GB/s' if worse else ''}."
    )
