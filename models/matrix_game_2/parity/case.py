"""One golden case on disk, and what was compared of it. It passes only when every output was compared."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from models.matrix_game_2.config import Config, network_from_json
from models.matrix_game_2.transformer import Transformer

FLOW_TOLERANCE = 1e-5  # flow and below, VAE, CLIP: spec 12
ROLLOUT_TOLERANCE = 1e-4  # end of a rollout: spec 12
OPTIONAL_SUFFIX = "_train_style"
CPU = torch.device("cpu")


class CaseError(ValueError):
    """A case that cannot be read, or that asks for something unknown."""


@dataclass(slots=True)
class Case:
    """A case's manifest and tensors. `given` marks an input as used, `compare` an output as checked."""

    name: str
    folder: Path
    manifest: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    touched: set[str] = field(default_factory=set[str])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    failures: list[str] = field(default_factory=list[str])

    def given(self, name: str) -> torch.Tensor:
        """An input of the case."""
        if name not in self.tensors:
            raise CaseError(f"{self.name}: tensor {name!r} is missing")
        self.touched.add(name)
        return self.tensors[name]

    def given_or_none(self, name: str) -> torch.Tensor | None:
        """An input that some configs do not have."""
        return self.given(name) if name in self.tensors else None

    def compare(self, name: str, ours: torch.Tensor, tolerance: float = FLOW_TOLERANCE) -> None:
        """Compare an output that the case must have: shape, then the largest absolute difference."""
        theirs = self.given(name)
        if ours.shape != theirs.shape:
            self.errors[name] = math.inf
            self.failures.append(f"{name}: shape {tuple(ours.shape)}, recorded {tuple(theirs.shape)}")
            return
        difference = (ours.double() - theirs.double()).abs()
        error = float(difference.max()) if difference.numel() else 0.0
        self.errors[name] = error
        if not error <= tolerance:  # not a number fails too
            self.failures.append(f"{name}: {error:.3g} is more than {tolerance:g}")

    def compare_present(self, name: str, ours: torch.Tensor, tolerance: float = FLOW_TOLERANCE) -> None:
        """Compare an output if the case recorded it."""
        if name in self.tensors:
            self.compare(name, ours, tolerance)

    def exact(self, what: str, ours: object, theirs: object) -> None:
        """Compare values that must be equal: hashes, indexes, sizes."""
        self.errors[what] = 0.0 if ours == theirs else math.inf
        if ours != theirs:
            self.failures.append(f"{what}: {ours}, recorded {theirs}")

    def stats(self, what: str, ours: torch.Tensor, theirs: Sequence[float], tolerance: float = FLOW_TOLERANCE) -> None:
        """Compare sum, sum of magnitudes and sum of squares, each per element."""
        wide = ours.double()
        sums = (wide.sum(), wide.abs().sum(), wide.pow(2).sum())
        scale = max(1.0, float(wide.abs().max()) if wide.numel() else 1.0)
        error = max(abs(float(a) - b) for a, b in zip(sums, theirs, strict=True)) / max(1, wide.numel()) / scale
        self.errors[what] = error
        if not error <= tolerance:
            self.failures.append(f"{what}: {error:.3g} an element is more than {tolerance:g}")

    def finish(self) -> None:
        """Fail what nobody looked at, so that no output passes by being overlooked."""
        left = [name for name in self.tensors if name not in self.touched and not name.endswith(OPTIONAL_SUFFIX)]
        if left:
            self.failures.append(f"not compared: {', '.join(sorted(left))}")

    @property
    def largest_error(self) -> float:
        return max(self.errors.values(), default=0.0)

    @property
    def is_ok(self) -> bool:
        return not self.failures


def read_case(manifest_path: Path) -> Case:
    """The case of a manifest, its tensors loaded. Raises CaseError when either file cannot be read."""
    tensors_path = manifest_path.with_suffix(".safetensors")
    try:
        manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
        tensors = load_file(tensors_path) if tensors_path.exists() else {}
    except (OSError, ValueError, SafetensorError) as error:
        raise CaseError(f"{manifest_path.stem}: cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise CaseError(f"{manifest_path.stem}: the manifest is not an object")
    if manifest.get("tensors") and not tensors:
        raise CaseError(f"{manifest_path.stem}: {tensors_path.name} is missing")
    return Case(manifest_path.stem, manifest_path.parent, manifest, tensors)


def config_of(case: Case) -> Config:
    """The config that a case's manifest describes; every size comes from there."""
    raw = case.manifest["config"]
    network = network_from_json(raw["model"], raw["clip_dim"])
    steps = tuple(int(value) for value in case.manifest.get("steps", (1000,)))
    return Config(
        name=case.name,
        kind=raw.get("kind", "universal"),
        network=network,
        latent_hw=tuple(raw["latent_hw"]),
        num_frame_per_block=int(raw.get("num_frame_per_block", 3)),
        denoising_step_list=steps,
        context_noise=float(case.manifest.get("context_noise", 0)),
        timestep_shift=float(case.manifest.get("timestep_shift", 5.0)),
    )


def network_of(case: Case, config: Config) -> Transformer:
    """The transformer with the case's recorded random weights, loaded strictly."""
    state_name = case.manifest["state"]
    state = read_case(case.folder / f"{state_name}.json")
    prefix = state.manifest.get("official_prefix", "")
    weights = {key.removeprefix(prefix): tensor for key, tensor in state.tensors.items()}
    with torch.device("meta"):
        network = Transformer(config.network)
    try:
        network.load_state_dict(weights, strict=True, assign=True)
    except RuntimeError as error:
        raise CaseError(f"{case.name}: {state_name} does not fit its config: {error}") from error
    return network.requires_grad_(requires_grad=False)
