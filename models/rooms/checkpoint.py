"""Files of training and of the shipped model: safetensors for tensors, JSON beside it for numbers. Any thread."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from models.rooms.patches import PatchBasis

WEIGHTS = Path(__file__).with_name("weights.safetensors")
_REFINER = "refiner."


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any] | None = None) -> None:
    """Write tensors, and facts to `path` with the suffix .json; each file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, part)
    if facts is not None:
        note = path.with_suffix(".json.part")
        note.write_text(json.dumps(facts, indent=1) + "\n")
        note.replace(path.with_suffix(".json"))
    part.replace(path)


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the tensors and the facts that `save_tensors` wrote."""
    note = path.with_suffix(".json")
    facts: dict[str, Any] = json.loads(note.read_text()) if note.exists() else {}
    return load_file(path), facts


def export_weights(ema: Mapping[str, torch.Tensor], basis: PatchBasis, path: Path = WEIGHTS) -> None:
    """Write the shipped file: averaged weights in bfloat16 and the patch basis in float32."""
    network = {f"network.{name}": tensor.bfloat16() for name, tensor in ema.items()}
    save_tensors(path, {**network, **basis.tensors()})


def load_weights(path: Path = WEIGHTS) -> tuple[dict[str, torch.Tensor], PatchBasis]:
    """Return the network's weights by parameter name, and the patch basis, of a shipped file."""
    tensors = load_file(path)
    network = {n.removeprefix("network."): t for n, t in tensors.items() if n.startswith("network.")}
    return network, PatchBasis.from_tensors(tensors)


def add_refiner(network: Path, refiner: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write the shipped file anew: what `network` holds, with this refiner in bfloat16 beside it."""
    kept = {name: tensor for name, tensor in load_file(network).items() if not name.startswith(_REFINER)}
    save_tensors(path, {**kept, **{f"{_REFINER}{name}": tensor.bfloat16() for name, tensor in refiner.items()}})


def load_refiner_weights(path: Path = WEIGHTS) -> dict[str, torch.Tensor] | None:
    """Return the refiner's weights by parameter name, or None where a file has none."""
    found = {n.removeprefix(_REFINER): t for n, t in load_file(path).items() if n.startswith(_REFINER)}
    return found or None
