"""The network: a transformer over patches that reads remembered frames where their points appear. No scene; any thread.

A remembered frame is encoded alone, so its K and V depend on no other frame and on no position: `encode` gives them
unturned. `denoise` predicts clean latents of chunks from noisy ones, given turned keys and values.
B chunks, C frames of a chunk, N patches of a frame, D width, H heads, L layers, K remembered tokens.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from models.rooms.attention import KeyValueBuffer, attend
from models.rooms.geometry import own_angles
from models.rooms.patches import CHANNELS
from models.rooms.rotation import HEAD, Turn, gather, spread
from models.rooms.sizes import TOKENS

WIDTH = 256  # D
LAYERS = 6  # L
_MLP_RATIO = 3
_TIME_WAVES = 32

KeysValues = tuple[torch.Tensor, torch.Tensor]
# heads of every layer; empty where nothing is remembered
TurnedMemory = Sequence[KeysValues] | Sequence[KeyValueBuffer]


class Layer(nn.Module):
    """One transformer layer: attention between turned heads, then a squared-ReLU MLP, both residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width, bias=False)
        self.before_mlp = nn.LayerNorm(width, bias=False)
        self.query_norm = nn.LayerNorm(HEAD, bias=False)
        self.key_norm = nn.LayerNorm(HEAD, bias=False)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)
        self.widen = nn.Linear(width, _MLP_RATIO * width, bias=False)
        self.narrow = nn.Linear(_MLP_RATIO * width, width, bias=False)
        nn.init.zeros_(self.join.weight)
        nn.init.zeros_(self.narrow.weight)

    def queries_keys_values(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return Q, K, V, each [F, N, D], not turned."""
        query, key, value = self.project(self.before_attention(x)).chunk(3, dim=-1)
        query = self.query_norm(query.unflatten(-1, (-1, HEAD))).flatten(-2)
        key = self.key_norm(key.unflatten(-1, (-1, HEAD))).flatten(-2)
        return query, key, value

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the layer's output [F, N, D] from its input and what attention gathered."""
        x = x + self.join(attended)
        return x + self.narrow(functional.relu(self.widen(self.before_mlp(x))).square())


class RoomsNetwork(nn.Module):
    """Weights of the embedded world. Pure: it keeps nothing between calls."""

    def __init__(self, width: int = WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Linear(CHANNELS, width)
        self.place = nn.Parameter(torch.randn(TOKENS, width) * 0.02)
        self.kind = nn.Parameter(torch.randn(2, width) * 0.02)  # remembered, drawn
        self.time = nn.Sequential(nn.Linear(2 * _TIME_WAVES, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([Layer(width) for _ in range(layers)])
        self.last_norm = nn.LayerNorm(width, bias=False)
        self.leave = nn.Linear(width, CHANNELS)
        nn.init.zeros_(self.leave.weight)
        self._own_turn = Turn.by(own_angles()[None, None])  # no buffer: it stays float32

    @property
    def _stack(self) -> list[Layer]:
        return cast(list[Layer], list(self.layers))

    @property
    def own_turn(self) -> Turn:
        """The turn of every patch to its place in its own frame."""
        return self._own_turn.to(self.place.device)

    def encode(self, latents: torch.Tensor, noise: torch.Tensor) -> list[KeysValues]:
        """Return K and V per layer, each [F, N, D] unturned, of frames [F, N, CHANNELS] with noise levels [F]."""
        own = self.own_turn
        x = self.embed(latents, noise, 0)
        kept: list[KeysValues] = []
        for index, layer in enumerate(self._stack):
            query, key, value = layer.queries_keys_values(x)
            kept.append((key, value))
            if index + 1 < len(self.layers):
                heads = attend(spread(query, own), spread(key, own), spread(value, own))
                x = layer.finish(x, gather(heads, own))
        return kept

    def denoise(
        self, latents: torch.Tensor, times: torch.Tensor, mates: Turn, remembered: TurnedMemory
    ) -> torch.Tensor:
        """Return clean latents [B, C, N, CHANNELS] of noisy ones at times [B].

        `mates` turns a chunk's own tokens [B, C, C*N]; `remembered` are turned heads [B*C, H, K, HEAD] per layer, or
        buffers of them with place for the chunk's own, or an empty list.
        """
        frames = latents.flatten(0, 1)
        x = self.embed(frames, times.repeat_interleave(latents.shape[1]), 1)
        return self.leave(self.read(x, mates, remembered)).view(latents.shape)

    def read(self, x: torch.Tensor, mates: Turn, remembered: TurnedMemory) -> torch.Tensor:
        """Return what embedded frames of chunks [B*C, N, D] are after all layers; arguments as of `denoise`."""
        batch = len(x) // mates.cos.shape[1]
        own = self.own_turn
        for index, layer in enumerate(self._stack):
            query, key, value = layer.queries_keys_values(x)
            keys = spread(key.reshape(batch, -1, self.width), mates)
            values = spread(value.reshape(batch, -1, self.width), mates)
            heads = attend(spread(query, own), keys, values, remembered[index] if remembered else None)
            x = layer.finish(x, gather(heads, own))
        return self.last_norm(x)

    def turn_memory(self, kept: list[KeysValues], turn: Turn) -> list[KeysValues]:
        """Return K and V per layer [B, K, D] turned for every camera: heads [B*Q, H, K, HEAD]."""
        return [(spread(key, turn), spread(value, turn)) for key, value in kept]

    def embed(self, latents: torch.Tensor, times: torch.Tensor, kind: int) -> torch.Tensor:
        """Return frames [F, N, D] of latents [F, N, CHANNELS] at noise levels [F]; kind 0 is remembered, 1 drawn."""
        dtype = self.place.dtype
        waves = torch.exp(torch.linspace(0.0, math.log(200.0), _TIME_WAVES, device=times.device))
        phase = times.float()[:, None] * waves
        time = self.time(torch.cat([phase.cos(), phase.sin()], dim=-1).to(dtype))  # [F, D]
        return self.enter(latents.to(dtype)) + self.place + (self.kind[kind] + time)[:, None]
