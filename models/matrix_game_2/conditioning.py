"""From a picture to what the network is told about it: crop, image latents, mask (spec 8). Engine thread.

The image latents are those of the picture followed by grey frames; from latent 29 on they no longer change, so 30 are
encoded once and the last is repeated for ever: a session has no fixed length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch

from models.base import Pixels
from models.matrix_game_2.vae import GROUP_FRAMES, VAE

MAX_IMAGE_BYTES = 16 << 20
MAX_IMAGE_PIXELS = 40_000_000
IMAGE_FORMATS = ("JPEG", "PNG", "WEBP")


@dataclass(frozen=True, slots=True)
class CondTail:
    """The image latents of a session `[Z, 30, h, w]`, whose last one goes on for ever. Immutable."""

    latents: torch.Tensor

    def chunk(self, start: int, frames: int, channels: int) -> torch.Tensor:
        """`[channels, F, h, w]` for latents from `start` on: the mask (1 at latent 0 only), then the image latent."""
        last = self.latents.shape[1] - 1
        indexes = [min(last, start + i) for i in range(frames)]
        image = self.latents[:, indexes]  # [Z, F, h, w]
        mask = torch.zeros_like(image[:1]).expand(channels - len(image), -1, -1, -1).clone()  # [4, F, h, w]
        if start == 0:
            mask[:, 0] = 1
        return torch.cat([mask, image])


def decode_seed_image(data: bytes) -> Pixels:
    """A picture that somebody sent, `[H, W, 3]`. Raises ValueError for what is too big or no JPEG, PNG or WebP.

    Size and pixel count are checked before a single pixel is decoded.
    """
    if len(data) > MAX_IMAGE_BYTES:
        raise ValueError(f"the picture has {len(data):,} bytes, more than {MAX_IMAGE_BYTES:,}")
    from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415 - nothing else here needs Pillow

    try:
        with Image.open(BytesIO(data), formats=IMAGE_FORMATS) as image:
            width, height = image.size
            if width * height > MAX_IMAGE_PIXELS:
                raise ValueError(f"the picture has {width}x{height} pixels, more than {MAX_IMAGE_PIXELS:,}")
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise ValueError(f"the picture cannot be read as {', '.join(IMAGE_FORMATS)}: {error}") from error


def read_seed_image(path: Path) -> Pixels:
    """A picture from a file. Raises ValueError, naming the file, for what cannot be read or is too big."""
    try:
        with path.open("rb") as file:
            return decode_seed_image(file.read(MAX_IMAGE_BYTES + 1))
    except (OSError, ValueError) as error:
        raise ValueError(f"seed image {path}: {error}") from error


def cropped(pixels: Pixels, frame_hw_px: tuple[int, int]) -> Pixels:
    """The picture's centre in the frame's aspect, then resized to the frame: `[H, W, 3]` (spec 8)."""
    frame_h, frame_w = frame_hw_px
    height, width = pixels.shape[:2]
    if (height, width) == frame_hw_px:
        return pixels
    from PIL import Image  # noqa: PLC0415 - a picture of the frame's own size needs no Pillow

    if height / width > frame_h / frame_w:
        crop_w, crop_h = width, int(width * frame_h / frame_w)
    else:
        crop_w, crop_h = int(height * frame_w / frame_h), height
    left, top = width / 2 - crop_w / 2, height / 2 - crop_h / 2
    box = [round(side) for side in (left, top, width / 2 + crop_w / 2, height / 2 + crop_h / 2)]
    image = Image.fromarray(pixels).crop((box[0], box[1], box[2], box[3]))
    return np.asarray(image.resize((frame_w, frame_h), Image.Resampling.BILINEAR))


def to_frame(pixels: Pixels) -> torch.Tensor:
    """Pixels `[H, W, 3]` as a frame `[3, H, W]` float32 in [-1, 1]."""
    unit = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float().div(255)  # [3, H, W]
    return (unit - 0.5) / 0.5


def to_pixels(frames: torch.Tensor) -> list[Pixels]:
    """Frames `[T, 3, H, W]` in [-1, 1] as pixels `[H, W, 3]` each."""
    levels = ((frames.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)  # [T, 3, H, W]
    return list(levels.permute(0, 2, 3, 1).contiguous().cpu().numpy())


def grey_after(frame: torch.Tensor, num_latents: int) -> Iterator[torch.Tensor]:
    """The encoder's input for a session: the picture `[3, H, W]`, then mid-grey frames."""
    yield frame[None]
    grey = torch.zeros(GROUP_FRAMES, *frame.shape, device=frame.device)
    for _ in range(num_latents - 1):
        yield grey


def image_latents(vae: VAE, frame: torch.Tensor, num_latents: int) -> torch.Tensor:
    """The normalised latents `[Z, num_latents, h, w]` of the picture `[3, H, W]` and the grey behind it."""
    return torch.stack(list(vae.encode(grey_after(frame, num_latents))), dim=1)


def first_view(seed: int, frame_hw_px: tuple[int, int]) -> Pixels:
    """A picture to begin with when nobody sends one: sky over ground with soft hills, a function of the seed."""
    height, width = frame_hw_px
    rng = np.random.Generator(np.random.Philox(key=seed & (2**64 - 1)))
    across = np.linspace(0.0, 2.0 * np.pi, width)  # [W]
    waves = [rng.uniform(0.02, 0.06) * np.sin(n * across + rng.uniform(0, 6.28)) for n in (1, 2, 3, 5)]
    horizon = (0.5 + np.sum(waves, axis=0)) * height  # [W]
    rows = np.arange(height)[:, None]  # [H, 1]
    sky = np.array([110, 160, 220]) + np.multiply.outer(np.ones((height, width)), rng.integers(-25, 25, 3))
    ground = np.array([90, 120, 70]) + np.multiply.outer(np.ones((height, width)), rng.integers(-30, 30, 3))
    shade = 0.7 + 0.3 * np.abs(rows - horizon[None]) / height  # [H, W]
    picture = np.where((rows < horizon[None])[..., None], sky, ground) * shade[..., None]
    grain = rng.normal(0.0, 6.0, (height, width, 1))
    return np.clip(picture + grain, 0, 255).astype(np.uint8)  # [H, W, 3]
