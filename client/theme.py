"""How the client looks: colours, the shipped font, cached text and smooth shapes. Main thread; needs pygame.

One accent colour per tier, used wherever a tier is shown. Nothing here knows what is drawn with it.
"""

from collections import OrderedDict
from functools import lru_cache
from pathlib import Path

import pygame

from shared.tiers import Tier

Colour = tuple[int, int, int]

BACKDROP: Colour = (7, 9, 12)
PANEL: Colour = (12, 16, 22)
TROUGH: Colour = (32, 39, 49)
LINE: Colour = (52, 61, 73)
INK: Colour = (232, 238, 244)
DIM: Colour = (146, 158, 171)
ALERT: Colour = (255, 107, 107)
MARK: Colour = (255, 214, 102)  # of bookmarks, wherever they are shown
ACCENT: dict[Tier, Colour] = {Tier.GPU: (94, 224, 160), Tier.DRAM: (97, 170, 255), Tier.NVME: (245, 170, 92)}
PANEL_ALPHA = 214

MIN_SCALE = 0.92  # at which the usual text has its least size, so that it fits what is drawn around it
BASE_WIDTH_PX, BASE_HEIGHT_PX = 1152, 768
_ASSETS = Path(__file__).parent / "assets"
MIN_TEXT_PX = 11
_MAX_TEXTS = 768
_SMOOTH = 3  # shapes are drawn this much larger and shrunk


def scale_for(width_px: int, height_px: int) -> float:
    """How large everything is drawn: 1 in the default window, about 2.8 on a 4K screen, never too small to be read."""
    return min(4.0, max(MIN_SCALE, min(width_px / BASE_WIDTH_PX, height_px / BASE_HEIGHT_PX)))


class Type:
    """The shipped font at one scale, with a bounded cache of rendered texts."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self._fonts: dict[tuple[int, bool], pygame.font.Font] = {}
        self._texts: OrderedDict[tuple[str, int, Colour, bool], pygame.Surface] = OrderedDict()

    def px(self, size: float) -> int:
        """A length of the design in pixels of this window."""
        return max(1, round(size * self.scale))

    def text(self, words: str, size: float, colour: Colour, *, bold: bool = False) -> pygame.Surface:
        """The words as a surface with a clear background."""
        size_px = max(MIN_TEXT_PX, self.px(size))
        key = (words, size_px, colour, bold)
        if key in self._texts:
            self._texts.move_to_end(key)
            return self._texts[key]
        surface = self._font(size_px, bold=bold).render(words, True, colour)
        self._texts[key] = surface
        if len(self._texts) > _MAX_TEXTS:
            self._texts.popitem(last=False)
        return surface

    def _font(self, size_px: int, *, bold: bool) -> pygame.font.Font:
        if (size_px, bold) not in self._fonts:
            name = "DejaVuSansMono-Bold.ttf" if bold else "DejaVuSansMono.ttf"
            self._fonts[(size_px, bold)] = pygame.font.Font(str(_ASSETS / name), size_px)
        return self._fonts[(size_px, bold)]

    def wrap(self, words: str, size: float, width_px: int) -> list[str]:
        """The words in lines that are no wider than `width_px`."""
        lines = [""]
        for word in words.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.text(longer, size, INK).get_width() > width_px:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines


@lru_cache(maxsize=256)
def slab(
    width_px: int, height_px: int, radius_px: int, colour: Colour, alpha: int, border: Colour | None = None
) -> pygame.Surface:
    """A rectangle with round, smooth corners. The surface is shared: do not draw on it."""
    large = pygame.Surface((width_px * _SMOOTH, height_px * _SMOOTH), pygame.SRCALPHA)
    large.fill((*(border or colour), 0))
    shape = large.get_rect()
    if border is not None:
        pygame.draw.rect(large, (*border, min(255, alpha + 30)), shape, border_radius=radius_px * _SMOOTH)
        shape = shape.inflate(-2 * _SMOOTH, -2 * _SMOOTH)
    pygame.draw.rect(large, (*colour, alpha), shape, border_radius=max(1, radius_px * _SMOOTH - _SMOOTH))
    return pygame.transform.smoothscale(large, (width_px, height_px))


@lru_cache(maxsize=512)
def disc(radius_px: int, colour: Colour, alpha: int = 255, *, hollow: bool = False) -> pygame.Surface:
    """A smooth filled circle, or a ring. The surface is shared: do not draw on it."""
    factor = 4
    side_px = (2 * radius_px + 2) * factor
    large = pygame.Surface((side_px, side_px), pygame.SRCALPHA)
    large.fill((*colour, 0))
    line_px = max(factor, radius_px * factor * 2 // 5) if hollow else 0
    pygame.draw.circle(large, (*colour, alpha), (side_px // 2, side_px // 2), radius_px * factor, line_px)
    return pygame.transform.smoothscale(large, (side_px // factor, side_px // factor))


def mix(colour: Colour, ground: Colour, share: float) -> Colour:
    """A colour as it looks when it covers `share` of the ground."""
    red, green, blue = (round(b + (a - b) * share) for a, b in zip(colour, ground, strict=True))
    return (red, green, blue)


def blit_centred(target: pygame.Surface, sprite: pygame.Surface, x_px: float, y_px: float) -> None:
    """Draw a sprite with its centre at a place."""
    target.blit(sprite, (round(x_px - sprite.get_width() / 2), round(y_px - sprite.get_height() / 2)))
