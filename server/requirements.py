"""What a model needs before it is loaded: its files, its bytes, and the geometry of its blocks. For the doctor.

Reads headers only, never a weight. Imports torch. Any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from models.matrix_game_2.config import Config, load_config
from server.config import Settings
from server.pager.capacity import SHIPPED, Geometry

CPU = torch.device("cpu")
SMALL_BYTES = 200_000_000  # weights up to here draw live on a CPU


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what is needed, what is there, and what to do about it."""

    what: str
    needed: str
    found: str
    advice: str = ""
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Requirements:
    """Bytes by component beside the pager's budgets: on a GPU that draws (none: it always draws on the CPU), and on
    the host whatever draws.

    `on_cpu` is what the host needs besides when the CPU draws; None where a CPU would be too slow to walk with.
    `recall_dtype` is that of decoded blocks.
    """

    geometry: Geometry
    recall_dtype: torch.dtype
    on_device: Mapping[str, int]
    on_cpu: Mapping[str, int] | None
    on_host: Mapping[str, int]
    files: tuple[Finding, ...]
    download_bytes: int = 0  # of files that are still missing


def requirements(settings: Settings, weights: Path | None) -> Requirements:
    """What the settings' model needs. Raises ValueError when its configuration cannot be used."""
    if settings.model == "matrix-game-2":
        return _matrix_game_2(settings, weights)
    return _rooms(weights)


def in_words(num_bytes: float) -> str:
    """Bytes for people, in decimal units as the flags take them."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000.0:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000.0
    return f"{num_bytes:.3g} TB"


def _rooms(weights: Path | None) -> Requirements:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only this model needs it here

    from models.rooms.checkpoint import WEIGHTS  # noqa: PLC0415 - as above
    from models.rooms.precision import preferred_dtype  # noqa: PLC0415 - as above

    path = weights / "weights.safetensors" if weights else WEIGHTS
    size = path.stat().st_size if path.is_file() else 0
    advice = "It comes with the repository: git checkout models/rooms/weights.safetensors, or train it anew."
    found = in_words(size) if size else "missing"
    try:
        with cast(Any, safe_open)(path, framework="np") as file:  # safetensors leaves it untyped
            num = len(file.keys())
        finding = Finding(str(path), "a safetensors file", f"{found}, {num} tensors")
    except (OSError, SafetensorError) as error:
        finding = Finding(str(path), "a safetensors file", f"{found}: {error}" if size else found, advice, ok=False)
    return Requirements(SHIPPED["rooms"], preferred_dtype(CPU), {}, {"weights": size}, {}, (finding,))


def _matrix_game_2(settings: Settings, weights: Path | None) -> Requirements:
    from models.matrix_game_2.needs import needs  # noqa: PLC0415 - only the model that is asked for

    config = load_config(settings.model_settings or "universal")
    on_device = dict(needs(config, torch.device("cuda"), torch.bfloat16))
    on_cpu = dict(needs(config, CPU, torch.float32))
    clip = {"CLIP tower, mapped from its file": on_device.pop("host_clip")}
    for sizes in (on_device, on_cpu):
        sizes.pop("recall_buffer")  # a part of --gpu
        sizes.pop("host_clip", None)
    cpu = on_cpu if on_device["weights"] < SMALL_BYTES else None
    geometry = _geometry_of(config)
    dtype = torch.float32 if cpu is not None and not torch.cuda.is_available() else torch.bfloat16
    if settings.random_weights:
        files = (Finding("weights", "none", "random", "What is drawn is noise: for measuring only."),)
        return Requirements(geometry, dtype, on_device, cpu, {}, files)
    files, missing_bytes = _files(weights, config)
    return Requirements(geometry, dtype, on_device, cpu, clip, files, missing_bytes)


def _geometry_of(config: Config) -> Geometry:
    network = config.network
    shipped = SHIPPED["matrix-game-2"]
    spec = replace(
        shipped.spec,
        layers=network.num_layers,
        tokens=config.chunk_tokens,
        width=network.dim,
        head_width=network.head_width,
    )
    return replace(
        shipped,
        name=f"matrix-game-2/{config.name}",
        spec=spec,
        chunk_ms=1000.0 * config.frames_per_chunk / config.fps,
        k=max(1, config.max_recall),
        frames_per_block=config.num_frame_per_block,
        fps=config.fps,
        frames_per_chunk=config.frames_per_chunk,
    )


def _files(weights: Path | None, config: Config) -> tuple[tuple[Finding, ...], int]:
    """A finding for each file, one for names and shapes when all are there, and the bytes still to be fetched."""
    from models.matrix_game_2 import checkpoint  # noqa: PLC0415 - only the model that is asked for

    folder = weights or Path("weights")
    line = checkpoint.download_line(folder, config.kind)
    findings: list[Finding] = []
    missing_bytes = 0
    for path in checkpoint.files_of(folder, config.kind).all():
        published = checkpoint.PUBLISHED_BYTES.get(path.name, 0)
        is_there = path.is_file()
        missing_bytes += 0 if is_there else published
        found = in_words(path.stat().st_size) if is_there else "missing"
        needed = f"a file, about {in_words(published)} as published" if published else "a file"
        findings.append(Finding(str(path), needed, found, "" if is_there else f"Fetch it: {line}", ok=is_there))
    if all(finding.ok for finding in findings):
        needed = f"those of the {config.kind} model"
        try:
            checkpoint.check(folder, config)
            findings.append(Finding("names and shapes of the weights", needed, "the same"))
        except checkpoint.WeightsError as error:
            findings.append(
                Finding("names and shapes of the weights", needed, str(error), f"Fetch it: {line}", ok=False)
            )
    return tuple(findings), missing_bytes
