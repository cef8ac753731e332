"""The CLIP vision tower (ViT-H/14): an image to its tokens before the last block (spec 8). Engine thread.

Module names are the keys of the checkpoint below `visual.`. The last block, the last norm and the projection are loaded
by nobody and applied by nobody: the features are the output of the last block but one.
"""

import torch
from torch import nn
from torch.nn import functional

from models.matrix_game_2.layers import Layers

EPS = 1e-5
# Mean and standard deviation of CLIP's pixels, spec 8.
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class ClipAttention(nn.Module):
    """Attention with one projection to q, k and v."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[T, D]` to `[T, D]`."""
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(1, 2, 0, 3)[:, None]  # [1, H, T, d] each
        return self.proj(functional.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).flatten(1))


class ClipBlock(nn.Module):
    """A pre-norm block with an exact GELU."""

    def __init__(self, dim: int, heads: int, mlp_dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=EPS), nn.LayerNorm(dim, eps=EPS)
        self.attn = ClipAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[T, D]` to `[T, D]`."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ClipTower(nn.Module):
    """The tower up to its last block but one."""

    def __init__(self, dim: int, heads: int, layers: int, image_px: int, patch_px: int, mlp_dim: int = 0) -> None:
        super().__init__()
        num_tokens = (image_px // patch_px) ** 2 + 1
        self.patch_embedding = nn.Conv2d(3, dim, patch_px, stride=patch_px, bias=False)
        self.cls_embedding = nn.Parameter(torch.empty(1, 1, dim))
        self.pos_embedding = nn.Parameter(torch.empty(1, num_tokens, dim))
        self.pre_norm = nn.LayerNorm(dim, eps=EPS)
        self.transformer = Layers(ClipBlock(dim, heads, mlp_dim or 4 * dim) for _ in range(layers - 1))
        self.requires_grad_(requires_grad=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels `[3, P, P]` to tokens `[T, D]`."""
        patches = self.patch_embedding(pixels[None])[0].flatten(1).transpose(0, 1)  # [T - 1, D]
        x = self.pre_norm(torch.cat([self.cls_embedding[0], patches]) + self.pos_embedding[0])  # [T, D]
        for block in self.transformer:
            x = block(x)
        return x


def clip_pixels(frame: torch.Tensor, image_px: int) -> torch.Tensor:
    """A frame `[3, H, W]` in [-1, 1] as CLIP's input `[3, P, P]`: bicubic, aspect squashed (spec 8)."""
    scaled = functional.interpolate(
        frame[None].float(), size=(image_px, image_px), mode="bicubic", align_corners=False
    )[0]
    mean = scaled.new_tensor(CLIP_MEAN).view(-1, 1, 1)
    return (scaled * 0.5 + 0.5 - mean) / scaled.new_tensor(CLIP_STD).view(-1, 1, 1)
