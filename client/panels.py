"""The panels of the full HUD: tiers, recall and numbers, drawn once in a while and kept. Main thread."""

import pygame

from client.atlas import Atlas, tier_of
from client.readings import Reading, bytes_in_words, fill_share
from client.theme import ACCENT, ALERT, DIM, INK, LINE, PANEL, PANEL_ALPHA, TROUGH, Colour, Type, slab
from shared.protocol import Stats, TierState
from shared.tiers import Tier

ROW_PX = 46
STRIP_PX = 12
HEAD_PX = 24
CAPTION_PX = 18  # below the chips
NOTHING_YET = "waiting for the first chunk"
_CAPTION = "block number · where it was found"
_CHIPS = 4
_CHIP_ROWS = 2
_LEAST_PX = 3
_MAX_CELLS = 64  # more blocks than this are drawn as one bar


def panel(type_: Type, width_px: int, height_px: int) -> pygame.Surface:
    """An empty panel to draw on."""
    return slab(width_px, height_px, type_.px(10), PANEL, PANEL_ALPHA, TROUGH).copy()


def heading(surface: pygame.Surface, type_: Type, top_px: int, left: str, right: str = "", tone: Colour = DIM) -> None:
    """A small title, and a remark at the right edge."""
    pad_px = type_.px(14)
    surface.blit(type_.text(left, 11, DIM, bold=True), (pad_px, top_px))
    remark = type_.text(right, 11, tone)
    surface.blit(remark, (surface.get_width() - pad_px - remark.get_width(), top_px))


def strip_rect(type_: Type, tier: Tier, width_px: int) -> pygame.Rect:
    """Where a tier's strip lies in the memory panel."""
    pad_px = type_.px(14)
    top_px = type_.px(14 + HEAD_PX + ROW_PX * int(tier) + 19)
    return pygame.Rect(pad_px, top_px, width_px - 2 * pad_px, type_.px(STRIP_PX))


def memory_height(type_: Type) -> int:
    """The height of the memory panel; it does not change with what is recalled."""
    return type_.px(14 + HEAD_PX + 3 * ROW_PX + HEAD_PX + 40 + CAPTION_PX + 12)


def memory(type_: Type, width_px: int, atlas: Atlas) -> pygame.Surface:
    """The three tiers and the recall of the last chunk."""
    surface = panel(type_, width_px, memory_height(type_))
    stats = atlas.stats
    heading(surface, type_, type_.px(13), "MEMORY", NOTHING_YET if atlas.chunk is None else f"chunk {atlas.chunk}")
    for tier in Tier:
        _draw_tier(surface, type_, tier, state_of(stats, tier), atlas)
    _draw_recall(surface, type_, atlas)
    return surface


def state_of(stats: Stats | None, tier: Tier) -> TierState | None:
    """A tier's figures; None before the first chunk."""
    return stats.tiers[tier] if stats is not None and tier < len(stats.tiers) else None


def draw_tier_words(
    surface: pygame.Surface, type_: Type, strip: pygame.Rect, tier: Tier, state: TierState | None
) -> None:
    """Above its strip: the tier's name, and its figures once there are any."""
    top_px = strip.top - type_.px(18)
    surface.blit(type_.text(tier.name, 13, ACCENT[tier], bold=True), (strip.left, top_px))
    if state is None:
        return
    surface.blit(type_.text(_counted(state.blocks), 12, INK), (strip.left + type_.px(48), top_px))
    size = type_.text(f"{bytes_in_words(state.used_bytes)} / {bytes_in_words(state.budget_bytes)}", 12, DIM)
    surface.blit(size, (strip.right - size.get_width(), top_px))


def _draw_tier(surface: pygame.Surface, type_: Type, tier: Tier, state: TierState | None, atlas: Atlas) -> None:
    """`state` is None before the first chunk: an empty strip, and no figures that nobody has measured."""
    strip = strip_rect(type_, tier, surface.get_width())
    draw_tier_words(surface, type_, strip, tier, state)
    surface.blit(slab(strip.width, strip.height, type_.px(3), LINE, 255), strip)
    if state is not None and state.used_bytes:
        share = fill_share(state.used_bytes, state.budget_bytes)
        fill_px = max(type_.px(_LEAST_PX), round(strip.width * share))  # a few blocks of many are seen, too
        surface.blit(slab(fill_px, strip.height, type_.px(3), ACCENT[tier], 225), strip)
        _draw_cells(surface, type_, strip, fill_px, state.blocks)
        _draw_recalled_cells(surface, type_, pygame.Rect(strip.topleft, (fill_px, strip.height)), tier, atlas)


