"""Pictures as patches: a linear basis of 8x8 colour patches, and one channel of log depth. No scene; any thread.

A frame's latent is [N, CHANNELS] float32: PATCH_DIMS numbers of the basis, half whitened, then standardised log depth.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.sizes import COLUMNS, HEIGHT_PX, PATCH_PX, ROWS, TOKENS, WIDTH_PX

PATCH_DIMS = 48
CHANNELS = PATCH_DIMS + 1
DEPTH = PATCH_DIMS  # index of the depth channel

_PIXELS = PATCH_PX * PATCH_PX * 3
_LOG_DEPTH_MEAN = 0.0
_LOG_DEPTH_SCALE = 0.64
_LOG_DEPTH_RANGE = (-2.0, 2.1)


@dataclass(frozen=True, slots=True)
class PatchBasis:
    """The linear map between pixels and latents. Rows of `directions` are orthonormal; `scale` is per number."""

    mean: torch.Tensor  # [192]
    directions: torch.Tensor  # [PATCH_DIMS, 192]
    scale: torch.Tensor  # [PATCH_DIMS]

    def encode(self, rgb: NDArray[np.uint8], depth_m: NDArray[np.float32]) -> torch.Tensor:
        """Return latents [F, N, CHANNELS] of RGB [F, H, W, 3] and z-depth [F, H, W]."""
        return self.encode_pictures(torch.from_numpy(rgb), torch.from_numpy(depth_m))

    def encode_pictures(self, rgb: torch.Tensor, depth_m: torch.Tensor) -> torch.Tensor:
        """Return latents [F, N, CHANNELS] of uint8 RGB [F, H, W, 3] and z-depth [F, H, W] on this basis's device."""
        pixels = to_patches(rgb.float().div_(127.5).sub_(1.0))
        numbers = (pixels - self.mean) @ self.directions.T / self.scale
        return torch.cat([numbers, _depth_channel(depth_m)[..., None]], dim=-1)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Return RGB [F, H, W, 3] in -1..1 of latents [F, N, CHANNELS]."""
        patches = (latents[..., :PATCH_DIMS] * self.scale) @ self.directions + self.mean
        return from_patches(patches).clamp(-1.0, 1.0)

    def to(self, device: torch.device) -> "PatchBasis":
        """Return this basis on a device."""
        return PatchBasis(self.mean.to(device), self.directions.to(device), self.scale.to(device))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the arrays by the names under which the weights file keeps them."""
        return {"basis.mean": self.mean, "basis.directions": self.directions, "basis.scale": self.scale}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> "PatchBasis":
        """Return the basis that `tensors()` gave."""
        names = ("basis.mean", "basis.directions", "basis.scale")
        return cls(*(tensors[name].float() for name in names))


def fit_basis(rgb: NDArray[np.uint8]) -> PatchBasis:
    """Return the principal directions of the patches of many frames [F, H, W, 3]."""
    pixels = to_patches(torch.from_numpy(rgb).float().div_(127.5).sub_(1.0)).flatten(0, 1).double()
    mean = pixels.mean(0)
    centred = pixels - mean
    variance, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    top = torch.arange(_PIXELS - 1, _PIXELS - 1 - PATCH_DIMS, -1)
    deviation = variance[top].clamp(min=1e-12).sqrt()
    scale = deviation.sqrt()
    scale = scale * (deviation / scale).square().mean().sqrt()  # latents of mean square 1
    return PatchBasis(mean.float(), vectors[:, top].T.float().contiguous(), scale.float())


def to_patches(picture: torch.Tensor) -> torch.Tensor:
    """[F, H, W, 3] -> [F, N, 192], patches row by row."""
    frames = len(picture)
    grid = picture.reshape(frames, ROWS, PATCH_PX, COLUMNS, PATCH_PX, 3)
    return grid.permute(0, 1, 3, 2, 4, 5).reshape(frames, TOKENS, _PIXELS)


def from_patches(patches: torch.Tensor) -> torch.Tensor:
    """[F, N, 192] -> [F, H, W, 3]."""
    frames = len(patches)
    grid = patches.reshape(frames, ROWS, COLUMNS, PATCH_PX, PATCH_PX, 3)
    return grid.permute(0, 1, 3, 2, 4, 5).reshape(frames, HEIGHT_PX, WIDTH_PX, 3)


def log_depth(latents: torch.Tensor) -> torch.Tensor:
    """Return log z-depth [..., N] of latents [..., N, CHANNELS]."""
    value = latents[..., DEPTH].float() * _LOG_DEPTH_SCALE + _LOG_DEPTH_MEAN
    return value.clamp(*_LOG_DEPTH_RANGE)


def _depth_channel(depth_m: torch.Tensor) -> torch.Tensor:
    frames = len(depth_m)
    grid = depth_m.reshape(frames, ROWS, PATCH_PX, COLUMNS, PATCH_PX)
    nearness = grid.reciprocal().mean((2, 4)).reshape(frames, TOKENS)  # the mean of 1/z: near things win
    return (-nearness.log() - _LOG_DEPTH_MEAN) / _LOG_DEPTH_SCALE
