"""The critic: a small network that says, place by place, how much a picture looks rendered. Training only; any thread.

The refiner learns to please it: a mean of squared errors is least where an edge that may run here or there is drawn
soft, and a critic knows that rendered edges are never soft (Goodfellow et al. 2014; by places as in Isola et al. 2017).
F frames, H, W pixels.
"""

from typing import cast

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from models.rooms.grid import NUM_FINE

_WIDTHS = (32, 64, 64)
_SLOPE = 0.2


class Critic(nn.Module):
    """Looks at pictures and at what the grid says of them. Spectrally normalised (Miyato et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        first, second, third = _WIDTHS
        self.enter = spectral_norm(nn.Conv2d(3, first, 4, stride=2, padding=1))
        self.place = spectral_norm(nn.Conv2d(NUM_FINE, first, 1))
        self.middle = spectral_norm(nn.Conv2d(first, second, 4, stride=2, padding=1))
        self.deep = spectral_norm(nn.Conv2d(second, third, 3, padding=1))
        self.answer = spectral_norm(nn.Conv2d(third, 1, 3, padding=1))

    def forward(self, pictures: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
        """Return scores [F, H/4, W/4] of RGB [F, H, W, 3] in -1..1 and `fine` [F, NUM_FINE, H/2, W/2]."""
        x = self.enter(pictures.permute(0, 3, 1, 2)) + self.place(fine)
        for layer in (self.middle, self.deep, self.answer):
            x = layer(functional.leaky_relu(x, _SLOPE))
        return cast(torch.Tensor, x[:, 0])


def critic_loss(critic: Critic, refined: torch.Tensor, rendered: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
    """Return how far the critic is from telling refined from rendered pictures [F, H, W, 3], by a margin (hinge)."""
    scores = critic(torch.cat([refined, rendered]), torch.cat([fine, fine]))
    of_refined, of_rendered = scores.chunk(2)
    return functional.relu(1.0 + of_refined).mean() + functional.relu(1.0 - of_rendered).mean()
