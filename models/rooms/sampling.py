"""Drawing a chunk: from noise, through a few passes of the network, to clean latents. No scene; engine thread.

Noise is a pure function of (seed, chunk index, pass). Nothing is written to that a state or a block can reach.
"""

import hashlib
import struct
from collections.abc import Sequence

import torch

from models.rooms.attention import KeyValueBuffer
from models.rooms.geometry import mate_angles, seen_angles
from models.rooms.network import RoomsNetwork
from models.rooms.patches import CHANNELS
from models.rooms.remembered import Remembered
from models.rooms.rotation import Turn, spread
from models.rooms.sizes import TOKENS

# the noise level at which each pass begins: a view that memory covers is sharp at once, a new one takes more passes
TIMES_COVERED = (1.0, 0.5)
TIMES_NEW = (1.0, 0.9, 0.75, 0.5)


def noise(seed: int, chunk_index: int, pass_index: int, frames: int) -> torch.Tensor:
    """Return the noise [C, N, CHANNELS] float32 of one pass over one chunk."""
    return torch.randn(frames, TOKENS, CHANNELS, generator=chances(seed, chunk_index, pass_index))


def chances(seed: int, chunk_index: int, pass_index: int) -> torch.Generator:
    """Return a fresh generator of random numbers for one pass over one chunk."""
    key = struct.pack("<qqq", seed, chunk_index, pass_index)
    number = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 1
    return torch.Generator().manual_seed(number)


@torch.no_grad()
def draw(
    network: RoomsNetwork,
    cameras: torch.Tensor,
    memory: Sequence[Remembered],
    seed: int,
    chunk_index: int,
    times: Sequence[float] = TIMES_COVERED,
) -> torch.Tensor:
    """Return clean latents [C, N, CHANNELS] float32 of the frames at planar poses `cameras` [C, 3]."""
    device = network.place.device
    mates = mates_of(cameras).to(device)
    remembered = turned(network, cameras, memory)
    latents = noise(seed, chunk_index, 0, len(cameras)).to(device)
    for time, after in zip(times, (*times[1:], 0.0), strict=True):
        level = torch.full((1,), time, device=device)
        clean = network.denoise(latents[None], level, mates, remembered)[0].float()
        latents = clean + (after / time) * (latents - clean)
    return latents


@torch.no_grad()
def encoded(network: RoomsNetwork, latents: torch.Tensor) -> torch.Tensor:
    """Return the K,V [L, 2, C*N, D] that clean frames [C, N, CHANNELS] leave, each frame encoded alone."""
    kept = network.encode(latents, torch.zeros(len(latents), device=latents.device))
    return torch.stack([torch.stack([key.flatten(0, 1), value.flatten(0, 1)]) for key, value in kept])


def mates_of(cameras: torch.Tensor) -> Turn:
    """Return the turn of a chunk's own tokens, for the frames at planar poses `cameras` [C, 3]."""
    return Turn.by(mate_angles(cameras[None]))


def turned(network: RoomsNetwork, cameras: torch.Tensor, memory: Sequence[Remembered]) -> list[KeyValueBuffer]:
    """Return all remembered keys and values, turned to where the cameras see their points, per layer, for one chunk."""
    if not memory:
        return []
    device = network.place.device
    tokens = torch.cat([part.kv for part in memory], dim=2)  # [L, 2, K, D]
    points = torch.cat([part.points for part in memory])
    distance = torch.cat([part.distance for part in memory])
    turn = Turn.by(seen_angles(cameras[None], points[None], distance[None])).to(device)
    layers, _, num_keys, width = tokens.shape
    heads = spread(tokens.reshape(layers * 2, num_keys, width), turn)  # [L*2*C, H, K, HEAD]
    per_layer = heads.unflatten(0, (layers, 2, len(cameras)))
    buffer = per_layer.new_empty(*per_layer.shape[:-2], num_keys + len(cameras) * TOKENS, per_layer.shape[-1])
    buffer[..., :num_keys, :] = per_layer
    return [KeyValueBuffer(keys, values, num_keys) for keys, values in buffer]
