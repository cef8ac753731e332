"""A resident: a session that lives in the engine, with its seats, and the reasons why it may not draw.

The event loop reaches a session only through here. Engine thread, except the methods that a Seat calls.
"""

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from models.base import WorldModel
from server.compress import compress
from server.faults import Refused
from server.moments import NO_MOMENT
from server.outbox import Outbox
from server.pager.pager import Pager
from server.seat import Seat
from server.session import EXACT_WAIT_S, Session
from server.thumbnail import Thumbnail
from server.travel import Travel
from shared.protocol import Done, Error, ExactStep, FromTraveller, Input, Paused, Role, SwitchRecall, Welcome

MAX_SEATS = 8
WORTH_SAYING_S = 0.5  # a hiccup of the network is no pause
GRACE_S = 60.0  # how long a session waits for its driver to come back
VIEWER = -1  # the number of a connection that does not steer
MAX_WISHES = 8  # of one driver that wait for the engine: each may draw chunks again, while everybody else waits
SPARE_CAPACITY = 4  # frames an outbox holds beyond two chunks


class Resident:
    """One session in the engine. It draws only while a driver sits in it, reads and has not paused."""

    def __init__(
        self,
        session: Session,
        name: str,
        folder: Path,
        model: WorldModel,
        poke: Callable[[], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """`poke` wakes the engine; `post` has it do something between two chunks. Both from any thread."""
        self.session = session
        self.name = name
        self._folder = folder
        self.resume = secrets.token_urlsafe(24)
        self.saved_s = time.monotonic()
        self._saved_moment = NO_MOMENT  # with its token: until then only a clean stop would know its driver again
        self._frames_per_chunk = model.frames_per_chunk
        self._fps = model.fps
        self._poke = poke
        self._post = post
        self.travel = Travel(session, post)
        self._wishes = threading.BoundedSemaphore(MAX_WISHES)
        self._driver = VIEWER  # number of the connection that steers
        self._waiting_since_s = 0.0  # exact mode: for a recall
        self._save: Future[bool] | None = None
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
        """Since when a chunk that was asked for can be drawn: its recall is there. Waiting does not hold the engine."""
        orders = self.session.orders
        if driver.outbox.unsent == 0 and (seq := orders.finished()) is not None:
            self.session.show.tell(Done(seq=seq))
        if self.session.pace.is_stuck(driver.outbox.unsent) or not self.session.has_chunk_to_draw:
            self._waiting_since_s = now_s
            return None
        if self.session.is_recall_complete() or now_s - self._waiting_since_s > EXACT_WAIT_S:
            return self._waiting_since_s  # not now: or a live session that is always a little late would go first
        return None

    def _say(self, why: str) -> None:
        self.session.show.paused(Paused(why=why), why)

    @property
    def is_driven(self) -> bool:
        return self._empty_since_s is None

    def save(self, now_s: float) -> None:
        """Make the head durable, in the background, unless it is so, or a save is still under way."""
        self.saved_s = now_s
        saving = self._save
        if saving is not None and not saving.done():
            return
        is_refused = saving is not None and not saving.result()
        if is_refused or self.session.head.moment != self._saved_moment:
            self._saved_moment = self.session.head.moment
            self._save = self.session.save()

    def step(self) -> None:
        """Draw one chunk and remember how long it took."""
        started_s = time.monotonic()
        self.session.step(exact_wait_s=0.0)
        self._waiting_since_s = time.monotonic()
        self.session.pace.note(self._waiting_since_s - started_s)

    def is_over(self, now_s: float) -> bool:
        """True once nobody will come back: the driver left for good, or stayed away too long."""
        if self._is_over:
            return True
        return self._empty_since_s is not None and now_s - self._empty_since_s > GRACE_S

    def sit(self, role: Role, welcome: Callable[[str], Welcome], wake: Callable[[], None], pager: Pager) -> Seat:
        """Give a connection a seat. A new driver takes the place of one whose connection is dying."""
        if role == "driver":
            self._unseat_driver()
        if len(self.session.show.seats) >= MAX_SEATS:
            raise Refused("busy", f"this world already has {MAX_SEATS} players and viewers: try again later")
        number = VIEWER
        if role == "driver":
            number = self.session.change_driver()
            self._empty_since_s, self._is_over, self._is_paused = None, False, False
            self._read_s = time.monotonic()
        self._driver = number if role == "driver" else self._driver
        outbox = Outbox(self._fps, 2 * self._frames_per_chunk + SPARE_CAPACITY, wake=wake)
        outbox.every_frame = self.session.mode == "exact" and role == "driver"
        steering = Steering(self, number)
        seat = Seat(steering, welcome(self.resume if role == "driver" else ""), role, outbox, wake)
        if role == "driver":
            self.travel.enter(seat)
        self.session.show.sit(seat, pager)
        return seat

    def _unseat_driver(self) -> None:
        if (old := self.session.show.driver) is not None:
            self.session.show.stand_up(old)
            old.tell(Error(code="taken_over", text="Another connection took over this session.", fatal=True))

    def stand_up(self, seat: Seat, *, for_good: bool) -> None:
        """A connection is gone. When it was the driver's, the world stands still and may end."""
        was_driver = self.session.show.driver is seat
        self.session.show.stand_up(seat)
        if was_driver:
            self.session.mailbox.release_keys()
            self._empty_since_s = time.monotonic()
            self._is_over = for_good

    def say_over(self) -> None:
        """Tell those who still watch that nothing more will come."""
        text = "The driver left, and this walk is over. Join another one, or walk yourself."
        self.session.show.tell(Error(code="session_over", text=text, fatal=True))

    # ---- a driver's wishes, from the event loop ----

    def is_driver(self, number: int) -> bool:
        """Whether the connection with this number steers: one that was replaced does not any more."""
        return number == self._driver

    def hold_still(self, *, on: bool) -> None:
        self._is_paused = on
        self._poke()

    def order(self, message: ExactStep) -> None:
        self.session.orders.add(message)
        self._poke()

    def wake_engine(self) -> None:
        self._poke()

    def wish(self, message: FromTraveller, seat: Seat) -> None:
        """Have the engine do it between two chunks, unless it is behind with what was wished before."""
        if not self._wishes.acquire(blocking=False):
            text = "The server is still busy with what you asked for before: this was not done. Try again in a moment."
            seat.tell(Error(code="snapshot", text=text, fatal=False))
            return

        def do() -> None:
            self._wishes.release()
            self.travel.do(message, seat)

        self._post(do)

    def later(self, work: Callable[[], None]) -> None:
        """Have the engine thread do something soon."""
        self._post(work)

    def thumbnail(self) -> Thumbnail | None:
        pixels = self.session.show.newest_pixels
        return None if pixels is None else Thumbnail(self._folder / "thumbnail.jpg", compress(pixels, "jpeg"))


class Steering:
    """What one seat can do to its session; a driver who was replaced can do nothing more. Event loop."""

    def __init__(self, resident: Resident, number: int) -> None:
        self._resident = resident
        self._number = number

    def take_input(self, message: Input, now_s: float) -> None:
        self._resident.session.take_input(message, now_s, self._number)

    def let_go(self) -> None:
        if self._resident.is_driver(self._number):
            self._resident.session.mailbox.release_keys()

    def hold_still(self, *, on: bool) -> None:
        if self._resident.is_driver(self._number):
            self._resident.hold_still(on=on)

    def order(self, message: ExactStep) -> None:
        if self._resident.is_driver(self._number):
            self._resident.order(message)

    def travel(self, message: FromTraveller, seat: Seat) -> None:
        """All is done between two chunks; an exact session's recall at once, ahead of the steps that come after it."""
        if not self._resident.is_driver(self._number):
            return
        session = self._resident.session
        if isinstance(message, SwitchRecall) and session.mode == "exact":
            session.recalls = message.on
        else:
            self._resident.wish(message, seat)

    def wake_engine(self) -> None:
        self._resident.wake_engine()

    def thumbnail(self) -> Thumbnail | None:
        return self._resident.thumbnail()

    def stand_up(self, seat: Seat, *, for_good: bool) -> None:
        self._resident.later(lambda: self._resident.stand_up(seat, for_good=for_good))
