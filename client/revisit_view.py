"""The revisit meter on the window: then and now in three views, the score, and the way back. Main thread; pygame."""

import math
from enum import Enum

import pygame

from client.likeness import Rgb, laid_over
from client.panels import panel
from client.revisit import REACH_M, Guide, Meter, Pair
from client.revisit_sheet import HEAT_GAIN, difference, rank_in_words, recall_in_words
from client.theme import ALERT, DIM, INK, MARK, PANEL, PANEL_ALPHA, TROUGH, Type, slab

MARGIN_PX = 16
_PICTURE_PX = 250  # width of a picture in the panel; the single ones are as wide as two
_GAP_PX, _PAD_PX = 10, 14
_LINGER_S = 12.0  # the panel stays this long after its player left
_BLINK_S = 0.45


class MeterView(Enum):
    """How then and now are shown; V goes round."""

    BESIDE = "side by side"
    BLINK = "blink"
    HEAT = "difference"
    HIDDEN = "hidden"

    @property
    def following(self) -> "MeterView":
        """The next one on the way round."""
        views = list(MeterView)
        return views[(views.index(self) + 1) % len(views)]


class RevisitView:
    """Draws the meter in the lower left corner. Keeps what it has enlarged, for as long as the pair is the same."""

    def __init__(self) -> None:
        self.view = MeterView.BESIDE
        self._pair: Pair | None = None
        self._key: tuple[object, ...] = ()
        self._enlarged: dict[str, pygame.Surface] = {}

    def draw(self, target: pygame.Surface, type_: Type, meter: Meter, guide: Guide | None, now_s: float) -> None:
        """The pair while its bookmark is in reach and some seconds longer, else the way to the nearest one."""
        if meter.pair is not None and self.shows(meter, now_s):
            surface = self._render(type_, meter.pair, now_s)
            margin_px = type_.px(MARGIN_PX)
            target.blit(surface, (margin_px, target.get_height() - surface.get_height() - margin_px))
        elif guide is not None:
            _draw_guide(target, type_, guide)

    def shows(self, meter: Meter, now_s: float) -> bool:
        """Whether the panel is on the window: near its bookmark, and some seconds longer."""
        pair, here = meter.pair, meter.here
        if pair is None or self.view is MeterView.HIDDEN:
            return False
        is_near = here is not None and here.name == pair.bookmark.name
        return is_near or now_s - pair.now.at_s < _LINGER_S

    def _render(self, type_: Type, pair: Pair, now_s: float) -> pygame.Surface:
        picture_px, pad_px, gap_px = type_.px(_PICTURE_PX), type_.px(_PAD_PX), type_.px(_GAP_PX)
        shape = pair.now.picture.height_px / pair.now.picture.width_px
        width_px = 2 * picture_px + gap_px
        height_px = round((picture_px if self.view is MeterView.BESIDE else width_px) * shape)
        surface = panel(type_, width_px + 2 * pad_px, type_.px(60) + height_px + type_.px(82))
        title = type_.text(f"REVISIT {pair.bookmark.name}", 13, MARK, bold=True)
        surface.blit(title, (pad_px, type_.px(12)))
        when = f"{pair.gap_chunks} chunks and {pair.gap_s:.0f} s later · V view · X export"
        remark = type_.text(when, 11, DIM)
        surface.blit(remark, (surface.get_width() - pad_px - remark.get_width(), type_.px(14)))
        self._draw_pictures(surface, type_, pair, pygame.Rect(pad_px, type_.px(56), width_px, height_px), now_s)
        _draw_score(surface, type_, pair, pad_px, type_.px(56) + height_px + type_.px(8))
        return surface

    def _draw_pictures(
        self, surface: pygame.Surface, type_: Type, pair: Pair, place: pygame.Rect, now_s: float
    ) -> None:
        size = (type_.px(_PICTURE_PX), place.height) if self.view is MeterView.BESIDE else place.size
        now_words = f"now · {recall_in_words(pair.now)}"
        label_top_px = place.top - type_.px(19)
        if self.view is MeterView.BESIDE:
            right_px = place.right - size[0]
            surface.blit(self._picture(pair, "then", size), place.topleft)
            surface.blit(self._picture(pair, "now", size), (right_px, place.top))
            surface.blit(type_.text("then", 12, INK), (place.left, label_top_px))
            surface.blit(type_.text(now_words, 12, INK), (right_px, label_top_px))
        elif self.view is MeterView.BLINK:
            is_then = int(now_s / _BLINK_S) % 2 == 0
            surface.blit(self._picture(pair, "then" if is_then else "over", size), place.topleft)
            words = "then" if is_then else f"{now_words}, laid over then"
            surface.blit(type_.text(words, 12, INK), (place.left, label_top_px))
        else:
            surface.blit(self._picture(pair, "heat", size), place.topleft)
            surface.blit(type_.text(f"difference x{HEAT_GAIN:g}, {now_words}", 12, INK), (place.left, label_top_px))

    def _picture(self, pair: Pair, what: str, size: tuple[int, int]) -> pygame.Surface:
        if self._pair is not pair or self._key != (self.view, size):
            self._pair, self._key = pair, (self.view, size)
            self._enlarged = {}
        if what not in self._enlarged:
            self._enlarged[what] = _enlarged(_pixels(pair, what), size)
        return self._enlarged[what]


