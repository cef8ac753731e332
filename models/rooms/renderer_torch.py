"""The renderer as tensor operations: many frames of many scenes at once, on a GPU or where numba is missing.

Draws what renderer.py draws (a test holds them together). Training only. F frames, R rays across, V lines down: two of
each for every pixel.
"""

import torch

from models.rooms.rays_torch import Scenes, View, rays, trace
from models.rooms.sizes import FAR_M, FOCAL_PX, HEIGHT_PX, WIDTH_PX
from models.rooms.surfaces_torch import room_colours, with_objects

_SUPERSAMPLE = 2
_FOG = (0.09, 0.10, 0.17)
_FRAMES_AT_ONCE = {"cpu": 32, "cuda": 512}  # a few MB of a CPU's cache, a few GB of a GPU's memory


def render(scenes: Scenes, scene_of: torch.Tensor, poses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw poses [F, 3] in scenes `scene_of` [F]; return RGB [F, H, W, 3] uint8 and z-depth in metres [F, H, W]."""
    at_once = _FRAMES_AT_ONCE[poses.device.type]
    parts = [
        _draw(scenes, scene_of[at : at + at_once], poses[at : at + at_once].float())
        for at in range(0, len(poses), at_once)
    ]
    return torch.cat([rgb for rgb, _ in parts]), torch.cat([depth for _, depth in parts])


def _draw(scenes: Scenes, scene_of: torch.Tensor, poses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    device = poses.device
    across = (torch.arange(WIDTH_PX * _SUPERSAMPLE, device=device) + 0.5) / _SUPERSAMPLE / FOCAL_PX - 1.0
    lines = (torch.arange(HEIGHT_PX * _SUPERSAMPLE, device=device) + 0.5) / _SUPERSAMPLE
    slope = (lines - HEIGHT_PX / 2.0) / FOCAL_PX  # [V], downward
    dx, dz = rays(poses, across)
    hits = trace(scenes.solid, scene_of, poses, dx, dz)
    view = View(poses, dx, dz, across, slope)
    colour, depth = room_colours(view, scenes, scene_of, hits)  # [F, R, V, 3], [F, R, V]
    colour, depth = with_objects(view, scenes.objects[scene_of], hits.depth, colour, depth)
    far = (depth * (1.0 + across[:, None] ** 2 + slope**2).sqrt() / FAR_M).clamp(max=1.0)
    clear = ((1.0 - far**2) ** 2)[..., None]
    colour = colour.clamp(max=1.0) * clear + torch.tensor(_FOG, device=device) * (1.0 - clear)
    nearness = 1.0 / depth.clamp(max=FAR_M)
    rgb = (_averaged(colour).transpose(1, 2) * 255.0 + 0.5).to(torch.uint8)
    return rgb, 1.0 / _averaged(nearness[..., None])[..., 0].transpose(1, 2)


def _averaged(samples: torch.Tensor) -> torch.Tensor:
    """Return the means of a pixel's samples: [F, R, V, c] -> [F, W, H, c]."""
    grid = samples.unflatten(1, (WIDTH_PX, _SUPERSAMPLE)).unflatten(3, (HEIGHT_PX, _SUPERSAMPLE))
    return grid.mean((2, 4))
