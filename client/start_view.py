"""The start screen as it is drawn, and what lies where for the mouse. Main thread; needs pygame."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pygame
from PIL import Image

from client.start import Start, age_in_words, counted
from client.theme import (
    ACCENT,
    BACKDROP,
    BASE_HEIGHT_PX,
    BASE_WIDTH_PX,
    DIM,
    INK,
    LINE,
    PANEL,
    TROUGH,
    Colour,
    Type,
    slab,
)
from client.worlds import SnapshotEntry, WorldEntry
from shared.tiers import Tier

_CARD_PX, _SNAPSHOT_PX = 300, 190  # widths
_SHAPE = 2 / 3  # height of a picture over its width
_GAP_PX, _EDGE_PX = 24, 44
_WORLDS_TOP_PX, _SNAPSHOTS_TOP_PX = 132, 468
_CHOSEN: Colour = ACCENT[Tier.GPU]
HINT = "← → choose · Enter walks in · ↓ its snapshots · N new world · Ctrl+Q quits"


def start_scale(width_px: int, height_px: int) -> float:
    """How large the start screen is drawn, so that both rows fit."""
    return max(0.5, min(4.0, width_px / BASE_WIDTH_PX, height_px / BASE_HEIGHT_PX))


@dataclass(slots=True)
class Places:
    """Where the cards lie on the window, as (rectangle, place in the row)."""

    worlds: list[tuple[pygame.Rect, int]] = field(default_factory=list[tuple[pygame.Rect, int]])
    snapshots: list[tuple[pygame.Rect, int]] = field(default_factory=list[tuple[pygame.Rect, int]])

    def point(self, start: Start, at: tuple[int, int]) -> bool:
        """Choose what lies under the mouse; False when nothing does."""
        for place, index in self.worlds:
            if place.collidepoint(at):
                if start.world_at != index or start.snapshot_at is not None:
                    start.choose(index)
                return True
        for place, index in self.snapshots:
            if place.collidepoint(at):
                start.choose(start.world_at, index)
                return True
        return False


class StartView:
    """Draws the rows; keeps enlarged pictures, one instance per scale of the window."""

    def __init__(self, type_: Type, url: str) -> None:
        self.type_ = type_
        self._url = url
        self._pictures: dict[tuple[str | int, ...], pygame.Surface] = {}

    def draw(
        self, target: pygame.Surface, start: Start, pictures: Mapping[tuple[str | int, ...], Image.Image]
    ) -> Places:
        """Draw everything; where it lies."""
        type_, places = self.type_, Places()
        target.fill(BACKDROP)
        edge_px = type_.px(_EDGE_PX)
        target.blit(type_.text("WorldPager", 30, INK, bold=True), (edge_px, type_.px(34)))
        target.blit(type_.text(f"Worlds at {self._url}", 13, DIM), (edge_px, type_.px(78)))
        card_px, step_px = type_.px(_CARD_PX), type_.px(_CARD_PX + _GAP_PX)
        first = _first_visible(start.world_at, self._room(target, step_px))
        for index in range(first, len(start.worlds) + 1):
            place = pygame.Rect(edge_px + (index - first) * step_px, type_.px(_WORLDS_TOP_PX), card_px, type_.px(296))
            if place.left >= target.get_width():
                break
            world = start.worlds[index] if index < len(start.worlds) else None
            self._draw_world(target, place, world, pictures, index=index, is_chosen=index == start.world_at)
            places.worlds.append((place, index))
        if start.snapshots:
            self._draw_snapshots(target, start, pictures, places)
        hint = type_.text(HINT, 13, DIM)
        target.blit(hint, (edge_px, target.get_height() - hint.get_height() - type_.px(26)))
        return places

    def _room(self, target: pygame.Surface, step_px: int) -> int:
        """How many cards of this step fit beside each other."""
        return max(1, (target.get_width() - 2 * self.type_.px(_EDGE_PX) + self.type_.px(_GAP_PX)) // step_px)

    def _draw_world(
        self,
        target: pygame.Surface,
        place: pygame.Rect,
        world: WorldEntry | None,
        pictures: Mapping[tuple[str | int, ...], Image.Image],
        *,
        index: int,
        is_chosen: bool,
    ) -> None:
        type_ = self.type_
        picture = pygame.Rect(place.topleft, (place.width, round(place.width * _SHAPE)))
        _draw_frame(target, type_, place, is_chosen=is_chosen)
        if world is None:
            _draw_plus(target, type_, picture)
            title, lines = "New world", ("invented from here on", "")
        else:
            self._draw_picture(target, picture, ("world", world.id), pictures)
            played = age_in_words(world.played_s, time.time())
            facts = [counted(world.chunks, "chunk")]
            facts += [counted(len(world.branches), "branch")] if len(world.branches) > 1 else []
            facts += [counted(len(world.snapshots), "snapshot")] if world.snapshots else []
            title, lines = world.name, (" · ".join(facts), f"{'Continue · ' if index == 0 else ''}{played}")
        left_px, top_px, width_px = place.left + type_.px(12), picture.bottom + type_.px(12), place.width - type_.px(24)
        target.blit(_cut(type_, title, 15, INK, width_px, bold=True), (left_px, top_px))
        for row, line in enumerate(lines):
            tone = _CHOSEN if row == 1 and index == 0 and world is not None else DIM
            target.blit(_cut(type_, line, 11, tone, width_px), (left_px, top_px + type_.px(26 + 20 * row)))

    def _draw_snapshots(
        self,
        target: pygame.Surface,
        start: Start,
        pictures: Mapping[tuple[str | int, ...], Image.Image],
        places: Places,
    ) -> None:
        type_, world = self.type_, start.world
        if world is None:
            return
        edge_px, step_px = type_.px(_EDGE_PX), type_.px(_SNAPSHOT_PX + _GAP_PX)
        top_px = type_.px(_SNAPSHOTS_TOP_PX)
        target.blit(_cut(type_, f"Snapshots of {world.name}", 14, INK, type_.px(900), bold=True), (edge_px, top_px))
        first = _first_visible(start.snapshot_at or 0, self._room(target, step_px))
        for index in range(first, len(start.snapshots)):
            left_px = edge_px + (index - first) * step_px
            place = pygame.Rect(left_px, top_px + type_.px(32), type_.px(_SNAPSHOT_PX), type_.px(182))
            if place.right > target.get_width():
                break
            is_chosen = start.snapshot_at == index
            self._draw_snapshot(target, place, world, start.snapshots[index], pictures, is_chosen=is_chosen)
            places.snapshots.append((place, index))

    def _draw_snapshot(
        self,
        target: pygame.Surface,
        place: pygame.Rect,
        world: WorldEntry,
        one: SnapshotEntry,
        pictures: Mapping[tuple[str | int, ...], Image.Image],
        *,
        is_chosen: bool,
    ) -> None:
        type_ = self.type_
        _draw_frame(target, type_, place, is_chosen=is_chosen)
        picture = pygame.Rect(place.topleft, (place.width, round(place.width * _SHAPE)))
        self._draw_picture(target, picture, ("snapshot", world.id, one.n), pictures)
        at = (place.left + type_.px(10), picture.bottom + type_.px(7))
        width_px = place.width - type_.px(20)
        target.blit(_cut(type_, one.name, 12, INK, width_px, bold=True), at)
        when = f"chunk {one.chunk:,} · {age_in_words(one.created_s, time.time())}".rstrip(" ·")
        target.blit(_cut(type_, when, 11, DIM, width_px), (at[0], at[1] + type_.px(18)))

    def _draw_picture(
        self,
        target: pygame.Surface,
        place: pygame.Rect,
        key: tuple[str | int, ...],
        pictures: Mapping[tuple[str | int, ...], Image.Image],
    ) -> None:
        """The thumbnail when it is there, cut to the card's shape; a dark ground until then."""
        if key not in self._pictures and key in pictures:
            self._pictures[key] = _fitted(pictures[key], place.size)
        if key in self._pictures:
            target.blit(self._pictures[key], place)
        else:
            target.fill(TROUGH, place)


