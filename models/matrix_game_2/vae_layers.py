"""Building blocks of the Wan 2.1 VAE (spec 8), each fed frame by frame. Owns weights, keeps no state. Engine thread.

What a layer must remember of the frames before (the last inputs of a causal convolution) goes through `Slots`: old
tensors are read, new ones are put into a new tuple, and none is ever written to. So a stream's state is a value that
two continuations may share. Tensors are `[1, C, T, H, W]`.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional

KEPT_FRAMES = 2  # inputs that a causal convolution of kernel 3 looks back to

SlotTensors = tuple[torch.Tensor, ...]


class Slots:
    """One pass over the slots of a stream, in execution order: each layer takes its old one and puts its new one."""

    def __init__(self, old: SlotTensors) -> None:
        self._old = iter(old)
        self._new: list[torch.Tensor] = []
        self.is_first = not old

    def take(self, like: torch.Tensor) -> torch.Tensor:
        """The frames this layer kept, `[1, C, 0 to 2, H, W]`; none at the start of a stream."""
        return like[:, :, :0] if self.is_first else next(self._old)

    def put(self, kept: torch.Tensor) -> None:
        """Keep these frames for the next call, copied: what they are a view of may be large."""
        self._new.append(kept.clone())

    def finished(self) -> SlotTensors:
        """The slots for the next call."""
        return tuple(self._new)


class CausalConv3d(nn.Conv3d):
    """A convolution that looks only back in time; in front of the first frame there are zeros."""

    def __init__(self, channels_in: int, channels_out: int, kernel: tuple[int, int, int] = (3, 3, 3)) -> None:
        pads = tuple(size // 2 for size in kernel)
        super().__init__(channels_in, channels_out, kernel, padding=(0, pads[1], pads[2]))
        self.reach = kernel[0] - 1  # frames it looks back

    def forward(self, x: torch.Tensor, slots: Slots | None = None) -> torch.Tensor:
        """`[1, C, T, H, W]` to `[1, C', T, H, W]`; a convolution of one frame takes no slot."""
        if self.reach == 0 or slots is None:
            return super().forward(x)
        known = torch.cat([slots.take(x), x], dim=2)
        slots.put(known[:, :, -KEPT_FRAMES:])
        return super().forward(functional.pad(known, (0, 0, 0, 0, self.reach + x.shape[2] - known.shape[2], 0)))


class ChannelNorm(nn.Module):
    """L2-normalise over channels, times sqrt(C) and gamma; in float32, cast back."""

    def __init__(self, channels: int, *, is_image: bool = False) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.empty(channels, 1, 1) if is_image else torch.empty(channels, 1, 1, 1))
        self.scale = channels**0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[B, C, ...]` normalised."""
        return functional.normalize(x.float(), dim=1).to(x.dtype) * self.scale * self.gamma


class Residual(nn.Module):
    """Norm, SiLU, convolution, twice, beside a shortcut. The numbers are those of the checkpoint's keys."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.residual = nn.ModuleDict(
            {
                "0": ChannelNorm(channels_in),
                "2": CausalConv3d(channels_in, channels_out),
                "3": ChannelNorm(channels_out),
                "6": CausalConv3d(channels_out, channels_out),
            }
        )
        if channels_in != channels_out:
            self.shortcut = CausalConv3d(channels_in, channels_out, (1, 1, 1))

    def forward(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """`[1, C, T, H, W]` to `[1, C', T, H, W]`."""
        kept = self.shortcut(x) if hasattr(self, "shortcut") else x
        for norm, conv in (("0", "2"), ("3", "6")):
            x = self.residual[conv](functional.silu(self.residual[norm](x)), slots)
        return x + kept


class FrameAttention(nn.Module):
    """Single-head attention inside each frame."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = ChannelNorm(channels, is_image=True)
        self.to_qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """`[1, C, T, H, W]` with attention over H*W added."""
        frames = x[0].transpose(0, 1)  # [T, C, H, W]
        qkv = self.to_qkv(self.norm(frames)).flatten(2).transpose(1, 2).contiguous()  # [T, H*W, 3C]
        q, k, v = qkv.unsqueeze(1).chunk(3, dim=-1)  # [T, 1, H*W, C] each
        out = functional.scaled_dot_product_attention(q, k, v)[:, 0].transpose(1, 2)  # [T, C, H*W]
        return x + self.proj(out.reshape_as(frames)).transpose(0, 1)[None]


def _per_frame(layer: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """A 2-D layer on every frame of `[1, C, T, H, W]`."""
    return layer(x[0].transpose(0, 1)).transpose(0, 1)[None]


class Down(nn.Module):
    """Halve the height and width, and with `in_time` the frames after a stream's first one."""

    def __init__(self, channels: int, *, in_time: bool) -> None:
        super().__init__()
        self.resample = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(channels, channels, 3, stride=2))
        if in_time:
            self.time_conv = nn.Conv3d(channels, channels, (3, 1, 1), stride=(2, 1, 1))

    def forward(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """`[1, C, T, H, W]` to `[1, C, T', H/2, W/2]`."""
        x = _per_frame(self.resample, x)
        if not hasattr(self, "time_conv"):
            return x
        before = slots.take(x)  # [1, C, 0 or 1, H/2, W/2]
        slots.put(x[:, :, -1:])
        return x if slots.is_first else self.time_conv(torch.cat([before, x], dim=2))


class Up(nn.Module):
    """Double the height and width and halve the channels; with `in_time` double the frames after the first latent.

    The slot of a stream's first latent is a marker without frames: that latent is not doubled, and the next one does
    not see it but zeros.
    """

    def __init__(self, channels: int, *, in_time: bool) -> None:
        super().__init__()
        self.resample = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest-exact"), nn.Conv2d(channels, channels // 2, 3, padding=1)
        )
        if in_time:
            self.time_conv = CausalConv3d(channels, 2 * channels, (3, 1, 1))

    def forward(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """`[1, C, T, H, W]` to `[1, C/2, T or 2T, 2H, 2W]`."""
        if hasattr(self, "time_conv"):
            if slots.is_first:
                slots.put(x[:, :, :0])
            else:
                x = self._doubled(x, slots)
        return _per_frame(self.resample, x)

    def _doubled(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        before = slots.take(x)  # [1, C, 0 or 2, H, W]
        lead = x.new_zeros(*x.shape[:2], KEPT_FRAMES - before.shape[2], *x.shape[3:])
        known = torch.cat([lead, before, x], dim=2)  # [1, C, 2 + T, H, W]
        slots.put(known[:, :, -KEPT_FRAMES:])
        even, odd = nn.Conv3d.forward(self.time_conv, known).chunk(2, dim=1)  # [1, C, T, H, W] each
        return torch.stack([even, odd], dim=3).flatten(2, 3)  # [1, C, 2T, H, W]


def run(layers: Iterable[nn.Module], x: torch.Tensor, slots: Slots) -> torch.Tensor:
    """Layers one after the other over one stream."""
    for layer in layers:
        x = layer(x, slots)
    return x
