"""The runs of `python -m bench paper` that are done: one file each, so that the set goes on where it stopped.

A file holds the command's own JSON and how busy the machine was meanwhile. Runs processes and blocks; one at a time.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.paper_set import Entry

ROOT = Path(__file__).parents[1]
PROC_STAT = Path("/proc/stat")


class RunFailed(Exception):  # noqa: N818 - it is one run that failed, and the set goes on
    """A run gave no figures; the text says why."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of finished runs, and a scratch folder in it for worlds and half-written files."""

    folder: Path

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def read(self, entry: Entry) -> dict[str, Any] | None:
        """What a run of this very command left; None when there is none. Files of other commands do not count."""
        try:
            found = cast("dict[str, Any]", json.loads(self._path(entry).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None
        return found if found.get("arguments") == list(entry.arguments) else None

    def drop(self, entry: Entry) -> None:
        self._path(entry).unlink(missing_ok=True)

    def run(self, entry: Entry) -> dict[str, Any]:
        """Run an entry, keep what it left, and clean up its slabs. Raises RunFailed."""
        self._make_room(entry)
        try:
            busy = Busy()
            began_s = time.time()
            report = self._report(entry)
            took_s = round(time.time() - began_s, 1)
            facts = {"arguments": list(entry.arguments), "began_s": round(began_s), "seconds": took_s}
            found = {**facts, **busy.figures(), "report": {**report, "command": entry.command}}
            part = self.scratch / f"{entry.name}.part"
            part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            part.replace(self._path(entry))
            return found
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _report(self, entry: Entry) -> Mapping[str, Any]:
        path = self.scratch / "report.json"
        words = [sys.executable, "-m", *entry.arguments]
        if entry.arguments[:2] == ("bench", "pager"):
            words += ["--folder", str(self.scratch)]
        if not entry.prints_json:
            words += ["--json", str(path)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        try:
            text = done.stdout if entry.prints_json else path.read_text(encoding="utf-8")
            report: object = json.loads(text)
        except (OSError, ValueError):
            report = None
        if not isinstance(report, dict):  # a command that found something wrong exits with 1, and has figures
            last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-6:])
            raise RunFailed(f"exit {done.returncode}: {last or 'it wrote nothing'}")
        return cast("Mapping[str, Any]", report)

    def _make_room(self, entry: Entry) -> None:
        """An empty scratch folder, and the certainty that the run's slab fits."""
        shutil.rmtree(self.scratch, ignore_errors=True)  # of a run that was killed
        self.scratch.mkdir(parents=True)
        free = shutil.disk_usage(self.scratch).free
        if free < entry.disk_bytes:
            needed, has = entry.disk_bytes / 1e9, free / 1e9
            raise RunFailed(f"it needs {needed:.0f} GB of disk and {has:.0f} GB are free. Make room, and start again.")

    def _path(self, entry: Entry) -> Path:
        return self.folder / f"{entry.name}.json"


class Busy:
    """How busy the machine is from now on, and with what: load averages, and the cores that others used."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._cores_s = _busy_s()
        self._ours_s = _ours_s()
        self._load = os.getloadavg()[0]

    def figures(self) -> dict[str, float]:
        span_s = max(time.monotonic() - self._began_s, 1e-6)
        others = max(0.0, _busy_s() - self._cores_s - (_ours_s() - self._ours_s)) / span_s
        return {
            "load_before": round(self._load, 2),
            "load_after": round(os.getloadavg()[0], 2),
            "others_cores": round(others, 2),
        }


def _busy_s() -> float:
    """Seconds that all cores together spent working since the start of the machine; 0 where it does not say."""
    if not PROC_STAT.exists():
        return 0.0
    ticks = [int(field) for field in PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # all but idle and waiting for a disk


def _ours_s() -> float:
    """Seconds of the processes that this one ran, and of itself."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(each.ru_utime + each.ru_stime for each in used)
