"""A resident: a session that lives in the engine, with its seats, and the reasons why it may not draw.

The event loop reaches a session only through here. Engine thread, except the methods that a Seat calls.
"""

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from server.compress import compress
from server.faults import Refused
from server.outbox import Outbox
from server.pager.pager import Pager
from server.seat import Seat
from server.session import Session
from server.thumbnail import Thumbnail
from shared.protocol import Done, Error, ExactStep, Input, Paused, Role, Welcome

MAX_SEATS = 8
WORTH_SAYING_S = 0.5  # a hiccup of the network is no pause
GRACE_S = 60.0  # how long a session waits for its driver to come back
SPARE_CAPACITY = 4  # frames an outbox holds beyond two chunks


class Resident:
    """One session in the engine. It draws only while a driver sits in it, reads and has not paused."""

    def __init__(
        self, session: Session, name: str, folder: Path, frames_per_chunk: int, fps: float, poke: Callable[[], None]
    ) -> None:
        self.session = session
        self.name = name
        self._folder = folder
        self.resume = secrets.token_urlsafe(24)
        self.saved_s = time.monotonic()
        self._saved_moment = session.head.moment
        self._frames_per_chunk = frames_per_chunk
        self._fps = fps
        self._poke = poke
        self._read_s = 0.0  # when the driver was last seen reading
        self._is_paused = False
        self._is_over = False
        self._empty_since_s: float | None = time.monotonic()

    # ---- engine ----

    def start_s(self, now_s: float) -> float | None:
        """When the next chunk should start; None while the world stands still. Says why to every seat."""
        driver = self.session.show.driver
        if driver is None:
            return None
        outbox = driver.outbox
        if self.session.mode == "exact":
            return self._exact_start_s(now_s, driver)
        if self._is_paused:
            self._say("player")
            return None
        start_s = self.session.pace.start_s(now_s, outbox.unsent, outbox.last_due_s())
        if start_s is not None:
            self._read_s = now_s
        is_waiting = now_s - self._read_s > WORTH_SAYING_S
        self._say("reader" if is_waiting else "")
        return start_s

    def _exact_start_s(self, now_s: float, driver: Seat) -> float | None:
        if driver.outbox.unsent == 0 and (seq := self.session.orders.finished()) is not None:
            self.session.show.tell(Done(seq=seq))
        has_room = not self.session.pace.is_stuck(driver.outbox.unsent)
        return now_s if has_room and not self.session.orders.is_empty else None

    def _say(self, why: str) -> None:
        self.session.show.paused(Paused(why=why), why)

    @property
    def is_driven(self) -> bool:
        return self._empty_since_s is None

    def save(self, now_s: float) -> None:
        """Make the head durable, in the background, unless it is durable already."""
        self.saved_s = now_s
        if self.session.head.moment != self._saved_moment:
            self._saved_moment = self.session.head.moment
            self.session.save()

    def step(self) -> None:
        """Draw one chunk and remember how long it took."""
        started_s = time.monotonic()
        self.session.step()
        self.session.pace.note(time.monotonic() - started_s)

    def is_over(self, now_s: float) -> bool:
        """True once nobody will come back: the driver left for good, or stayed away too long."""
        if self._is_over:
            return True
        return self._empty_since_s is not None and now_s - self._empty_since_s > GRACE_S

    # ---- opening; any thread ----

    def sit(self, role: Role, welcome: Callable[[str], Welcome], wake: Callable[[], None], pager: Pager) -> Seat:
        """Give a connection a seat. A new driver takes the place of one whose connection is dying."""
        if len(self.session.show.seats) >= MAX_SEATS:
            raise Refused("busy", f"this world already has {MAX_SEATS} players and viewers: try again later")
        if role == "driver":
            self._unseat_driver()
            self.session.restart_inputs()
            self._empty_since_s, self._is_over = None, False
            self._read_s = time.monotonic()
        outbox = Outbox(self._fps, 2 * self._frames_per_chunk + SPARE_CAPACITY, wake=wake)
        outbox.every_frame = self.session.mode == "exact" and role == "driver"
        seat = Seat(self, welcome(self.resume if role == "driver" else ""), role, outbox, wake)
        self.session.show.sit(seat, pager)
        self._poke()
        return seat

    def _unseat_driver(self) -> None:
        if (old := self.session.show.driver) is not None:
            self.session.show.stand_up(old)
            old.tell(Error(code="taken_over", text="Another connection took over this session.", fatal=True))

    # ---- a seat's calls, from the event loop ----

    def take_input(self, message: Input, now_s: float) -> None:
        self.session.take_input(message, now_s)

    def let_go(self) -> None:
        self.session.mailbox.release_keys()

    def hold_still(self, *, on: bool) -> None:
        self._is_paused = on
        self._poke()

    def order(self, message: ExactStep) -> None:
        self.session.orders.add(message)
        self._poke()

    def wake_engine(self) -> None:
        self._poke()

    def thumbnail(self) -> Thumbnail | None:
        pixels = self.session.show.newest_pixels
        return None if pixels is None else Thumbnail(self._folder / "thumbnail.jpg", compress(pixels, "jpeg"))

    def stand_up(self, seat: Seat, *, for_good: bool) -> None:
        was_driver = self.session.show.driver is seat
        self.session.show.stand_up(seat)
        if was_driver:
            self.let_go()
            self._empty_since_s = time.monotonic()
            self._is_over = for_good
        self._poke()
