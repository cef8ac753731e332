"""The two bounded mailboxes between the player's thread and the link's. Own their locks; both threads call them."""

import threading
from collections import deque
from dataclasses import dataclass

from client.picture import Picture
from client.status import Notice, Status
from shared.controls import Key
from shared.protocol import BlockNote, HeadNote, Paused, SnapshotNote, Stats, Tree, Welcome

MAX_FRAMES = 24
MAX_NEWS = 2_048
_ROOM_FRAMES = 6  # more than this many undrained frames, and no more are acknowledged
_STALE_S = 0.25  # a player's thread that has not steered for so long holds no keys

_NO_KEYS = Key(0)
News = Status | Notice | Welcome | Stats | BlockNote | Paused | HeadNote | SnapshotNote | Tree


@dataclass(frozen=True, slots=True)
class Steering:
    """Held keys, and all mouse travel so far, in counts."""

    keys: Key = _NO_KEYS
    mouse_x: float = 0.0
    mouse_y: float = 0.0
    buffered: int = 0


class ControlsBox:
    """Newest controls, from the player to the link: keys overwrite, mouse travel adds up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steering = Steering()
        self._steered_s = 0.0

    def steer(self, keys: Key, mouse_dx: float, mouse_dy: float, buffered: int, now_s: float) -> None:
        """Set the held keys, add mouse travel, and say how many frames wait to be shown."""
        with self._lock:
            old = self._steering
            self._steering = Steering(keys, old.mouse_x + mouse_dx, old.mouse_y + mouse_dy, buffered)
            self._steered_s = now_s

    def read(self, now_s: float) -> Steering:
        """The newest controls; the keys are released when the player's thread hangs."""
        with self._lock:
            steering, age_s = self._steering, now_s - self._steered_s
        if age_s > _STALE_S:
            return Steering(Key(0), steering.mouse_x, steering.mouse_y, steering.buffered)
        return steering


class Arrivals:
    """Frames and news, from the link to the player. Full, it drops its oldest entries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: deque[tuple[Picture, float]] = deque(maxlen=MAX_FRAMES)
        self._news: deque[News] = deque(maxlen=MAX_NEWS)

    def put_frame(self, picture: Picture, now_s: float) -> None:
        """Add a frame with the time of its arrival."""
        with self._lock:
            self._frames.append((picture, now_s))

    def put_news(self, news: News) -> None:
        """Add a piece of news. A welcome and a jump empty the box of the frames before it."""
        with self._lock:
            if isinstance(news, Welcome) or (isinstance(news, HeadNote) and news.is_jump):
                self._frames.clear()
            self._news.append(news)

    def has_room(self) -> bool:
        """False when the player's thread does not keep up, so that frames must not be acknowledged."""
        with self._lock:
            return len(self._frames) < _ROOM_FRAMES

    def drain(self) -> tuple[list[News], list[tuple[Picture, float]]]:
        """Everything that waits: the news first, then the frames."""
        with self._lock:
            news, frames = list(self._news), list(self._frames)
            self._news.clear()
            self._frames.clear()
        return (news, frames)
