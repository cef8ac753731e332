"""What training minimises: clean latents from noisy ones, given remembered frames. Pure; training thread only."""

import torch

from models.rooms.dataset import Batch
from models.rooms.geometry import distances, mate_angles, seen_angles, world_points
from models.rooms.network import RoomsNetwork
from models.rooms.patches import CHANNELS, DEPTH, log_depth
from models.rooms.rotation import Turn

_PURE_NOISE_SHARE = 0.12  # of chunks are drawn from nothing but noise
_TIME_POWER = 0.6
_LEAST_TIME = 0.02
_WEIGHT_TIME = 0.2  # errors are divided by the time, at least this
_DEPTH_WEIGHT = 3.0
_CONTEXT_NOISE = 0.25
_CONTEXT_NOISE_SHARE = 0.5
_CONTEXT_DEPTH_NOISE = 0.4  # of the noise on colours


def predict(network: RoomsNetwork, batch: Batch, times: torch.Tensor, rng: torch.Generator | None) -> torch.Tensor:
    """Return clean latents [B*G, C, N, CHANNELS] that the network sees in the noised targets.

    `times` is [B*G]. Remembered frames get context noise when a generator is given; else noise is fixed.
    """
    targets, poses = batch.targets.flatten(0, 1), batch.target_poses
    source = rng if rng is not None else torch.Generator(targets.device).manual_seed(0)
    noise = torch.randn(targets.shape, generator=source, device=source.device)
    t = times[:, None, None, None]
    memory, level = batch.memory, torch.zeros(batch.memory.shape[:2], device=targets.device)
    if rng is not None:
        memory, level = with_context_noise(memory, rng)
    remembered = remember(network, memory, level, batch.memory_poses, poses.flatten(1, 2))
    mates = Turn.by(mate_angles(poses.flatten(0, 1)))
    return network.denoise((1 - t) * targets + t * noise, times, mates, remembered).float()


def loss(network: RoomsNetwork, batch: Batch) -> torch.Tensor:
    """Return the training loss of a batch, a scalar; its noise is a function of the batch alone."""
    rng = torch.Generator(batch.targets.device).manual_seed(batch.noise_seed)
    targets = batch.targets.flatten(0, 1)
    dice = torch.rand(2, len(targets), generator=rng, device=rng.device)
    times = torch.where(dice[1] < _PURE_NOISE_SHARE, 1.0, dice[0] ** _TIME_POWER).clamp(_LEAST_TIME, 1.0)
    weight = torch.ones(CHANNELS, device=rng.device)
    weight[DEPTH] = _DEPTH_WEIGHT
    error = (predict(network, batch, times, rng) - targets).square() * weight
    return (error / times.clamp(min=_WEIGHT_TIME)[:, None, None, None]).mean()


def with_context_noise(memory: torch.Tensor, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return remembered frames [B, M, N, CHANNELS] with noise on half of them, and the levels [B, M]."""
    dice = torch.rand(2, *memory.shape[:2], generator=rng, device=rng.device)
    level = dice[0] * _CONTEXT_NOISE * (dice[1] < _CONTEXT_NOISE_SHARE)
    noise = torch.randn(memory.shape, generator=rng, device=rng.device)
    noise[..., DEPTH] *= _CONTEXT_DEPTH_NOISE
    return memory + noise * level[..., None, None], level


def remember(
    network: RoomsNetwork, memory: torch.Tensor, level: torch.Tensor, places: torch.Tensor, cameras: torch.Tensor
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return keys and values of remembered frames, turned to where cameras [B, Q, 3] see their points."""
    if memory.shape[1] == 0:
        return []
    kept = network.encode(memory.flatten(0, 1), level.flatten())
    samples, width = len(memory), network.width
    flat = [(key.reshape(samples, -1, width), value.reshape(samples, -1, width)) for key, value in kept]
    depth = log_depth(memory)  # [B, M, N]
    points = world_points(places, depth).flatten(1, 2)
    angles = seen_angles(cameras, points, distances(depth).flatten(1))
    return network.turn_memory(flat, Turn.by(angles))
