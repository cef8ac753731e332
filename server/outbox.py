"""One viewer's frames: which one may be sent now, and which are too late. Pure logic, one lock, no clock.

The engine thread pushes and reads `unsent`, `has_credit` and `last_due_s`; the event loop pulls and acknowledges.
Every time is `time.monotonic` of the server. A frame is due at anchor + pts: the generator is pulled by `last_due_s`,
so this side owns the clock, and a frame that was made late moves the anchor instead of chasing it.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from shared.protocol import FRAME_CREDIT, Codec, Frame, PoseTuple


@dataclass(frozen=True, slots=True)
class OutFrame:
    """A compressed frame on its way out. Ids rise by at least one from frame to frame."""

    id: int
    pts_s: float  # model time since the session's first frame
    chunk: int
    index: int  # within the chunk
    pose: PoseTuple
    input_seq: int  # the newest input it was drawn with; -1: none yet
    input_s: float  # when that input arrived
    made_s: float  # when its last byte was ready
    seeded: bool
    codec: Codec
    data: bytes
    sha: str = ""  # exact mode: of the raw pixels

    def message(self, now_s: float) -> Frame:
        """The wire message, when it is sent at `now_s`."""
        return Frame(
            id=self.id,
            pts_s=self.pts_s,
            chunk=self.chunk,
            index=self.index,
            pose=self.pose,
            input_seq=self.input_seq,
            held_ms=0.0 if self.input_seq < 0 else max(0.0, (now_s - self.input_s) * 1000.0),
            seeded=self.seeded,
            codec=self.codec,
            data=self.data,
            sha=self.sha,
        )


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """What became of the frames so far."""

    pushed: int = 0
    sent: int = 0
    skipped: int = 0  # too late at send time: the successor was due
    dropped: int = 0  # over capacity: the reader was too slow


def _do_nothing() -> None:
    """Nobody waits for this outbox."""


class Outbox:
    """A bounded deque of frames with a clock and a credit.

    At most `credit` frames are sent and not acknowledged: the kernel would hide seconds of video otherwise. With
    `every_frame` nothing is skipped, dropped or paced; only the credit holds, and the engine looks at `unsent`.
    """

    def __init__(
        self, fps: float, capacity: int, credit: int = FRAME_CREDIT, wake: Callable[[], None] = _do_nothing
    ) -> None:
        assert min(fps, capacity, credit) > 0
        self.every_frame = False
        self._frame_s = 1.0 / fps
        self._capacity = capacity
        self._credit = credit
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[OutFrame] = deque()
        self._in_flight: deque[int] = deque()  # ids sent and not acknowledged
        self._anchor_s: float | None = None  # server time of pts 0
        self._newest: OutFrame | None = None
        self._sent_id = -1
        self._pushed = self._sent = self._skipped = self._dropped = 0

    # ---- engine thread ----

    def push(self, frame: OutFrame) -> None:
        """Add the newest frame and wake the connection. Over capacity the oldest frame not yet sent is dropped."""
        with self._lock:
            if self._newest is not None and frame.id <= self._newest.id:
                return  # a newcomer is shown the newest frame again while the next one may already be here
            earliest_anchor_s = frame.made_s - frame.pts_s
            if self._anchor_s is None or earliest_anchor_s > self._anchor_s:
                self._anchor_s = earliest_anchor_s  # made late: everything after it is due that much later
            self._waiting.append(frame)
            self._newest = frame
            self._pushed += 1
            if len(self._waiting) > self._capacity and not self.every_frame:
                gone = self._waiting.popleft()
                self._dropped += 1
                # the others move up, or a reader that once fell behind would stay behind for ever
                self._anchor_s -= self._waiting[0].pts_s - gone.pts_s
        self._wake()

    def clear(self) -> None:
        """Send nothing of what waits: the head stands elsewhere now."""
        with self._lock:
            self._dropped += len(self._waiting)
            self._waiting.clear()

    @property
    def unsent(self) -> int:
        """Frames that wait here."""
        with self._lock:
            return len(self._waiting)

    @property
    def has_credit(self) -> bool:
        """True while the reader's acknowledgements allow another frame."""
        with self._lock:
            return len(self._in_flight) < self._credit

    def last_due_s(self) -> float | None:
        """When the newest frame is or was due; None before the first."""
        with self._lock:
            if self._newest is None or self._anchor_s is None:
                return None
            return self._anchor_s + self._newest.pts_s

    # ---- event loop ----

    def pull(self, now_s: float) -> tuple[OutFrame | None, float | None]:
        """The frame to send now; or the seconds until one is due; or nothing: wait for `wake` or an acknowledgement.

        A frame whose successor is due is skipped here, when a frame can really be sent, and never before.
        """
        with self._lock:
            if not self._waiting or len(self._in_flight) >= self._credit or self._anchor_s is None:
                return (None, None)
            if not self.every_frame:
                wait_s = self._make_way(now_s, self._anchor_s)
                if wait_s > 0.0:
                    return (None, wait_s)
            frame = self._waiting.popleft()
            self._in_flight.append(frame.id)
            self._sent_id = frame.id
            self._sent += 1
            return (frame, None)

    def _make_way(self, now_s: float, anchor_s: float) -> float:
        """Skip what is too late. Returns the seconds until the first frame left is due: 0 or less, send it."""
        while len(self._waiting) > 1 and anchor_s + self._waiting[1].pts_s <= now_s:
            self._waiting.popleft()
            self._skipped += 1
        due_s = anchor_s + self._waiting[0].pts_s
        if len(self._waiting) == 1 and now_s > due_s + self._frame_s:
            self._anchor_s = now_s - self._waiting[0].pts_s  # after a pause the newest frame is due now
            return 0.0
        return due_s - now_s

    def ack(self, frame_id: int) -> None:
        """The reader has taken every frame up to `frame_id`. Ids that were never sent give no credit."""
        with self._lock:
            while self._in_flight and self._in_flight[0] <= frame_id:
                self._in_flight.popleft()

    # ---- any thread ----

    @property
    def newest_id(self) -> int:
        """Id of the newest frame pushed; -1 before the first."""
        with self._lock:
            return -1 if self._newest is None else self._newest.id

    @property
    def sent_id(self) -> int:
        """Id of the newest frame sent; -1 before the first."""
        with self._lock:
            return self._sent_id

    def counts(self) -> OutboxCounts:
        """What became of the frames so far."""
        with self._lock:
            return OutboxCounts(self._pushed, self._sent, self._skipped, self._dropped)
