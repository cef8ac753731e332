"""When a frame is shown: a jitter buffer that turns arrivals into an even stream. Pure; the clock is passed in.

Frames carry `pts_s`, model time. The buffer runs a media clock a cushion of frames behind the newest arrival and
shows a frame when the media clock reaches it. The clock runs up to 10 % faster or slower to keep the cushion, and at
the server's own pace where that is slower than the model's. After a gap the cushion grows, up to four frames; half a
minute without one makes it shrink again. A frame whose successor is due is skipped. Never reorders, and never
shows a frame older than the one that is shown.
"""

from collections import deque

from client.picture import Picture

MIN_CUSHION = 2
MAX_CUSHION = 4
_MAX_BEND = 0.1  # of the media clock's rate
_CALM_S = 30.0  # without a gap, after which the cushion shrinks by a frame
_SMOOTH_S = 1.0  # over which the depth is averaged
_PACE_FRAMES = 24
_PACE_S = 3.0  # arrivals older than this say nothing about the pace
_MAX_BEHIND = 4  # frames beyond the cushion, from where the clock jumps


class Playout:
    """The frames between the socket and the screen. Times never go back; `frame_s` is one frame of model time."""

    def __init__(self, frame_s: float) -> None:
        self._frame_s = frame_s
        self._waiting: deque[Picture] = deque()
        self._arrivals: deque[tuple[float, float]] = deque(maxlen=_PACE_FRAMES)
        self._media_s = 0.0
        self._clock_s = 0.0
        self._depth_s = 0.0
        self._newest_pts_s = -1.0
        self._is_running = False
        self._forgives = True  # the next gap is nobody's fault: the start, or a pause
        self._jumps = False
        self._last_gap_s = 0.0
        self.cushion = MIN_CUSHION
        self.dropped = 0
        self.gaps = 0

    @property
    def buffered(self) -> int:
        """Frames that wait to be shown."""
        return len(self._waiting)

    def put(self, picture: Picture, now_s: float) -> None:
        """Take a frame that arrived now. One that is not newer than all before it is dropped."""
        if picture.pts_s <= self._newest_pts_s:
            self.dropped += 1
            return
        if not self._is_running:
            self._start(picture, now_s)
        self._waiting.append(picture)
        self._newest_pts_s = picture.pts_s
        self._arrivals.append((now_s, picture.pts_s))

    def take(self, now_s: float) -> Picture | None:
        """The newest frame that is due and was not shown yet, or None. Older due ones are skipped for good."""
        if not self._is_running:
            return None
        self._advance(now_s)
        due: Picture | None = None
        while self._waiting and self._waiting[0].pts_s <= self._media_s + 1e-6:
            self.dropped += due is not None
            due = self._waiting.popleft()
        if not self._waiting and self._media_s >= self._newest_pts_s + self._frame_s:
            self._starve(now_s)
        return due

    def hold(self) -> None:
        """The world pauses: the gap that follows is no reason for a larger cushion."""
        self._forgives = True

    def jump(self) -> None:
        """The world stands elsewhere: what waits is never shown, and the next frame is shown at once."""
        self._waiting.clear()
        self._is_running = False
        self._forgives = self._jumps = True

    def _start(self, picture: Picture, now_s: float) -> None:
        if self._arrivals and now_s - self._arrivals[-1][0] > _PACE_S:
            self._arrivals.clear()
        self._is_running = True
        self._forgives = False
        self._clock_s = now_s
        self._media_s = picture.pts_s - (0 if self._jumps else self.cushion) * self._frame_s
        self._jumps = False
        self._depth_s = self._target_s()

    def _starve(self, now_s: float) -> None:
        self._is_running = False
        self._last_gap_s = now_s
        if self._forgives:
            return
        self.gaps += 1
        if self._pace() == 1.0:  # a slow generator is followed, not waited for
            self.cushion = min(MAX_CUSHION, self.cushion + 1)

    def _target_s(self) -> float:
        """The depth to aim at: arrivals make it swing by a frame, so its mean lies half a frame below the cushion."""
        return (self.cushion - 0.5) * self._frame_s

    def _advance(self, now_s: float) -> None:
        elapsed_s = max(0.0, now_s - self._clock_s)
        self._clock_s = max(now_s, self._clock_s)
        if self.cushion > MIN_CUSHION and now_s - self._last_gap_s > _CALM_S:
            self.cushion -= 1
            self._last_gap_s = now_s
        error_frames = (self._depth_s - self._target_s()) / self._frame_s
        bend = min(_MAX_BEND, max(-_MAX_BEND, _MAX_BEND * error_frames))
        self._media_s += elapsed_s * self._pace() * (1.0 + bend)
        depth_s = self._newest_pts_s - self._media_s
        if depth_s > (self.cushion + _MAX_BEHIND) * self._frame_s:
            self._media_s, depth_s = self._newest_pts_s - self._target_s(), self._target_s()
            self._depth_s = depth_s
        self._depth_s += (depth_s - self._depth_s) * min(1.0, elapsed_s / _SMOOTH_S)

    def _pace(self) -> float:
        """Model seconds per second that the server has made lately: 1 unless it is clearly slower."""
        if len(self._arrivals) < _PACE_FRAMES // 3:
            return 1.0
        (from_s, from_pts_s), (to_s, to_pts_s) = self._arrivals[0], self._arrivals[-1]
        if to_s <= from_s:
            return 1.0
        pace = (to_pts_s - from_pts_s) / (to_s - from_s)
        return max(0.1, pace) if pace < 1.0 - _MAX_BEND else 1.0
