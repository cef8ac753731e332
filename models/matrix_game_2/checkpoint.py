"""The official folder on disk: what must be in it, whether it fits, and loading it. Never downloads. Engine thread.

`check` looks at every name, size and shape before a single weight is read. The safetensors file stays memory-mapped
while its tensors are cast one by one; the two `.pth` files are read with `weights_only=True`, memory-mapped as well.
"""

import hashlib
import json
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from models.matrix_game_2.config import Config, with_network
from models.matrix_game_2.weights import Parts, empty_clip, empty_network, empty_vae, vae_dtypes

REPOSITORY = "Skywork/Matrix-Game-2.0"
PREFIX = "model."  # of every key in the distilled files, spec 1
CLIP_PREFIX = "visual."  # the only part of the CLIP file that is used, spec 1
VAE_FILE = "Wan2.1_VAE.pth"
CLIP_FILE = "models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth"
NETWORK_FILES = {
    "universal": ("base_distilled_model", "base_distill.safetensors"),
    "gta_drive": ("gta_distilled_model", "gta_keyboard2dim.safetensors"),
    "templerun": ("templerun_distilled_model", "templerun_7dim_onlykey.safetensors"),
}
# Bytes of the published files, spec 1: what a download needs on disk. CLIP's is an estimate.
PUBLISHED_BYTES = {
    "base_distill.safetensors": 6_480_000_000,
    "gta_keyboard2dim.safetensors": 6_480_000_000,
    "templerun_7dim_onlykey.safetensors": 6_030_000_000,
    VAE_FILE: 508_000_000,
    CLIP_FILE: 4_770_000_000,
}
_SAMPLE_NUMBERS = 256  # of each tensor's numbers that go into the fingerprint

Shapes = dict[str, tuple[int, ...]]


class WeightsError(ValueError):
    """A weights folder that cannot be used. The message says what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one variant below a weights folder."""

    network_config: Path
    network: Path
    vae: Path
    clip: Path

    def all(self) -> tuple[Path, ...]:
        """Every file, in the order in which they are named to the user."""
        return (self.network, self.network_config, self.vae, self.clip)


def files_of(folder: Path, kind: str) -> Files:
    """Where the official layout keeps the files of a variant."""
    sub, name = NETWORK_FILES[kind]
    return Files(folder / sub / "config.json", folder / sub / name, folder / VAE_FILE, folder / CLIP_FILE)


def download_line(folder: Path, kind: str) -> str:
    """The command that fetches exactly what a variant needs."""
    names = " ".join(str(path.relative_to(folder)) for path in files_of(folder, kind).all())
    return f"hf download {REPOSITORY} {names} --local-dir {folder}"


def check(folder: Path, config: Config) -> Config:
    """The config with the network that the folder describes. Raises WeightsError with everything that does not fit."""
    files = files_of(folder, config.kind)
    missing = [path for path in files.all() if not path.is_file()]
    if missing:
        names = ", ".join(str(path.relative_to(folder)) for path in missing)
        raise WeightsError(
            f"weights are missing in {folder}: {names}. Fetch them with:\n  {download_line(folder, config.kind)}"
        )
    try:
        config = with_network(config, json.loads(files.network_config.read_text(encoding="utf-8")))
    except ValueError as error:
        raise WeightsError(f"{files.network_config}: {error}") from error
    found = {key.removeprefix(PREFIX): shape for key, shape in safetensors_shapes(files.network).items()}
    _compare(files.network, found, empty_network(config), folder, config.kind)
    _compare(files.vae, _pth_shapes(files.vae, ""), empty_vae(config), folder, config.kind)
    clip = empty_clip(config)
    wanted = set(clip.state_dict())
    found = {name: shape for name, shape in _pth_shapes(files.clip, CLIP_PREFIX).items() if name in wanted}
    _compare(files.clip, found, clip, folder, config.kind)
    return config


