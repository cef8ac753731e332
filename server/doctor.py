"""What a walk needs against what this machine has, before anything is loaded: `python -m server doctor`.

Exit 0 when the server would start and keep up. Reads headers, measures the worlds folder for a second, loads nothing.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from server.config import Settings, SettingsError, load_settings
from server.pager.budgets import Budgets, slot_counts
from server.pager.capacity import Geometry, Load, critical_read_gbps, stall_class, stored_chunks, wear
from server.pager.errors import BudgetError
from server.pager.layout import SlotLayout
from server.pager.move.disk import RealDisk
from server.read_speed import existing_folder, measure_read_speed
from server.requirements import Finding, Requirements, in_words, requirements

EXIT_FAULT = 1
EXIT_USAGE = 2
PROCESS_BYTES = 600_000_000  # Python, torch and the server, measured on rooms
_SETTINGS = ("model", "model_config", "worlds", "gpu", "dram", "nvme", "config")


def parser() -> argparse.ArgumentParser:
    """The flags of commands.md; what is not given is what the server would take."""
    parser = argparse.ArgumentParser(prog="python -m server doctor", description=__doc__)
    parser.add_argument("--model", metavar="rooms|matrix-game-2")
    parser.add_argument("--model-config", metavar="NAME|FILE")
    parser.add_argument("--weights", type=Path, metavar="DIR")
    parser.add_argument("--random-weights", action="store_true")
    parser.add_argument("--worlds", metavar="DIR")
    for tier in ("gpu", "dram", "nvme"):
        parser.add_argument(f"--{tier}", metavar="BYTES")
    parser.add_argument("--config", metavar="FILE", help="settings as TOML")
    parser.add_argument("--json", dest="path", nargs="?", const="-", help="write one JSON object; - or nothing: stdout")
    return parser


def main(argv: Sequence[str]) -> int:
    """Look, print, and say by the exit status whether all is well."""
    options = parser().parse_args(argv)
    flags = {name: getattr(options, name) for name in _SETTINGS if getattr(options, name) is not None}
    if options.random_weights:
        flags["random_weights"] = True
    environment = {name: value for name, value in os.environ.items() if name != "WORLDPAGER_WEIGHTS"}
    try:
        settings = load_settings(flags, environment).settings
        weights = options.weights or settings.weights
        findings = examine(settings, weights)
    except (SettingsError, ValueError) as error:
        print(f"no diagnosis: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
        return EXIT_USAGE
    is_ok = all(finding.ok for finding in findings)
    report = {"ok": is_ok, "model": settings.model, "findings": [asdict(finding) for finding in findings]}
    if options.path and options.path != "-":
        Path(options.path).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1) if options.path == "-" else describe(findings))  # noqa: T201 - likewise
    return 0 if is_ok else EXIT_FAULT


def examine(settings: Settings, weights: Path | None) -> list[Finding]:
    """Every finding, the files first. Raises ValueError for a model configuration that cannot be used."""
    needed = requirements(settings, weights)
    budgets = Budgets(settings.gpu_bytes, settings.dram_bytes, settings.nvme_bytes)
    has_cuda = torch.cuda.is_available()
    return [
        *needed.files,
        *(_video_memory(needed, budgets, has_cuda=has_cuda) if needed.on_device else ()),
        _memory(needed, budgets, has_cuda=has_cuda),
        _budgets(needed, budgets, has_cuda=has_cuda),
        *_disk_space(needed, budgets, settings.worlds, weights),
        *_reading(needed, settings.worlds),
        _spilling(needed, budgets),
    ]


def describe(findings: Iterable[Finding]) -> str:
    """The findings for people."""
    lines: list[str] = []
    told = ""
    for finding in findings:
        lines.append(f"{'ok ' if finding.ok else 'BAD'} {finding.what}: needed {finding.needed}; found {finding.found}")
        if finding.advice not in ("", told):
            told = finding.advice
            lines.append(f"    {told}")
    return "\n".join(lines)


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {in_words(size)}" for name, size in sizes.items() if size)


def _video_memory(needed: Requirements, budgets: Budgets, *, has_cuda: bool) -> list[Finding]:
    sizes = {**needed.on_device, "GPU tier (--gpu)": budgets.gpu_bytes}
    total = sum(sizes.values())
    told = f"{in_words(total)} free ({_listed(sizes)})"
    if has_cuda:
        free, whole = torch.cuda.mem_get_info()
        found = f"{in_words(free)} free of {in_words(whole)} on {torch.cuda.get_device_name()}"
        advice = "" if free >= total else "Give --gpu less, or end what else uses the GPU."
        return [Finding("VRAM", told, found, advice, ok=free >= total)]
    if needed.on_cpu is not None:
        return [Finding("VRAM", told, "no CUDA GPU", "The CPU draws, which this model is small enough for.")]
    advice = "This model needs an NVIDIA GPU: install its driver, and a CUDA build of torch (pip install torch)."
    return [Finding("VRAM", told, "no CUDA GPU", advice, ok=False)]


def _memory(needed: Requirements, budgets: Budgets, *, has_cuda: bool) -> Finding:
    sizes = {"DRAM tier (--dram)": budgets.dram_bytes, **needed.on_host, "the server itself": PROCESS_BYTES}
    if needed.on_cpu is not None and not (needed.on_device and has_cuda):
        sizes |= {**needed.on_cpu, "GPU tier (--gpu)": budgets.gpu_bytes}
    total, free = sum(sizes.values()), _free_memory_bytes()
    advice = "" if free >= total else "Give --dram less, or end what else uses memory."
    return Finding("DRAM", f"{in_words(total)} ({_listed(sizes)})", f"{in_words(free)} free", advice, ok=free >= total)


def _free_memory_bytes() -> int:
    """What can be had without swapping; on a system that does not say, all there is."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _budgets(needed: Requirements, budgets: Budgets, *, has_cuda: bool) -> Finding:
    geometry = needed.geometry
    layout = SlotLayout(geometry.spec)
    num_staging = bool(needed.on_device) and has_cuda
    what, told = "budgets", f"room for two recalls of {geometry.k} blocks at {in_words(layout.slot_bytes)}"
    try:
        gpu, dram = slot_counts(layout, budgets, geometry.k, needed.recall_dtype, num_staging=num_staging)
    except BudgetError as error:
        return Finding(what, told, "too small", str(error), ok=False)
    return Finding(what, told, f"{gpu} blocks on the GPU tier, {dram} in DRAM")


