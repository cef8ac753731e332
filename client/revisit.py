"""The revisit meter: bookmarks, coming back to them, and how alike then and now are. Player's thread and one worker.

A bookmark is armed once its player has been away, and compared while they stand within reach of it again. The
comparison runs on the worker, so that drawing never waits for it; its newest result is `pair`.
"""

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from client.likeness import Likeness, Rgb, compare
from client.picture import Picture
from shared.pose import Pose, distance_m, wrap_rad

REACH_M, REACH_RAD = 0.6, 0.35  # within which two views overlap enough to be laid over each other
AWAY_M, AWAY_RAD = 1.2, 1.05  # beyond which a bookmark is out of sight
OTHER_M, OTHER_RAD = 1.5, 1.05  # beyond which a view counts as another place
MAX_BOOKMARKS = 9
MAX_OTHERS = 6  # that a return is compared with
_MAX_SEEN = 48
_EVERY_S = 0.4
_OTHERS_EVERY_S = 4.0


@dataclass(frozen=True, slots=True)
class View:
    """A picture as the player saw it, when, and whether the memory was switched on."""

    picture: Picture
    at_s: float  # of the client's own clock
    recalls: bool

    @property
    def rgb(self) -> Rgb:
        """[H, W, 3] of the picture."""
        picture = self.picture
        return np.frombuffer(picture.rgb, np.uint8).reshape(picture.height_px, picture.width_px, 3)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A view to come back to."""

    name: str
    view: View


@dataclass(frozen=True, slots=True)
class Pair:
    """Then and now: a bookmark, the view on the return, and how alike they are.

    `others` holds the registered SSIM of this view, or of one some seconds older, against other places of this walk.
    """

    bookmark: Bookmark
    now: View
    likeness: Likeness
    others: tuple[float, ...] = ()

    @property
    def is_recognised(self) -> bool:
        """Recall@1: whether the view is more like its own place than like each of the others."""
        return all(self.likeness.ssim > other for other in self.others)

    @property
    def gap_s(self) -> float:
        return self.now.at_s - self.bookmark.view.at_s

    @property
    def gap_chunks(self) -> int:
        """Chunks between the two; 0 when the return is on another branch and before the bookmark."""
        return max(0, self.now.picture.chunk - self.bookmark.view.picture.chunk)


@dataclass(frozen=True, slots=True)
class Guide:
    """The way back to a bookmark: how far, in which direction from the line of sight, and how much to turn there.

    Where only turning is left, the direction is that of the turn.
    """

    bookmark: Bookmark
    distance_m: float
    bearing_rad: float
    turn_rad: float


class Meter:
    """The bookmarks of one world. Only the player's thread calls it."""

    def __init__(self) -> None:
        self.bookmarks: list[Bookmark] = []
        self.here: Bookmark | None = None  # the armed one that is within reach now
        self.pair: Pair | None = None  # of the visit that is or was last
        self._armed: set[str] = set()
        self._count = 0
        self._seen: list[View] = []  # other places of this walk
        self._worker = ThreadPoolExecutor(1, "revisit")
        self._work: Future[Pair] | None = None
        self._others: tuple[float, tuple[float, ...]] = (-math.inf, ())
        self._asked_s = -math.inf

    def drop(self, view: View) -> Bookmark:
        """Keep this view. Beyond MAX_BOOKMARKS the oldest goes."""
        self._count += 1
        bookmark = Bookmark(_letters(self._count), view)
        self.bookmarks = [*self.bookmarks, bookmark][-MAX_BOOKMARKS:]
        return bookmark

    def clear(self) -> None:
        """Another world: its places are others."""
        self.bookmarks, self._seen = [], []
        self.here = self.pair = self._work = None
        self._armed.clear()

    def see(self, view: View) -> None:
        """A picture was shown: learn where the player is, and compare when that is near a bookmark."""
        pose = view.picture.pose
        self._armed |= {one.name for one in self.bookmarks if not _within(pose, one, AWAY_M, AWAY_RAD)}
        near = [one for one in self.bookmarks if one.name in self._armed and _within(pose, one, REACH_M, REACH_RAD)]
        before, self.here = self.here, min(near, key=lambda one: _apart(pose, one.view.picture.pose), default=None)
        if self.here is None or (before is not None and before.name != self.here.name):
            self._others = (-math.inf, ())
        self._collect()
        if self.here is not None and self._work is None and view.at_s - self._asked_s >= _EVERY_S:
            self._asked_s = view.at_s
            self._work = self._worker.submit(_compared, self.here, view, self._rivals(self.here, view.at_s))
        self._remember(view)

    def guide(self, pose: Pose) -> Guide | None:
        """The way to the nearest bookmark that can be returned to; None within reach of one, and without any."""
        armed = [one for one in self.bookmarks if one.name in self._armed]
        if self.here is not None or not armed:
            return None
        nearest = min(armed, key=lambda one: distance_m(pose, one.view.picture.pose))
        there = nearest.view.picture.pose
        away_m = distance_m(pose, there)
        heading_rad = math.atan2(there.x_m - pose.x_m, there.z_m - pose.z_m)
        turn_rad = wrap_rad(there.yaw_rad - pose.yaw_rad)
        bearing_rad = wrap_rad(heading_rad - pose.yaw_rad) if away_m > REACH_M else turn_rad
        return Guide(nearest, away_m, bearing_rad, turn_rad)

    def submit(self, work: Callable[[], Path]) -> "Future[Path]":
        """Have the worker write something."""
        return self._worker.submit(work)

    def close(self) -> None:
        """End the worker once it has done what it was given; nobody waits for it."""
        self._worker.shutdown(wait=False)

    def _collect(self) -> None:
        """Take the worker's result, if it is there and still wanted."""
        if self._work is not None and self._work.done():
            pair, self._work = self._work.result(), None
            if pair.others:
                self._others = (pair.now.at_s, pair.others)
            elif self._others[1]:
                pair = Pair(pair.bookmark, pair.now, pair.likeness, self._others[1])
            self.pair = pair

    def _rivals(self, bookmark: Bookmark, now_s: float) -> list[View]:
        """Other places for Recall@1, the nearest first: they are the hardest. None when they were asked of late."""
        if now_s - self._others[0] < _OTHERS_EVERY_S:
            return []
        away = [view for view in self._seen if not _within(view.picture.pose, bookmark, OTHER_M, OTHER_RAD)]
        return sorted(away, key=lambda view: _apart(view.picture.pose, bookmark.view.picture.pose))[:MAX_OTHERS]

    def _remember(self, view: View) -> None:
        """Keep a view of each place, when it is far enough from all that are kept."""
        pose = view.picture.pose
        if all(_apart(pose, seen.picture.pose) > 1.0 for seen in self._seen):
            self._seen = [*self._seen, view][-_MAX_SEEN:]


def _compared(bookmark: Bookmark, now: View, rivals: list[View]) -> Pair:
    """On the worker: the return against its own place, and against others."""
    likeness = compare(bookmark.view.rgb, now.rgb)
    return Pair(bookmark, now, likeness, tuple(compare(rival.rgb, now.rgb).ssim for rival in rivals))


def _within(pose: Pose, bookmark: Bookmark, reach_m: float, reach_rad: float) -> bool:
    there = bookmark.view.picture.pose
    turn_rad = abs(wrap_rad(pose.yaw_rad - there.yaw_rad)) + abs(pose.pitch_rad - there.pitch_rad)
    return distance_m(pose, there) <= reach_m and turn_rad <= reach_rad


def _apart(a: Pose, b: Pose) -> float:
    """How far apart two poses are; 1 is OTHER_M, or OTHER_RAD, or a mixture."""
    turn_rad = abs(wrap_rad(a.yaw_rad - b.yaw_rad)) + abs(a.pitch_rad - b.pitch_rad)
    return distance_m(a, b) / OTHER_M + turn_rad / OTHER_RAD


def _letters(number: int) -> str:
    """1 is A, 26 is Z, 27 is AA."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