def _draw_cells(surface: pygame.Surface, type_: Type, strip: pygame.Rect, fill_px: int, num_blocks: int) -> None:
    """Gaps that make the single blocks visible, while they are few."""
    if not 1 < num_blocks <= min(_MAX_CELLS, fill_px // type_.px(4)):
        return
    for index in range(1, num_blocks):
        x_px = strip.left + round(fill_px * index / num_blocks)
        pygame.draw.line(surface, PANEL, (x_px, strip.top), (x_px, strip.bottom - 1), type_.px(1))


def _draw_recalled_cells(surface: pygame.Surface, type_: Type, filled: pygame.Rect, tier: Tier, atlas: Atlas) -> None:
    """The blocks of the recall that lie in this tier now shine."""
    recalled = set(atlas.stats.recalled) if atlas.stats and atlas.is_recall_known else set[int]()
    here = [place.block_id for place in atlas.places.values() if place.tier == tier]
    width_px = max(type_.px(3), filled.width // max(1, len(here)) - type_.px(1))
    for rank, block_id in enumerate(here):
        if block_id in recalled:
            left_px = filled.left + filled.width * rank // len(here)
            surface.fill(INK, pygame.Rect(left_px, filled.top, min(width_px, filled.right - left_px), filled.height))


def _draw_recall(surface: pygame.Surface, type_: Type, atlas: Atlas) -> None:
    top_px = type_.px(14 + HEAD_PX + 3 * ROW_PX)
    stats = atlas.stats if atlas.is_recall_known else None
    remark, is_bad = _recall_in_words(stats)
    heading(surface, type_, top_px, "RECALLED NOW", remark, ALERT if is_bad else DIM)
    recalled = list(zip(stats.recalled, stats.recalled_tiers, strict=False)) if stats else []
    shown = recalled[: _CHIPS * _CHIP_ROWS]
    gap_px, pad_px = type_.px(6), type_.px(14)
    rows = _CHIP_ROWS if len(shown) > _CHIPS else 1
    width_px = (surface.get_width() - 2 * pad_px - (_CHIPS - 1) * gap_px) // _CHIPS
    height_px = type_.px(36) if rows == 1 else type_.px(18)
    for index, (block_id, tier_number) in enumerate(shown):
        at = (
            pad_px + (index % _CHIPS) * (width_px + gap_px),
            top_px + type_.px(HEAD_PX - 2) + (index // _CHIPS) * (height_px + type_.px(3)),
        )
        _draw_chip(surface, type_, pygame.Rect(at, (width_px, height_px)), block_id, tier_of(tier_number))
    if shown:
        caption = type_.text(_CAPTION, 10.5, DIM)
        surface.blit(caption, (pad_px, surface.get_height() - type_.px(CAPTION_PX + 6)))


def _recall_in_words(stats: Stats | None) -> tuple[str, bool]:
    """What the last chunk was drawn with, and whether that is worth a look. None: no chunk was drawn here yet."""
    if stats is None:
        return ("with the next chunk", False)
    if not stats.recalls:
        return ("switched off", True)
    if stats.stale:
        here = len(set(stats.wanted) & set(stats.recalled))
        return (f"stale: {here} of {len(stats.wanted)} wanted", True)
    return (_counted(len(stats.recalled)) if stats.recalled else "nothing old in view", False)


def _draw_chip(surface: pygame.Surface, type_: Type, place: pygame.Rect, block_id: int, tier: Tier | None) -> None:
    """One recalled block: its number, and the tier that held it when it was first wanted."""
    colour = ACCENT[tier] if tier is not None else DIM
    surface.blit(slab(place.width, place.height, type_.px(5), colour, 52), place)
    number = type_.text(f"#{block_id}", 12, INK)
    if place.height < type_.px(30):
        surface.blit(number, number.get_rect(center=place.center))
        return
    surface.blit(number, number.get_rect(midtop=(place.centerx, place.top + type_.px(3))))
    name = type_.text(tier.name if tier is not None else "?", 10.5, colour, bold=True)
    surface.blit(name, name.get_rect(midbottom=(place.centerx, place.bottom - type_.px(3))))


def _counted(num_blocks: int) -> str:
    return f"{num_blocks} block" if num_blocks == 1 else f"{num_blocks} blocks"


def numbers_height(type_: Type, num_lines: int) -> int:
    """The height of the panel of numbers."""
    return type_.px(12 + 19 * num_lines + 10)


def numbers(type_: Type, width_px: int, lines: list[Reading]) -> pygame.Surface:
    """Labels at the left, values at the right."""
    surface = panel(type_, width_px, numbers_height(type_, len(lines)))
    pad_px = type_.px(14)
    for index, line in enumerate(lines):
        top_px = type_.px(12 + 19 * index)
        surface.blit(type_.text(line.label, 12, DIM), (pad_px, top_px))
        value = type_.text(line.value, 12, ALERT if line.is_bad else INK)
        surface.blit(value, (width_px - pad_px - value.get_width(), top_px))
    return surface
