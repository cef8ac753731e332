"""What is written over the picture: cards in the middle, hints at the edges, the help. Main thread."""

import math

import pygame

from client.status import Card
from client.theme import ACCENT, BACKDROP, DIM, INK, PANEL, TROUGH, Colour, Type, slab
from shared.tiers import Tier

CAPTURE_HINT = "Click to look around · WASD to walk · F1 for help"
RELEASE_HINT = "Esc lets the mouse go"
_CARD_PX = 560
_LINE_PX = 22

HELP = (
    ("W A S D", "walk (by position, on every keyboard layout)"),
    ("mouse", "look around; click to capture it, Esc lets it go"),
    ("arrow keys", "walk and turn without a mouse"),
    ("B", "bookmark this view; when you come back, then and now are compared"),
    ("V · X", "show it side by side, blinking, as difference, not at all · export it"),
    ("M", "memory (recall) off and on"),
    ("C", "compare with and without recall, side by side; C ends it"),
    ("F5 · F9", "quick-save · quick-load"),
    ("Backspace", "rewind, while it is held"),
    ("F6 · T", "fork: go on on a new branch · timeline: go to a snapshot or branch"),
    ("H · P", "HUD: full, compact, off · pause the world"),
    ("F11 · F1", "full screen · this help"),
    ("Ctrl+Q", "quit, like closing the window; the world is saved"),
)
_LEGEND = (
    "On the map dots and rings are blocks of memory, their lines where they looked: dots",
    "were invented, rings were given at the start. White: you, and where you will be.",
    "Threads lead to the blocks that this picture was drawn with. Yellow: bookmarks.",
    "stalls: waits for memory above 0.5 ms. stale recalls: chunks drawn with another set",
    "than was wanted. lost: blocks that no tier could take in time. missed: copies that",
    "were damaged, failed or late. Under RECALLED NOW stand blocks by number, and the tier",
    "where each was found when it was first wanted.",
)


def draw_card(target: pygame.Surface, type_: Type, card: Card, now_s: float) -> None:
    """A card in the middle over a dimmed picture."""
    target.blit(_veil(target.get_size()), (0, 0))
    width_px = min(type_.px(_CARD_PX), target.get_width() - type_.px(32))
    pad_px, line_px = type_.px(28), type_.px(_LINE_PX)
    lines = [part for line in card.lines if line for part in type_.wrap(line, 13.5, width_px - 2 * pad_px)]
    bar_px = type_.px(26) if card.share is not None else 0
    height_px = pad_px + type_.px(38) + line_px * len(lines) + bar_px + pad_px - type_.px(6)
    place = pygame.Rect(0, 0, width_px, height_px)
    place.center = target.get_rect().center
    target.blit(slab(width_px, height_px, type_.px(14), PANEL, 236, TROUGH), place)
    dots = "." * (int(now_s * 2.0) % 4) if card.is_busy else ""
    target.blit(
        type_.text(card.title + dots, 21, INK, bold=True), (place.left + pad_px, place.top + pad_px - type_.px(4))
    )
    top_px = place.top + pad_px + type_.px(36)
    for line in lines:
        target.blit(type_.text(line, 13.5, DIM), (place.left + pad_px, top_px))
        top_px += line_px
    if card.share is not None:
        _draw_bar(
            target,
            pygame.Rect(place.left + pad_px, top_px + type_.px(10), width_px - 2 * pad_px, type_.px(8)),
            card.share,
            now_s,
        )


def _draw_bar(target: pygame.Surface, place: pygame.Rect, share: float, now_s: float) -> None:
    """A bar that breathes, so that a slow stage does not look dead."""
    target.blit(slab(place.width, place.height, place.height // 2, TROUGH, 255), place)
    fill_px = max(place.height, round(place.width * share))
    glow = round(205 + 50 * math.sin(now_s * 3.0))
    target.blit(slab(fill_px, place.height, place.height // 2, ACCENT[Tier.GPU], glow // 10 * 10), place)


def draw_hint(
    target: pygame.Surface, type_: Type, words: str, area: pygame.Rect, *, at_top: bool, colour: Colour = INK
) -> None:
    """A line or two on a small panel, in the middle of the upper or lower edge of `area`."""
    lines = [type_.text(line, 13, colour) for line in type_.wrap(words, 13, area.width - type_.px(64))]
    line_px = type_.px(20)
    width_px = max(line.get_width() for line in lines) + type_.px(32)
    place = pygame.Rect(0, 0, width_px, type_.px(16) + line_px * len(lines))
    place.centerx = area.centerx
    place.top = area.top + type_.px(16) if at_top else area.bottom - place.height - type_.px(22)
    target.blit(slab(place.width, place.height, type_.px(10), PANEL, 222, TROUGH), place)
    for index, line in enumerate(lines):
        middle = (place.centerx, place.top + type_.px(8) + index * line_px + line_px // 2)
        target.blit(line, line.get_rect(center=middle))


def draw_help(target: pygame.Surface, type_: Type) -> None:
    """The keys, and how to read the HUD."""
    target.blit(_veil(target.get_size()), (0, 0))
    pad_px, line_px = type_.px(28), type_.px(24)
    width_px = type_.px(720)
    height_px = 2 * pad_px + type_.px(34 + 34 + 20 * len(_LEGEND)) + line_px * len(HELP)
    place = pygame.Rect(0, 0, width_px, height_px)
    place.center = target.get_rect().center
    target.blit(slab(width_px, height_px, type_.px(14), PANEL, 240, TROUGH), place)
    left_px, top_px = place.left + pad_px, place.top + pad_px
    target.blit(type_.text("Walking", 18, INK, bold=True), (left_px, top_px - type_.px(4)))
    top_px += type_.px(34)
    for key, meaning in HELP:
        target.blit(type_.text(key, 13, ACCENT[Tier.GPU], bold=True), (left_px, top_px))
        target.blit(type_.text(meaning, 13, INK), (left_px + type_.px(104), top_px))
        top_px += line_px
    _draw_legend(target, type_, left_px, top_px + line_px // 2)


def _draw_legend(target: pygame.Surface, type_: Type, left_px: int, top_px: int) -> None:
    """What colours, signs and words mean."""
    x_px = left_px
    for tier, meaning in ((Tier.GPU, "at the model"), (Tier.DRAM, "in memory"), (Tier.NVME, "on disk")):
        name, words = type_.text(tier.name, 13, ACCENT[tier], bold=True), type_.text(meaning, 13, DIM)
        target.blit(name, (x_px, top_px))
        target.blit(words, (x_px + name.get_width() + type_.px(8), top_px))
        x_px += name.get_width() + words.get_width() + type_.px(30)
    for index, words in enumerate(_LEGEND):
        target.blit(type_.text(words, 12, DIM), (left_px, top_px + type_.px(24 + 20 * index)))


_VEILS: dict[tuple[int, int], pygame.Surface] = {}


def _veil(size: tuple[int, int]) -> pygame.Surface:
    """A dark veil of the size of the window; only the last size is kept."""
    if size not in _VEILS:
        _VEILS.clear()
        veil = pygame.Surface(size)
        veil.fill(BACKDROP)
        veil.set_alpha(150)
        _VEILS[size] = veil
    return _VEILS[size]
