"""The compact HUD: one line of pieces from left to right. Main thread; needs pygame."""

import pygame

from client.panels import NOTHING_YET, state_of
from client.readings import fill_share, marks, ms_in_words
from client.theme import ACCENT, ALERT, DIM, INK, LINE, PANEL, PANEL_ALPHA, TROUGH, Type, slab
from client.walk import Walk
from shared.protocol import TierState
from shared.tiers import Tier

LINE_PX = 30
_BAR_PX, _BAR_HEIGHT_PX = 46, 6
_PAD_PX, _GAP_PX = 12, 6


def compact_line(type_: Type, walk: Walk, now_s: float) -> pygame.Surface:
    """Frames a second, latency, how full each tier is, stalls, and what the player must know about the picture."""
    stats = walk.atlas.stats
    p50_ms, _ = walk.record.latency_lately_ms()
    latency = "" if p50_ms is None else f" · {ms_in_words(p50_ms)} ms to photon"
    pace = f"{walk.record.fps_lately(now_s):.1f} fps{latency}"
    pieces = [type_.text(pace if stats else NOTHING_YET, 12, INK)]
    pieces += [_tier(type_, tier, state_of(stats, tier)) for tier in Tier]
    if stats is not None:
        words = f"{stats.stalls} stall{'' if stats.stalls == 1 else 's'}"
        pieces.append(type_.text(words, 12, ALERT if stats.stalls else DIM))
    for mark in marks(walk.welcome, stats):
        pieces.append(type_.text(f"{mark.label}: {mark.value}", 12, ALERT if mark.is_bad else INK))
    return _in_a_row(type_, pieces)


def _tier(type_: Type, tier: Tier, state: TierState | None) -> pygame.Surface:
    """Its name, and a bar that says how full it is."""
    name = type_.text(tier.name, 10.5, ACCENT[tier], bold=True)
    bar_px, height_px = type_.px(_BAR_PX), type_.px(_BAR_HEIGHT_PX)
    surface = pygame.Surface((name.get_width() + type_.px(_GAP_PX) + bar_px, name.get_height()), pygame.SRCALPHA)
    surface.blit(name, (0, 0))
    at = (name.get_width() + type_.px(_GAP_PX), (name.get_height() - height_px) // 2)
    surface.blit(slab(bar_px, height_px, type_.px(3), LINE, 255), at)
    if state is not None and state.used_bytes:
        fill_px = max(height_px, round(bar_px * fill_share(state.used_bytes, state.budget_bytes)))
        surface.blit(slab(fill_px, height_px, type_.px(3), ACCENT[tier], 235), at)
    return surface


def _in_a_row(type_: Type, pieces: list[pygame.Surface]) -> pygame.Surface:
    pad_px, height_px = type_.px(_PAD_PX), type_.px(LINE_PX)
    width_px = pad_px + sum(piece.get_width() + pad_px for piece in pieces)
    line = slab(width_px, height_px, type_.px(8), PANEL, PANEL_ALPHA, TROUGH).copy()
    x_px = pad_px
    for piece in pieces:
        line.blit(piece, piece.get_rect(midleft=(x_px, height_px // 2)))
        x_px += piece.get_width() + pad_px
    return line
