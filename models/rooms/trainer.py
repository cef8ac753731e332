"""The training state and one step of it: float32 masters, two optimisers, averaged weights. Training thread only.

Matrices inside the layers go to Muon, everything else to AdamW. The network itself computes in bfloat16 and is
rewritten from the masters after every step; a step is a pure function of the state and the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from models.rooms.checkpoint import load_tensors, save_tensors
from models.rooms.dataset import Batch
from models.rooms.network import LAYERS, WIDTH, RoomsNetwork
from models.rooms.objective import loss
from models.rooms.patches import PatchBasis

_WARMUP_STEPS = 60
_EMA_DECAY = 0.998


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What a run is made of; a resumed run must have the same."""

    seed: int = 0
    samples: int = 8
    width: int = WIDTH
    layers: int = LAYERS
    learning_rate: float = 3e-3


class Trainer:
    """One training run at one step. Not shared between threads."""

    def __init__(self, settings: TrainSettings, basis: PatchBasis) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.basis, self.step = settings, basis, 0
        self.network = RoomsNetwork(settings.width, settings.layers)
        self.masters = {n: torch.nn.Parameter(p.detach().clone()) for n, p in self.network.named_parameters()}
        self.network.bfloat16()
        self.ema = {name: p.detach().clone() for name, p in self.masters.items()}
        is_matrix = {name: name.startswith("layers.") and p.ndim == 2 for name, p in self.masters.items()}
        rate = settings.learning_rate
        self._muon = torch.optim.Muon(
            [p for n, p in self.masters.items() if is_matrix[n]],
            lr=rate, momentum=0.95, weight_decay=0.01, adjust_lr_fn="match_rms_adamw",
        )  # fmt: skip
        self._adam = torch.optim.AdamW(
            [p for n, p in self.masters.items() if not is_matrix[n]],
            lr=rate * 0.6, betas=(0.9, 0.95), weight_decay=0.0,
        )  # fmt: skip
        self._names = {id(p): name for name, p in self.masters.items()}
        self._copy_to_network()

    def train(self, batch: Batch, rate_share: float = 1.0) -> float:
        """Take one step with this share of the learning rate; return the loss."""
        value = loss(self.network, batch)
        value.backward()
        for name, parameter in self.network.named_parameters():
            self.masters[name].grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters.values(), 1.0)
        share = rate_share * min(1.0, (self.step + 1) / _WARMUP_STEPS)
        for optimiser, rate in ((self._muon, 1.0), (self._adam, 0.6)):
            for group in optimiser.param_groups:
                group["lr"] = self.settings.learning_rate * rate * share
            optimiser.step()
        self.step += 1
        self._copy_to_network()
        decay = min(_EMA_DECAY, self.step / (self.step + 20.0))
        for name, average in self.ema.items():
            average.lerp_(self.masters[name].detach(), 1.0 - decay)
        return float(value.detach())

    def averaged(self) -> RoomsNetwork:
        """Return a network in bfloat16 with the averaged weights."""
        network = RoomsNetwork(self.settings.width, self.settings.layers)
        network.load_state_dict(self.ema)
        return network.bfloat16().eval()

    def save(self, path: Path) -> None:
        """Write everything that resuming needs."""
        tensors = {f"master.{n}": p.detach() for n, p in self.masters.items()}
        tensors |= {f"ema.{n}": p for n, p in self.ema.items()}
        tensors |= self.basis.tensors()
        for parameter, state in self._optimiser_states():
            tensors |= {f"state.{self._names[id(parameter)]}.{key}": torch.as_tensor(v) for key, v in state.items()}
        settings = {name: getattr(self.settings, name) for name in TrainSettings.__slots__}
        save_tensors(path, tensors, {"step": self.step, "settings": settings})

    @classmethod
    def resume(cls, path: Path) -> "Trainer":
        """Return the run that `save` wrote, at its step."""
        tensors, facts = load_tensors(path)
        trainer = cls(TrainSettings(**facts["settings"]), PatchBasis.from_tensors(tensors))
        trainer.step = int(facts["step"])
        for name, master in trainer.masters.items():
            master.data.copy_(tensors[f"master.{name}"])
            trainer.ema[name].copy_(tensors[f"ema.{name}"])
        trainer._restore_optimisers(tensors)
        trainer._copy_to_network()
        return trainer

    def _optimiser_states(self) -> list[tuple[torch.Tensor, Mapping[str, Any]]]:
        return [item for optimiser in (self._muon, self._adam) for item in optimiser.state.items()]

    def _restore_optimisers(self, tensors: Mapping[str, torch.Tensor]) -> None:
        for optimiser in (self._muon, self._adam):
            for parameter in (p for group in optimiser.param_groups for p in group["params"]):
                prefix = f"state.{self._names[id(parameter)]}."
                state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
                if state:
                    optimiser.state[parameter] = state

    def _copy_to_network(self) -> None:
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(self.masters[name])
