"""The mailbox of controls: what a driver did since the last chunk. Event loop puts, engine takes; one lock.

Held keys overwrite, mouse sums add up, and a key that was tapped between two chunks counts for one chunk.
"""

import threading
from dataclasses import dataclass

from shared.controls import Controls, Key
from shared.protocol import Input


@dataclass(frozen=True, slots=True)
class Taken:
    """The controls of one chunk, and the newest input that they contain."""

    controls: tuple[Controls, ...]
    input_seq: int
    arrived_s: float


class ControlsMailbox:
    """Newest input wins: one with an older sequence number is dropped, so the sums never run backwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._driver = 0
        self._seq = -1
        self._held = Key(0)
        self._tapped = Key(0)
        self._mouse = (0.0, 0.0)  # cumulative, counts
        self._taken_mouse = (0.0, 0.0)
        self._arrived_s = 0.0

    def put(self, message: Input, now_s: float, driver: int = 0) -> bool:
        """Take an input message at server time `now_s`; False when it is old, or from a driver who was replaced."""
        with self._lock:
            if driver != self._driver or message.seq <= self._seq:
                return False
            self._seq, self._arrived_s = message.seq, now_s
            self._held = Key(message.keys)
            self._tapped |= self._held
            self._mouse = (message.mouse_x, message.mouse_y)
            return True

    def restart(self) -> int:
        """A new connection counts its inputs and sums from zero again. Returns the number of its driver."""
        with self._lock:
            self._driver += 1
            self._seq = -1
            self._held = self._tapped = Key(0)
            self._mouse = self._taken_mouse = (0.0, 0.0)
            return self._driver

    def release_keys(self) -> None:
        """Nothing is held any more: the driver went silent, or left."""
        with self._lock:
            self._held = Key(0)

    def peek(self) -> tuple[Key, float, float]:
        """The held keys and the mouse counts not taken yet, without taking them."""
        with self._lock:
            return (
                self._held | self._tapped,
                self._mouse[0] - self._taken_mouse[0],
                self._mouse[1] - self._taken_mouse[1],
            )

    def take(self, num_frames: int) -> Taken:
        """The controls of the next `num_frames` frames: the keys, and the new mouse travel spread evenly."""
        with self._lock:
            dx = (self._mouse[0] - self._taken_mouse[0]) / num_frames
            dy = (self._mouse[1] - self._taken_mouse[1]) / num_frames
            self._taken_mouse = self._mouse
            keys, self._tapped = self._held | self._tapped, Key(0)
            return Taken((Controls(keys, dx, dy),) * num_frames, self._seq, self._arrived_s)
