"""The Wan 2.1 VAE as a stream of values (spec 8): latents in, frames out, and back. Engine thread.

Module names are the keys of `Wan2.1_VAE.pth`. `decode_next` and `encode_next` take a state and return a new one; no
tensor of the old state is changed (promise 9). The decoder's state at 352x640 is 1.07 GB in float16.
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from models.matrix_game_2.layers import Layers
from models.matrix_game_2.vae_layers import (
    CausalConv3d,
    ChannelNorm,
    Down,
    FrameAttention,
    Residual,
    Slots,
    SlotTensors,
    Up,
    run,
)

Z_DIM = 16
WIDTHS = (1, 2, 4, 4)  # channel widths of the four stages, times the base width
GROUP_FRAMES = 4  # frames that the encoder takes at a time after the first one
# Mean and standard deviation of the latents, spec 8.
MEAN = (
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
    0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
)  # fmt: skip
STD = (
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
    3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160,
)  # fmt: skip


class Body(nn.Module):
    """What encoder and decoder share: a first convolution, a middle, stages, and a head."""

    def __init__(self, channels_in: int, middle: int, head_in: int, channels_out: int) -> None:
        super().__init__()
        first = head_in if channels_in == 3 else middle
        self.conv1 = CausalConv3d(channels_in, first)
        self.middle = Layers([Residual(middle, middle), FrameAttention(middle), Residual(middle, middle)])
        last = middle if channels_in == 3 else head_in
        self.head = nn.ModuleDict({"0": ChannelNorm(last), "2": CausalConv3d(last, channels_out)})

    def finish(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """Norm, SiLU and the last convolution."""
        return self.head["2"](functional.silu(self.head["0"](x)), slots)


class Encoder(Body):
    """Frames to 2Z numbers per latent cell."""

    def __init__(self, base: int) -> None:
        widths = [base * factor for factor in WIDTHS]
        super().__init__(3, widths[-1], base, 2 * Z_DIM)
        layers: list[nn.Module] = []
        width_in = base
        for stage, width in enumerate(widths):
            layers += [Residual(width_in, width), Residual(width, width)]
            if stage < len(widths) - 1:
                layers.append(Down(width, in_time=stage > 0))
            width_in = width
        self.downsamples = Layers(layers)

    def forward(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """`[1, 3, 1 or 4, H, W]` to `[1, 2Z, 1, H/8, W/8]`."""
        x = self.conv1(x, slots)
        x = run(self.downsamples, x, slots)
        return self.finish(run(self.middle, x, slots), slots)


class Decoder(Body):
    """Z numbers per latent cell to frames."""

    def __init__(self, base: int) -> None:
        widths = [base * factor for factor in reversed(WIDTHS)]
        super().__init__(Z_DIM, widths[0], base, 3)
        layers: list[nn.Module] = []
        width_in = widths[0]
        for stage, width in enumerate(widths):
            layers += [Residual(width_in, width), Residual(width, width), Residual(width, width)]
            if stage < len(widths) - 1:
                layers.append(Up(width, in_time=stage < len(widths) - 2))
                width_in = width // 2
        self.upsamples = Layers(layers)

    def forward(self, x: torch.Tensor, slots: Slots) -> torch.Tensor:
        """`[1, Z, 1, h, w]` to `[1, 3, 1 or 4, 8h, 8w]`."""
        x = self.conv1(x, slots)
        x = run(self.middle, x, slots)
        return self.finish(run(self.upsamples, x, slots), slots)


class VAE(nn.Module):
    """Encoder and decoder, one latent at a time. Its parameters are left unfilled: `weights.py` fills them."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(base), Decoder(base)
        self.conv1 = CausalConv3d(2 * Z_DIM, 2 * Z_DIM, (1, 1, 1))
        self.conv2 = CausalConv3d(Z_DIM, Z_DIM, (1, 1, 1))
        self.requires_grad_(requires_grad=False)

    def decode_next(self, latent: torch.Tensor, state: SlotTensors) -> tuple[torch.Tensor, SlotTensors]:
        """One normalised latent `[Z, h, w]` to its frames `[T, 3, H, W]` in [-1, 1]: 1 for a stream's first, then 4."""
        mean, std = self._moments(latent)
        slots = Slots(state)
        z = (latent / std.reciprocal() + mean).to(self.conv2.weight.dtype)[None, :, None]  # [1, Z, 1, h, w]
        frames = self.decoder(self.conv2(z), slots)[0]  # [3, T, H, W]
        return frames.clamp(-1, 1).transpose(0, 1), slots.finished()

    def encode_next(self, frames: torch.Tensor, state: SlotTensors) -> tuple[torch.Tensor, SlotTensors]:
        """1 frame (a stream's first) or 4 frames `[T, 3, H, W]` in [-1, 1] to one normalised latent `[Z, h, w]`."""
        slots = Slots(state)
        x = frames.to(self.conv1.weight.dtype).transpose(0, 1)[None]  # [1, 3, T, H, W]
        mu = self.conv1(self.encoder(x, slots))[0, :Z_DIM, 0].float()  # [Z, h, w]
        mean, std = self._moments(mu)
        return (mu - mean) * std.reciprocal(), slots.finished()

    def encode(self, frames: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Latents of a stream whose parts are one frame first, then `GROUP_FRAMES` at a time."""
        state: SlotTensors = ()
        for part in frames:
            latent, state = self.encode_next(part, state)
            yield latent

    def _moments(self, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean = like.new_tensor(MEAN).view(-1, 1, 1)  # [Z, 1, 1]
        return mean, like.new_tensor(STD).view(-1, 1, 1)


def grouped(video: torch.Tensor) -> Iterator[torch.Tensor]:
    """`[T, 3, H, W]` as the encoder takes it: the first frame, then groups of four."""
    yield video[:1]
    yield from video[1:].split(GROUP_FRAMES)


def num_bytes(state: SlotTensors) -> int:
    """Bytes of a stream's state."""
    return sum(tensor.nbytes for tensor in state)