def _compare(path: Path, found: Shapes, expected: nn.Module, folder: Path, kind: str) -> None:
    """Raise WeightsError naming the first few keys that are missing, unknown or of another shape."""
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.state_dict().items()}
    wrong = [f"{name} is missing" for name in shapes if name not in found]
    wrong += [f"{name} is not part of this model" for name in found if name not in shapes]
    wrong += [
        f"{name} is {found[name]}, not {shape}" for name, shape in shapes.items() if found.get(name, shape) != shape
    ]
    if wrong:
        told = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        raise WeightsError(f"{path} is not the {kind} model: {told}. Fetch it with:\n  {download_line(folder, kind)}")


def safetensors_shapes(path: Path) -> Shapes:
    """Names and shapes from the header. Raises WeightsError when the file's size does not fit its header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if 8 + length > size:
            raise WeightsError(f"{path} is cut short: {size:,} bytes. Fetch it again")
        try:
            header: dict[str, Any] = json.loads(file.read(length))
        except ValueError as error:
            raise WeightsError(f"{path} is no safetensors file: {error}") from error
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    end = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if end != size:
        raise WeightsError(f"{path} has {size:,} bytes, its header says {end:,}. Fetch it again")
    return {name: tuple(entry["shape"]) for name, entry in entries.items()}


def _pth_shapes(path: Path, prefix: str) -> Shapes:
    state = _read_pth(path, "meta")
    return {name.removeprefix(prefix): tuple(tensor.shape) for name, tensor in state.items() if name.startswith(prefix)}


def _read_pth(path: Path, device: str) -> Mapping[str, torch.Tensor]:
    """The flat state dict of a `.pth` file, memory-mapped; on `meta` without its numbers."""
    try:
        state = torch.load(path, map_location=device, mmap=True, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise WeightsError(f"{path} cannot be read as a state dict: {error}. Fetch it again") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsError(f"{path} is no flat state dict. Fetch it again")
    return state


def load(folder: Path, config: Config, device: torch.device, dtype: torch.dtype) -> tuple[Parts, Config, str]:
    """The three networks, the config with the folder's own network, and the fingerprint of the weights."""
    config = check(folder, config)
    files = files_of(folder, config.kind)
    network, vae, clip = empty_network(config), empty_vae(config), empty_clip(config)
    digest = hashlib.blake2b(digest_size=16)
    try:
        with safe_open(files.network, framework="pt") as file:
            names = {key.removeprefix(PREFIX): key for key in file.keys()}  # noqa: SIM118  not a mapping
            weights = {name: file.get_tensor(key) for name, key in names.items()}
            _put(network, weights, device, dtype, digest)
    except SafetensorError as error:
        raise WeightsError(f"{files.network} cannot be read: {error}. Fetch it again") from error
    _put(vae, _read_pth(files.vae, "cpu"), device, torch.float32, digest, vae_dtypes(device))
    wanted = set(clip.state_dict())
    visual = {name.removeprefix(CLIP_PREFIX): tensor for name, tensor in _read_pth(files.clip, "cpu").items()}
    # The tower runs once a world, so it stays on the CPU, mapped from its file.
    kept = {name: tensor for name, tensor in visual.items() if name in wanted}
    _put(clip, kept, torch.device("cpu"), torch.float32, digest)
    return Parts(network, vae, clip), config, digest.hexdigest()


def _put(
    module: nn.Module,
    weights: Mapping[str, torch.Tensor],
    device: torch.device,
    dtype: torch.dtype,
    digest: "hashlib.blake2b",
    special: Mapping[str, torch.dtype] = MappingProxyType({}),
) -> None:
    """Cast the weights one by one into a module that has no storage yet, and feed a sample of each to the digest."""
    placed: dict[str, torch.Tensor] = {}
    for name in sorted(weights):
        tensor = weights[name]
        sample = tensor.flatten()[:_SAMPLE_NUMBERS].float().contiguous()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + sample.numpy().tobytes())
        placed[name] = tensor.to(device, special.get(name.partition(".")[0], dtype))
    module.load_state_dict(placed, strict=True, assign=True)
    module.requires_grad_(requires_grad=False)
