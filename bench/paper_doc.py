"""docs/paper.md and docs/paper.json from what the runs of the set left. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.paper_figures import NOT_RUN, Table
from bench.paper_set import ENTRIES
from bench.paper_tables import tables

Found = Mapping[str, Mapping[str, Any]]  # by the names of entries: what bench/paper_cache.py keeps of a run
HEAD = """# The paper's claims beside ours

Written by `python -m bench paper`; do not edit. *WorldPager* (Liu, Xue, arXiv 2610.35529) measured on an RTX 4090 with
32 GiB of host memory and one NVMe SSD; its figures are the authors' own. Ours are the product's own pager on
Matrix-Game 2.0's geometry: real bytes, a real disk with direct IO, real int4, and 1,200 ms for the compute of each
chunk, in which nothing is computed but the decoding of what was recalled, on the CPU. † is fast mode: blocks of a
thousandth of the bytes, a twentieth of the time, as many blocks in each tier (docs/decisions/fast-mode.md); times as
measured, bytes as at full size. Every cell is one run's; the runs are named at the end.
"""
NOT_HERE = """## Not in this set

Image quality (the paper's sealed test set, MUSIQ) needs the weights and a GPU; what int4 and recall do to pictures is
measured in rooms: `python -m bench revisit`. That positions inside the native range stay bit-identical is proven by
`tests/unit/test_matrix_game_2_positions.py`.
"""


def as_markdown(found: Found, note: str = "") -> str:
    """The whole document, with a note of whoever ran it."""
    reports = {name: run["report"] for name, run in found.items()}
    parts = [HEAD, _machine(found, note), *(_table(table) for table in tables(reports)), NOT_HERE, _runs(found)]
    return "\n".join(parts)


def as_values(found: Found) -> dict[str, Any]:
    """The same for the JSON: every cell, and every report it came from."""
    reports = {name: run["report"] for name, run in found.items()}
    return {
        "tables": [{"title": each.title, "header": each.header, "rows": each.rows} for each in tables(reports)],
        "runs": {entry.name: found[entry.name] for entry in ENTRIES if entry.name in found},
        "not_run": [entry.name for entry in ENTRIES if entry.name not in found],
    }


def as_scaled(found: Found) -> dict[str, Any]:
    """What was not run at full size, by run."""
    return {name: run["report"]["scaled"] for name, run in found.items() if run["report"].get("scaled")}


def _machine(found: Found, note: str) -> str:
    """What it was run on, and how quiet it was."""
    if not found:
        return "Nothing was run yet.\n"
    machines = {_hardware(run["report"]["hardware"]) for run in found.values() if "hardware" in run["report"]}
    others = [run["others_cores"] for run in found.values()]
    loads = [load for run in found.values() for load in (run["load_before"], run["load_after"])]
    words = (
        f"**Machine:** {'; '.join(sorted(machines))}. Meanwhile **other work used {min(others):.1f} to "
        f"{max(others):.1f} cores** (load average {min(loads):.1f} to {max(loads):.1f}), run by run at the end."
    )
    return f"{words} {note}".rstrip() + "\n"


def _hardware(hardware: Mapping[str, Any]) -> str:
    ram = hardware["ram_bytes"] / (1 << 30)
    return f"{hardware['cpu']}, {hardware['cores']} cores, {ram:.0f} GiB, GPU {hardware['gpu']}, {hardware['disk']}"


def _table(table: Table) -> str:
    return f"## {table.title}\n\n{table.words.strip()}\n\n{_grid(table.header, table.rows)}"


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _runs(found: Found) -> str:
    rows: list[Sequence[str]] = []
    for entry in ENTRIES:
        run = found.get(entry.name)
        if run is None:
            rows.append((entry.name, f"`{entry.command}`", NOT_RUN, "", "", ""))
            continue
        load = f"{run['load_before']:.1f} to {run['load_after']:.1f}"
        commit = run["report"].get("commit", "")
        rows.append(
            (entry.name, f"`{entry.command}`", f"{run['seconds']:,.0f} s", load, f"{run['others_cores']:.1f}", commit)
        )
    header = ("run", "command", "took", "load", "others' cores", "commit")
    return f"## The runs\n\n{_grid(header, rows)}"
