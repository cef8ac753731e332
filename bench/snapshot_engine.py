"""A real engine with one exact session on rooms, whose world is filled with blocks without drawing them."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

import torch

from bench.quick_rooms import QuickRooms
from models.base import WorldModel
from server.drawing import Drawn, draw
from server.engine import Engine, Limits, Progress
from server.load import make_pager
from server.mailbox import Taken
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.pager import Pager
from server.pager.recall_buffer import RecallBuffer
from server.session import Aim, Session
from server.shelf import DEFAULT_BYTES
from server.worlds import Worlds
from shared.controls import Controls, Key
from shared.protocol import PROTOCOL_VERSION, Hello

T = TypeVar("T")

SEED = 900_100
FLUSH_EVERY = 8  # blocks: as many as the pager takes at once without losing one
FLUSH_S = 60.0
TURN = Controls(Key.FORWARD, mouse_dx=3.0)


class FilledEngine:
    """Use it as a context. `session` belongs to the engine thread: reach it through `call`."""

    def __init__(
        self, scratch: Path, num_blocks: int, *, kept_bytes: int = DEFAULT_BYTES, dram_slots: int = 64
    ) -> None:
        """Room on disk for `num_blocks` blocks and some more."""
        self._folder = tempfile.TemporaryDirectory(prefix="snapshot-", dir=scratch)
        self.worlds = Path(self._folder.name)
        self.model: QuickRooms
        self.pager: Pager
        self._slots = (dram_slots, num_blocks + 512)
        self.engine = Engine(
            self._load, Worlds(self.worlds), Limits(max_sessions=4, autosave_s=1e5, kept_bytes=kept_bytes)
        )

    def __enter__(self) -> Self:
        self.engine.start()
        while not self.engine.is_ready and not self.engine.failure:
            self.engine._thread.join(0.05)  # noqa: SLF001 - to wait for it, or for its end
        if self.engine.failure:
            raise RuntimeError(self.engine.failure)
        hello = Hello(version=PROTOCOL_VERSION, seed=SEED, world="filled", mode="exact", codec="png")
        self.seat = self.engine.open(hello, lambda: None)
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.stop(60.0)
        self._folder.cleanup()

    def _load(self, progress: Progress) -> tuple[WorldModel, Pager, RecallBuffer]:
        torch.set_grad_enabled(False)
        self.model = QuickRooms()
        layout = SlotLayout(self.model.kv_spec)
        least = 2 * self.model.max_recall * layout.slot_bytes
        least += buffer_bytes(layout, self.model.max_recall, self.model.dtype)
        dram, nvme = (slots * layout.slot_bytes for slots in self._slots)
        self.pager, buffer = make_pager(self.model, Budgets(least + 8 * layout.slot_bytes, dram, nvme))
        return self.model, self.pager, buffer

    def call(self, work: Callable[[Session], T]) -> T:
        """Run `work` with the session on the engine thread, between two chunks."""
        return self.engine.call(lambda: work(self.engine.residents[0].session))

    def fill(self, num_blocks: int) -> None:
        """Let the session's walk grow until so many blocks are in its memory."""
        self.call(lambda session: fill(self.model, self.pager, session, num_blocks))


def fill(model: QuickRooms, pager: Pager, session: Session, num_blocks: int) -> None:
    """Commit chunks that were not drawn until the head's line has `num_blocks` blocks. Engine thread."""
    controls = (TURN,) * model.frames_per_chunk
    while session.head.line.num_rows < num_blocks:
        quick_chunk(model, pager, session, controls)
        if session.head.line.num_rows % FLUSH_EVERY == 0:
            pager.flush(FLUSH_S)
    pager.flush(FLUSH_S)
    session.settle()


def quick_chunk(
    model: QuickRooms, pager: Pager, session: Session, controls: tuple[Controls, ...], *, leaves_block: bool = True
) -> Drawn:
    """One chunk through everything but retrieval and the network."""
    model.is_quick, model.leaves_block = True, leaves_block
    try:
        poses = model.steer(session.head.state, controls)
        drawn = draw(model, session.head.state, controls, ())
        with pager.recall(session.head_id, ()) as lease:
            session._commit(Aim(Taken(controls, -1, 0.0), poses, ()), drawn, lease)  # noqa: SLF001 - as a step does
    finally:
        model.is_quick = False
    return drawn
