"""The layout network: says what hidden patches of a chunk show, as codes of a book, and finishes a picture of codes.

It is a `RoomsNetwork` with three heads more, told where on the grid of rooms a view lies (`grid.py`). It reads the
memory that the *drawing* network wrote (`encode` of that one, never of this one), so blocks do not depend on it. No
scene; any thread.
B chunks, C frames of a chunk, N patches of a frame, D width, K codes, H hidden patches.
"""

import torch
from torch import nn

from models.rooms.codebook import NUM_BINS, NUM_CODES
from models.rooms.grid import NUM_FACTS
from models.rooms.network import LAYERS, WIDTH, RoomsNetwork, TurnedMemory
from models.rooms.rotation import Turn


class LayoutNetwork(RoomsNetwork):
    """Weights of the layout network. Pure: it keeps nothing between calls."""

    def __init__(self, width: int = WIDTH, layers: int = LAYERS) -> None:
        super().__init__(width, layers)
        self.hidden = nn.Parameter(torch.zeros(width))  # stands in for a patch that is not known yet
        told = nn.Linear(width, width)
        nn.init.zeros_(told.weight)
        self.grid = nn.Sequential(nn.Linear(NUM_FACTS, width), nn.SiLU(), told)
        self.code = nn.Linear(width, NUM_CODES)
        self.bin = nn.Linear(width, NUM_BINS)
        self.bin_of_code = nn.Embedding(NUM_CODES, NUM_BINS)
        for weight in (self.code.weight, self.bin.weight, self.bin_of_code.weight):
            nn.init.normal_(weight, std=0.02)

    def look(
        self,
        latents: torch.Tensor,
        is_known: torch.Tensor,
        facts: torch.Tensor,
        mates: Turn,
        remembered: TurnedMemory,
    ) -> torch.Tensor:
        """Return features [B, C, N, D] of chunks of which some patches are known.

        `latents` [B, C, N, CHANNELS] count where `is_known` [B, C, N]; `facts` [B, C, N, NUM_FACTS] are the cameras'
        `grid_facts`; the rest as of `RoomsNetwork.denoise`.
        """
        frames = latents.shape[1]
        hidden_share = 1.0 - is_known.flatten(1).float().mean(1)
        shown = is_known.flatten(0, 1)[..., None]
        x = self.embed(torch.where(shown, latents.flatten(0, 1), 0.0), hidden_share.repeat_interleave(frames), 1)
        x = x + torch.where(shown, 0.0, self.hidden) + self.grid(facts.flatten(0, 1).to(x.dtype))
        return self.read(x.to(self.place.dtype), mates, remembered).unflatten(0, (-1, frames))

    def code_logits(self, features: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [H, K] over codes, of features [H, D]."""
        return self.code(features).float()

    def bin_logits(self, features: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Return float32 logits [H, bins] over depth bins, of features [H, D] of patches that show codes [H]."""
        return (self.bin(features) + self.bin_of_code(codes)).float()

    def finish(self, features: torch.Tensor) -> torch.Tensor:
        """Return clean latents [..., CHANNELS] float32 of features [..., D] of a chunk whose patches are all known."""
        return self.leave(features).float()
