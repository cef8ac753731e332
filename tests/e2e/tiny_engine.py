"""A tiny engine behind the real shell: worlds whose pixels say which frame, session and input made them.

It keeps the contract of server/door.py with real seats and real outboxes, draws in its own thread, and costs nothing.
"""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from server.compress import compress
from server.faults import Refused
from server.outbox import Outbox, OutFrame
from server.seat import Seat
from shared.protocol import (
    FRAME_CREDIT,
    PROTOCOL_VERSION,
    AskTree,
    Done,
    ExactStep,
    FromTraveller,
    Hello,
    Input,
    Paused,
    Tree,
    Welcome,
)
from shared.tiers import PagerStats, Tier, TierUsage

FPS = 20.0
FRAMES_PER_CHUNK = 6
SPARE_FRAMES = 2


def encode_numbers(session: int, frame: int, seq: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[8, 8, 3]: three numbers below 2^24, one per row of the picture, in all its pixels."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    for row, number in enumerate((session, frame, seq)):
        pixels[row] = [number >> 16 & 255, number >> 8 & 255, number & 255]
    return pixels


def decode_numbers(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> tuple[int, int, int]:
    """(session, frame, input seq) that a frame was made of."""
    numbers = [int(r) << 16 | int(g) << 8 | int(b) for r, g, b in pixels[:3, 0]]
    return (numbers[0], numbers[1], numbers[2])


class TinySession:
    """One world. `inputs` and `releases` are what reached it, with their times."""

    def __init__(self, number: int, name: str, seed: int, mode: str, poke: Callable[[], None]) -> None:
        self.number, self.name, self.seed, self.mode = number, name, seed, mode
        self.seats: tuple[Seat, ...] = ()
        self.inputs: list[Input] = []
        self.releases_s: list[float] = []
        self.orders: list[ExactStep] = []
        self.travels: list[FromTraveller] = []
        self.num_frames = 0
        self.is_paused = False
        self.why = ""
        self.left_for_good = False
        self._poke = poke
        self._drawn_order: int | None = None
        self._newest: tuple[int, float] = (-1, 0.0)  # input seq and its arrival

    # ---- what a seat calls ----

    def take_input(self, message: Input, now_s: float) -> None:
        self.inputs.append(message)
        self._newest = (message.seq, now_s)

    def let_go(self) -> None:
        self.releases_s.append(time.monotonic())

    def hold_still(self, *, on: bool) -> None:
        self.is_paused = on

    def order(self, message: ExactStep) -> None:
        self.orders.append(message)
        self._poke()

    def travel(self, message: FromTraveller, seat: Seat) -> None:
        self.travels.append(message)
        if isinstance(message, AskTree):
            seat.tell(Tree(nodes=[(0, -1, 0, "main")], here=0, branch="main"))

    def wake_engine(self) -> None:
        self._poke()

    def thumbnail(self) -> None:
        return None

    def stand_up(self, seat: Seat, *, for_good: bool) -> None:
        self.seats = tuple(other for other in self.seats if other is not seat)
        self.left_for_good |= for_good
        self._poke()

    # ---- what the engine calls ----

    @property
    def driver(self) -> Seat | None:
        return next((seat for seat in self.seats if seat.role == "driver"), None)

    def turn(self) -> None:
        """Draw a chunk when it is time for one."""
        driver = self.driver
        if driver is None:
            return
        if self.mode == "exact":
            if driver.outbox.unsent == 0:
                self._do_orders(driver)
            return
        is_stuck = driver.outbox.unsent >= FRAMES_PER_CHUNK + SPARE_FRAMES
        why = "player" if self.is_paused else "reader" if is_stuck else ""
        if why != self.why:
            self.why = why
            for seat in self.seats:
                seat.tell(Paused(why=why))
        last_due_s = driver.outbox.last_due_s()
        if not why and (last_due_s is None or time.monotonic() >= last_due_s - 1.0 / FPS):
            self.draw(FRAMES_PER_CHUNK)

    def _do_orders(self, driver: Seat) -> None:
        """All frames of the order before are sent: say so, and take the next."""
        if self._drawn_order is not None:
            driver.tell(Done(seq=self._drawn_order))
            self._drawn_order = None
        if self.orders:
            order = self.orders.pop(0)
            self._newest = (order.seq, time.monotonic())
            self._drawn_order = order.seq
            self.draw(len(order.controls))

    def draw(self, num_frames: int) -> None:
        for _ in range(num_frames):
            chunk, index = divmod(self.num_frames, FRAMES_PER_CHUNK)
            seq, input_s = self._newest
            pixels = encode_numbers(self.number, self.num_frames, max(seq, 0))
            for seat in self.seats:
                codec = seat.welcome.codec
                seat.outbox.push(
                    OutFrame(
                        self.num_frames,
                        self.num_frames / FPS,
                        chunk,
                        index,
                        (0.0, 1.6, 0.0, 0.0, 0.0),
                        seq,
                        input_s,
                        time.monotonic(),
                        False,
                        codec,
                        compress(pixels, codec),
                    )
                )
            self.num_frames += 1


class TinyEngine:
    """The door of a server that keeps its worlds in a dict."""

    def __init__(self) -> None:
        self.is_ready = True
        self.failure = ""
        self.loading: tuple[str, float] = ("weights", 0.5)
        self.open_takes_s = 0.0
        self.worlds: dict[str, TinySession] = {}
        self.has_stopped = False
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._poked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tiny-engine", daemon=True)
        self._thread.start()

    def open(self, hello: Hello, wake: Callable[[], None]) -> Seat:
        time.sleep(self.open_takes_s)
        with self._lock:
            session = self._find(hello)
            outbox = Outbox(FPS, FRAMES_PER_CHUNK + SPARE_FRAMES, wake=wake)
            outbox.every_frame = hello.mode == "exact" and hello.role == "driver"
            seat = Seat(session, self._welcome(hello, session), hello.role, outbox, wake)
            session.seats = (*session.seats, seat)
        self._poked.set()
        return seat

    def _find(self, hello: Hello) -> TinySession:
        if hello.world == "broken":
            raise Refused("bad_world", "this world cannot be read")
        if hello.world == "buggy":
            raise ZeroDivisionError
        name = hello.world or f"world-{next(self._numbers)}"
        session = self.worlds.get(name)
        if session is None:
            session = TinySession(len(self.worlds) + 1, name, hello.seed or 0, hello.mode, self._poked.set)
            self.worlds[name] = session
        elif hello.role == "driver" and session.driver is not None:
            raise Refused("world_in_use", "somebody walks in this world")
        return session

    def _welcome(self, hello: Hello, session: TinySession) -> Welcome:
        return Welcome(
            version=PROTOCOL_VERSION,
            session=str(session.number),
            world=session.name,
            seed=session.seed,
            model="tiny",
            mode=hello.mode,
            role=hello.role,
            codec=hello.codec,
            fps=FPS,
            width=8,
            height=8,
            frames_per_chunk=FRAMES_PER_CHUNK,
            max_recall=0,
            walk_m_s=1.0,
            turn_rad_s=1.0,
            max_pitch_rad=1.0,
            credit=FRAME_CREDIT,
            resume="",
        )

    def sessions(self) -> list[PagerStats]:
        usage = TierUsage(Tier.GPU, 3, 300, 1_000)
        return [
            PagerStats(tiers=(usage,), hits=(1, 2, 3), chunks=session.num_frames) for session in self.worlds.values()
        ]

    def stop(self, timeout_s: float) -> None:
        self.has_stopped = True
        self._poked.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self.has_stopped:
            for session in list(self.worlds.values()):
                session.turn()
            self._poked.wait(0.005)
            self._poked.clear()
