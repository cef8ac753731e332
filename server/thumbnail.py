"""A world's thumbnail: the newest frame as its driver left it, as a JPEG in the world's folder. Event loop."""

import logging
from pathlib import Path
from typing import NamedTuple

import aiofiles
import aiofiles.os

_log = logging.getLogger(__name__)


class Thumbnail(NamedTuple):
    """A picture and where it goes."""

    path: Path
    jpeg: bytes


async def write_thumbnail(thumbnail: Thumbnail) -> None:
    """Write it beside the old one and swap them. A disk that refuses costs the picture and nothing else."""
    new = thumbnail.path.with_name(f"thumbnail-{id(thumbnail):x}.new")  # two drivers of one world may leave at once
    try:
        async with aiofiles.open(new, "wb") as file:
            await file.write(thumbnail.jpeg)
        await aiofiles.os.replace(new, thumbnail.path)
    except OSError as error:
        _log.warning("thumbnail not written world=%s error=%s", thumbnail.path.parent.name, error.strerror)
