"""Exact mode: which ExactStep messages to send. A window asks chunk by chunk, a route all at once. Pure."""

from client.mailbox import Steering
from shared.controls import Controls
from shared.protocol import ExactStep

MAX_STEP_FRAMES = 512  # of one ExactStep


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


def steps_for(controls: list[Controls], frames_per_chunk: int) -> list[ExactStep]:
    """The ExactStep messages of a whole route, in order; rests are added to fill the last chunk."""
    rest = -len(controls) % frames_per_chunk
    rows = [(int(one.keys), one.mouse_dx, one.mouse_dy) for one in controls] + [(0, 0.0, 0.0)] * rest
    size = max(1, MAX_STEP_FRAMES // frames_per_chunk) * frames_per_chunk
    return [ExactStep(seq=seq, controls=rows[at : at + size]) for seq, at in enumerate(range(0, len(rows), size))]
