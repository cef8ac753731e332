"""`python -m bench identity`: is what was left and come back to the same, byte for byte? Promises 1, 3 and 4.

Cases are MODEL/KIND. KIND: `leave` (an excursion that evicts and spills, then back, against never having left), `fork`
(siblings up to the first input that differs), `restart` and `export` (in another process, from the disk, or from one
file in another folder), `tiers` (all blocks on the GPU tier, in DRAM, on NVME). In every case the differing bytes must
be 0 of more than 10 MB, the moved bytes above 0, and for each model a walk with a wrong random seed must differ.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import command_line, write_report
from models.base import Pixels, WorldModel
from server.pager.budgets import buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.pager import Budgets

KINDS = ("leave", "fork", "restart", "tiers", "export")
MODELS = ("rooms", "matrix-game-2")
COMPARED_BYTES = 10_500_000  # of each case, at least


def budgets_by_tier(model: WorldModel, num_blocks: int) -> dict[str, Budgets]:
    """Budgets that keep `num_blocks` blocks in one tier and as few as possible in the faster ones."""
    layout = SlotLayout(model.kv_spec)
    slot_bytes = layout.slot_bytes
    least = 2 * model.max_recall * slot_bytes + buffer_bytes(layout, model.max_recall, model.dtype)
    plenty = (num_blocks + 8) * slot_bytes
    few = 4 * slot_bytes
    return {
        "gpu": Budgets(least + plenty, plenty, plenty),
        "dram": Budgets(least, plenty, plenty),
        "nvme": Budgets(least, few, plenty),
    }


def differing_bytes(a: Sequence[Pixels], b: Sequence[Pixels]) -> int:
    """How many bytes differ between two walks, frame by frame; a missing frame differs in all of them."""
    shared = sum(int(np.count_nonzero(x != y)) for x, y in zip(a, b, strict=False))
    missing = sum(frame.nbytes for frame in [*a[len(b) :], *b[len(a) :]])
    return shared + missing


def main(argv: Sequence[str]) -> int:
    """Run the cases; exit 0 only when nothing differs, bytes moved, and the controls differ."""
    parser = argparse.ArgumentParser(prog="python -m bench identity", description=__doc__)
    parser.add_argument("--json", dest="path")
    parser.add_argument("--case", action="append", metavar="MODEL/KIND", help="only this one, or all of MODEL")
    parser.add_argument("--resume", action="store_true", help="keep the cases that --json holds of this commit")
    parser.add_argument("--bytes", type=int, default=COMPARED_BYTES, help="to compare in each case, at least")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.case or () if not list(_matching([name]))]:
        parser.error(f"{', '.join(unknown)}: cases are {', '.join(_matching(None))}")
    return run(list(_matching(options.case)), options.bytes, options.path, can_resume=options.resume)


def _matching(wanted: Sequence[str] | None) -> Iterator[str]:
    for model in MODELS:
        for kind in KINDS:
            if wanted is None or model in wanted or f"{model}/{kind}" in wanted:
                yield f"{model}/{kind}"


def run(names: Sequence[str], num_bytes: int, path: str | None, *, can_resume: bool = False) -> int:
    """Run the named cases one after another; the report is written after each."""
    from bench.identity_cases import Trial, control_differs, run_case  # noqa: PLC0415 - torch only when it is needed

    report: dict[str, Any] = write_report(None, command_line(), {})
    cases, controls = _done(path, report["commit"]) if can_resume else ([], {})
    trials: dict[str, Trial] = {}
    for name in names:
        if any(case["name"] == name for case in cases):
            print(f"{name:24} done before")
            continue
        model_name, kind = name.split("/")
        trial = trials.get(model_name) or trials.setdefault(model_name, Trial.of(model_name, num_bytes))
        if model_name not in controls:
            controls[model_name] = control_differs(trial)
        cases.append(run_case(trial, kind))
        print("  ".join(f"{key} {value}" for key, value in cases[-1].items()), flush=True)
        write_report(path, command_line(), _figures(cases, controls))
    figures = _figures(cases, controls)
    for key, value in figures.items():
        if key != "cases":
            print(f"{key:24} {value}")
    return 0 if _is_good(figures, num_bytes) else 1


def _done(path: str | None, commit: str) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """The good cases of an earlier run of the same commit."""
    if path is None or not Path(path).exists():
        return [], {}
    earlier: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    if earlier.get("commit") != commit:
        return [], {}
    return [case for case in earlier["cases"] if case["differing_bytes"] == 0], dict(earlier["controls"])


def _figures(cases: Sequence[dict[str, Any]], controls: dict[str, bool]) -> dict[str, Any]:
    return {
        "differing_bytes": sum(case["differing_bytes"] for case in cases),
        "compared_bytes": sum(case["compared_bytes"] for case in cases),
        "moved_bytes": sum(case["moved_bytes"] for case in cases),
        "control_differs": all(controls.values()),
        "controls": dict(controls),
        "cases": list(cases),
    }


def _is_good(figures: dict[str, Any], num_bytes: int) -> bool:
    cases = figures["cases"]
    proofs = ("state_was_on_disk", "differs_after")  # of some kinds, that the case was the case it should be
    is_enough = all(
        case["compared_bytes"] >= num_bytes and case["moved_bytes"] > 0 and all(case.get(name, True) for name in proofs)
        for case in cases
    )
    return bool(cases) and is_enough and figures["differing_bytes"] == 0 and figures["control_differs"]
