"""The start screen's choice: continue a world, enter one of its snapshots, or begin a new one. Pure; no pygame.

The worlds stand in a row, the last played first and "new world" last; the snapshots of the chosen world stand in a
row below. A choice is a place in the first row and, when the second one has the focus, a place in that.
"""

import time
from dataclasses import dataclass
from enum import Enum, auto

from client.worlds import SnapshotEntry, WorldEntry

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3_600.0, 86_400.0
_AGES = ((_HOUR_S, _MINUTE_S, "min"), (2 * _DAY_S, _HOUR_S, "h"), (21 * _DAY_S, _DAY_S, "days"))  # up to, unit


class Move(Enum):
    """What the player does on the start screen."""

    LEFT = auto()
    RIGHT = auto()
    UP = auto()
    DOWN = auto()
    ENTER = auto()
    NEW = auto()


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where to walk in: a world's id, or "" for a new one, and a snapshot's name, or ""."""

    world: str = ""
    at: str = ""


NEW_WORLD = Entrance()


class Start:
    """What is chosen now. `worlds` does not change any more."""

    def __init__(self, worlds: list[WorldEntry]) -> None:
        self.worlds = worlds
        self.world_at = 0
        self.snapshot_at: int | None = None  # None: the focus is on the worlds

    @property
    def world(self) -> WorldEntry | None:
        """The chosen world; None for a new one."""
        return self.worlds[self.world_at] if self.world_at < len(self.worlds) else None

    @property
    def snapshots(self) -> list[SnapshotEntry]:
        """The snapshots of the chosen world, the newest first."""
        world = self.world
        return sorted(world.snapshots, key=lambda one: one.created_s, reverse=True) if world else []

    @property
    def entrance(self) -> Entrance:
        """Where the choice leads."""
        if self.world is None:
            return NEW_WORLD
        return Entrance(self.world.id, "" if self.snapshot_at is None else self.snapshots[self.snapshot_at].name)

    def choose(self, world_at: int, snapshot_at: int | None = None) -> None:
        """Choose by pointing; places that are not there are passed over."""
        if 0 <= world_at <= len(self.worlds):
            self.world_at, self.snapshot_at = world_at, None
            if snapshot_at is not None and 0 <= snapshot_at < len(self.snapshots):
                self.snapshot_at = snapshot_at

    def take(self, move: Move) -> Entrance | None:
        """Change the choice; the entrance when it is made."""
        if move is Move.NEW:
            return NEW_WORLD
        if move is Move.ENTER:
            return self.entrance
        if move is Move.DOWN and self.snapshots and self.snapshot_at is None:
            self.snapshot_at = 0
        elif move is Move.UP:
            self.snapshot_at = None
        elif move in (Move.LEFT, Move.RIGHT):
            step = 1 if move is Move.RIGHT else -1
            if self.snapshot_at is None:
                self.world_at = max(0, min(len(self.worlds), self.world_at + step))
            else:
                self.snapshot_at = max(0, min(len(self.snapshots) - 1, self.snapshot_at + step))
        return None


def age_in_words(then_s: float, now_s: float) -> str:
    """How long ago something was, in Unix seconds; "" when it is not known."""
    age_s = now_s - then_s
    if then_s <= 0.0 or age_s < _MINUTE_S:
        return "just now" if then_s > 0.0 else ""
    for limit_s, unit_s, unit in _AGES:
        if age_s < limit_s:
            return f"{age_s // unit_s:.0f} {unit} ago"
    return time.strftime("%Y-%m-%d", time.localtime(then_s))


def counted(number: int, noun: str) -> str:
    """1 chunk, 1,204 chunks; a noun in -ch takes -es."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"
