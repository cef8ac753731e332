"""Split mode on the window: both pictures side by side, and how far they have drifted apart. Main thread; pygame."""

import pygame

from client.picture import Picture
from client.screen import Screen, letterbox
from client.split import Split
from client.theme import ALERT, BACKDROP, DIM, INK, LINE, PANEL, PANEL_ALPHA, TROUGH, Colour, Type, slab

_BAND_PX = 128  # below the panes
_FULL_DB, _EMPTY_DB = 45.0, 10.0  # of the curve


class SplitView:
    """Keeps the two enlarged pictures."""

    def __init__(self) -> None:
        self._panes = (Screen(), Screen())
        self._shown: tuple[Picture, Picture] | None = None

    def draw(self, target: pygame.Surface, type_: Type, split: Split) -> None:
        """The panes, their names, and the curve below them."""
        width_px, height_px = target.get_size()
        band_px, half_px = type_.px(_BAND_PX), width_px // 2
        target.fill(BACKDROP)
        both = split.both
        if both is None:
            return
        if self._shown != (both.with_recall, both.without):
            self._shown = (both.with_recall, both.without)
            for pane, picture in zip(self._panes, self._shown, strict=True):
                pane.show(picture)
        places = (
            pygame.Rect(0, 0, half_px, height_px - band_px),
            pygame.Rect(half_px, 0, half_px, height_px - band_px),
        )
        for pane, place, words, tone in zip(
            self._panes, places, ("with recall", "without recall"), (INK, ALERT), strict=True
        ):
            pane.draw(target.subsurface(place))
            picture = letterbox((both.without.width_px, both.without.height_px), place.size).move(place.topleft)
            _draw_name(target, type_, picture, words, tone)
        target.fill(LINE, pygame.Rect(half_px - 1, 0, 2, height_px - band_px))
        _draw_curve(target, type_, split, pygame.Rect(0, height_px - band_px, width_px, band_px))


def _draw_name(target: pygame.Surface, type_: Type, picture: pygame.Rect, words: str, tone: Colour) -> None:
    """Above the picture where there is room, else in its upper edge."""
    text = type_.text(words, 15, tone, bold=True)
    panel = pygame.Rect(0, 0, text.get_width() + type_.px(28), type_.px(34))
    panel.midtop = (picture.centerx, max(type_.px(56), picture.top - panel.height - type_.px(10)))
    target.blit(slab(panel.width, panel.height, type_.px(9), PANEL, PANEL_ALPHA, TROUGH), panel)
    target.blit(text, text.get_rect(center=panel.center))


def _draw_curve(target: pygame.Surface, type_: Type, split: Split, place: pygame.Rect) -> None:
    """PSNR between the panes over the pairs so far: a line that falls says that they drift apart."""
    target.fill(PANEL, place)
    pad_px = type_.px(20)
    both = split.both
    value = f"{both.psnr_db:.1f} dB" if both is not None else "-"
    label = type_.text("alike, PSNR", 12, DIM)
    number = type_.text(value, 22, INK, bold=True)
    chunk = type_.text(f"chunk {both.without.chunk}" if both is not None else "", 12, DIM)
    target.blit(label, (place.left + pad_px, place.top + type_.px(18)))
    target.blit(number, (place.left + pad_px, place.top + type_.px(38)))
    target.blit(chunk, (place.left + pad_px, place.top + type_.px(72)))
    hint = type_.text("the same controls on both sides · C ends", 12, DIM)
    target.blit(hint, (place.left + pad_px, place.bottom - type_.px(26)))
    left_px = place.left + pad_px + max(type_.px(150), number.get_width() + type_.px(40))
    plot = pygame.Rect(left_px, place.top + type_.px(18), place.right - pad_px - left_px, type_.px(66))
    pygame.draw.rect(target, TROUGH, plot, border_radius=type_.px(4))
    for decibels in (20.0, 30.0, 40.0):
        mark = type_.text(f"{decibels:.0f}", 10.5, DIM)
        y_px = _height_px(plot, decibels)
        pygame.draw.line(target, LINE, (plot.left, y_px), (plot.right - mark.get_width() - type_.px(10), y_px))
        target.blit(mark, mark.get_rect(midright=(plot.right - type_.px(4), y_px)))
    values = list(split.curve)
    if len(values) < 2:
        return
    step_px = plot.width / max(60, len(values) - 1)
    points = [(plot.left + index * step_px, _height_px(plot, decibels)) for index, decibels in enumerate(values)]
    pygame.draw.lines(target, ALERT, False, points, max(2, type_.px(2)))


def _height_px(plot: pygame.Rect, decibels: float) -> float:
    share = min(1.0, max(0.0, (decibels - _EMPTY_DB) / (_FULL_DB - _EMPTY_DB)))
    return plot.bottom - 3 - share * (plot.height - 6)
