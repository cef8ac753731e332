"""What a chunk is drawn from: frames of the window and recalled blocks, brought to one form. No scene; engine thread.

C frames, N patches, K = C*N tokens of one chunk, L layers, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from models.base import Array, RecalledBlock
from models.rooms.geometry import distances, world_points
from models.rooms.patches import log_depth
from shared.pose import Pose


@dataclass(frozen=True, slots=True)
class Remembered:
    """Keys and values of one chunk and the points at which they are read."""

    kv: torch.Tensor  # [L, 2, K, D], unturned
    points: torch.Tensor  # [K, 3] float32
    distance: torch.Tensor  # [K] float32, level, from the camera that saw the point


@dataclass(frozen=True, slots=True)
class WindowChunk:
    """Frames that a state holds: a chunk, a key view, or what a block was made of. Immutable; shared by states."""

    chunk_index: int
    poses: tuple[Pose, ...]
    latents: torch.Tensor  # [C, N, CHANNELS] float32
    kv: torch.Tensor  # [L, 2, K, D] in the model's own dtype
    is_kept: bool  # whether a block holds these frames

    @property
    def depth(self) -> torch.Tensor:
        """Log z-depth [C, N] float32."""
        return log_depth(self.latents)

    @property
    def points(self) -> torch.Tensor:
        """World points [C, N, 3] float32."""
        return world_points(planar(self.poses), self.depth)

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors."""
        return self.latents.nbytes + self.kv.nbytes


def planar(poses: Sequence[Pose]) -> torch.Tensor:
    """Return poses [C, 3] (x_m, z_m, yaw_rad) float32."""
    return torch.tensor([(pose.x_m, pose.z_m, pose.yaw_rad) for pose in poses], dtype=torch.float32)


def pose_rows(poses: Sequence[Pose]) -> Array:
    """Return poses [C, 5] float64 as a catalog keeps them."""
    return np.array([pose.as_tuple() for pose in poses], np.float64)


def from_window(chunk: WindowChunk) -> Remembered:
    """Return a window chunk as something to draw from."""
    return Remembered(chunk.kv, chunk.points.flatten(0, 1), distances(chunk.depth).flatten())


def from_block(block: RecalledBlock, dtype: torch.dtype) -> Remembered:
    """Return a recalled block as something to draw from; its K,V are read, never kept."""
    points = torch.from_numpy(np.ascontiguousarray(block.footprint, np.float32))
    depth = block.side["depth"].float().cpu()
    return Remembered(block.kv.to(dtype), points, distances(depth).flatten())
