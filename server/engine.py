"""The engine: the one thread that runs the model, taking turns over the sessions. Owns the model and all heads.

Other threads talk to it by `open` (a worker thread), by the seats that `open` returns (the event loop) and by `stop`.
"""

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from models.base import WorldModel
from server.faults import Refused
from server.lobby import Lobby
from server.open_timelines import OpenTimelines
from server.pager.errors import PagerError
from server.pager.pager import Pager
from server.pager.recall_buffer import RecallBuffer
from server.resident import Resident
from server.seat import Seat
from server.setting import Setting
from server.shelf import DEFAULT_BYTES, Shelf
from server.welcome import choose, welcome_to
from server.worlds import Worlds, token_hash
from shared.protocol import Error, Hello, Welcome
from shared.tiers import PagerStats

IDLE_WAIT_S = 0.25
STUCK_WAIT_S = 0.01  # a driver that does not read may start again at any moment
SAVE_WAIT_S = 15.0
CALL_WAIT_S = 1.0
TIDY_TAKES_S = 0.005
TIDY_EVERY_S = 1.0
TIDY_AT_LEAST_EVERY_S = 10.0

_log = logging.getLogger(__name__)

T = TypeVar("T")

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many sessions one engine takes, and how often it saves their heads."""

    max_sessions: int = 4
    autosave_s: float = 30.0
    seed: int | None = None  # of new worlds whose client names none
    kept_bytes: int = DEFAULT_BYTES  # of the heads that are kept in RAM: snapshots, parked branches, the rewind ring


class Engine:
    """Runs sessions. `is_ready` turns true once frames can be made; `failure` says why they never will be."""

    def __init__(
        self,
        load: Callable[[Progress], tuple[WorldModel, Pager, RecallBuffer]],
        worlds: Worlds,
        limits: Limits,
    ) -> None:
        """`load` makes model and pager; it runs on the engine thread, because the model belongs to that thread."""
        self.is_ready = False
        self.failure = ""
        self.loading: tuple[str, float] = ("starting", 0.0)
        self._load = load
        self._worlds = worlds
        self._limits = limits
        self._poked = threading.Event()
        self._stopping = threading.Event()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._tidied_s = 0.0
        self._opening = threading.Lock()
        self._residents: tuple[Resident, ...] = ()
        self._setting: Setting | None = None
        self._worlds_open: OpenTimelines  # made with the setting
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Save every head and close. Waits at most `timeout_s`."""
        self._stopping.set()
        self._poked.set()
        self._thread.join(timeout_s)

    @property
    def residents(self) -> tuple[Resident, ...]:
        """The sessions that live here now. Any thread; the tuple is never changed."""
        return self._residents

    def sessions(self) -> list[PagerStats]:
        """What the pager did for each session, for the metrics. Any thread."""
        setting = self._setting
        return [setting.pager.stats(r.session.head_id) for r in self._residents] if setting else []

    # ---- opening; a worker thread ----

    def open(self, hello: Hello, wake: Callable[[], None]) -> Seat:
        """A seat for this connection. Blocks on the disk. Raises Refused."""
        if (seat := self.call(lambda: self._sit_in_living(hello, wake))) is not None:
            return seat
        with self._opening:  # two that ask for one world at once: the second finds it living
            if (seat := self.call(lambda: self._sit_in_living(hello, wake))) is not None:
                return seat
            resident, notes = self._enter(hello, self._settled)
            return self.call(lambda: self._move_in(resident, hello, wake, notes))

    def _sit_in_living(self, hello: Hello, wake: Callable[[], None]) -> Seat | None:
        """A seat in a session that lives here; None when this hello asks for another one. Engine thread."""
        if resumed := next((r for r in self._residents if hello.resume and hello.resume == r.resume), None):
            return self._sit(resumed, hello, wake, is_resumed=True, notes=[])
        living = [r for r in self._residents if hello.world and hello.world in (r.session.world, r.name)]
        found = choose(living, hello)
        if found is None and hello.role == "viewer":
            raise Refused("no_such_session", "nobody walks in that world now: a viewer needs a driver")
        if found is None:
            if len(self._residents) >= self._limits.max_sessions:
                raise Refused("busy", f"{self._limits.max_sessions} worlds are being walked already: try again later")
            return None
        if hello.role == "driver" and found.session.show.driver is not None:
            raise Refused(
                "world_in_use",
                "somebody walks in this world: join as a viewer, begin a branch of your own at one of its snapshots, "
                "or name another world",
            )
        return self._sit(found, hello, wake, is_resumed=False, notes=[])

    def _sit(
        self, resident: Resident, hello: Hello, wake: Callable[[], None], *, is_resumed: bool, notes: list[str]
    ) -> Seat:
        def welcome(resume: str) -> Welcome:
            return welcome_to(self._settled.model, resident, hello, resume, is_resumed=is_resumed, notes=notes)

        return resident.sit(hello.role, welcome, wake, self._settled.pager)

    def _move_in(self, resident: Resident, hello: Hello, wake: Callable[[], None], notes: list[str]) -> Seat:
        """Engine thread, like everything that changes who lives here."""
        self._residents = (*self._residents, resident)
        try:
            return self._sit(resident, hello, wake, is_resumed=resident.session.is_resumed, notes=notes)
        except BaseException:
            self._park(resident)
            raise

    def _enter(self, hello: Hello, setting: Setting) -> tuple[Resident, list[str]]:
        lobby = Lobby(setting, self._worlds, self.call, self._limits.seed)
        timeline = self._worlds_open.claim(lobby.world_id(hello.world) or "", self.call)
        try:
            session, name, notes = lobby.enter(hello, timeline)
        except BaseException:
            if timeline is not None:
                self.call(lambda: self._worlds_open.let_go(timeline))
            raise
        if timeline is None:
            self.call(lambda: self._worlds_open.add(session.timeline))
        resident = Resident(session, name, session.timeline.folder, setting.model, self._poked.set, self._post)
        if session.is_resumed:
            resident.resume = hello.resume
        session.branch.resume_hash = token_hash(resident.resume)
        return resident, notes

    @property
    def _settled(self) -> Setting:
        if self._setting is None or self._stopping.is_set():
            raise Refused("not_ready", "the server is not ready: try again in a moment")
        return self._setting

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` on the engine thread between two chunks, and wait for its result. Raises Refused when it stops."""
        assert self._settled
        done: Future[T] = Future()
        self._jobs.put((work, done))
        self._poked.set()
        while True:
            try:
                return done.result(CALL_WAIT_S)
            except TimeoutError:
                if done.done():
                    raise  # the work's own
                if not self._thread.is_alive():
                    raise Refused("not_ready", "the server is stopping") from None

    def _post(self, work: Callable[[], None]) -> None:
        """Have the engine thread run `work` soon; nobody waits for it. Any thread."""
        self._jobs.put((work, Future()))
        self._poked.set()

    # ---- the engine thread ----

    def _run(self) -> None:
        try:
            self._setting = Setting(*self._load(self._tell_progress), Shelf(self._limits.kept_bytes))
            self._worlds_open = OpenTimelines(self._setting.pager)
        except Exception as error:  # noqa: BLE001 - top of the thread: whatever it was must reach the operator
            if not isinstance(error, PagerError | OSError | ValueError):  # those are the operator's: the text says how
                _log.exception("engine load failed")
            self.failure = str(error) or type(error).__name__
            return
        gc.freeze()  # what was loaded stays: no collection needs to look through it again
        gc.disable()  # until the end, `_tidy` collects between chunks, never in the middle of one
        self._setting.pager.on_published = self._poked.set  # an exact session may be waiting for that
        self.is_ready = True
        try:
            while not self._stopping.is_set():
                self._do_jobs()
                self._turn(time.monotonic())
        except Exception as error:  # noqa: BLE001 - top of the thread: a server that cannot draw must not say it can
            _log.exception("engine ended by a fault")
            self.failure = str(error) or type(error).__name__
        self._close(self._setting)

    def _tell_progress(self, stage: str, share: float) -> None:
        self.loading = (stage, share)

    def _do_jobs(self) -> None:
        while not self._jobs.empty():
            work, done = self._jobs.get()
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - belongs to the thread that asked: it is raised there
                done.set_exception(error)

    def _turn(self, now_s: float) -> None:
        """Draw the chunk that is due first, or wait until one is."""
        self._poked.clear()
        wait_s = IDLE_WAIT_S
        due: Resident | None = None
        for resident in self._residents:
            start_s = self._guarded(resident, lambda resident=resident: self._look_after(resident, now_s))
            next_s = STUCK_WAIT_S if start_s is None and resident.is_driven else IDLE_WAIT_S
            next_s = start_s - now_s if start_s is not None else next_s
            if next_s < wait_s:
                wait_s, due = next_s, resident if start_s is not None else None
        if due is not None and wait_s <= 0.0:
            self._guarded(due, due.step)
            self._tidy(now_s, 0.0)
        else:
            self._tidy(now_s, wait_s)
            self._poked.wait(min(wait_s, IDLE_WAIT_S))

    def _look_after(self, resident: Resident, now_s: float) -> float | None:
        """Park or save what is due for it; returns when its next chunk should start."""
        if resident.is_over(now_s):
            resident.say_over()
            self._park(resident)
            return None
        if now_s - resident.saved_s > self._limits.autosave_s:
            resident.save(now_s)
        resident.session.settle()
        return resident.start_s(now_s)

    def _guarded(self, resident: Resident, work: Callable[[], T]) -> T | None:
        """Our own fault ends this session, not the server; its head is still the last whole one."""
        try:
            return work()
        except Exception:  # noqa: BLE001 - the top of a session
            _log.exception("session ended by a fault world=%s", resident.session.world)
            text = "The server made an error and closed this session. The world is being saved: connect again."
            resident.session.show.tell(Error(code="fault", text=text, fatal=True))
            self._park(resident)
            return None

    def _tidy(self, now_s: float, wait_s: float) -> None:
        """Collect garbage while nothing is due, or when that has not happened for long."""
        age_s = now_s - self._tidied_s
        if (wait_s > TIDY_TAKES_S and age_s > TIDY_EVERY_S) or age_s > TIDY_AT_LEAST_EVERY_S:
            self._tidied_s = now_s
            gc.collect()

    def _park(self, resident: Resident) -> None:
        """Save a session and let go of its world: nobody else waits for that."""
        if resident not in self._residents:
            return
        self._residents = tuple(other for other in self._residents if other is not resident)
        session = resident.session
        saving: Future[bool] | None = None
        try:
            saving = session.end()
        except Exception:  # noqa: BLE001 - whatever it was, the world must be let go
            _log.exception("head not saved world=%s moment=%d", session.world, session.head.moment)
        self._worlds_open.let_go(session.timeline, saving)

    def _close(self, setting: Setting) -> None:
        self.is_ready = False
        self._stopping.set()
        gc.enable()
        for resident in self._residents:
            self._park(resident)
        until_s = time.monotonic() + SAVE_WAIT_S
        self._worlds_open.join(until_s)
        while not self._jobs.empty():  # who still waits for the engine waits in vain
            _, done = self._jobs.get()
            done.set_exception(Refused("not_ready", "the server is stopping"))
        setting.pager.close()
