"""Drives a session without a socket: exact mode, chunk by chunk, every frame kept. Owns the drive, no figure."""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from PIL import Image

from models.base import Pixels, WorldModel
from server.load import make_pager
from server.lobby import Lobby
from server.pager.pager import Budgets, Pager
from server.pager.recall_buffer import RecallBuffer
from server.resident import Resident
from server.seat import Seat
from server.session import Session
from server.setting import Setting
from server.welcome import welcome_to
from server.worlds import Worlds
from shared.controls import Controls
from shared.protocol import PROTOCOL_VERSION, ExactStep, Hello, Input, Mode, Stats
from shared.tiers import PagerStats


@dataclass(slots=True)
class Drive:
    """One open world and its driver. Use it as a context: leaving it saves and closes the world."""

    model: WorldModel
    pager: Pager
    resident: Resident
    seat: Seat
    frames: list[Pixels] = field(default_factory=list[Pixels])
    stages_ms: list[dict[str, float]] = field(default_factory=list[dict[str, float]])  # of each chunk
    _seq: int = 0
    _ack: int = -1
    _mouse: tuple[float, float] = (0.0, 0.0)  # cumulative, counts

    @property
    def session(self) -> Session:
        return self.resident.session

    @property
    def stats(self) -> PagerStats:
        return self.pager.stats(self.session.head_id)

    def walk(self, controls: Sequence[Controls], after_chunk: Callable[[], None] | None = None) -> None:
        """Draw the chunks that these controls ask for, and keep their frames."""
        num = self.model.frames_per_chunk
        for at in range(0, len(controls) // num * num, num):
            held = controls[at : at + num]
            self._steer(held)
            self.session.step()
            self._keep_frames()
            if after_chunk is not None:
                after_chunk()

    def _steer(self, held: Sequence[Controls]) -> None:
        self._seq += 1
        if self.session.mode == "exact":
            asked = [(int(frame.keys), frame.mouse_dx, frame.mouse_dy) for frame in held]
            self.session.orders.add(ExactStep(seq=self._seq, controls=asked))
            return
        self._mouse = (
            self._mouse[0] + sum(frame.mouse_dx for frame in held),
            self._mouse[1] + sum(frame.mouse_dy for frame in held),
        )
        keys, (mouse_x, mouse_y) = int(held[0].keys), self._mouse
        message = Input(seq=self._seq, t_ms=0.0, keys=keys, mouse_x=mouse_x, mouse_y=mouse_y, ack=self._ack)
        self.seat.input(message, time.monotonic())

    def _keep_frames(self) -> None:
        while (frame := self.seat.outbox.pull(time.monotonic())[0]) is not None:
            self.frames.append(np.asarray(Image.open(io.BytesIO(frame.data), formats=("PNG",))))
            self._ack = frame.id
            self.seat.outbox.ack(frame.id)
        self.stages_ms += [note.stages_ms for note in self.seat.take_notes() if isinstance(note, Stats)]

    def arrive(self) -> None:
        """After a jump: take the still that is shown of the place, which is no drawn frame."""
        self.session.settle()
        num_drawn = len(self.frames)
        self._keep_frames()
        del self.frames[num_drawn:]

    def close(self) -> None:
        """Save the head and close the world and the pager."""
        saving = self.session.end()
        self.session.timeline.close()
        saving.result(60.0)
        self.session.journal.close()
        self.pager.close_world(self.session.world)
        self.pager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start(
    model: WorldModel,
    budgets: Budgets,
    folder: Path,
    *,
    seed: int,
    world: str = "",
    at: str = "",
    mode: Mode = "exact",
    buffer: type[RecallBuffer] = RecallBuffer,
) -> Drive:
    """Open or make a world in `folder` and sit down in it as its driver; `at` a branch or snapshot of it."""
    pager, _ = make_pager(model, budgets)
    recall_buffer = buffer(pager.layout, model.max_recall, model.dtype, model.device)
    lobby = Lobby(Setting(model, pager, recall_buffer), Worlds(folder), lambda work: work())
    hello = Hello(version=PROTOCOL_VERSION, seed=seed, world=world, at=at, mode=mode, codec="png")
    session, name, notes = lobby.enter(hello)
    resident = Resident(session, name, folder / session.world, model, lambda: None, lambda work: work())
    seat = resident.sit(
        "driver",
        lambda resume: welcome_to(model, resident, hello, resume, is_resumed=False, notes=notes),
        lambda: None,
        pager,
    )
    seat.outbox.every_frame = True
    drive = Drive(model, pager, resident, seat)
    drive._keep_frames()  # noqa: SLF001 - the first view of a new world is no drawn frame
    drive.frames.clear()
    return drive
