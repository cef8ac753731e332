"""A session: one driver's live head on a world. `step` is one chunk from controls to frames; read it top to bottom.

Owns the head, its catalog and its seats. Every method belongs to the engine thread, except those that say otherwise.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from models.base import Catalog, DrawnFrame, ModelState, RecalledBlock, Step, WorldModel
from server.catalog import GrowingCatalog
from server.compress import digest
from server.foresight import Foresight
from server.journal import Journal
from server.mailbox import ControlsMailbox, Taken
from server.orders import Orders
from server.pace import Pace
from server.pager.blocks import BlockKey
from server.pager.lease import Lease
from server.pager.pager import Pager
from server.pager.recall_buffer import RecallBuffer
from server.show import Show
from server.timeline import Moment
from shared.pose import Pose
from shared.protocol import Input, Mode

EXACT_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Head:
    """Where a session stands: the newest moment, and the state that it left."""

    moment: int
    state: ModelState
    next_id: int  # of the moment to come


@dataclass(frozen=True, slots=True)
class Setting:
    """What all sessions share: the model, the pager, and the engine's recall buffer."""

    model: WorldModel
    pager: Pager
    buffer: RecallBuffer


@dataclass(frozen=True, slots=True)
class Past:
    """What the ancestors of a head left: their catalog, which of them were given, and the journal that goes on."""

    catalog: GrowingCatalog
    seeded: frozenset[int]
    journal: Journal
    first_view: DrawnFrame | None = None  # of a new world: what its player sees before the first chunk


@dataclass(slots=True)
class Stages:
    """How long each stage of a chunk took, in milliseconds."""

    ms: dict[str, float] = field(default_factory=dict[str, float])
    _at_s: float = field(default_factory=time.perf_counter)

    def mark(self, stage: str) -> None:
        now_s = time.perf_counter()
        self.ms[stage] = round((now_s - self._at_s) * 1000.0, 3)
        self._at_s = now_s


class Session:
    """One live head. It draws when its driver needs frames, and stands still when nobody reads or steers."""

    def __init__(self, setting: Setting, world: str, seed: int, mode: Mode, head: Head, past: Past) -> None:
        """A head that stands at `head` in `world`, with what its ancestors left in `past`."""
        self.world = world
        self.seed = seed
        self.mode: Mode = mode
        self.head = head
        self.journal = past.journal
        self.pace = Pace(setting.model.frames_per_chunk, setting.model.fps)
        self.show = Show(setting.model, world, past.catalog, past.seeded)
        self.orders = Orders(setting.model.frames_per_chunk)
        self.mailbox = ControlsMailbox()
        self._model = setting.model
        self._pager = setting.pager
        self._buffer = setting.buffer
        self._catalog = past.catalog
        self._foresight = Foresight(setting.model, world, self.mailbox)
        if past.first_view is not None:
            self.show.first_view(past.first_view)
        self._look_ahead()

    # ---- one chunk ----

    def step(self) -> Moment:
        """Draw one chunk and return its moment. In live mode nothing here waits for storage."""
        stages = Stages()
        taken = self._take_controls()
        poses = self._model.steer(self.head.state, taken.controls)
        wanted = self._model.wanted(poses[-1], self._view())
        stages.mark("want")
        with self._recall(wanted) as lease:
            stages.mark("recall")
            recall = self._decode(lease)
            stages.mark("decode")
            step, hashes = self._draw(taken, recall)
            stages.mark("draw")
            moment = self._commit(taken, poses, step, lease, hashes)
        foreseen = self._foresight.next_pose
        self._look_ahead()
        stages.mark("commit")
        stages_ms = {**step.timings_ms, **stages.ms}
        gone = self.show.report(moment, self._pager, foreseen, stages_ms, is_held=step.is_held)
        self._catalog.bury(gone)
        return moment

    def _take_controls(self) -> Taken:
        if self.mode == "exact":
            return self.orders.take(time.monotonic())
        return self.mailbox.take(self._model.frames_per_chunk)

    def _view(self) -> Catalog:
        return self._catalog.view(self.head.state.chunk_index - self._model.window_chunks)

    def _recall(self, wanted: Sequence[int]) -> Lease:
        keys = [BlockKey(self.world, block_id) for block_id in wanted]
        if self.mode == "exact":
            return self._pager.recall_exact(self.world, keys, EXACT_WAIT_S)
        return self._pager.recall(self.world, keys)

    def _decode(self, lease: Lease) -> list[RecalledBlock]:
        recall: list[RecalledBlock] = []
        for decoded in self._buffer.fill(lease):
            chunk_index, poses, footprint = self._catalog.place(decoded.key.block)
            block = RecalledBlock(decoded.key.block, chunk_index, decoded.kv, decoded.side, footprint, poses)
            recall.append(block)
        return recall

    def _draw(self, taken: Taken, recall: Sequence[RecalledBlock]) -> tuple[Step, tuple[bytes, ...]]:
        """Run the model; each frame leaves as soon as it is decoded."""
        chunk_index = self.head.state.chunk_index
        drawing = self._model.step(self.head.state, taken.controls, recall)
        hashes: list[bytes] = []
        while True:
            try:
                frame = next(drawing)
            except StopIteration as last:
                return last.value, tuple(hashes)
            hashes.append(digest(frame.pixels))
            self.show.frame(frame, chunk_index, len(hashes) - 1, taken, hashes[-1])

    def _commit(
        self, taken: Taken, poses: tuple[Pose, ...], step: Step, lease: Lease, hashes: tuple[bytes, ...]
    ) -> Moment:
        block = step.block
        moment = Moment(
            id=self.head.next_id,
            parent=self.head.moment,
            chunk_index=self.head.state.chunk_index,
            seed=self.seed,
            controls=taken.controls,
            poses=poses,
            recalled=tuple(key.block for key in lease.keys),
            stale=lease.stale,
            seeded=False,
            frame_hashes=hashes,
            has_block=block is not None,
            block_poses=block.poses if block else (),
            footprint=block.footprint if block else None,
        )
        if block is not None:
            self._pager.commit(BlockKey(self.world, moment.id), block)
            self._catalog.append(moment.id, moment.chunk_index, block.poses, block.footprint)
        self.head = Head(moment.id, step.state, moment.id + 1)
        self.journal.note(moment)
        return moment

    def _look_ahead(self) -> None:
        self._foresight.stand(self.head.state.pose, self._view())
        if (plan := self._foresight.look_ahead()) is not None:
            self._pager.foresee(self.world, plan)

    def save(self) -> Future[bool]:
        """Make the head durable, in the background."""
        return self.journal.save(self.head.moment, self._model.dump(self.head.state))

    # ---- from the event loop; never blocks ----

    def take_input(self, message: Input, now_s: float) -> None:
        """The driver's newest controls: they reach the extrapolator at once, also in the middle of a chunk."""
        self.mailbox.put(message, now_s)
        self._foresight.feel_mouse(message.mouse_x, message.mouse_y)
        if (plan := self._foresight.look_ahead()) is not None:
            self._pager.foresee(self.world, plan)

    def restart_inputs(self) -> None:
        """A new connection steers: its sequence numbers and mouse sums begin again."""
        self.mailbox.restart()
        self._foresight.still_mouse()
