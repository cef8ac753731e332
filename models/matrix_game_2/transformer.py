"""The transformer: one pass over one chunk (spec 4). Owns the weights, keeps no state. Engine thread.

Batch is 1 everywhere and is left out. F latent frames, S tokens a frame, N = F*S, D width, H heads of d.
Module names are the checkpoint's key names (spec 3).
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from models.matrix_game_2.action_module import ActionModule, ActionPast
from models.matrix_game_2.attention import Attention
from models.matrix_game_2.config import NetworkConfig
from models.matrix_game_2.layers import Layers
from models.matrix_game_2.positions import rotate
from models.matrix_game_2.window import Reach

KeysValues = tuple[torch.Tensor, torch.Tensor]  # [N, H, d] each, not rotated


@dataclass(frozen=True, slots=True)
class ChunkInput:
    """What all passes of one chunk share."""

    cond: torch.Tensor  # [20, F, h, w]: mask, then image latent
    keyboard: torch.Tensor  # [F, rows, K] action windows
    mouse: torch.Tensor | None  # [F, rows, 2]
    cross: torch.Tensor  # [L, 2, Tc, D], of `Transformer.cross_kv`
    reach: Reach


@dataclass(frozen=True, slots=True)
class OwnKV:
    """A pass's unrotated keys and values: self `[L, 2, N, D]`, keyboard `[A, 2, F, Wk]`, mouse `[A, 2, S, F, Wm]`."""

    self_kv: torch.Tensor
    keyboard_kv: torch.Tensor
    mouse_kv: torch.Tensor | None


