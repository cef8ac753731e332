"""Float32 masters of a network that computes in bfloat16: two optimisers, averaged weights. Training thread only.

Matrices inside the layers go to Muon, everything else to AdamW. The network is rewritten from the masters after every
step; a step is a pure function of the masters, the optimisers and the gradients.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

_WARMUP_STEPS = 60
_EMA_DECAY = 0.998
_ADAM_SHARE = 0.6  # of the learning rate


class Masters:
    """Masters, averages and optimisers of one network. Not shared between threads."""

    def __init__(self, network: nn.Module, learning_rate: float) -> None:
        self._network, self._learning_rate = network, learning_rate
        self.weights = {n: nn.Parameter(p.detach().clone()) for n, p in network.named_parameters()}
        network.bfloat16()
        self.ema = {name: p.detach().clone() for name, p in self.weights.items()}
        is_matrix = {name: name.startswith("layers.") and p.ndim == 2 for name, p in self.weights.items()}
        self._muon = torch.optim.Muon(
            [p for n, p in self.weights.items() if is_matrix[n]],
            lr=learning_rate, momentum=0.95, weight_decay=0.01, adjust_lr_fn="match_rms_adamw",
        )  # fmt: skip
        self._adam = torch.optim.AdamW(
            [p for n, p in self.weights.items() if not is_matrix[n]],
            lr=learning_rate * _ADAM_SHARE, betas=(0.9, 0.95), weight_decay=0.0,
        )  # fmt: skip
        self._names = {id(p): name for name, p in self.weights.items()}
        self._copy_to_network()

    def update(self, rate_share: float) -> None:
        """Take the network's gradients and go one step with this share of the learning rate."""
        step = self._num_updates()
        for name, parameter in self._network.named_parameters():
            self.weights[name].grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        share = rate_share * min(1.0, (step + 1) / _WARMUP_STEPS)
        for optimiser, rate in ((self._muon, 1.0), (self._adam, _ADAM_SHARE)):
            for group in optimiser.param_groups:
                group["lr"] = self._learning_rate * rate * share
            optimiser.step()
        self._copy_to_network()
        decay = min(_EMA_DECAY, (step + 1) / (step + 21.0))
        for name, average in self.ema.items():
            average.lerp_(self.weights[name].detach(), 1.0 - decay)

    def start_from(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Begin with these weights, as they ship: the optimisers know nothing of them yet."""
        for name, master in self.weights.items():
            master.data.copy_(weights[name])
            self.ema[name].copy_(weights[name])
        self._copy_to_network()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return everything that resuming needs."""
        kept = {f"master.{n}": p.detach() for n, p in self.weights.items()}
        kept |= {f"ema.{n}": p for n, p in self.ema.items()}
        for parameter, state in self._optimiser_states():
            kept |= {f"state.{self._names[id(parameter)]}.{key}": torch.as_tensor(v) for key, v in state.items()}
        return kept

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `tensors` gave."""
        for name, master in self.weights.items():
            master.data.copy_(tensors[f"master.{name}"])
            self.ema[name].copy_(tensors[f"ema.{name}"])
        for optimiser in (self._muon, self._adam):
            for parameter in (p for group in optimiser.param_groups for p in group["params"]):
                prefix = f"state.{self._names[id(parameter)]}."
                state: dict[str, Any] = {
                    name.removeprefix(prefix): tensor.to(parameter.device) if tensor.ndim else tensor
                    for name, tensor in tensors.items()
                    if name.startswith(prefix)
                }
                if state:
                    optimiser.state[parameter] = state
        self._copy_to_network()

    def _num_updates(self) -> int:
        """Return how many updates the optimisers have seen: the rate warms up, and averages begin, with the first."""
        return max((int(state["step"]) for state in self._adam.state.values()), default=0)

    def _optimiser_states(self) -> list[tuple[torch.Tensor, Mapping[str, Any]]]:
        return [item for optimiser in (self._muon, self._adam) for item in optimiser.state.items()]

    def _copy_to_network(self) -> None:
        with torch.no_grad():
            for name, parameter in self._network.named_parameters():
                parameter.copy_(self.weights[name])
