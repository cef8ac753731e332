"""`python -m bench paper`: the paper's claims beside ours. Runs the set, and writes docs/paper.md and docs/paper.json.

Runs are kept in .bench/paper and not repeated: stopped, it goes on where it was. Needs about 30 GB of disk and an hour
on an otherwise idle machine. Whatever was not run stands in the document as "not run".
"""

import argparse
import fcntl
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.paper_cache import ROOT, Cache, RunFailed
from bench.paper_doc import Found, as_markdown, as_scaled, as_values
from bench.paper_set import ENTRIES, Entry, chosen
from bench.report import command_line, write_report

CACHE = ROOT / ".bench" / "paper"


class RunsAlready(Exception):  # noqa: N818 - not a fault
    """Another `bench paper` runs here; two would measure each other."""


def run_missing(entries: Sequence[Entry], cache: Cache, minutes: float | None) -> int:
    """Run the entries that the cache lacks, as far as the time goes. Returns how many gave no figures."""
    missing = [entry for entry in entries if cache.read(entry) is None]
    num_failed = 0
    print(f"{len(missing)} of {len(entries)} runs to do, about {_minutes(missing):.0f} minutes", flush=True)
    began_s = time.monotonic()
    for index, entry in enumerate(missing):
        if minutes is not None and time.monotonic() - began_s + entry.seconds > minutes * 60.0:
            print(f"{len(missing) - index} runs are left for another time; the next one: {entry.name}", flush=True)
            break
        left = _minutes(missing[index:])
        print(f"[{index + 1}/{len(missing)}, about {left:.0f} min left] {entry.name}: {entry.command}", flush=True)
        try:
            found = cache.run(entry)
            print(f"    {found['seconds']:.0f} s, others used {found['others_cores']:.1f} cores", flush=True)
        except RunFailed as failure:
            num_failed += 1
            print(f"    no figures: {failure}", file=sys.stderr, flush=True)
    return num_failed


def _minutes(entries: Sequence[Entry]) -> float:
    return sum(entry.seconds for entry in entries) / 60.0


def collect(cache: Cache) -> Found:
    """What all runs that are done left."""
    return {entry.name: found for entry in ENTRIES if (found := cache.read(entry)) is not None}


def write(found: Found, folder: Path, note: str = "") -> None:
    """paper.md and paper.json. `seconds` in the JSON is what the runs took."""
    (folder / "paper.md").write_text(as_markdown(found, note), encoding="utf-8")
    took_s = sum(run["seconds"] for run in found.values())
    began_s = time.monotonic() - took_s
    write_report(folder / "paper.json", command_line(), {"note": note, **as_values(found)}, as_scaled(found), began_s)


@contextmanager
def _alone(cache: Cache) -> Iterator[None]:
    """Raises RunsAlready."""
    cache.folder.mkdir(parents=True, exist_ok=True)
    with (cache.folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunsAlready from None
        yield


def main(argv: Sequence[str]) -> int:
    """Run what is missing, write both documents. 1 when a run gave no figures, 2 when nothing could be done."""
    options = _parser().parse_args(argv)
    cache = Cache(options.cache)
    try:
        entries = chosen(options.only)
    except ValueError as error:
        print(f"bench paper: {error}")
        return 2
    if options.list:
        for entry in entries:
            state = "done" if cache.read(entry) else f"{entry.seconds / 60.0:.1f} min"
            print(f"{entry.name:32} {state:>8}  {entry.command}")
        return 0
    try:
        with _alone(cache):
            if options.fresh:
                for entry in entries:
                    cache.drop(entry)
            num_failed = run_missing(entries, cache, options.minutes)
    except RunsAlready:
        print(f"bench paper: another one runs in {cache.folder}; wait for it, or give another --cache")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    write(collect(cache), options.out, options.note)
    print(f"written: {options.out / 'paper.md'} and paper.json")
    return 1 if num_failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench paper", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="runs that begin so; repeatable")
    parser.add_argument("--fresh", action="store_true", help="also those that are done")
    parser.add_argument("--minutes", type=float, help="start no run that would go beyond; 0: only write")
    parser.add_argument("--list", action="store_true", help="say what would be run, and stop")
    parser.add_argument("--note", default="", help="what a reader should know of how the runs were made")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="the folder of paper.md and paper.json")
    return parser