def _first_visible(chosen: int, room: int) -> int:
    """The first of a row's cards that is drawn, so that the chosen one and the next fit."""
    return max(0, chosen - max(0, room - 2)) if chosen >= room - 1 else 0


def _draw_frame(target: pygame.Surface, type_: Type, place: pygame.Rect, *, is_chosen: bool) -> None:
    if is_chosen:
        around = place.inflate(type_.px(10), type_.px(10))
        target.blit(slab(around.width, around.height, type_.px(10), _CHOSEN, 255), around)
    target.blit(slab(place.width, place.height, type_.px(6), PANEL, 255, TROUGH), place)


def _draw_plus(target: pygame.Surface, type_: Type, place: pygame.Rect) -> None:
    target.fill(TROUGH, place)
    reach_px, line_px = type_.px(30), type_.px(4)
    for size in ((2 * reach_px, line_px), (line_px, 2 * reach_px)):
        bar = pygame.Rect((0, 0), size)
        bar.center = place.center
        target.fill(LINE if size[0] < line_px else INK, bar)


def _fitted(image: Image.Image, size: tuple[int, int]) -> pygame.Surface:
    """The picture enlarged over `size`, its surplus cut off evenly."""
    scale = max(size[0] / image.width, size[1] / image.height)
    width_px, height_px = max(size[0], round(image.width * scale)), max(size[1], round(image.height * scale))
    large = image.resize((width_px, height_px), Image.Resampling.LANCZOS)
    left_px, top_px = (width_px - size[0]) // 2, (height_px - size[1]) // 2
    cut = large.crop((left_px, top_px, left_px + size[0], top_px + size[1]))
    return pygame.image.frombytes(cut.tobytes(), size, "RGB")


def _cut(type_: Type, words: str, size: float, colour: Colour, width_px: int, *, bold: bool = False) -> pygame.Surface:
    """The words, shortened with an ellipsis to fit."""
    surface = type_.text(words, size, colour, bold=bold)
    while surface.get_width() > width_px and len(words) > 1:
        words = words[:-2] + "…"
        surface = type_.text(words, size, colour, bold=bold)
    return surface
