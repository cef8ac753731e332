"""Arrows that fly between the tier bars when blocks move. Pure motion, and one drawing function. Main thread."""

import math
from collections import deque
from dataclasses import dataclass

import pygame

from client.atlas import Move
from client.theme import ACCENT, DIM, Colour, Type, blit_centred, disc
from shared.tiers import Tier

_FLIGHT_S = 0.9
_STAGGER_S = 0.06
_MAX_STAGGER_S = 0.6
_MAX_FLIGHTS = 48
_TAIL = 5


@dataclass(frozen=True, slots=True)
class Flight:
    """One block under way; it takes off at `start_s` and lands `_FLIGHT_S` later."""

    move: Move
    start_s: float

    def progress(self, now_s: float) -> float:
        """0 at take-off, 1 at landing, slow at both ends."""
        share = min(1.0, max(0.0, (now_s - self.start_s) / _FLIGHT_S))
        return share * share * (3.0 - 2.0 * share)


class Flights:
    """The flights of the moment. Moves of one note take off one after the other; too many at once are left out."""

    def __init__(self) -> None:
        self._flights: deque[Flight] = deque(maxlen=_MAX_FLIGHTS)

    def feed(self, moves: deque[Move], now_s: float) -> None:
        """Take the moves that wait, and let the landed flights go."""
        index = 0
        while moves:
            self._flights.append(Flight(moves.popleft(), now_s + min(_MAX_STAGGER_S, _STAGGER_S * index)))
            index += 1
        while self._flights and now_s > self._flights[0].start_s + _FLIGHT_S:
            self._flights.popleft()

    def under_way(self, now_s: float) -> list[Flight]:
        """The flights that are in the air."""
        return [flight for flight in self._flights if flight.start_s <= now_s <= flight.start_s + _FLIGHT_S]


def draw_flights(
    target: pygame.Surface, type_: Type, flights: list[Flight], strips: dict[Tier, pygame.Rect], now_s: float
) -> None:
    """Draw each flight as an arrow head with a fading tail, from one strip's middle line to another's."""
    for flight in flights:
        colour = ACCENT[flight.move.target] if flight.move.target is not None else DIM
        here = _at(flight, strips, flight.progress(now_s), type_)
        for index in range(_TAIL, 0, -1):
            x_px, y_px = _at(flight, strips, max(0.0, flight.progress(now_s - 0.035 * index)), type_)
            radius_px = type_.px(2.2 - 0.3 * index)
            blit_centred(target, disc(radius_px, colour, 190 - 34 * index), x_px, y_px)
        before = _at(flight, strips, max(0.0, flight.progress(now_s) - 0.04), type_)
        _draw_head(target, here, math.atan2(here[1] - before[1], here[0] - before[0]), colour, type_)


def _at(flight: Flight, strips: dict[Tier, pygame.Rect], share: float, type_: Type) -> tuple[float, float]:
    """Where a flight is: a bow from its source to its target; blocks come in and leave at the side."""
    across = 0.12 + 0.76 * ((flight.move.block_id * 0.618034) % 1.0)
    source, target = _ends(flight.move, strips, across, type_)
    bow_px = type_.px(14) * math.sin(math.pi * share)
    return (source[0] + (target[0] - source[0]) * share + bow_px, source[1] + (target[1] - source[1]) * share)


def _ends(
    move: Move, strips: dict[Tier, pygame.Rect], across: float, type_: Type
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where a flight begins and ends. A new block comes in beside its strip; a dropped copy falls out of it."""
    strip = strips[move.source if move.source is not None else Tier.GPU]
    source = (strip.left + across * strip.width, float(strip.centery))
    if move.target is None:
        return (source, (source[0], source[1] + type_.px(20)))
    into = strips[move.target]
    target = (into.left + across * into.width, float(into.centery))
    if move.source is None:
        source = (into.left - type_.px(8), into.top - type_.px(18))
    return (source, target)


def _draw_head(target: pygame.Surface, at: tuple[float, float], angle_rad: float, colour: Colour, type_: Type) -> None:
    length_px = type_.px(5.5)
    points = [
        (at[0] + length_px * math.cos(angle_rad + turn), at[1] + length_px * math.sin(angle_rad + turn))
        for turn in (0.0, 2.45, -2.45)
    ]
    pygame.draw.polygon(target, colour, points)
    pygame.draw.aalines(target, colour, True, points)
