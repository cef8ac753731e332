"""Worlds for planners: stepped chunk by chunk by the caller's own thread, without a socket, a clock or a seat.

A walk is a session in exact mode: it waits for what its chunk wants, so the same controls from the same head draw the
same bytes, whatever was tried in between. A simulator and its walks belong to one thread.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from models.base import Pixels, WorldModel
from server.head import Branch, Head
from server.load import make_pager
from server.lobby import Lobby
from server.pager.budgets import Budgets
from server.session import Session, Setting
from server.timeline import Timeline
from server.worlds import Worlds
from shared.controls import Controls
from shared.protocol import PROTOCOL_VERSION, ExactStep, Hello

FUTURE = "future"  # the branch of every forked walk, as its moments call it


class Simulator:
    """A model, a pager and a folder of worlds that lasts as long as the simulator, or is yours when you name it."""

    def __init__(self, model: WorldModel, budgets: Budgets, folder: Path | None = None) -> None:
        """Raises PagerError when the budgets are too small for the model. `folder`: None for one of its own."""
        self.model = model
        self._own_folder = None if folder else Path(tempfile.mkdtemp(prefix="worldpager-"))
        self._worlds = Worlds(folder or self._own_folder or Path())
        self.pager, buffer = make_pager(model, budgets)
        self._setting = Setting(model, self.pager, buffer)
        self._walks: Counter[Timeline] = Counter()  # of each open world

    def begin(self, seed: int) -> "Walk":
        """A walk in a new world. Raises Refused, in words, when the disk does not take it."""
        hello = Hello(version=PROTOCOL_VERSION, seed=seed, mode="exact")
        session, _, _ = Lobby(self._setting, self._worlds, lambda work: work()).enter(hello)
        return self._walking(session)

    def fork(self, walk: "Walk", head: Head | None = None) -> "Walk":
        """Another walk in the same world, from a head of it (by default where `walk` stands). Copies nothing."""
        timeline = walk.session.timeline
        start = walk.session.head if head is None else head
        branch = Branch(FUTURE, start, start.moment)  # the world's log never hears of it
        return self._walking(Session(self._setting, timeline, branch, "exact"))

    def end(self, walk: "Walk") -> None:
        """Let go of a walk. A world on which nobody walks any more is closed, and removed from the own folder."""
        session, timeline = walk.session, walk.session.timeline
        session.let_go()
        self._walks[timeline] -= 1
        if self._walks[timeline] == 0:
            del self._walks[timeline]
            timeline.close()
            timeline.journal.close()
            self.pager.close_world(timeline.world)
            if self._own_folder is not None:
                shutil.rmtree(timeline.folder, ignore_errors=True)

    def close(self) -> None:
        """Close the pager and remove the own folder. Its walks are over."""
        self.pager.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _walking(self, session: Session) -> "Walk":
        self._walks[session.timeline] += 1
        return Walk(session)


class Walk:
    """One line of futures. `head` is a value: hold it, and `go_to` it whenever you like."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._num_orders = 0

    @property
    def head(self) -> Head:
        return self.session.head

    @property
    def pixels(self) -> Pixels:
        """The newest frame `[H, W, 3]`, read-only."""
        frame = self.head.frame
        assert frame is not None, "a walk begins with a frame"
        return frame.pixels

    def step(self, controls: Sequence[Controls]) -> Pixels:
        """Draw one chunk under these controls, one each for its frames; returns its last frame `[H, W, 3]`."""
        self._num_orders += 1
        asked = [(int(frame.keys), frame.mouse_dx, frame.mouse_dy) for frame in controls]
        self.session.orders.add(ExactStep(seq=self._num_orders, controls=asked))
        self.session.step()
        return self.pixels

    def go_to(self, head: Head) -> None:
        """Stand at a head of this world that was held: O(1), and nothing is drawn."""
        self.session.restore(head)
