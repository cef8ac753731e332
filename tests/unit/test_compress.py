"""Frames to bytes and back."""

import io
from typing import Any

import numpy as np
import pytest
import xxhash
from PIL import Image

from server import compress as module
from server.compress import compress, digest

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def picture() -> Pixels:
    """[96, 128, 3]: smooth, with one hard coloured edge."""
    y, x = np.mgrid[0:96, 0:128]
    pixels = np.stack([2 * x, 2 * y, 255 - x - y], axis=2).clip(0, 255).astype(np.uint8)
    pixels[:, 64:] = (200, 20, 30)
    return pixels


def opened(data: bytes, kind: str) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data), formats=[kind]).convert("RGB"))


def psnr_db(a: Pixels, b: Pixels) -> float:
    error = float(np.mean((a.astype(np.float64) - b) ** 2))
    return 10 * np.log10(255.0**2 / error)


def test_png_gives_back_the_same_pixels() -> None:
    assert np.array_equal(opened(compress(picture(), "png"), "PNG"), picture())


@pytest.mark.parametrize("encode", [module._jpeg, module._pillow_jpeg], ids=["found", "pillow"])
def test_jpeg_keeps_colour_edges(encode: Any) -> None:
    data = encode(picture())
    assert psnr_db(opened(data, "JPEG"), picture()) > 38.0
    with Image.open(io.BytesIO(data)) as image:
        assert [layer[1:3] for layer in image.layer] == [(1, 1)] * 3  # 4:4:4


def test_a_view_into_a_larger_array_is_fine() -> None:
    wide = np.zeros((96, 256, 3), np.uint8)
    wide[:, ::2] = picture()
    assert np.array_equal(opened(compress(wide[:, ::2], "png"), "PNG"), picture())
    assert digest(wide[:, ::2]) == digest(picture())


def test_the_digest_is_that_of_the_raw_pixels() -> None:
    assert digest(picture()) == xxhash.xxh3_128(picture().tobytes()).digest()
    changed = picture()
    changed[0, 0, 0] ^= 1
    assert digest(changed) != digest(picture())


def test_what_is_no_frame_is_our_own_fault() -> None:
    with pytest.raises(AssertionError):
        compress(np.zeros((4, 4), np.uint8), "png")
    with pytest.raises(AssertionError):
        compress(np.zeros((4, 4, 3), np.float32), "png")  # type: ignore[arg-type]
