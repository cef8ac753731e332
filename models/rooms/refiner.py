"""The refiner: a small convolutional network that takes seams and soft edges off pictures. No scene; any thread.

It is told where on the grid of rooms a view lies (`grid.py`), so that edges of tiles and walls run where they must.

It changes only what is shown. Latents, blocks and states never see its output.
F frames, H, W pixels; inside, [F, C, H/2, W/2] with channels last, which is what the CPU's convolutions run fastest in.
"""

from typing import cast

import torch
from torch import nn
from torch.nn import functional

from models.rooms.grid import NUM_FINE
from models.rooms.sizes import PATCH_PX

WIDTH = 48
HIDDEN_LAYERS = 4
_FOLD = 2  # pixels a side that one position inside holds
_PIXELS = _FOLD * _FOLD * 3
_PHASES = PATCH_PX // _FOLD  # positions a side of one patch


class Refiner(nn.Module):
    """What to add to a picture. A new one adds nothing."""

    def __init__(self, width: int = WIDTH, hidden_layers: int = HIDDEN_LAYERS) -> None:
        super().__init__()
        self.enter = nn.Conv2d(_PIXELS + NUM_FINE, width, 3, padding=1)
        self.phase = nn.Parameter(0.3 * torch.randn(width, _PHASES, _PHASES))  # where in its patch a position lies
        self.hidden = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(hidden_layers)])
        self.leave = nn.Conv2d(width, _PIXELS, 3, padding=1)
        for layer in cast(list[nn.Conv2d], [self.enter, *self.hidden, self.leave]):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
            nn.init.zeros_(cast(torch.Tensor, layer.bias))
        nn.init.zeros_(self.leave.weight)

    def forward(self, pictures: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
        """Return refined RGB [F, H, W, 3] float32 of RGB [F, H, W, 3] float32, both about -1..1.

        `fine` [F, NUM_FINE, H/2, W/2] are the `fine_facts` of the frames' poses.
        """
        folded = functional.pixel_unshuffle(pictures.permute(0, 3, 1, 2), _FOLD)
        x = self.enter(torch.cat([folded, fine], dim=1).to(self.phase.dtype, memory_format=torch.channels_last))
        rows, columns = x.shape[-2] // _PHASES, x.shape[-1] // _PHASES
        x = x + self.phase.repeat(1, rows, columns)
        for layer in self.hidden:
            x = x + layer(functional.relu(x))
        change = functional.pixel_shuffle(self.leave(functional.relu(x)).float(), _FOLD)
        return pictures + change.permute(0, 2, 3, 1)
