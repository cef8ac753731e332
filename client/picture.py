"""Pictures: a frame's compressed bytes made into RGB. Owns decoding and its limits; the link's thread runs it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import Any

from PIL import Image

from shared.pose import Pose
from shared.protocol import Frame, ProtocolError


@dataclass(frozen=True, slots=True)
class Picture:
    """One decoded frame with what the server said about it."""

    frame_id: int
    pts_s: float
    chunk: int
    index: int
    pose: Pose
    input_seq: int
    held_ms: float
    seeded: bool
    width_px: int
    height_px: int
    rgb: bytes  # height x width x 3
    sha: str = ""


def _fast_jpeg() -> Callable[..., Any] | None:
    """The decoder of simplejpeg where the extra `fast` is installed: half of Pillow's time."""
    try:
        return import_module("simplejpeg").decode_jpeg
    except ImportError:
        return None


_FAST_JPEG = _fast_jpeg()


def decode(frame: Frame, width_px: int, height_px: int) -> Picture:
    """The picture in `frame`. Raises ProtocolError when it is damaged or not of the size that was agreed on."""
    try:
        size, rgb = _rgb(frame, (width_px, height_px))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ProtocolError("bad_frame", f"frame {frame.id} cannot be decoded as {frame.codec}") from error
    if size != (width_px, height_px):
        raise ProtocolError("bad_frame", f"frame {frame.id} is {size[0]}x{size[1]}, not {width_px}x{height_px}")
    return Picture(
        frame_id=frame.id,
        pts_s=frame.pts_s,
        chunk=frame.chunk,
        index=frame.index,
        pose=Pose(*frame.pose),
        input_seq=frame.input_seq,
        held_ms=frame.held_ms,
        seeded=frame.seeded,
        width_px=width_px,
        height_px=height_px,
        rgb=rgb,
        sha=frame.sha,
    )


def _rgb(frame: Frame, agreed: tuple[int, int]) -> tuple[tuple[int, int], bytes]:
    """(width and height, RGB bytes); pixels are only unpacked when the size is the agreed one."""
    with Image.open(BytesIO(frame.data), formats=(frame.codec.upper(),)) as image:
        if image.size != agreed:
            return (image.size, b"")
        if frame.codec == "jpeg" and _FAST_JPEG is not None:
            return (image.size, _FAST_JPEG(frame.data, colorspace="RGB").tobytes())
        return (image.size, image.convert("RGB").tobytes())
