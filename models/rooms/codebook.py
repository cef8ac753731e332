"""Patches as numbers of a book: a code for a patch's colours, a bin for its depth. No scene; any thread.

K codes, B depth bins, N patches. A book is fitted once, by k-means, and never trained further.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from models.rooms.patches import DEPTH, PATCH_DIMS

NUM_CODES = 2048  # K
NUM_BINS = 32  # B
_ROUNDS = 15
_ROWS_AT_ONCE = 2048


@dataclass(frozen=True, slots=True)
class Codebook:
    """What each code and each bin stands for."""

    colours: torch.Tensor  # [K, PATCH_DIMS]
    depths: torch.Tensor  # [B], rising, in units of the depth channel

    def encode(self, latents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the nearest code and bin, each [...] int64, of latents [..., CHANNELS]."""
        rows = latents.reshape(-1, latents.shape[-1])
        codes = _nearest(rows[:, :PATCH_DIMS], self.colours)
        borders = (self.depths[1:] + self.depths[:-1]) / 2
        bins = torch.bucketize(rows[:, DEPTH].contiguous(), borders)
        return codes.view(latents.shape[:-1]), bins.view(latents.shape[:-1])

    def decode(self, codes: torch.Tensor, bins: torch.Tensor) -> torch.Tensor:
        """Return the latents [..., CHANNELS] float32 that codes and bins [...] stand for."""
        return torch.cat([self.colours[codes], self.depths[bins][..., None]], dim=-1)

    def to(self, device: torch.device) -> "Codebook":
        """Return this book on a device."""
        return Codebook(self.colours.to(device), self.depths.to(device))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the arrays by the names under which the weights file keeps them."""
        return {"codebook.colours": self.colours, "codebook.depths": self.depths}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> "Codebook":
        """Return the book that `tensors()` gave."""
        return cls(tensors["codebook.colours"].float(), tensors["codebook.depths"].float())


def fit_codebook(latents: torch.Tensor, seed: int, start: Codebook | None = None) -> Codebook:
    """Return the book of many patches [P, CHANNELS]: k-means for colours, equal shares of patches for depth.

    From `start`, codes move only to what they stand for now, and depths stay: a network that chose them still can.
    """
    rng = torch.Generator().manual_seed(seed)
    colours = latents[:, :PATCH_DIMS]
    begin = colours[torch.randperm(len(colours), generator=rng)[:NUM_CODES]] if start is None else start.colours
    centres = begin.clone()
    for _ in range(_ROUNDS):
        codes = _nearest(colours, centres)
        count = torch.bincount(codes, minlength=NUM_CODES)
        total = torch.zeros_like(centres).index_add_(0, codes, colours)
        centres = total / count.clamp(min=1)[:, None]
        empty = (count == 0).nonzero()[:, 0]  # they start anew, somewhere else
        centres[empty] = colours[torch.randint(len(colours), (len(empty),), generator=rng)]
    if start is not None:
        return Codebook(centres, start.depths)
    shares = (torch.arange(NUM_BINS) + 0.5) / NUM_BINS
    ranked = latents[:, DEPTH].sort().values
    return Codebook(centres, ranked[(shares * len(ranked)).long()].contiguous())


def _nearest(rows: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """Return the index of the nearest centre [P] of rows [P, n]; the first of equals."""
    half = centres.square().sum(1) / 2
    parts = (torch.addmm(half, part, centres.T, alpha=-1) for part in rows.split(_ROWS_AT_ONCE))
    # numpy's search is 13 times as fast as torch's on a CPU
    return torch.cat([torch.from_numpy(part.cpu().numpy().argmin(1)) for part in parts]).to(rows.device)
