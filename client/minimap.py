"""The map from above: the trail, the blocks by tier, where you stand and where you are foreseen. Main thread.

North (z forward) is up. The map zooms so that all that is known fits, and follows the player once it no longer does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pygame

from client.atlas import Atlas, Place
from client.theme import ACCENT, DIM, INK, LINE, MARK, PANEL, Colour, Type, blit_centred, disc, mix
from shared.pose import Pose

_MIN_REACH_M, _MAX_REACH_M = 2.0, 20.0
_EDGE_M = 0.9  # kept free around everything
_HALF_VIEW_RAD = math.pi / 4.0
_EASE_S = 0.6
_TRAIL: Colour = (112, 124, 138)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Metres to pixels of the map's surface."""

    x_m: float
    z_m: float
    px_per_m: float
    centre_px: tuple[float, float]

    def at(self, x_m: float, z_m: float) -> tuple[float, float]:
        return (
            self.centre_px[0] + (x_m - self.x_m) * self.px_per_m,
            self.centre_px[1] - (z_m - self.z_m) * self.px_per_m,
        )


class Minimap:
    """Draws the map; remembers only how far it is zoomed out and where it looks, so that both change smoothly."""

    def __init__(self) -> None:
        self._reach_m = _MIN_REACH_M
        self._centre_m: tuple[float, float] | None = None
        self._drawn_s = 0.0

    def render(
        self, type_: Type, width_px: int, height_px: int, atlas: Atlas, marks: Sequence[Pose], now_s: float
    ) -> pygame.Surface:
        """The map as a surface that is clear where nothing is drawn, to lie on a panel. `marks` are bookmarks."""
        smooth = 2 if type_.scale < 1.8 else 1
        large = pygame.Surface((width_px * smooth, height_px * smooth))
        large.fill(PANEL)
        unit_px = type_.scale * smooth
        frame = self._frame(large, atlas, now_s)
        _draw_grid(large, frame, unit_px)
        _draw_trail(large, frame, atlas.trail, unit_px)
        recalled = set(atlas.stats.recalled) if atlas.stats else set[int]()
        if atlas.pose is not None:
            _draw_threads(large, frame, atlas, recalled, unit_px)
        for place in atlas.places.values():
            _draw_place(large, frame, place, unit_px, is_recalled=place.block_id in recalled)
        for mark in marks:
            _draw_mark(large, frame, mark, unit_px)
        if atlas.foreseen is not None and atlas.pose is not None:
            _draw_wedge(large, frame, atlas.foreseen, unit_px, alpha=0)
        if atlas.pose is not None:
            _draw_wedge(large, frame, atlas.pose, unit_px, alpha=70)
        small = pygame.transform.smoothscale(large, (width_px, height_px)) if smooth > 1 else large
        _draw_ruler(small, type_, frame.px_per_m / smooth)
        small.set_colorkey(PANEL)
        return small

    def _frame(self, surface: pygame.Surface, atlas: Atlas, now_s: float) -> _Frame:
        centre_m, wanted_m = _extent(atlas)
        share = 1.0 if self._centre_m is None else min(1.0, (now_s - self._drawn_s) / _EASE_S)
        from_x, from_z = self._centre_m or centre_m
        self._reach_m += (wanted_m - self._reach_m) * share
        self._centre_m = (from_x + (centre_m[0] - from_x) * share, from_z + (centre_m[1] - from_z) * share)
        self._drawn_s = now_s
        width_px, height_px = surface.get_size()
        return _Frame(*self._centre_m, min(width_px, height_px) / (2.0 * self._reach_m), (width_px / 2, height_px / 2))


def _extent(atlas: Atlas) -> tuple[tuple[float, float], float]:
    """(centre, reach) in metres: all that is known if it fits, else what lies around the player."""
    points = [*atlas.trail[-400:], *((place.x_m, place.z_m) for place in atlas.places.values())]
    here = (atlas.pose.x_m, atlas.pose.z_m) if atlas.pose else points[-1] if points else (0.0, 0.0)
    points.append(here)
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_z, high_z = min(z for _, z in points), max(z for _, z in points)
    reach_m = max(high_x - low_x, high_z - low_z) / 2.0 + _EDGE_M
    if reach_m > _MAX_REACH_M:
        return (here, _MAX_REACH_M)
    return (((low_x + high_x) / 2.0, (low_z + high_z) / 2.0), max(_MIN_REACH_M, reach_m))


def _draw_grid(surface: pygame.Surface, frame: _Frame, unit_px: float) -> None:
    step_m = _ruler_m(frame.px_per_m / unit_px)
    width_px, height_px = surface.get_size()
    line_px = max(1, round(unit_px * 0.5))
    reach_x, reach_z = width_px / 2 / frame.px_per_m, height_px / 2 / frame.px_per_m
    colour = mix(LINE, PANEL, 0.33)
    for index in range(math.ceil((frame.x_m - reach_x) / step_m), math.floor((frame.x_m + reach_x) / step_m) + 1):
        x_px, _ = frame.at(index * step_m, 0.0)
        pygame.draw.line(surface, colour, (x_px, 0), (x_px, height_px), line_px)
    for index in range(math.ceil((frame.z_m - reach_z) / step_m), math.floor((frame.z_m + reach_z) / step_m) + 1):
        _, y_px = frame.at(0.0, index * step_m)
        pygame.draw.line(surface, colour, (0, y_px), (width_px, y_px), line_px)


