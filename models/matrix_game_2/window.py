"""The window: which earlier keys and values a chunk sees, and in what rotation. Values only; engine thread.

A window is a tuple of per-chunk `ChunkKV`, never written to after it was made (promise 9). Keys in it are as the
projections left them, before rotation. For one chunk, `build_reach` lays them out in the order of the native cache
[sink | recalled | rolling | the chunk's own], rotated to their places, in working buffers that belong to that step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from models.matrix_game_2.action_module import ActionPast, Turns
from models.matrix_game_2.config import Config
from models.matrix_game_2.positions import (
    action_angles,
    grid_angles,
    past_frames,
    past_split,
    recall_starts,
    rotate,
    window_start,
)


@dataclass(frozen=True, slots=True)
class ChunkKV:
    """What one chunk's context pass left behind. Keys are not rotated. Immutable."""

    start: int  # its first latent frame
    self_kv: torch.Tensor  # [L, 2, N, D]
    keyboard_kv: torch.Tensor  # [A, 2, F, Wk], A action blocks
    mouse_kv: torch.Tensor | None  # [A, 2, S, F, Wm]

    @property
    def num_frames(self) -> int:
        return self.keyboard_kv.shape[2]

    @property
    def num_bytes(self) -> int:
        parts = (self.self_kv, self.keyboard_kv, self.mouse_kv)
        return sum(part.nbytes for part in parts if part is not None)