def _pixels(pair: Pair, what: str) -> Rgb:
    if what == "then":
        return pair.bookmark.view.rgb
    if what == "now":
        return pair.now.rgb
    if what == "heat":
        return difference(pair)
    moved, mask = laid_over(pair.now.rgb, pair.likeness.alignment)
    moved[~mask] = TROUGH
    return moved


def _enlarged(rgb: Rgb, size: tuple[int, int]) -> pygame.Surface:
    height_px, width_px = rgb.shape[:2]
    return pygame.transform.smoothscale(pygame.image.frombuffer(rgb.tobytes(), (width_px, height_px), "RGB"), size)


def _draw_score(surface: pygame.Surface, type_: Type, pair: Pair, left_px: int, top_px: int) -> None:
    """The registered score large, the raw one beside it, and what other places say."""
    likeness, at = pair.likeness, pair.likeness.alignment
    score = type_.text(f"{likeness.ssim:.2f}", 24, INK, bold=True)
    surface.blit(score, (left_px, top_px))
    x_px = left_px + score.get_width() + type_.px(12)
    registered = f"SSIM registered · {likeness.psnr_db:.1f} dB on {likeness.overlap:.0%} of the picture"
    raw = (
        f"raw {likeness.raw_ssim:.2f} · {likeness.raw_psnr_db:.1f} dB · off by {math.hypot(at.dx_px, at.dy_px):.0f} px"
    )
    surface.blit(type_.text(registered, 12, INK), (x_px, top_px))
    surface.blit(type_.text(raw, 12, DIM), (x_px, top_px + type_.px(17)))
    tone = DIM if pair.is_recognised else ALERT
    surface.blit(type_.text(rank_in_words(pair), 12, tone), (left_px, top_px + type_.px(42)))


def _draw_guide(target: pygame.Surface, type_: Type, guide: Guide) -> None:
    """A line with an arrow: where the bookmark lies from here."""
    degrees = round(math.degrees(guide.turn_rad))
    turn = f"turn {abs(degrees)}° {'right' if degrees > 0 else 'left'}" if abs(degrees) > 2 else "look as you do now"
    away = f"{guide.distance_m:.1f} m · there {turn}" if guide.distance_m > REACH_M else f"here · {turn}"
    name = type_.text(guide.bookmark.name, 14, MARK, bold=True)
    words = type_.text(away, 12, INK)
    arrow_px, pad_px, height_px = type_.px(22), type_.px(12), type_.px(36)
    width_px = pad_px + name.get_width() + pad_px + arrow_px + pad_px + words.get_width() + pad_px
    left_px, top_px = type_.px(MARGIN_PX), target.get_height() - height_px - type_.px(MARGIN_PX)
    target.blit(slab(width_px, height_px, type_.px(10), PANEL, PANEL_ALPHA, TROUGH), (left_px, top_px))
    middle_px = top_px + height_px // 2
    target.blit(name, name.get_rect(midleft=(left_px + pad_px, middle_px)))
    _draw_arrow(
        target, (left_px + 2 * pad_px + name.get_width() + arrow_px // 2, middle_px), guide.bearing_rad, arrow_px
    )
    target.blit(words, words.get_rect(midleft=(left_px + width_px - pad_px - words.get_width(), middle_px)))


def _draw_arrow(target: pygame.Surface, at: tuple[int, int], bearing_rad: float, size_px: int) -> None:
    """An arrow head: up is straight ahead, right is to the right."""
    points = [
        (at[0] + reach * size_px * math.sin(bearing_rad + turn), at[1] - reach * size_px * math.cos(bearing_rad + turn))
        for reach, turn in ((0.5, 0.0), (0.42, 2.5), (0.16, math.pi), (0.42, -2.5))
    ]
    pygame.draw.polygon(target, MARK, points)
    pygame.draw.aalines(target, MARK, True, points)
