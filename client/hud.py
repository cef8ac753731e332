"""The memory HUD: off, compact or full, and where its panels lie. Main thread.

Panels are drawn again a few times a second and kept; only the flights between the tiers are drawn on every pass.
"""

from enum import Enum

import pygame

from client import panels
from client.compact import LINE_PX, compact_line
from client.flights import Flights, draw_flights
from client.minimap import Minimap
from client.readings import marks, readings
from client.theme import Type
from client.walk import Walk
from shared.pose import Pose
from shared.tiers import Tier

COLUMN_PX = 304
MARGIN_PX = 16
_GAP_PX = 10
_MAP_PX = 196
_PANEL_S = 0.15  # between two drawings of the panels
_MAP_S = 0.1


class HudMode(Enum):
    """How much the HUD shows; H goes round."""

    FULL = "full"
    COMPACT = "compact"
    OFF = "off"

    @property
    def following(self) -> "HudMode":
        """The next one on the way round."""
        modes = list(HudMode)
        return modes[(modes.index(self) + 1) % len(modes)]


class Hud:
    """Draws what the memory does over the picture. Keeps its panels; one instance per scale of the window."""

    def __init__(self, type_: Type, mode: HudMode = HudMode.FULL) -> None:
        self.mode = mode
        self.type_ = type_
        self.marks: list[Pose] = []  # bookmarks, for the map
        self._map = Minimap()
        self._flights = Flights()
        self._panels: list[tuple[pygame.Surface, tuple[int, int]]] = []
        self._panels_s = -1.0
        self._strips: dict[Tier, pygame.Rect] = {}
        self._map_panel: pygame.Surface | None = None
        self._map_s = -1.0

    @property
    def scale(self) -> float:
        """The scale that this HUD was made for."""
        return self.type_.scale

    def free_area(self, size: tuple[int, int]) -> pygame.Rect:
        """The part of a window of this size where the HUD never draws."""
        column_px = self.type_.px(COLUMN_PX + MARGIN_PX) if self.mode is HudMode.FULL else 0
        line_px = self.type_.px(MARGIN_PX) + self.type_.px(LINE_PX) if self.mode is HudMode.COMPACT else 0
        return pygame.Rect(0, line_px, max(size[0] // 2, size[0] - column_px), size[1] - line_px)

    def moving_region(self, now_s: float) -> pygame.Rect | None:
        """The part of the window that moves between two pictures: where flights are in the air."""
        if self.mode is not HudMode.FULL or not self._strips or not self._flights.under_way(now_s):
            return None
        reach_px = self.type_.px(26)
        return self._strips[Tier.GPU].union(self._strips[Tier.NVME]).inflate(2 * reach_px, 2 * reach_px)

    def draw(self, target: pygame.Surface, walk: Walk, now_s: float) -> None:
        """Draw the HUD in its mode; in every mode moves are used up, so that none pile up unseen."""
        self._flights.feed(walk.atlas.moves, now_s)
        if walk.welcome is None or self.mode is HudMode.OFF:
            return
        if self.mode is HudMode.COMPACT:
            margin_px = self.type_.px(MARGIN_PX)
            target.blit(compact_line(self.type_, walk, now_s), (margin_px, margin_px))
        else:
            self._draw_full(target, walk, now_s)

    def _draw_full(self, target: pygame.Surface, walk: Walk, now_s: float) -> None:
        type_ = self.type_
        width_px, margin_px, gap_px = type_.px(COLUMN_PX), type_.px(MARGIN_PX), type_.px(_GAP_PX)
        left_px = target.get_width() - width_px - margin_px
        if now_s - self._map_s >= _MAP_S or self._map_panel is None:
            self._map_panel, self._map_s = self._render_map(walk, width_px, now_s), now_s
        memory_top_px = margin_px + self._map_panel.get_height() + gap_px
        if now_s - self._panels_s >= _PANEL_S:
            self._panels_s = now_s
            memory = panels.memory(type_, width_px, walk.atlas)
            lines = marks(walk.welcome, walk.atlas.stats)
            lines += readings(walk.record, walk.atlas, walk.link.rtt_ms, now_s)
            numbers = panels.numbers(type_, width_px, lines)
            numbers_top_px = memory_top_px + memory.get_height() + gap_px
            self._panels = [(memory, (left_px, memory_top_px)), (numbers, (left_px, numbers_top_px))]
            if numbers_top_px + numbers.get_height() > target.get_height():  # a small window: no half a panel
                self._panels.pop()
            self._strips = {
                tier: panels.strip_rect(type_, tier, width_px).move(left_px, memory_top_px) for tier in Tier
            }
        target.blit(self._map_panel, (left_px, margin_px))
        for panel, at in self._panels:
            target.blit(panel, at)
        if flights := self._flights.under_way(now_s):
            draw_flights(target, type_, flights, self._strips, now_s)
            for tier, strip in self._strips.items():  # once more: what flies hides no figure
                panels.draw_tier_words(target, type_, strip, tier, panels.state_of(walk.atlas.stats, tier))

    def _render_map(self, walk: Walk, width_px: int, now_s: float) -> pygame.Surface:
        """The map in its panel, with the number of blocks and what rings mean."""
        type_, atlas = self.type_, walk.atlas
        head_px, pad_px = type_.px(36), type_.px(8)
        surface = panels.panel(type_, width_px, head_px + type_.px(_MAP_PX) + pad_px)
        num_seeded = sum(place.seeded for place in atlas.places.values())
        remark = f"● {len(atlas.places) - num_seeded} invented  ○ {num_seeded} seeded"
        panels.heading(surface, type_, type_.px(12), "MAP", remark)
        view = self._map.render(type_, width_px - 2 * pad_px, type_.px(_MAP_PX), atlas, self.marks, now_s)
        surface.blit(view, (pad_px, head_px))
        return surface
