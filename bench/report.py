"""What every bench writes: one JSON object with command, commit, hardware, seconds. Owns the format, no figure."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STARTED_S = time.monotonic()


def hardware() -> dict[str, str | int]:
    """CPU, cores, RAM, GPU and disk of this machine, as far as it tells."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "ram_bytes": _ram_bytes(),
        "gpu": _gpu_name(),
        "disk": _disk_name(),
    }


def write_report(
    path: str | Path | None,
    command: str,
    values: Mapping[str, Any],
    scaled: Mapping[str, Any] | None = None,
    started_s: float = STARTED_S,
) -> dict[str, Any]:
    """Write `values` with the common keys to `path` (None: nowhere). Returns the whole object.

    `scaled` names what was not run at full size; `started_s` is when the bench began, on time.monotonic.
    """
    report: dict[str, Any] = {
        "command": command,
        "commit": _commit(),
        "hardware": hardware(),
        "seconds": round(time.monotonic() - started_s, 3),
        **values,
    }
    if scaled:
        report["scaled"] = dict(scaled)
    if path is not None:
        Path(path).write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return report


def command_line() -> str:
    """The command as it was typed."""
    return "python -m bench " + " ".join(sys.argv[1:])


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    folder = Path(__file__).parent
    found = subprocess.run(  # noqa: S603 - a fixed command
        [git, "describe", "--always", "--dirty", "--abbrev=12"], cwd=folder, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _ram_bytes() -> int:
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpu_name() -> str:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "none"
    return str(torch.cuda.get_device_name())


def _disk_name() -> str:
    """The filesystem and device under the current folder."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    here = str(Path.cwd())
    under = [mount for mount in mounts if here.startswith(mount[1])]
    best = max(under, key=lambda mount: len(mount[1]), default=None)
    return "unknown" if best is None else f"{best[2]} on {best[0]}"