def _draw_trail(surface: pygame.Surface, frame: _Frame, trail: list[tuple[float, float]], unit_px: float) -> None:
    """The newest part of the trail is the brightest."""
    line_px = max(1, round(unit_px * 1.5))
    newest = len(trail)
    for start, share in ((max(0, newest - 2_000), 0.4), (max(0, newest - 120), 0.7), (max(0, newest - 40), 1.0)):
        points = [frame.at(x_m, z_m) for x_m, z_m in trail[start:]]
        if len(points) > 1:
            pygame.draw.lines(surface, mix(_TRAIL, PANEL, share), False, points, line_px)


def _draw_threads(surface: pygame.Surface, frame: _Frame, atlas: Atlas, recalled: set[int], unit_px: float) -> None:
    """A thread from the player to each block that the chunk was drawn with."""
    pose = atlas.pose or Pose()
    for block_id in recalled:
        place = atlas.places.get(block_id)
        if place is not None:
            ends = (frame.at(pose.x_m, pose.z_m), frame.at(place.x_m, place.z_m))
            pygame.draw.line(surface, mix(ACCENT[place.tier], PANEL, 0.5), *ends, max(1, round(unit_px)))


def _draw_place(surface: pygame.Surface, frame: _Frame, place: Place, unit_px: float, *, is_recalled: bool) -> None:
    """A block: a dot in its tier's colour that points where it looked; a ring when it was seeded."""
    x_px, y_px = frame.at(place.x_m, place.z_m)
    colour = ACCENT[place.tier]
    reach_px = unit_px * 8.0
    tip = (x_px + reach_px * math.sin(place.yaw_rad), y_px - reach_px * math.cos(place.yaw_rad))
    pygame.draw.line(surface, colour, (x_px, y_px), tip, max(1, round(unit_px)))
    blit_centred(surface, disc(max(2, round(unit_px * 3.2)), PANEL), x_px, y_px)
    blit_centred(surface, disc(max(2, round(unit_px * 3.0)), colour, hollow=place.seeded), x_px, y_px)
    if is_recalled:
        blit_centred(surface, disc(max(3, round(unit_px * 5.5)), INK, 210, hollow=True), x_px, y_px)


def _draw_mark(surface: pygame.Surface, frame: _Frame, mark: Pose, unit_px: float) -> None:
    """A bookmark: a small flag that leans the way it looked."""
    x_px, y_px = frame.at(mark.x_m, mark.z_m)
    tip = (x_px + 13.0 * unit_px * math.sin(mark.yaw_rad), y_px - 13.0 * unit_px * math.cos(mark.yaw_rad))
    pygame.draw.line(surface, MARK, (x_px, y_px), tip, max(2, round(2.0 * unit_px)))
    blit_centred(surface, disc(max(3, round(unit_px * 4.6)), PANEL), x_px, y_px)
    blit_centred(surface, disc(max(3, round(unit_px * 4.2)), MARK), x_px, y_px)


def _draw_wedge(surface: pygame.Surface, frame: _Frame, pose: Pose, unit_px: float, *, alpha: int) -> None:
    """A view from above; the ghost of the foreseen one is only an outline."""
    x_px, y_px = frame.at(pose.x_m, pose.z_m)
    reach_px = round(unit_px * 34.0)
    tip = (reach_px + 1.0, reach_px + 1.0)
    arc = [
        (tip[0] + reach_px * math.sin(pose.yaw_rad + turn), tip[1] - reach_px * math.cos(pose.yaw_rad + turn))
        for turn in (_HALF_VIEW_RAD * (step / 8.0 - 1.0) for step in range(17))
    ]
    layer = pygame.Surface((2 * reach_px + 3, 2 * reach_px + 3), pygame.SRCALPHA)
    if alpha:
        pygame.draw.polygon(layer, (*INK, alpha), [tip, *arc])
    pygame.draw.lines(layer, (*INK, 220 if alpha else 130), True, [tip, *arc], max(1, round(unit_px)))
    blit_centred(surface, layer, x_px, y_px)
    if alpha:
        blit_centred(surface, disc(round(unit_px * 4.2), INK), x_px, y_px)


def _ruler_m(px_per_m: float) -> float:
    """A round length that is some 40 to 100 pixels long."""
    return next((length_m for length_m in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0) if length_m * px_per_m >= 38.0), 50.0)


def _draw_ruler(surface: pygame.Surface, type_: Type, px_per_m: float) -> None:
    length_m = _ruler_m(px_per_m / type_.scale)
    length_px = round(length_m * px_per_m)
    left_px, y_px = type_.px(10), surface.get_height() - type_.px(12)
    pygame.draw.line(surface, DIM, (left_px, y_px), (left_px + length_px, y_px), type_.px(1))
    for x_px in (left_px, left_px + length_px):
        pygame.draw.line(surface, DIM, (x_px, y_px - type_.px(3)), (x_px, y_px + type_.px(3)), type_.px(1))
    surface.blit(type_.text(f"{length_m:g} m", 10.5, DIM), (left_px + length_px + type_.px(6), y_px - type_.px(7)))
