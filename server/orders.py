"""Orders: the controls of whole chunks that an exact-mode client asks for, drawn in order, none skipped. One lock."""

import threading
from collections import deque

from server.mailbox import Taken
from shared.controls import Controls, Key
from shared.protocol import ExactStep, ProtocolError

MAX_WAITING_FRAMES = 20_000


class Orders:
    """A queue of controls, handed out a chunk at a time. Event loop adds, engine takes."""

    def __init__(self, frames_per_chunk: int) -> None:
        self._frames_per_chunk = frames_per_chunk
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, tuple[Controls, ...]]] = deque()
        self._ending: int | None = None  # the order that ends with the chunk taken last
        self._last_seq = -1  # of the newest order whose chunks were all drawn
        self._done_seq = -1

    def add(self, message: ExactStep, max_waiting: int = MAX_WAITING_FRAMES) -> None:
        """Queue an order. Raises ProtocolError when it is not whole chunks, or too much waits already."""
        num = self._frames_per_chunk
        if len(message.controls) % num:
            raise ProtocolError("invalid", f"controls: their number must be a multiple of {num} frames")
        held = [Controls(Key(keys & 15), dx, dy) for keys, dx, dy in message.controls]
        with self._lock:
            if len(self._waiting) * num + len(held) > max_waiting:
                raise ProtocolError("too_much", f"more than {max_waiting} frames are waiting to be drawn")
            chunks = [tuple(held[at : at + num]) for at in range(0, len(held), num)]
            self._waiting.extend((message.seq, chunk) for chunk in chunks)

    def drop(self) -> None:
        """The head stands elsewhere: nothing that was asked for before is drawn, and all of it counts as done."""
        with self._lock:
            if self._waiting:
                self._ending = self._waiting[-1][0]
                self._waiting.clear()
            elif self._ending is None:
                return
            self._last_seq, self._ending = self._ending, None

    def clear(self) -> None:
        """Another driver sits down: nothing of the last one's is drawn or reported."""
        with self._lock:
            self._waiting.clear()
            self._last_seq = self._done_seq = -1
            self._ending = None

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def take(self, now_s: float) -> Taken:
        """The controls of the next chunk. Raises IndexError when none waits."""
        with self._lock:
            seq, controls = self._waiting.popleft()
            self._ending = seq if not self._waiting or self._waiting[0][0] != seq else None
            return Taken(controls, seq, now_s)

    def drew(self) -> None:
        """The chunk taken last is drawn."""
        with self._lock:
            self._last_seq = self._last_seq if self._ending is None else self._ending

    def finished(self) -> int | None:
        """The newest order that is wholly drawn and was not reported yet."""
        with self._lock:
            if self._last_seq == self._done_seq:
                return None
            self._done_seq = self._last_seq
            return self._done_seq
