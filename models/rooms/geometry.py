"""Where remembered points appear in a camera: the positions that rotate keys and values. Pure tensors; any thread.

A planar pose is (x_m, z_m, yaw_rad): this version looks level, from CAMERA_HEIGHT_M. Angles are float32 throughout.
P = PAIRS angles turn P pairs of numbers of a head.
"""

import torch

from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, FOCAL_PX, PATCH_PX, ROWS, TOKENS

_AZIMUTH_HARMONICS = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0)
_ELEVATION_HARMONICS = (2.0, 4.0, 8.0, 16.0, 24.0)
_DISTANCE_HARMONICS = (1.0, 2.0, 4.0)
_RATIO_HARMONICS = (1.0, 2.0)
PAIRS = 16  # P
_SOFTENING_M2 = 0.01  # keeps a point at the camera finite


def _patch_centres() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the slopes (right, up) [N] of the rays through the patch centres; forward is 1."""
    right = ((torch.arange(COLUMNS) + 0.5) - COLUMNS / 2) * PATCH_PX / FOCAL_PX
    up = (ROWS / 2 - (torch.arange(ROWS) + 0.5)) * PATCH_PX / FOCAL_PX
    up, right = torch.meshgrid(up, right, indexing="ij")
    return right.flatten(), up.flatten()


RIGHT, UP = _patch_centres()
AZIMUTH = torch.atan(RIGHT)
ELEVATION = torch.atan(UP / torch.sqrt(1 + RIGHT**2))
_HARMONICS = tuple(
    torch.tensor(h) for h in (_AZIMUTH_HARMONICS, _ELEVATION_HARMONICS, _DISTANCE_HARMONICS, _RATIO_HARMONICS)
)


def world_points(poses: torch.Tensor, log_depth: torch.Tensor) -> torch.Tensor:
    """Return the points (x, y, z) [..., N, 3] in metres that frames at `poses` [..., 3] saw at `log_depth` [..., N]."""
    depth, right = log_depth.exp(), RIGHT.to(log_depth.device)
    sin, cos = poses[..., 2, None].sin(), poses[..., 2, None].cos()
    x = poses[..., 0, None] + depth * (sin + right * cos)
    z = poses[..., 1, None] + depth * (cos - right * sin)
    return torch.stack([x, CAMERA_HEIGHT_M + depth * UP.to(depth.device), z], dim=-1)


def distances(log_depth: torch.Tensor) -> torch.Tensor:
    """Return the level distance [..., N] from a frame's camera to its points."""
    return log_depth.exp() * torch.sqrt(1 + RIGHT**2).to(log_depth.device)


def own_angles() -> torch.Tensor:
    """Return the angles [N, P] of a frame's patches in its own camera."""
    zero = torch.zeros(TOKENS)
    return _angles(AZIMUTH, ELEVATION, zero, zero)


def mate_angles(poses: torch.Tensor) -> torch.Tensor:
    """Return angles [B, C, C*N, P] of a chunk's patches, at infinity, in each of its frames; poses are [B, C, 3]."""
    batch, frames = poses.shape[:2]
    turn = poses[:, None, :, None, 2] - poses[:, :, None, None, 2]  # [B, C, C, 1]
    elevation = ELEVATION.to(poses.device).expand(batch, frames, frames, TOKENS)
    zero = torch.zeros_like(elevation)
    return _angles(AZIMUTH.to(poses.device) + turn, elevation, zero, zero).flatten(2, 3)


def seen_angles(poses: torch.Tensor, points: torch.Tensor, first_distance: torch.Tensor) -> torch.Tensor:
    """Return angles [B, Q, K, P] of points [B, K, 3], first seen from `first_distance` [B, K], at poses [B, Q, 3]."""
    east = points[:, None, :, 0] - poses[:, :, None, 0]
    north = points[:, None, :, 2] - poses[:, :, None, 1]
    sin, cos = poses[:, :, None, 2].sin(), poses[:, :, None, 2].cos()
    right, ahead = east * cos - north * sin, east * sin + north * cos  # [B, Q, K]
    distance = (right * right + ahead * ahead + _SOFTENING_M2).sqrt()
    height = (points[:, None, :, 1] - CAMERA_HEIGHT_M).expand_as(distance)
    ratio = (distance / first_distance[:, None]).log()
    return _angles(torch.atan2(right, ahead), torch.atan2(height, distance), distance.log(), ratio)


def _angles(*parts: torch.Tensor) -> torch.Tensor:
    return torch.cat([part[..., None] * h.to(part.device) for part, h in zip(parts, _HARMONICS, strict=True)], dim=-1)
