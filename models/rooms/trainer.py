"""The training state of the drawing network and one step of it. Training thread only.

A step is a pure function of the state and the batch.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from models.rooms.checkpoint import load_tensors, save_tensors
from models.rooms.dataset import Batch
from models.rooms.masters import Masters
from models.rooms.network import LAYERS, WIDTH, RoomsNetwork
from models.rooms.objective import loss
from models.rooms.patches import PatchBasis


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

    def __init__(self, settings: TrainSettings, basis: PatchBasis, device: torch.device | None = None) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.basis, self.step = settings, basis, 0
        self.device = device or torch.device("cpu")
        self.network = RoomsNetwork(settings.width, settings.layers).to(self.device)
        self.masters = Masters(self.network, settings.learning_rate)

    def train(self, batch: Batch, rate_share: float = 1.0) -> float:
        """Take one step with this share of the learning rate; return the loss."""
        value = loss(self.network, batch)
        value.backward()
        self.masters.update(rate_share)
        self.step += 1
        return float(value.detach())

    def averaged(self) -> RoomsNetwork:
        """Return a network in bfloat16 with the averaged weights."""
        network = RoomsNetwork(self.settings.width, self.settings.layers)
        network.load_state_dict(self.masters.ema)
        return network.bfloat16().eval()

    def save(self, path: Path) -> None:
        """Write everything that resuming needs."""
        settings = {name: getattr(self.settings, name) for name in TrainSettings.__slots__}
        tensors = self.masters.tensors() | self.basis.tensors()
        save_tensors(path, tensors, {"step": self.step, "settings": settings})

    @classmethod
    def resume(cls, path: Path, device: torch.device | None = None) -> "Trainer":
        """Return the run that `save` wrote, at its step."""
        tensors, facts = load_tensors(path)
        trainer = cls(TrainSettings(**facts["settings"]), PatchBasis.from_tensors(tensors), device)
        trainer.step = int(facts["step"])
        trainer.masters.restore(tensors)
        return trainer
