"""The picture on the window: enlarged smoothly, letterboxed, kept until the next one. Main thread."""

import pygame
from PIL import Image

from client.picture import Picture
from client.theme import BACKDROP

_SMALL_PX = 256  # frames narrower than this are enlarged in two steps
_FIRST_STEP = 4


def letterbox(frame_size: tuple[int, int], window_size: tuple[int, int]) -> pygame.Rect:
    """The largest place of the frame's shape in the middle of the window."""
    scale = min(window_size[0] / frame_size[0], window_size[1] / frame_size[1])
    width_px, height_px = max(1, round(frame_size[0] * scale)), max(1, round(frame_size[1] * scale))
    return pygame.Rect((window_size[0] - width_px) // 2, (window_size[1] - height_px) // 2, width_px, height_px)


class Screen:
    """The newest picture, scaled to the window once and drawn on every pass."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._scaled: pygame.Surface | None = None

    def show(self, picture: Picture) -> None:
        """From now on draw this picture."""
        self._picture, self._scaled = picture, None

    def draw(self, target: pygame.Surface) -> None:
        """Fill the window: the picture, and dark bars where it does not fit."""
        picture = self._picture
        if picture is None:
            target.fill(BACKDROP)
            return
        place = letterbox((picture.width_px, picture.height_px), target.get_size())
        if self._scaled is None or self._scaled.get_size() != place.size:
            self._scaled = _enlarge(picture, place.size, target)
        if place.size != target.get_size():
            target.fill(BACKDROP)
        target.blit(self._scaled, place)


def _enlarge(picture: Picture, size: tuple[int, int], like: pygame.Surface) -> pygame.Surface:
    """Small frames go through a cubic filter first: straight bilinear steps of 12 to 1 show as stars and stairs."""
    frame_size, rgb = (picture.width_px, picture.height_px), picture.rgb
    if picture.width_px < _SMALL_PX and size[0] > 2 * picture.width_px:
        image = Image.frombytes("RGB", frame_size, rgb)
        frame_size = (frame_size[0] * _FIRST_STEP, frame_size[1] * _FIRST_STEP)
        rgb = image.resize(frame_size, Image.Resampling.LANCZOS).tobytes()
    return pygame.transform.smoothscale(pygame.image.frombuffer(rgb, frame_size, "RGB").convert(like), size)
