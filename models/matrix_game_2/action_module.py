"""The action module of a block: mouse and keyboard act on the tokens (spec 5). Engine thread.

Its two `*_norm.weight` pairs exist in the checkpoint and are never applied (spec 11.1): they are declared so that the
key list is complete, and `checkpoint.py` says when they are not 1.
"""

from dataclasses import dataclass

import torch
from torch import nn

from models.matrix_game_2.attention import attend, unit_rms
from models.matrix_game_2.config import ActionConfig
from models.matrix_game_2.positions import rotate_action


@dataclass(frozen=True, slots=True)
class Turns:
    """Cosines and sines `[T, d]` of the action rotation: of the chunk's frames, and of the past frames before them."""

    own_cos: torch.Tensor
    own_sin: torch.Tensor
    past_cos: torch.Tensor
    past_sin: torch.Tensor

    def keys(self, past: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Past and own keys `[..., T, H, d]` turned to their places, one behind the other."""
        turned_past = rotate_action(past, self.past_cos, self.past_sin)
        return torch.cat([turned_past, rotate_action(own, self.own_cos, self.own_sin)], dim=-3)


@dataclass(frozen=True, slots=True)
class ActionPast:
    """Unrotated keys and values of a block's past frames P: mouse `[2, S, P, Wm]`, keyboard `[2, P, Wk]`."""

    mouse: torch.Tensor | None
    keyboard: torch.Tensor


class EmptyNorm(nn.Module):
    """A weight that the checkpoint carries and nothing applies."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))


class ActionModule(nn.Module):
    """Adds the mouse's and then the keyboard's influence to the tokens of a chunk."""

    def __init__(self, config: ActionConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        hidden, rows = config.hidden_size, config.window_rows
        self.keyboard_embed = nn.Sequential(
            nn.Linear(config.keyboard_dim_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        )
        self.mouse_attn_q = nn.Linear(dim, config.keyboard_hidden_dim, bias=False)  # the keyboard query, spec 11.2
        self.keyboard_attn_kv = nn.Linear(hidden * rows, 2 * config.keyboard_hidden_dim, bias=False)
        self.key_attn_q_norm = EmptyNorm(config.keyboard_head_width)
        self.key_attn_k_norm = EmptyNorm(config.keyboard_head_width)
        self.proj_keyboard = nn.Linear(config.keyboard_hidden_dim, dim, bias=False)
        if config.enable_mouse:
            self._add_mouse(config, dim, rows)

    def _add_mouse(self, config: ActionConfig, dim: int, rows: int) -> None:
        width = config.mouse_hidden_dim
        self.mouse_mlp = nn.Sequential(
            nn.Linear(dim + rows * config.mouse_dim_in, width),
            nn.GELU(approximate="tanh"),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )
        self.t_qkv = nn.Linear(width, 3 * width, bias=False)
        self.img_attn_q_norm = EmptyNorm(config.mouse_head_width)
        self.img_attn_k_norm = EmptyNorm(config.mouse_head_width)
        self.proj_mouse = nn.Linear(width, dim, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        keyboard: torch.Tensor,
        mouse: torch.Tensor | None,
        past: ActionPast,
        turns: Turns,
    ) -> tuple[torch.Tensor, ActionPast]:
        """Tokens `x [F, S, D]` after both branches, and the chunk's own unrotated keys and values.

        `keyboard [F, rows, K]` and `mouse [F, rows, 2]` are each latent frame's action window.
        """
        own_mouse = None
        if self.config.enable_mouse and mouse is not None and past.mouse is not None:
            delta, own_mouse = self._mouse(x, mouse, past.mouse, turns)
            x = x + delta
        delta, own_keyboard = self._keyboard(x, keyboard, past.keyboard, turns)
        return x + delta, ActionPast(own_mouse, own_keyboard)

    def _mouse(
        self, x: torch.Tensor, mouse: torch.Tensor, past: torch.Tensor, turns: Turns
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention over time at each location: the batch is the S locations."""
        frames, tokens, _ = x.shape
        window = mouse.flatten(1).expand(tokens, frames, -1)  # [S, F, rows*2]
        hidden = self.mouse_mlp(torch.cat([x.transpose(0, 1), window], dim=-1))  # [S, F, Wm]
        q, k, v = self.t_qkv(hidden).chunk(3, dim=-1)  # [S, F, Wm] each
        heads = (self.config.heads_num, -1)
        q, k = unit_rms(q.unflatten(-1, heads)), unit_rms(k.unflatten(-1, heads))  # [S, F, Hm, dm]
        q = rotate_action(q, turns.own_cos, turns.own_sin)
        keys = turns.keys(past[0].unflatten(-1, heads), k)  # [S, P + F, Hm, dm]
        values = torch.cat([past[1], v], dim=1).unflatten(-1, heads)  # [S, P + F, Hm, dm]
        out = attend(q, keys, values)  # [S, F, Wm]
        return self.proj_mouse(out.transpose(0, 1)), torch.stack([k.flatten(-2), v])

    def embedded_windows(self, keyboard: torch.Tensor) -> torch.Tensor:
        """`keyboard [F, rows, K]` embedded row by row and laid flat: `[F, rows*hidden]`."""
        return self.keyboard_embed(keyboard).flatten(1)

    def _keyboard(
        self, x: torch.Tensor, keyboard: torch.Tensor, past: torch.Tensor, turns: Turns
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Each token attends over the latent frames; one key and value a frame, shared by all locations."""
        heads = (self.config.heads_num, -1)
        k, v = self.keyboard_attn_kv(self.embedded_windows(keyboard)).chunk(2, dim=-1)  # [F, Wk] each
        k = unit_rms(k.unflatten(-1, heads))  # [F, Hk, dk]
        q = unit_rms(self.mouse_attn_q(x).transpose(0, 1).unflatten(-1, heads))  # [S, F, Hk, dk]
        q = rotate_action(q, turns.own_cos, turns.own_sin)
        keys = turns.keys(past[0].unflatten(-1, heads), k)  # [P + F, Hk, dk]
        values = torch.cat([past[1], v]).unflatten(-1, heads)  # [P + F, Hk, dk]
        shared = (len(q), -1, -1, -1)  # every location sees the same keys
        out = attend(q, keys.expand(shared), values.expand(shared))  # [S, F, Wk]
        return self.proj_keyboard(out.transpose(0, 1)), torch.stack([k.flatten(-2), v])
