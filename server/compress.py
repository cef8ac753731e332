"""Frames [H, W, 3] of uint8 RGB to JPEG or lossless PNG, and the hash of their raw pixels. Pure; any thread."""

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash
from PIL import Image

from shared.protocol import Codec

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # [H, W, 3] RGB

JPEG_QUALITY = 95  # 90 is a quarter fewer bytes, and edges speckle where a small frame fills a window
PNG_LEVEL = 1  # higher levels cost ten times the time for a few percent


def _pillow_jpeg(pixels: Pixels) -> bytes:
    out = io.BytesIO()
    # 4:4:4: a small frame that is scaled up shows halved colour at every edge
    Image.fromarray(pixels).save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return out.getvalue()


def _find_jpeg() -> Callable[[Pixels], bytes]:
    """Take simplejpeg where it is installed: half the time of Pillow."""
    try:
        encode: Callable[..., bytes] = importlib.import_module("simplejpeg").encode_jpeg
    except ImportError:
        return _pillow_jpeg
    return lambda pixels: encode(pixels, quality=JPEG_QUALITY, colorspace="RGB", colorsubsampling="444")


_jpeg = _find_jpeg()


def compress(pixels: Pixels, codec: Codec) -> bytes:
    """The bytes of one frame. PNG gives back exactly these pixels."""
    assert pixels.dtype == np.uint8
    assert pixels.shape[2:] == (3,)
    pixels = np.ascontiguousarray(pixels)
    if codec == "jpeg":
        return _jpeg(pixels)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=PNG_LEVEL)
    return out.getvalue()


def digest(pixels: Pixels) -> bytes:
    """xxh3_128 of the raw pixels, row by row: a moment keeps it, and exact mode sends it in hexadecimal."""
    return xxhash.xxh3_128_digest(np.ascontiguousarray(pixels).data)