def _disk_space(needed: Requirements, budgets: Budgets, worlds: Path, weights: Path | None) -> list[Finding]:
    folder = existing_folder(worlds)
    free = RealDisk().free_bytes(folder)
    is_ok = free >= budgets.nvme_bytes
    advice = "" if is_ok else "Give --nvme less, or choose another --worlds folder."
    told = f"{in_words(budgets.nvme_bytes)} for each world (--nvme)"
    findings = [Finding(f"disk space in {folder}", told, f"{in_words(free)} free", advice, ok=is_ok)]
    if needed.download_bytes:
        folder = existing_folder(weights or Path("weights"))
        free, told = RealDisk().free_bytes(folder), f"{in_words(needed.download_bytes)} for the weights to be fetched"
        is_ok = free >= needed.download_bytes
        advice = "" if is_ok else "Choose another --weights folder."
        findings.append(Finding(f"disk space in {folder}", told, f"{in_words(free)} free", advice, ok=is_ok))
    return findings


def _reading(needed: Requirements, worlds: Path) -> list[Finding]:
    """The measured rate against the one at which every chunk reads its whole recall anew."""
    geometry, folder = needed.geometry, existing_folder(worlds)
    layout = SlotLayout(geometry.spec)
    critical = critical_read_gbps(layout.moved_bytes, geometry.k, geometry.chunk_ms)
    what, told = f"reading from {folder}", f"{critical:.3g} GB/s (all {geometry.k} blocks of every chunk from NVME)"
    try:
        speed = measure_read_speed(folder, layout.moved_bytes)
    except OSError as error:
        return [Finding(what, told, f"not measured: {error}", "Choose another --worlds folder.", ok=False)]
    verdict = stall_class(speed.gbps, critical)
    found = f"{speed.gbps:.3g} GB/s" + ("" if speed.is_direct else " (no direct I/O here: perhaps the page cache)")
    advice = (
        "" if verdict == "zero" else "Recalls will be late at times: drawing goes on with older ones, marked stale."
    )
    return [Finding(what, told, found, advice), Finding("predicted stall class", "zero", verdict, advice)]


def _spilling(needed: Requirements, budgets: Budgets) -> Finding:
    geometry = needed.geometry
    stored = stored_chunks(geometry, budgets, geometry.k)
    full = ", ".join(
        f"{name.upper()} full at chunk {stored[f'{name}_int4']} ({_time_in_words(stored[f'{name}_int4'], geometry)})"
        for name in ("gpu", "dram", "nvme")
    )
    written = wear(geometry, budgets, geometry.k, Load(geometry.chunk_ms, geometry.k, 1.0))["write_gb_per_hour"]
    advice = f"With one block a chunk, walking writes {written:.3g} GB an hour."
    if geometry.position_limit_chunk is not None:
        advice += f" The published model's positions end at chunk {geometry.position_limit_chunk}; a walk goes past it."
    return Finding("predicted spill points", "-", full, advice)


def _time_in_words(num_chunks: int, geometry: Geometry) -> str:
    seconds = num_chunks * geometry.chunk_ms / 1e3
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
