"""Exact mode: which ExactStep messages to send. A window asks chunk by chunk, a route all at once. Pure."""

from collections import deque
from typing import Protocol

from client.mailbox import Steering
from shared.controls import Controls
from shared.protocol import ExactStep, FrameControls

MAX_STEP_FRAMES = 512  # of one ExactStep


class Stepper(Protocol):
    """What a link in exact mode asks for its next step. The link's thread."""

    def welcome(self, steering: Steering, frames_per_chunk: int) -> None: ...
    def done(self, seq: int) -> None: ...
    def next(self, steering: Steering) -> ExactStep | None: ...


class Stepping:
    """A window in exact mode: the next chunk is asked for when the last one was drawn, with the keys held then."""

    def __init__(self) -> None:
        self._seq = 0
        self._open_seq: int | None = None
        self._frames_per_chunk = 1
        self._asked = Steering()

    def welcome(self, steering: Steering, frames_per_chunk: int) -> None:
        """A connection begins: nothing is asked for yet."""
        self._frames_per_chunk = frames_per_chunk
        self._open_seq = None
        self._asked = steering

    def done(self, seq: int) -> None:
        """The server drew everything that a step asked for."""
        if seq == self._open_seq:
            self._open_seq = None

    def next(self, steering: Steering) -> ExactStep | None:
        """The step for one more chunk, or None while one is being drawn. The mouse travel is spread evenly."""
        if self._open_seq is not None:
            return None
        num_frames = self._frames_per_chunk
        dx = (steering.mouse_x - self._asked.mouse_x) / num_frames
        dy = (steering.mouse_y - self._asked.mouse_y) / num_frames
        self._asked, self._open_seq = steering, self._seq
        self._seq += 1
        return ExactStep(seq=self._open_seq, controls=[(int(steering.keys), dx, dy)] * num_frames)


class Following:
    """Steps that repeat what another session was drawn with: one for each chunk given, in order."""

    def __init__(self) -> None:
        self._seq = 0
        self._done = 0
        self._waiting: deque[list[FrameControls]] = deque()

    @property
    def open_chunks(self) -> int:
        """Chunks that were given and are not drawn yet."""
        return len(self._waiting) + self._seq - self._done

    def give(self, controls: list[FrameControls]) -> None:
        """The controls of one more chunk. The player's thread."""
        self._waiting.append(controls)

    def welcome(self, steering: Steering, frames_per_chunk: int) -> None:
        """A connection begins; what was asked of the one before is not waited for. What waits was given for it."""
        self._done = self._seq

    def done(self, seq: int) -> None:
        """The server drew this step, and all before it: several may be reported as one."""
        self._done = max(self._done, seq + 1)

    def next(self, steering: Steering) -> ExactStep | None:
        """The next chunk's step, if its controls are known; the hands are not asked."""
        if not self._waiting:
            return None
        self._seq += 1
        return ExactStep(seq=self._seq - 1, controls=self._waiting.popleft())


def steps_for(controls: list[Controls], frames_per_chunk: int) -> list[ExactStep]:
    """The ExactStep messages of a whole route, in order; rests are added to fill the last chunk."""
    rest = -len(controls) % frames_per_chunk
    rows = [(int(one.keys), one.mouse_dx, one.mouse_dy) for one in controls] + [(0, 0.0, 0.0)] * rest
    size = max(1, MAX_STEP_FRAMES // frames_per_chunk) * frames_per_chunk
    return [ExactStep(seq=seq, controls=rows[at : at + size]) for seq, at in enumerate(range(0, len(rows), size))]
