"""The judge of plausibility: a small network that tells invented frames from rendered ones. Never trains the world.

Its weights ship beside it; `python -m bench classifier` makes them anew. Any thread.
"""

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from bench.revisit_metrics import Frames

WEIGHTS = Path(__file__).with_name("classifier.safetensors")
_WIDTHS = (24, 32, 48, 64)
_BATCH = 64


class JudgeNetwork(nn.Module):
    """Four strided convolutions, the mean over the picture, and one number: how invented it looks (a logit)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, *_WIDTHS)
        self.layers = nn.ModuleList([nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(widths)])
        self.norms = nn.ModuleList([nn.GroupNorm(8, width) for width in _WIDTHS])
        self.answer = nn.Linear(2 * _WIDTHS[-1], 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return logits [F] of pictures [F, 3, H, W] in -1..1."""
        x = pictures
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = functional.relu(norm(layer(x)))
        pooled = torch.cat([x.mean((2, 3)), x.amax((2, 3))], dim=1)
        return self.answer(pooled)[:, 0]


class Judge:
    """A trained network and against what it was trained. Immutable."""

    def __init__(self, network: JudgeNetwork, trained_against: str, fingerprint: str) -> None:
        self._network = network.eval()
        self.trained_against = trained_against  # the fingerprint of the world's weights
        self.fingerprint = fingerprint

    @torch.no_grad()
    def opinions(self, frames: Frames) -> NDArray[np.float32]:
        """Return how likely each frame [F, H, W, 3] is invented [F], 0 to 1; above 0.5 it is called so."""
        parts = [self._network(as_pictures(frames[at : at + _BATCH])) for at in range(0, len(frames), _BATCH)]
        return torch.cat(parts).sigmoid().numpy() if parts else np.zeros(0, np.float32)


def as_pictures(frames: Frames) -> torch.Tensor:
    """Return frames [F, H, W, 3] as the network takes them, [F, 3, H, W] float32 in -1..1."""
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 127.5 - 1.0


def load_judge(path: Path = WEIGHTS) -> Judge:
    """Return the judge of a weights file. Raises OSError where there is none."""
    with safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
        facts = json.loads(file.metadata()["facts"])
        tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 - no mapping
    network = JudgeNetwork()
    network.load_state_dict(tensors)
    return Judge(network, facts["trained_against"], hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest())


def save_judge(network: JudgeNetwork, facts: dict[str, object], path: Path) -> None:
    """Write the weights in float16, and the facts of their training; the file appears whole or not at all."""
    part = path.with_suffix(".part")
    tensors = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
    save_file(tensors, part, metadata={"facts": json.dumps(facts)})
    part.replace(path)
