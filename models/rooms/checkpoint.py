"""Files of training and of the shipped model: safetensors for tensors, JSON beside it for numbers. Any thread."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from models.rooms.codebook import Codebook
from models.rooms.patches import PatchBasis
from models.rooms.tensor_file import load_file, save_file

WEIGHTS = Path(__file__).with_name("weights.safetensors")
_REFINER = "refiner."
_LAYOUT = "layout."
_BOOK = "codebook."


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
    _rewrite(network, path, (_REFINER,), {f"{_REFINER}{name}": tensor.bfloat16() for name, tensor in refiner.items()})


def load_refiner_weights(path: Path = WEIGHTS) -> dict[str, torch.Tensor] | None:
    """Return the refiner's weights by parameter name, or None where a file has none."""
    return _part(path, _REFINER) or None


def add_layout(network: Path, layout: Mapping[str, torch.Tensor], book: Codebook, path: Path) -> None:
    """Write the shipped file anew: what `network` holds, with this layout network in bfloat16 and its book."""
    added = {f"{_LAYOUT}{name}": tensor.bfloat16() for name, tensor in layout.items()}
    _rewrite(network, path, (_LAYOUT, _BOOK), {**added, **book.tensors()})


def load_layout_weights(path: Path = WEIGHTS) -> tuple[dict[str, torch.Tensor], Codebook] | None:
    """Return the layout network's weights by parameter name and its book, or None where a file has none."""
    found = _part(path, _LAYOUT)
    return (found, Codebook.from_tensors(load_file(path))) if found else None


def _part(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): t for name, t in load_file(path).items() if name.startswith(prefix)}


def _rewrite(source: Path, path: Path, replaced: tuple[str, ...], added: Mapping[str, torch.Tensor]) -> None:
    kept = {name: tensor for name, tensor in load_file(source).items() if not name.startswith(replaced)}
    save_tensors(path, {**kept, **added})
