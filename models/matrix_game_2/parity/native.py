"""The native cache as recorded, made from a window: rotated keys, zeros behind the fill level (spec 6)."""

from collections.abc import Sequence

import torch

from models.matrix_game_2.config import Config
from models.matrix_game_2.positions import action_angles, grid_angles, past_frames, rotate, rotate_action
from models.matrix_game_2.window import ChunkKV


def cached_frames(config: Config, start: int, sink: int) -> tuple[int, ...]:
    """The latent frames that the native cache holds after the chunk at `start`, in its order."""
    frames = config.num_frame_per_block
    past = past_frames(start, frames, config.network.local_attn_size, sink)
    return (*past, *range(start, start + frames))


def fill_levels(config: Config, start: int, unit: int) -> list[int]:
    """[global_end, local_end] after the chunk at `start`; `unit` is S for the self cache, 1 for the action caches."""
    end = start + config.num_frame_per_block
    capacity = config.network.local_attn_size
    return [end * unit, (min(end, capacity) if capacity >= 0 else end) * unit]


def self_cache(
    config: Config, chunks: Sequence[ChunkKV], start: int, layer: int, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values `[size, H, d]` of one layer after the chunk at `start`."""
    network = config.network
    tokens = config.frame_tokens
    held = {
        c.start + i: c.self_kv[layer, :, i * tokens : (i + 1) * tokens] for c in chunks for i in range(c.num_frames)
    }
    frames = cached_frames(config, start, network.sink_size)
    kv = torch.cat([held[frame] for frame in frames], dim=1).unflatten(-1, (network.num_heads, -1))  # [2, T, H, d]
    turns = grid_angles(frames, config.latent_rows, config.latent_cols, network.head_width)
    return _filled(rotate(kv[0], turns), size, 0), _filled(kv[1], size, 0)


def action_cache(
    config: Config, chunks: Sequence[ChunkKV], start: int, index: int, size: int, *, is_mouse: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of one action block: keyboard `[size, Hk, dk]` or mouse `[S, size, Hm, dm]`."""
    action = config.network.action
    assert action is not None
    held: dict[int, torch.Tensor] = {}
    for chunk in chunks:
        kv = chunk.mouse_kv if is_mouse else chunk.keyboard_kv
        if kv is not None:
            held |= {chunk.start + i: kv[index, ..., i : i + 1, :] for i in range(chunk.num_frames)}
    frames = cached_frames(config, start, 0)
    kv = torch.cat([held[frame] for frame in frames], dim=-2).unflatten(-1, (action.heads_num, -1))
    cos, sin = action_angles(frames, action.rope_dim_list, action.rope_theta)
    axis = 1 if is_mouse else 0
    return _filled(rotate_action(kv[0], cos, sin), size, axis), _filled(kv[1], size, axis)


def _filled(x: torch.Tensor, size: int, axis: int) -> torch.Tensor:
    """`x` with zeros behind it up to `size` on this axis."""
    shape = [*x.shape]
    shape[axis] = size - x.shape[axis]
    return torch.cat([x, x.new_zeros(shape)], dim=axis)
