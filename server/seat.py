"""A seat: one connection's place in a session. The event loop holds it; the engine fills its two mailboxes."""

import threading
from collections.abc import Callable
from typing import Protocol

from server.outbox import Outbox
from server.thumbnail import Thumbnail
from shared.protocol import ExactStep, FromTraveller, Input, Message, Role, Welcome

MAX_NOTES = 64


class Driven(Protocol):
    """What a seat needs of its session. All calls come from the event loop and never block."""

    def take_input(self, message: Input, now_s: float) -> None: ...
    def let_go(self) -> None: ...
    def hold_still(self, *, on: bool) -> None: ...
    def order(self, message: ExactStep) -> None: ...
    def travel(self, message: FromTraveller, seat: "Seat") -> None: ...
    def wake_engine(self) -> None: ...
    def thumbnail(self) -> Thumbnail | None: ...
    def stand_up(self, seat: "Seat", *, for_good: bool) -> None: ...


class Seat:
    """One connection in a session: frames go out through `outbox`, everything else through `take_notes`."""

    def __init__(self, session: Driven, welcome: Welcome, role: Role, outbox: Outbox, wake: Callable[[], None]) -> None:
        self.welcome = welcome
        self.role = role
        self.outbox = outbox
        self._session = session
        self._wake = wake
        self._lock = threading.Lock()
        self._notes: list[Message] = []
        self._has_lost_notes = False

    def tell(self, *notes: Message) -> None:
        """Leave messages for the connection; the oldest go when it does not fetch them. Any thread."""
        with self._lock:
            self._notes.extend(notes)
            self._has_lost_notes |= len(self._notes) > MAX_NOTES
            del self._notes[:-MAX_NOTES]
        self._wake()

    def has_caught_up(self) -> bool:
        """Whether notes were lost and the connection reads again: once, then its map must be sent anew."""
        with self._lock:
            is_due = self._has_lost_notes and len(self._notes) < MAX_NOTES // 2
            self._has_lost_notes &= not is_due
        return is_due

    def take_notes(self) -> list[Message]:
        """The messages left since the last call. Event loop."""
        with self._lock:
            notes, self._notes = self._notes, []
        return notes

    def input(self, message: Input, now_s: float) -> None:
        """Credit for every seat, controls from the driver."""
        self.outbox.ack(message.ack)
        if self.role == "driver":
            self._session.take_input(message, now_s)
        self._session.wake_engine()

    def release_keys(self) -> None:
        """The driver went silent: nothing is held any more."""
        if self.role == "driver":
            self._session.let_go()

    def pause(self, on: bool) -> None:  # noqa: FBT001 - the wire's word
        if self.role == "driver":
            self._session.hold_still(on=on)

    def exact(self, message: ExactStep) -> None:
        if self.role == "driver":
            self._session.order(message)

    def travel(self, message: FromTraveller) -> None:
        """A wish about the timeline: done between two chunks, and answered with notes."""
        if self.role == "driver":
            self._session.travel(message, self)

    def thumbnail(self) -> Thumbnail | None:
        """What the driver saw last; None for viewers, and before the first frame."""
        return self._session.thumbnail() if self.role == "driver" else None

    def leave(self, for_good: bool) -> None:  # noqa: FBT001 - goodbye, or a lost connection
        """The connection is gone. `for_good`: nobody will come back for this session."""
        self._session.stand_up(self, for_good=for_good)
