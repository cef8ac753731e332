"""Many scenes as tensors, and where rays through them meet walls. Training only; any device.

S scenes of Z x X cells, F frames, R rays across, V lines down.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.scene import Scene
from models.rooms.sizes import FAR_M

_LOOKS_PER_CHECK = 8  # cells that rays go on before it is asked whether all have met a wall


@dataclass(frozen=True, slots=True)
class Scenes:
    """Many scenes as tensors on one device; S scenes of Z x X cells."""

    solid: torch.Tensor  # [S, Z, X] bool
    room: torch.Tensor  # [S, Z, X] int64
    palette: torch.Tensor  # [S, rooms + 1, 2, 3]
    tiles: torch.Tensor  # [S, rooms + 1, quarters, 2, 3]
    pictures: torch.Tensor  # [S, Z, X, 4] int64
    paint: torch.Tensor  # [S, Z, X, 4, 3]
    objects: torch.Tensor  # [S, rooms * spots, 8]

    @classmethod
    def of(cls, scenes: Sequence[Scene], device: torch.device) -> "Scenes":
        """Return scenes, stacked."""

        def stacked(name: str, dtype: torch.dtype) -> torch.Tensor:
            return torch.from_numpy(np.stack([getattr(scene, name) for scene in scenes])).to(device, dtype)

        return cls(
            stacked("solid", torch.bool),
            stacked("room", torch.int64),
            stacked("palette", torch.float32),
            stacked("tiles", torch.float32),
            stacked("pictures", torch.int64),
            stacked("paint", torch.float32),
            stacked("objects", torch.float32),
        )


@dataclass(frozen=True, slots=True)
class Hits:
    """Where rays [F, R] meet a wall: z-depth, the wall's cell, the open cell before it, and the wall's face."""

    depth: torch.Tensor
    cell: tuple[torch.Tensor, torch.Tensor]  # z, x
    open: tuple[torch.Tensor, torch.Tensor]  # z, x
    face: torch.Tensor


@dataclass(frozen=True, slots=True)
class View:
    """The cameras [F, 3] of a batch and their rays: (dx, dz) [F, R], rightward parts [R], downward slopes [V]."""

    poses: torch.Tensor
    dx: torch.Tensor
    dz: torch.Tensor
    across: torch.Tensor
    slope: torch.Tensor


def wall_depths(scene: Scene, poses: NDArray[np.floating], columns: int) -> NDArray[np.float32]:
    """Return the z-depth of the walls alone [F, columns], evenly over the field of view."""
    across = (torch.arange(columns) + 0.5) * 2.0 / columns - 1.0
    places = torch.from_numpy(np.ascontiguousarray(poses)).float()
    solid = torch.from_numpy(scene.solid).bool()[None]
    hits = trace(solid, torch.zeros(len(places), dtype=torch.int64), places, *rays(places, across))
    return hits.depth.clamp(max=FAR_M).numpy()


def rays(poses: torch.Tensor, across: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (dx, dz) [F, R] of rays whose forward part is 1 and whose rightward parts are `across` [R]."""
    sin, cos = poses[:, 2, None].sin(), poses[:, 2, None].cos()
    return sin + across * cos, cos - across * sin


def trace(solid: torch.Tensor, scene_of: torch.Tensor, poses: torch.Tensor, dx: torch.Tensor, dz: torch.Tensor) -> Hits:
    """Walk the grid to the first wall of every ray [F, R]."""
    x, z = (poses[:, axis, None].expand_as(dx) for axis in (0, 1))
    cell_x, cell_z = x.floor().long(), z.floor().long()
    step_x, step_z = torch.where(dx > 0, 1, -1), torch.where(dz > 0, 1, -1)
    gap_x, gap_z = 1.0 / dx.abs().clamp(min=1e-9), 1.0 / dz.abs().clamp(min=1e-9)
    next_x = torch.where(dx > 0, cell_x + 1 - x, x - cell_x) * gap_x
    next_z = torch.where(dz > 0, cell_z + 1 - z, z - cell_z) * gap_z
    open_x, open_z, depth, face = cell_x, cell_z, torch.zeros_like(dx), torch.zeros_like(cell_x)
    walking = torch.ones_like(dx, dtype=torch.bool)
    looks = 0
    while looks % _LOOKS_PER_CHECK or bool(walking.any()):
        along_x = walking & (next_x < next_z)
        along_z = walking & ~along_x
        open_x, open_z = torch.where(walking, cell_x, open_x), torch.where(walking, cell_z, open_z)
        depth = torch.where(along_x, next_x, torch.where(along_z, next_z, depth))
        sides = torch.where(along_x, torch.where(dx > 0, 0, 1), torch.where(dz > 0, 2, 3))
        face = torch.where(walking, sides, face)
        next_x, next_z = next_x + gap_x * along_x, next_z + gap_z * along_z
        cell_x, cell_z = cell_x + step_x * along_x, cell_z + step_z * along_z
        walking = walking & ~solid[scene_of[:, None], cell_z, cell_x]
        looks += 1
    return Hits(depth.clamp(min=1e-3), (cell_z, cell_x), (open_z, open_x), face)
