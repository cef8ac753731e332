"""The routes that are shipped, as legs of steady walking and turning. Pure functions of a length; any thread.

Turns stay below a rate that a model can draw, and a leg of walking is short: the embedded world has walls every few
metres, and a walker who leans on one sees little. What goes out comes back the same way: a mirrored leg is walked
in the other direction, half a turn later.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from shared.controls import Key

TURN_RAD_S = 0.8
_RANDOM_SEED = 20_261
_NO_KEYS = Key(0)


@dataclass(frozen=True, slots=True)
class Leg:
    """Some seconds of held keys and an even turn: `turn_rad` to the right, all in all."""

    seconds: float
    keys: Key = _NO_KEYS
    turn_rad: float = 0.0


Legs = list[Leg]


def _turn(turn_rad: float, turn_rad_s: float, keys: Key = _NO_KEYS) -> Leg:
    return Leg(abs(turn_rad) / turn_rad_s, keys, turn_rad)


def cut(legs: Legs, seconds: float) -> Legs:
    """The first `seconds` of `legs`; the last leg is shortened, or a rest is added."""
    kept: Legs = []
    left_s = seconds
    for leg in legs:
        if left_s <= 0.0:
            break
        share = min(1.0, left_s / leg.seconds) if leg.seconds > 0.0 else 1.0
        kept.append(Leg(leg.seconds * share, leg.keys, leg.turn_rad * share))
        left_s -= leg.seconds * share
    if left_s > 1e-9:
        kept.append(Leg(left_s))
    return kept


def there_and_back(out: Callable[[float], Legs], seconds: float, turn_rad_s: float) -> Legs:
    """`out` for nearly half of the time, half a turn around the middle, and the same way home."""
    around_s = min(math.pi / turn_rad_s, seconds / 2.0)
    there = cut(out(turn_rad_s), (seconds - around_s) / 2.0)
    around = Leg(around_s, Key(0), turn_rad_s * around_s)
    back = [Leg(leg.seconds, leg.keys, -leg.turn_rad) for leg in reversed(there)]
    return [*there, around, *back]


def _stairs_out(turn_rad_s: float) -> Legs:
    """A staircase: ahead, a quarter to the right, ahead, a quarter back; after four stairs it turns a corner."""
    quarter_rad = math.pi / 2.0
    legs: Legs = []
    for stair in range(1, 2_001):
        legs.extend([Leg(1.4, Key.FORWARD), _turn(quarter_rad, turn_rad_s), Leg(1.1, Key.FORWARD)])
        if stair % 4:  # the corner is the quarter that is not turned back
            legs.append(_turn(-quarter_rad, turn_rad_s))
    return legs


def _far_out(turn_rad_s: float) -> Legs:
    """Straight legs with quarter turns between them, chosen once and for all."""
    dice = random.Random(_RANDOM_SEED)  # noqa: S311 - the same walk every time
    legs: Legs = []
    for _ in range(2_000):
        legs.append(Leg(dice.uniform(1.5, 4.0), Key.FORWARD))
        legs.append(_turn(dice.choice((-0.5, 0.5, 0.5)) * math.pi, turn_rad_s))
    return legs


def out_and_back(seconds: float, turn_rad_s: float) -> Legs:
    """Out over a staircase, around at half of the time, and home the same way."""
    return there_and_back(_stairs_out, seconds, turn_rad_s)


def long_round_trip(seconds: float, turn_rad_s: float) -> Legs:
    """Far out over many corners, and home the same way: the longest gaps between two visits."""
    return there_and_back(_far_out, seconds, turn_rad_s)


def yaw_360(seconds: float, turn_rad_s: float) -> Legs:
    """Whole turns on the spot, one about every twelve seconds."""
    turns = max(1, round(seconds / 12.0))
    turn_rad = min(2.0 * math.pi * turns, turn_rad_s * seconds)
    return [Leg(seconds, Key(0), turn_rad)]


def square(seconds: float, turn_rad_s: float) -> Legs:
    """Rounds of a square of about two metres, quarter turns at the corners, as many as fit."""
    side = [Leg(2.0, Key.FORWARD), _turn(math.pi / 2.0, turn_rad_s)]
    round_s = 4.0 * sum(leg.seconds for leg in side)
    return cut(side * (4 * math.ceil(seconds / round_s)), seconds)


def figure_8(seconds: float, turn_rad_s: float) -> Legs:
    """A circle to the right, a circle to the left, always walking, as often as fits."""
    circle = _turn(2.0 * math.pi, turn_rad_s, Key.FORWARD)
    other = Leg(circle.seconds, circle.keys, -circle.turn_rad)
    return cut([circle, other] * math.ceil(seconds / (2.0 * circle.seconds)), seconds)


def wander(seconds: float, turn_rad_s: float) -> Legs:
    """Steps, turns and rests in an order that dice chose once and for all."""
    dice = random.Random(_RANDOM_SEED + 1)  # noqa: S311 - the same walk every time
    choices = (Key.FORWARD, Key.FORWARD, Key.FORWARD | Key.RIGHT, Key.LEFT, Key.BACK, Key(0))
    legs: Legs = []
    total_s = 0.0
    while total_s < seconds:
        leg_s = dice.uniform(0.5, 2.0)
        legs.append(Leg(leg_s, dice.choice(choices), dice.uniform(-1.0, 1.0) * turn_rad_s * leg_s))
        total_s += leg_s
    return cut(legs, seconds)


SHIPPED: dict[str, Callable[[float, float], Legs]] = {
    "out-and-back": out_and_back,
    "yaw-360": yaw_360,
    "square": square,
    "figure-8": figure_8,
    "random": wander,
    "long-round-trip": long_round_trip,
}
