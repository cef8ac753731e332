"""The flow-matching schedule: sigmas, the warped step list, noise and x0 (spec 7). Pure; any thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

NUM_TRAIN_TIMESTEPS = 1000


@dataclass(frozen=True)
class Schedule:
    """1,000 sigmas and their timesteps, falling; `steps` are the warped timesteps of the denoising list."""

    sigmas: torch.Tensor  # [1000] float32
    timesteps: torch.Tensor  # [1000] float32
    steps: torch.Tensor  # [steps] float32

    def index_at(self, timestep: torch.Tensor) -> int:
        """The entry whose timestep is nearest; timestep 0 finds the last, sigma 0.00498."""
        return int((self.timesteps - timestep.cpu().float()).abs().argmin())

    def sigma_at(self, timestep: torch.Tensor) -> torch.Tensor:
        """The sigma `[]` float32 of a timestep."""
        return self.sigmas[self.index_at(timestep)]


@lru_cache(maxsize=16)
def make_schedule(step_list: tuple[int, ...], shift: float) -> Schedule:
    """The schedule of a config. List entry v names timestep entry 1000 - v; 0 means timestep 0."""
    levels = torch.linspace(1.0, 0.0, NUM_TRAIN_TIMESTEPS + 1)[:-1]  # [1000] float32, u = 1 - i/1000
    sigmas = shift * levels / (1 + (shift - 1) * levels)
    timesteps = sigmas * NUM_TRAIN_TIMESTEPS
    padded = torch.cat([timesteps, torch.zeros(1)])  # [1001]
    steps = padded[torch.tensor([NUM_TRAIN_TIMESTEPS - value for value in step_list])]
    return Schedule(sigmas, timesteps, steps)


def add_noise(x0: torch.Tensor, noise: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """(1 - sigma) x0 + sigma noise, with a float32 sigma, in the dtype of the noise."""
    sigma = sigma.to(x0.device)
    return ((1 - sigma) * x0 + sigma * noise).to(noise.dtype)


def x0_from_flow(flow: torch.Tensor, x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """The clean latents x - sigma flow, in float64, cast back to the dtype of the flow."""
    exact = x.to(torch.float64) - sigma.to(x.device, torch.float64) * flow.to(torch.float64)
    return exact.to(flow.dtype)


def expanded(timestep: torch.Tensor | float, frames: int, device: torch.device) -> torch.Tensor:
    """One timestep for every latent frame: `[F]` float32."""
    return torch.full((frames,), float(timestep), device=device)


def renoise_count(step_list: Sequence[int]) -> int:
    """Fresh noises that one chunk draws beside its first."""
    return len(step_list) - 1
