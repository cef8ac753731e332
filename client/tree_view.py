"""The timeline over the picture: a list of moments with their lanes, to look at and to go to. Main thread; pygame."""

import pygame

from client.theme import ACCENT, DIM, INK, PANEL, TROUGH, Colour, Type, slab
from client.tree import Row, rows_of, step, text_of
from shared.protocol import Tree
from shared.tiers import Tier

_ROW_PX, _LANE_PX = 27, 18
_WIDTH_PX = 620
_LANES: tuple[Colour, ...] = ((94, 224, 160), (97, 170, 255), (245, 170, 92), (214, 140, 255), (255, 214, 102))
_HINT = "↑ ↓ choose · Enter goes there · F5 keeps this moment · F6 forks · T closes"


class TreeView:
    """Open or closed, and which moment is chosen. The tree itself is asked for by Travel."""

    def __init__(self) -> None:
        self.is_open = False
        self._chosen: int | None = None
        self._rows: list[Row] = []

    def toggle(self) -> None:
        """Open or close it."""
        self.is_open = not self.is_open
        self._chosen = None

    def press(self, scancode: int) -> Row | None:
        """A key while it is open; the row to go to when one was chosen. Arrows and Enter are taken, no others."""
        if scancode in (pygame.KSCAN_RETURN, pygame.KSCAN_KP_ENTER):
            return next((row for row in self._rows if row.moment == self._chosen), None)
        self._chosen = step(self._rows, self._chosen, -1 if scancode == pygame.KSCAN_UP else 1)
        return None

    @staticmethod
    def takes(scancode: int) -> bool:
        """Whether an open tree takes this key away from walking."""
        return scancode in (pygame.KSCAN_UP, pygame.KSCAN_DOWN, pygame.KSCAN_RETURN, pygame.KSCAN_KP_ENTER)

    def draw(self, target: pygame.Surface, type_: Type, tree: Tree | None) -> None:
        """The panel in the middle of the picture, at the left of the HUD."""
        self._rows = rows_of(tree) if tree is not None else []
        row_px, pad_px = type_.px(_ROW_PX), type_.px(20)
        room = max(3, (target.get_height() - type_.px(220)) // row_px)
        first = self._first_visible(room)
        shown = self._rows[first : first + room]
        height_px = type_.px(56) + row_px * max(1, len(shown)) + type_.px(44)
        place = pygame.Rect(0, 0, min(type_.px(_WIDTH_PX), target.get_width() - type_.px(24)), height_px)
        place.midleft = (type_.px(32), target.get_height() // 2)
        target.blit(slab(place.width, place.height, type_.px(14), PANEL, 240, TROUGH), place)
        where = f"on {tree.branch}" if tree is not None and tree.branch else "asking the server"
        target.blit(type_.text("Timeline", 18, INK, bold=True), (place.left + pad_px, place.top + type_.px(16)))
        remark = type_.text(where, 12, DIM)
        target.blit(remark, (place.right - pad_px - remark.get_width(), place.top + type_.px(22)))
        top_px = place.top + type_.px(56)
        lanes_px = type_.px(_LANE_PX) * (1 + max((row.lane for row in self._rows), default=0))
        self._draw_lines(target, type_, first, len(shown), (place.left + pad_px, top_px))
        for index, row in enumerate(shown):
            self._draw_row(target, type_, row, place, top_px + index * row_px, lanes_px)
        hint = type_.text(_HINT, 11, DIM)
        target.blit(hint, (place.left + pad_px, place.bottom - hint.get_height() - type_.px(14)))

    def _first_visible(self, room: int) -> int:
        """The first row that is drawn, so that the chosen one, or else the player's, is among them."""
        wanted = next((index for index, row in enumerate(self._rows) if row.moment == self._chosen), None)
        if wanted is None:
            wanted = next((index for index, row in enumerate(self._rows) if row.is_here), 0)
        return max(0, min(wanted - room // 2, len(self._rows) - room))

    def _draw_lines(self, target: pygame.Surface, type_: Type, first: int, num: int, at: tuple[int, int]) -> None:
        """From each row to its parent's, cut off where the list is."""
        before = target.get_clip()
        target.set_clip(pygame.Rect(0, at[1], target.get_width(), num * type_.px(_ROW_PX)).clip(before))
        for index, row in enumerate(self._rows):
            if row.parent_row < 0:
                continue
            parent = self._rows[row.parent_row]
            x_px, parent_x_px = (at[0] + _lane_middle_px(type_, lane) for lane in (row.lane, parent.lane))
            y_px, parent_y_px = (_row_middle_px(type_, at[1], place - first) for place in (index, row.parent_row))
            colour = _LANES[row.lane % len(_LANES)]
            bend_px = parent_y_px - type_.px(_ROW_PX) // 2 if row.lane != parent.lane else parent_y_px
            points = [(x_px, y_px), (x_px, bend_px), (parent_x_px, parent_y_px)]
            pygame.draw.lines(target, colour, False, points, max(1, type_.px(2)))
        target.set_clip(before)

    def _draw_row(
        self, target: pygame.Surface, type_: Type, row: Row, place: pygame.Rect, top_px: int, lanes_px: int
    ) -> None:
        pad_px, row_px = type_.px(20), type_.px(_ROW_PX)
        left_px, middle_px = place.left + pad_px, top_px + row_px // 2
        if row.moment == self._chosen:
            bar = pygame.Rect(left_px + lanes_px, top_px, place.width - 2 * pad_px - lanes_px, row_px)
            target.blit(slab(bar.width, bar.height, type_.px(6), ACCENT[Tier.GPU], 46), bar)
        colour = _LANES[row.lane % len(_LANES)]
        dot = (left_px + _lane_middle_px(type_, row.lane), middle_px)
        pygame.draw.circle(target, PANEL, dot, type_.px(7))
        pygame.draw.circle(
            target, INK if row.is_here else colour, dot, type_.px(5), 0 if row.is_here or row.target else 2
        )
        tone = INK if row.target or row.is_here else DIM
        words = type_.text(text_of(row), 13, tone, bold=row.is_here)
        target.blit(words, words.get_rect(midleft=(left_px + lanes_px + type_.px(8), middle_px)))
        chunk = type_.text(f"chunk {row.chunk:,}", 11, DIM)
        target.blit(chunk, chunk.get_rect(midright=(place.right - pad_px - type_.px(6), middle_px)))


def _lane_middle_px(type_: Type, lane: int) -> int:
    return type_.px(_LANE_PX) * lane + type_.px(_LANE_PX) // 2


def _row_middle_px(type_: Type, top_px: int, row: int) -> int:
    return top_px + row * type_.px(_ROW_PX) + type_.px(_ROW_PX) // 2