class ImageEmbedding(nn.Module):
    """CLIP tokens to context tokens."""

    def __init__(self, clip_dim: int, dim: int) -> None:
        super().__init__()
        self.proj = nn.Sequential(
            nn.LayerNorm(clip_dim),
            nn.Linear(clip_dim, clip_dim),
            nn.GELU(),
            nn.Linear(clip_dim, dim),
            nn.LayerNorm(dim),
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """`[Tc, clip_dim]` to `[Tc, D]`."""
        return self.proj(tokens)


class Block(nn.Module):
    """One transformer block: self attention, cross attention, the action module where there is one, FFN."""

    def __init__(self, config: NetworkConfig, index: int) -> None:
        super().__init__()
        dim = config.dim
        self.eps = config.eps
        self.index = index
        self.modulation = nn.Parameter(torch.empty(1, 6, dim))
        self.self_attn = Attention(dim, config.num_heads, config.eps)
        self.cross_attn = Attention(dim, config.num_heads, config.eps)
        self.norm3 = nn.LayerNorm(dim, eps=config.eps)
        self.ffn = nn.Sequential(
            nn.Linear(dim, config.ffn_dim), nn.GELU(approximate="tanh"), nn.Linear(config.ffn_dim, dim)
        )
        has_action = config.action is not None and index in config.action.blocks
        self.action_model = ActionModule(config.action, dim) if has_action and config.action else None

    def forward(
        self, x: torch.Tensor, time: torch.Tensor, chunk: ChunkInput, past: ActionPast | None
    ) -> tuple[torch.Tensor, KeysValues, ActionPast | None]:
        """Tokens `x [F, S, D]` after the block, its self K,V `[N, H, d]`, and its action K,V. `time [F, 6, D]`."""
        shift1, scale1, gate1, shift2, scale2, gate2 = (self.modulation + time).unsqueeze(2).unbind(1)  # [F, 1, D] each
        delta, own = self.attend_window(self.modulated(x, shift1, scale1), chunk.reach)
        x = x + gate1 * delta
        x = x + self.attend_context(self.norm3(x), chunk.cross)
        own_action = None
        if self.action_model is not None and past is not None:
            x, own_action = self.action_model(x, chunk.keyboard, chunk.mouse, past, chunk.reach.action_turns)
        return x + gate2 * self.ffn(self.modulated(x, shift2, scale2)), own, own_action

    def modulated(self, x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Layer norm without weights, then scale and shift."""
        return functional.layer_norm(x, x.shape[-1:], eps=self.eps) * (1 + scale) + shift

    def attend_window(self, x: torch.Tensor, reach: Reach) -> tuple[torch.Tensor, KeysValues]:
        """Self attention of `x [F, S, D]` over the reach, which takes in the chunk's own keys first."""
        tokens = x.flatten(0, 1)  # [N, D]
        q = rotate(self.self_attn.project_q(tokens), reach.turns)  # [N, H, d]
        k, v = self.self_attn.project_kv(tokens)
        reach.write_own(self.index, k, v)
        out = self.self_attn(q, reach.k[self.index], reach.v[self.index])  # [N, D]
        return out.unflatten(0, x.shape[:2]), (k, v)

    def context_kv(self, context: torch.Tensor) -> torch.Tensor:
        """Keys and values of the context tokens `[Tc, D]`: `[2, Tc, D]`."""
        k, v = self.cross_attn.project_kv(context)
        return torch.stack([k.flatten(-2), v.flatten(-2)])

    def attend_context(self, x: torch.Tensor, cross: torch.Tensor) -> torch.Tensor:
        """Cross attention of `x [F, S, D]` over the context's keys and values `cross [L, 2, Tc, D]`."""
        q = self.cross_attn.project_q(x.flatten(0, 1))  # [N, H, d]
        k, v = cross[self.index].unflatten(-1, (self.cross_attn.heads, -1)).unbind(0)  # [Tc, H, d] each
        return self.cross_attn(q, k, v).unflatten(0, x.shape[:2])


class Head(nn.Module):
    """Tokens to the numbers of a patch."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        patch_t, patch_h, patch_w = config.patch_size
        self.eps = config.eps
        self.modulation = nn.Parameter(torch.empty(1, 2, config.dim))
        self.head = nn.Linear(config.dim, patch_t * patch_h * patch_w * config.out_dim)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """`x [F, S, D]` and the unprojected time embedding `[F, D]` to `[F, S, ph*pw*C]`."""
        shift, scale = (self.modulation + time.unsqueeze(1)).unsqueeze(2).unbind(1)  # [F, 1, D] each
        return self.head(functional.layer_norm(x, x.shape[-1:], eps=self.eps) * (1 + scale) + shift)


class Transformer(nn.Module):
    """The whole network. Its parameters are left unfilled: `weights.py` fills them."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        dim, patch = config.dim, config.patch_size
        self.patch_embedding = nn.Conv3d(config.in_dim, dim, kernel_size=patch, stride=patch)
        self.time_embedding = nn.Sequential(nn.Linear(config.freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.img_emb = ImageEmbedding(config.clip_dim, dim)
        self.blocks: Layers[Block] = Layers(Block(config, index) for index in range(config.num_layers))
        self.head = Head(config)
        self.requires_grad_(requires_grad=False)

    def embed_patches(self, x: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        """Noise `[16, F, h, w]` beside cond `[20, F, h, w]` to `[D, F, rows, cols]`."""
        return self.patch_embedding(torch.cat([x, cond]).unsqueeze(0))[0]

    def embed_time(self, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Timesteps `[F]` to the embedding e `[F, D]` and its projection e0 `[F, 6, D]`."""
        wave = sinusoid(t, self.config.freq_dim).to(self.patch_embedding.weight.dtype)  # [F, freq_dim]
        time = self.time_embedding(wave)
        return time, self.time_projection(time).unflatten(-1, (6, -1))

    def cross_kv(self, visual_context: torch.Tensor) -> torch.Tensor:
        """The context keys and values of every block, once per session: `[Tc, clip_dim]` to `[L, 2, Tc, D]`."""
        context = self.img_emb(visual_context)  # [Tc, D]
        return torch.stack([block.context_kv(context) for block in self.blocks])

    def forward(
        self, x: torch.Tensor, t: torch.Tensor, chunk: ChunkInput, *, keep_kv: bool = False
    ) -> tuple[torch.Tensor, OwnKV | None]:
        """The flow `[16, F, h, w]` of noisy latents `x` at timesteps `t [F]`; its K,V when asked for."""
        patches = self.embed_patches(x, chunk.cond)  # [D, F, rows, cols]
        time, time_proj = self.embed_time(t)
        tokens = patches.flatten(2).permute(1, 2, 0)  # [F, S, D]
        own_self: list[KeysValues] = []
        own_action: list[ActionPast] = []
        pasts = iter(chunk.reach.action_past)
        for block in self.blocks:
            past = next(pasts) if block.action_model is not None else None
            tokens, own, action = block(tokens, time_proj, chunk, past)
            if keep_kv:
                own_self.append(own)
                own_action += [action] if action is not None else []
        flow = unpatched(self.head(tokens, time), patches.shape[2:], self.config.patch_size)
        return flow, _stacked(own_self, own_action) if keep_kv else None


def sinusoid(t: torch.Tensor, width: int) -> torch.Tensor:
    """Timesteps `[F]` as `[F, width]` float64: cosines first, then sines (spec 4)."""
    half = width // 2
    frequencies = torch.pow(10_000, -torch.arange(half, device=t.device).to(torch.float64).div(half))  # [half]
    waves = torch.outer(t.to(torch.float64), frequencies)  # [F, half]
    return torch.cat([waves.cos(), waves.sin()], dim=1)


def unpatched(y: torch.Tensor, grid: torch.Size, patch: tuple[int, int, int]) -> torch.Tensor:
    """`[F, S, ph*pw*C]`, channel fastest, to `[C, F, rows*ph, cols*pw]`."""
    rows, cols = grid
    _, patch_h, patch_w = patch
    blocks = y.view(len(y), rows, cols, patch_h, patch_w, -1)  # [F, rows, cols, ph, pw, C]
    return blocks.permute(5, 0, 1, 3, 2, 4).reshape(-1, len(y), rows * patch_h, cols * patch_w)


def _stacked(own_self: list[KeysValues], own_action: list[ActionPast]) -> OwnKV:
    first = own_self[0][0].flatten(-2)  # [N, D]
    self_kv = first.new_empty(len(own_self), 2, *first.shape)  # [L, 2, N, D]
    for layer, (k, v) in enumerate(own_self):
        self_kv[layer, 0], self_kv[layer, 1] = k.flatten(-2), v.flatten(-2)
    mice = [action.mouse for action in own_action if action.mouse is not None]
    return OwnKV(
        self_kv=self_kv,
        keyboard_kv=torch.stack([action.keyboard for action in own_action]),
        mouse_kv=torch.stack(mice) if mice else None,
    )
