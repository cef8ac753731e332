"""Cells of docs/paper.md: how figures of a run's report are written. Pure.

A run that was not made leaves "not run"; a cell of a run that was not at full size bears the mark of fast mode.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOT_RUN = "not run"
FAST = " †"
MB, GB = 1e6, 1e9
Report = Mapping[str, Any]
Form = Callable[[Report], str]


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, what it should be read with, and cells. The first cell of a row names it."""

    title: str
    words: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def cell(reports: Mapping[str, Report], run: str, form: Form) -> str:
    """One figure of one run."""
    report = reports.get(run)
    if report is None:
        return NOT_RUN
    return form(report) + (FAST if is_fast(report) else "")


def is_fast(report: Report) -> bool:
    """Whether a run had small blocks and short times."""
    return "byte_ratio" in report.get("scaled", {})


def in_ms(value: float) -> str:
    """Milliseconds, with decimals where they say something."""
    return f"{value:,.2f} ms" if value < 10.0 else f"{value:,.0f} ms"


def in_bytes(value: float) -> str:
    """Bytes, MB or GB (10^6, 10^9)."""
    if abs(value) < MB / 10:
        return f"{value:,.0f} B"
    return f"{value / MB:,.1f} MB" if abs(value) < GB else f"{value / GB:,.1f} GB"


def waits(report: Report) -> str:
    """Median, p99 and longest wait of a walk's chunks."""
    shown = "median_wait_ms", "p99_wait_ms", "longest_wait_ms"
    return " / ".join(f"{report[name]:,.2f}" for name in shown) + " ms"


def long_waits(report: Report) -> str:
    """Waits of more than 0.5 ms, and those of them in which the thread was only kept off its core."""
    return f"{report['stalls'] + report['preempted']:,} ({report['preempted']:,})"


def hits(report: Report) -> str:
    """From which tier recalled blocks came: GPU, DRAM, NVME."""
    return " / ".join(f"{report['hits'][tier]:,}" for tier in ("gpu", "dram", "nvme"))


def chunk_time(report: Report) -> str:
    """How long chunks took: p50 and p99."""
    return f"{report['chunk_ms']['p50']:,.1f} / {report['chunk_ms']['p99']:,.1f} ms"


def share(name: str) -> Form:
    """The form of a share between 0 and 1."""
    return lambda report: f"{report[name]:.1%}"


def count(name: str) -> Form:
    """The form of a whole number."""
    return lambda report: f"{report[name]:,}"


def size(name: str) -> Form:
    """The form of a number of bytes."""
    return lambda report: in_bytes(report[name])
