"""The door: what the shell sees of the engine, and nothing more. The event loop knocks; `open` and `stop` block."""

from collections.abc import Callable, Sequence
from typing import Protocol

from server.seat import Seat
from shared.protocol import Hello
from shared.tiers import PagerStats


class Door(Protocol):
    """Loads the model in its own thread once started; gives seats once `is_ready`, and none after a `failure`."""

    @property
    def is_ready(self) -> bool:
        """True when frames can be made."""
        ...

    @property
    def failure(self) -> str:
        """Why frames will never be made, in words for the operator; empty while there is hope."""
        ...

    @property
    def loading(self) -> tuple[str, float]:
        """What is being loaded, in words, and how much of it is done, from 0 to 1."""
        ...

    def open(self, hello: Hello, wake: Callable[[], None]) -> Seat:
        """A seat for this hello. Waits for the disk: call it on a worker thread. Raises Refused."""
        ...

    def sessions(self) -> Sequence[PagerStats]:
        """What the pager did for each open session, for the metrics. Any thread."""
        ...

    def stop(self, timeout_s: float) -> None:
        """Save every head and end the threads. Waits."""
        ...
