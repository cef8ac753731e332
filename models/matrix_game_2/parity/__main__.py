"""`python -m models.matrix_game_2.parity DIR [--json OUT]`: a line per golden case; exit 0 only when all pass."""

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models.matrix_game_2.parity import action_case, network_cases, other_cases, rollout_case
from models.matrix_game_2.parity.case import Case, CaseError, read_case

KINDS: dict[str, Callable[[Case], None]] = {
    "a_rope": network_cases.rope,
    "b_block": network_cases.blocks,
    "c_action": action_case.action,
    "d_model": network_cases.model,
    "e_rollout": rollout_case.rollout,
    "f_scheduler": other_cases.scheduler,
    "g_vae": other_cases.vae,
    "h_actions": other_cases.actions,
    "i_image": other_cases.image,
    "j_clip": other_cases.clip,
    "official_keys": other_cases.official_keys,
}
WEIGHTS_PREFIX = "model_"  # read by the cases that name them


def kind_of(name: str) -> str | None:
    """Which kind of case a file name stands for; None for weights."""
    if name.startswith(WEIGHTS_PREFIX):
        return None
    return next((kind for kind in KINDS if name.startswith((kind, kind[:2]))), "")


def is_case(path: Path) -> bool:
    """Whether a file is a case to run: weights are not, nor is a JSON file of something else, such as a report."""
    kind = kind_of(path.stem)
    if kind == "" and path.suffix == ".json":
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return True
        return isinstance(manifest, dict) and "case" in manifest
    return kind is not None


def run_case(manifest_path: Path) -> dict[str, Any]:
    """One case's report: its largest error, and why it failed where it did."""
    name = manifest_path.stem
    kind = kind_of(name)
    if not kind:
        return _failed(name, "no case of this name is known")
    try:
        case = read_case(manifest_path)
        KINDS[kind](case)
        case.finish()
    except (CaseError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        return _failed(name, _told(error))
    error_now = case.largest_error
    return {
        "case": name,
        "ok": case.is_ok,
        "max_abs_error": error_now if math.isfinite(error_now) else None,
        "compared": len(case.errors),
        "failures": case.failures,
        "errors": {key: value if math.isfinite(value) else None for key, value in case.errors.items()},
    }


def _failed(name: str, why: str) -> dict[str, Any]:
    return {"case": name, "ok": False, "max_abs_error": None, "compared": 0, "failures": [why]}


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, CaseError) else f"{type(error).__name__}: {error}"


def line(report: dict[str, Any]) -> str:
    """A report as one line, and one more for each failure."""
    error = report["max_abs_error"]
    shown = "unequal" if error is None else f"{error:.3g}"
    verdict = "ok  " if report["ok"] else "FAIL"
    head = f"{report['case']:<28} {verdict} max_abs_error {shown} ({report['compared']} compared)"
    return "\n".join([head, *(f"    {text}" for text in report["failures"])])


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m models.matrix_game_2.parity", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="OUT")
    options = parser.parse_args(arguments)
    manifests = sorted(options.folder.glob("*.json"))
    orphans = [path for path in sorted(options.folder.glob("*.safetensors")) if not path.with_suffix(".json").exists()]
    reports = [run_case(path) for path in [*manifests, *orphans] if is_case(path)]
    for report in reports:
        print(line(report))
    is_ok = bool(reports) and all(report["ok"] for report in reports)
    if not reports:
        print(f"no golden case in {options.folder}")
    if options.json:
        options.json.write_text(json.dumps({"ok": is_ok, "cases": reports}, indent=1), encoding="utf-8")
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
