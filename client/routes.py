"""Routes: recorded controls, by name or from a file, and what they ask for at any time. Pure but for one file read.

A route file is JSON lines, docs/client.md. Its mouse counts are travel since the previous line; this file spreads
them evenly over that time. Needs no pygame: the bench and the tests use it too. Any thread.
"""

import json
import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import cast

from client.legs import SHIPPED, TURN_RAD_S
from shared.controls import Controls, Key, keys_from_letters, letters_from_keys
from shared.pose import MOUSE_RAD_PER_COUNT

MAX_FILE_BYTES = 16_777_216
MAX_LINES = 200_000
MAX_SECONDS = 86_400.0
MAX_COUNTS_PER_LINE = 1e6
_FIELDS = {"t_s", "keys", "mouse"}


class RouteError(ValueError):
    """A route that cannot be walked; the text names the file, the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class RouteLine:
    """From `t_s` on these keys are held; the mouse travelled this far since the line before."""

    t_s: float
    keys: Key
    mouse_dx: float = 0.0
    mouse_dy: float = 0.0


class Route:
    """Controls over time. Lines are in the order of time and never empty; immutable after construction."""

    def __init__(self, name: str, lines: list[RouteLine]) -> None:
        self.name = name
        self.lines = tuple(lines)
        self._times_s = [line.t_s for line in lines]
        self._sums_x = list(accumulate(line.mouse_dx for line in lines))
        self._sums_y = list(accumulate(line.mouse_dy for line in lines))

    def keys_at(self, t_s: float) -> Key:
        """The keys that are held at a time; none before the first line."""
        index = bisect_right(self._times_s, t_s) - 1
        return self.lines[index].keys if index >= 0 else Key(0)

    def mouse_at(self, t_s: float) -> tuple[float, float]:
        """All mouse travel (right, down) from the start up to a time, in counts."""
        after = bisect_right(self._times_s, t_s)
        if after == len(self.lines):
            return (self._sums_x[-1], self._sums_y[-1])
        start_s = self._times_s[after - 1] if after else 0.0
        share = (t_s - start_s) / (self._times_s[after] - start_s) if t_s > start_s else 0.0
        line = self.lines[after]
        from_x, from_y = (self._sums_x[after - 1], self._sums_y[after - 1]) if after else (0.0, 0.0)
        return (from_x + share * line.mouse_dx, from_y + share * line.mouse_dy)

    def controls_between(self, start_s: float, end_s: float) -> Controls:
        """The controls of one frame: the keys at its start, and the mouse travel up to its end."""
        from_x, from_y = self.mouse_at(start_s)
        to_x, to_y = self.mouse_at(end_s)
        return Controls(self.keys_at(start_s), to_x - from_x, to_y - from_y)

    def frames(self, fps: float, num_frames: int) -> list[Controls]:
        """The controls of each frame in model time (frame / fps)."""
        return [self.controls_between(index / fps, (index + 1) / fps) for index in range(num_frames)]


def route(name_or_path: str, seconds: float, turn_rad_s: float = TURN_RAD_S) -> Route:
    """A shipped route of the given length, or the one in a file. Raises RouteError. Reads a file; blocks."""
    if name_or_path in SHIPPED:
        if not 0.0 < seconds <= MAX_SECONDS:
            raise RouteError(f"a route lasts more than 0 and at most {MAX_SECONDS:.0f} seconds, not {seconds}")
        return _from_legs(name_or_path, seconds, min(turn_rad_s, TURN_RAD_S))
    path = Path(name_or_path)
    if not path.is_file():
        raise RouteError(f"there is no route or file {name_or_path!r}; shipped routes: {', '.join(SHIPPED)}")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise RouteError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RouteError(f"{path} cannot be read as text: {error}") from error
    return parse_route(text, str(path))


def _from_legs(name: str, seconds: float, turn_rad_s: float) -> Route:
    lines: list[RouteLine] = []
    t_s = counts = 0.0
    for leg in SHIPPED[name](seconds, turn_rad_s):
        lines.append(RouteLine(t_s, leg.keys, counts))
        t_s += leg.seconds
        counts = leg.turn_rad / MOUSE_RAD_PER_COUNT
    lines.append(RouteLine(t_s, Key(0), counts))
    return Route(name, lines)


def parse_route(text: str, name: str) -> Route:
    """The route in the text of a route file. Raises RouteError with the number of the first bad line."""
    if text.count("\n") > MAX_LINES:
        raise RouteError(f"{name} has more than {MAX_LINES} lines")
    lines: list[RouteLine] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if not raw.strip():
            continue
        try:
            lines.append(_parse_line(raw, lines[-1] if lines else RouteLine(0.0, Key(0))))
        except (ValueError, RecursionError) as error:
            raise RouteError(f"{name}, line {number}: {error}") from error
    if not lines:
        raise RouteError(f"{name} has no lines")
    return Route(name, lines)


def _parse_line(raw: str, before: RouteLine) -> RouteLine:
    try:
        value: object = json.loads(raw)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from error
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004 - the file is wrong, not the program
            'a line is an object like {"t_s": 0.5, "keys": "W", "mouse": [4, 0]}'
        )
    entry = cast("dict[str, object]", value)
    unknown = sorted(set(entry) - _FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are t_s, keys and mouse")
    t_s = _number(entry.get("t_s"), "t_s", 0.0, MAX_SECONDS)
    if t_s < before.t_s:
        raise ValueError(f"t_s goes back from {before.t_s} to {t_s}")
    letters = entry.get("keys", letters_from_keys(before.keys))
    if not isinstance(letters, str) or len(letters) > 4:
        raise ValueError("keys is a text of the letters W, A, S and D")
    mouse = entry.get("mouse", [0.0, 0.0])
    if not isinstance(mouse, list) or len(cast("list[object]", mouse)) != 2:
        raise ValueError("mouse is a list of two numbers, counts to the right and down")
    dx, dy = (_number(item, "mouse", -MAX_COUNTS_PER_LINE, MAX_COUNTS_PER_LINE) for item in cast("list[object]", mouse))
    return RouteLine(t_s, keys_from_letters(letters), dx, dy)


def _number(value: object, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is a number")
    if not low <= value <= high:
        raise ValueError(f"{name} lies between {low:g} and {high:g}")
    return float(value)


def write_lines(walked: Route) -> str:
    """The text of a route file that holds this route."""
    rows = [
        {"t_s": round(line.t_s, 4), "keys": letters_from_keys(line.keys), "mouse": [line.mouse_dx, line.mouse_dy]}
        for line in walked.lines
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)