Window = tuple[ChunkKV, ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    """A recalled block: the self-attention K,V `[L, 2, N, D]` of a chunk, and its own first latent frame."""

    start: int
    kv: torch.Tensor


@dataclass(slots=True)
class Reach:
    """Working buffers of a chunk: rotated keys and values, the last N places for its own. Written by each pass."""

    k: torch.Tensor  # [L, P + N, H, d]
    v: torch.Tensor  # [L, P + N, H, d]
    turns: torch.Tensor  # [N, d/2] complex128, of the chunk itself
    action_turns: Turns
    action_past: tuple[ActionPast, ...]  # one per action block

    def write_own(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Rotate the chunk's own keys `[N, H, d]` into the last places of this layer, and its values with them."""
        count = len(k)
        self.k[layer, -count:] = rotate(k, self.turns)
        self.v[layer, -count:] = v


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some frames of one chunk's `[L, 2, N, D]`, and the positions at which they are seen."""

    kv: torch.Tensor  # [L, 2, frames*S, D]
    positions: tuple[int, ...]


def build_reach(config: Config, window: Window, start: int, recalled: Sequence[Recalled] = ()) -> Reach:
    """The buffers for a chunk at latent `start`. Copies out of `recalled`, keeps no reference to it."""
    network, frames = config.network, config.num_frame_per_block
    example = window[0].self_kv if window else None
    if example is None:
        raise ValueError("a window needs at least its empty chunk: use empty_kv")
    pieces = [*_pieces(config, window, start, recalled)]
    num_past = sum(piece.kv.shape[2] for piece in pieces)
    shape = (network.num_layers, num_past + config.chunk_tokens, network.num_heads, network.head_width)
    k, v = example.new_empty(shape), example.new_empty(shape)  # [L, P + N, H, d] each
    at = 0
    for piece in pieces:
        end = at + piece.kv.shape[2]
        turns = _grid(config, piece.positions, example.device)
        parts = piece.kv.unflatten(-1, (network.num_heads, -1))  # [L, 2, T, H, d]
        for layer in range(network.num_layers):  # one by one: in complex128 all layers at once would take gigabytes
            k[layer, at:end] = rotate(parts[layer, 0], turns)
        v[:, at:end] = parts[:, 1]
        at = end
    own = tuple(range(start, start + frames))
    action_turns, action_past = action_reach(config, window, start, own)
    return Reach(k, v, _grid(config, own, example.device), action_turns, action_past)


def _grid(config: Config, positions: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return grid_angles(positions, config.latent_rows, config.latent_cols, config.network.head_width, str(device))


def _pieces(config: Config, window: Window, start: int, recalled: Sequence[Recalled]) -> Iterator[_Piece]:
    """What is in front of the chunk, in the order of the native cache."""
    network, frames = config.network, config.num_frame_per_block
    num_sink, num_rolling = past_split(start, frames, network.local_attn_size, network.sink_size)
    yield from _frames_of(config, window, range(num_sink))
    newest_first = sorted(recalled, key=lambda block: block.start, reverse=True)
    first = window_start(start, frames, network.local_attn_size, network.sink_size)
    starts = recall_starts(config.placement, first, frames, [block.start for block in newest_first], start)
    for block, at in reversed(list(zip(newest_first, starts, strict=True))):
        yield _Piece(block.kv, tuple(range(at, at + frames)))
    yield from _frames_of(config, window, range(start - num_rolling, start))


def _frames_of(config: Config, window: Window, wanted: range) -> Iterator[_Piece]:
    """The `wanted` latent frames that the window holds, chunk by chunk, at their own positions."""
    for chunk in window:
        first = max(wanted.start, chunk.start)
        end = min(wanted.stop, chunk.start + chunk.num_frames)
        if first < end:
            tokens = slice((first - chunk.start) * config.frame_tokens, (end - chunk.start) * config.frame_tokens)
            yield _Piece(chunk.self_kv[:, :, tokens], tuple(range(first, end)))


def action_reach(
    config: Config, window: Window, start: int, own: tuple[int, ...]
) -> tuple[Turns, tuple[ActionPast, ...]]:
    """Rotations and past keys of the action module, whose caches have no sink (spec 6)."""
    action = config.network.action
    if action is None:
        raise ValueError("this network has no action module")
    wanted = past_frames(start, config.num_frame_per_block, config.network.local_attn_size, 0)
    past: list[int] = []
    keyboards, mice = [window[0].keyboard_kv[:, :, :0]], []
    if window[0].mouse_kv is not None:
        mice.append(window[0].mouse_kv[:, :, :, :0])
    for chunk in window:
        kept = [i for i in range(chunk.num_frames) if chunk.start + i in wanted]
        past += [chunk.start + i for i in kept]
        keyboards.append(chunk.keyboard_kv[:, :, kept])
        if chunk.mouse_kv is not None:
            mice.append(chunk.mouse_kv[:, :, :, kept])
    device = window[0].self_kv.device
    own_cos, own_sin = action_angles(own, action.rope_dim_list, action.rope_theta)  # [F, d]
    past_cos, past_sin = action_angles(past, action.rope_dim_list, action.rope_theta)  # [P, d]
    turns = Turns(own_cos.to(device), own_sin.to(device), past_cos.to(device), past_sin.to(device))
    keyboard = torch.cat(keyboards, dim=2)  # [A, 2, P, Wk]
    mouse = torch.cat(mice, dim=3) if mice else None  # [A, 2, S, P, Wm]
    blocks = range(len(keyboard))
    return turns, tuple(ActionPast(None if mouse is None else mouse[i], keyboard[i]) for i in blocks)


def empty_kv(config: Config, dtype: torch.dtype, device: torch.device) -> ChunkKV:
    """A chunk of no frames: what the window of a new world holds."""
    network, action = config.network, config.network.action
    if action is None:
        raise ValueError("this network has no action module")
    count = len(action.blocks)
    mouse = None
    if action.enable_mouse:
        mouse = torch.empty(count, 2, config.frame_tokens, 0, action.mouse_hidden_dim, dtype=dtype, device=device)
    return ChunkKV(
        start=0,
        self_kv=torch.empty(network.num_layers, 2, 0, network.dim, dtype=dtype, device=device),
        keyboard_kv=torch.empty(count, 2, 0, action.keyboard_hidden_dim, dtype=dtype, device=device),
        mouse_kv=mouse,
    )


def slid(config: Config, window: Window, newest: ChunkKV) -> Window:
    """The window after a chunk: with `newest`, without the chunks that no later chunk can see. Shares what it keeps."""
    frames, network = config.num_frame_per_block, config.network
    start = newest.start + frames
    seen = {*past_frames(start, frames, network.local_attn_size, network.sink_size)}
    seen |= {*past_frames(start, frames, network.local_attn_size, 0)}
    chunks = (*window, newest)
    kept = tuple(c for c in chunks if not seen.isdisjoint(range(c.start, c.start + c.num_frames)))
    return kept or (newest,)
