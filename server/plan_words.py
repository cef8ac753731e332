"""A plan as a person reads it: what a block is, what each tier holds, whether the drive keeps up. Pure; any thread.

plan.py has the figures, by the keys that `--json` writes; this file only words them.
"""

from collections.abc import Mapping
from typing import Any

from server.pager.capacity import DRIVE_TBW, SHIPPED
from server.requirements import in_words

_HEAD = ("tier", "budget", "full at chunk: bf16", "int4", "blocks held: bf16", "int4")
_TIERS = (
    ("GPU", "gpu", "gpu_bf16", "gpu_int4"),
    ("DRAM", "dram", "dram_bf16", "dram_int4"),
    ("NVME", "nvme", "", "nvme_int4"),
)
_DAY_H, _YEAR_H = 24.0, 24.0 * 365.0


def describe(figures: Mapping[str, Any], *, is_default: bool) -> str:
    """The plan in sentences and one table. `is_default`: nobody named the geometry, so that is said."""
    parts = [_subject(figures, is_default=is_default), _tiers(figures), _drive(figures), _wear(figures)]
    if (limit := figures["position_limit_chunk"]) is not None:
        parts.append(f"The model's own rotary table ends at chunk {limit:,}; a walk here goes past it.")
    return "\n\n".join(parts)


def in_hours(hours: float) -> str:
    """A length of time in the unit that fits: 9.8 minutes, 4.1 hours, 64.5 days, 12.0 years."""
    if hours < 1.0:
        return f"{hours * 60.0:.1f} minutes"
    if hours < 2 * _DAY_H:
        return f"{hours:.1f} hours"
    if hours < 2 * _YEAR_H:
        return f"{hours / _DAY_H:,.1f} days"
    return f"{hours / _YEAR_H:,.1f} years"


def _subject(figures: Mapping[str, Any], *, is_default: bool) -> str:
    others = ", ".join(name for name in SHIPPED if name != figures["geometry"])
    chosen = f", by default (--geometry takes {others} or a JSON file)" if is_default else ""
    block = figures["block_bytes"]
    return (
        f"The model is {figures['geometry']}{chosen}. A chunk takes {figures['chunk_ms']:,.0f} ms and recalls up to "
        f"{figures['k']} blocks.\nA block is {in_words(block['bf16'])} as the model leaves it (bf16) and "
        f"{in_words(block['int4'])} as it is kept (int4)."
    )


def _tiers(figures: Mapping[str, Any]) -> str:
    """The table, and what its columns mean."""
    spill, stored, budgets = figures["spill_chunk"], figures["stored_chunks"], figures["budgets"]
    rows: list[tuple[str, ...]] = [_HEAD]
    for name, budget, raw, encoded in _TIERS:
        cells = [f"{kept[key]:,}" if key else "-" for kept in (spill, stored) for key in (raw, encoded)]
        rows.append((name, in_words(budgets[budget]), *cells))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    meaning = (
        "Full at chunk: budget / block, each tier alone, a block a chunk. Blocks held: headers, pages and the\n"
        "decoded recall buffer counted. The pager keeps int4 only; bf16 is what the same bytes would hold without it."
    )
    return "\n".join([*lines, meaning])


def _drive(figures: Mapping[str, Any]) -> str:
    keeps_up = figures["stall_class"] == "zero"
    verdict = (
        "it keeps up, and no recall waits for it in the long run."
        if keeps_up
        else "it falls behind. A live walk then draws with what is there (stale recalls), an exact one waits; give "
        "DRAM more, or take a faster drive."
    )
    return (
        f"Reading: {figures['new_per_chunk']:g} new blocks a chunk are {figures['critical_read_gbps']:.3g} GB/s. "
        f"The drive is taken to read {figures['read_gbps']:g} GB/s (--read-gbps):\n{verdict}"
    )


def _wear(figures: Mapping[str, Any]) -> str:
    if not (rate := figures["write_gb_per_hour"]):
        return "Writing: nothing is written."
    sentences = [f"Writing: {in_words(rate * 1e9)} an hour."]
    if (full := figures["hours_until_nvme_full"]) is not None:
        sentences.append(
            f"NVME is full after {in_hours(full)}; from then on the blocks that are least missed are forgotten."
        )
    if (worn := figures["hours_until_600_tbw"]) is not None:
        sentences.append(f"A drive warranted for {DRIVE_TBW:.0f} TB lasts {in_hours(worn)} of walking.")
    return "\n".join(sentences)
