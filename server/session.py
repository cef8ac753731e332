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

EXACT_WAIT_S = 30.0  # then a chunk is drawn without the blocks that did not come, and its moment says so


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


@dataclass(frozen=True, slots=True)
class Aim:
    """One chunk before it is drawn: controls, the frames' poses, and the blocks wanted at the last of them."""

    taken: Taken
    poses: tuple[Pose, ...]
    wanted: tuple[BlockKey, ...]


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
        self._next_aim: Aim | None = None  # exact mode: of a chunk that waits for its recall
        self._foresight = Foresight(setting.model, world, self.mailbox)
        if past.first_view is not None:
            self.show.first_view(past.first_view)
        self._look_ahead()

    # ---- one chunk ----

    def step(self, exact_wait_s: float = EXACT_WAIT_S) -> Moment:
        """Draw one chunk and return its moment. In live mode nothing here waits for storage."""
        stages = Stages()
        foreseen = self._foresight.next_pose
        aim = self._aim()
        self._foresight.stand(aim.poses[-1], self._view())  # inputs during the drawing look ahead from its end
        stages.mark("want")
        with self._recall(aim.wanted, exact_wait_s) as lease:
            stages.mark("recall")
            recall = self._decode(lease)
            stages.mark("decode")
            step, hashes = self._draw(aim.taken, recall)
            stages.mark("draw")
            moment = self._commit(aim, step, lease, hashes)
        self.orders.drew()
        self._look_ahead()
        stages.mark("commit")
        self.show.journal_fault = self.journal.fault
        stages_ms = {**step.timings_ms, **stages.ms}
        gone = self.show.report(moment, self._pager, foreseen, stages_ms, is_held=step.is_held)
        self._catalog.bury(gone)
        return moment

    @property
    def has_chunk_to_draw(self) -> bool:
        """Exact mode: whether somebody asked for a chunk that is not drawn yet."""
        return self._next_aim is not None or not self.orders.is_empty

    def is_recall_complete(self) -> bool:
        """Exact mode: whether the next chunk's recall is all there. Asks for it, and never waits."""
        if self._next_aim is None:
            self._next_aim = self._aim()
        return self._pager.is_complete(self.world, self._next_aim.wanted)

    def _aim(self) -> Aim:
        """The next chunk's controls, the poses that they lead to, and the blocks that are wanted there."""
        if (aim := self._next_aim) is not None:
            self._next_aim = None
            return aim
        if self.mode == "exact":
            taken = self.orders.take(time.monotonic())
        else:
            taken = self.mailbox.take(self._model.frames_per_chunk)
        poses = self._model.steer(self.head.state, taken.controls)
        wanted = self._model.wanted(poses[-1], self._view())
        return Aim(taken, poses, tuple(BlockKey(self.world, block_id) for block_id in wanted))

    def _view(self) -> Catalog:
        return self._catalog.view(self.head.state.window_start)

    def _recall(self, wanted: Sequence[BlockKey], exact_wait_s: float) -> Lease:
        if self.mode == "exact":
            return self._pager.recall_exact(self.world, wanted, exact_wait_s)
        return self._pager.recall(self.world, wanted)

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

    def _commit(self, aim: Aim, step: Step, lease: Lease, hashes: tuple[bytes, ...]) -> Moment:
        block = step.block
        moment = Moment(
            id=self.head.next_id,
            parent=self.head.moment,
            chunk_index=self.head.state.chunk_index,
            seed=self.seed,
            controls=aim.taken.controls,
            poses=aim.poses,
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

    def take_input(self, message: Input, now_s: float, driver: int) -> None:
        """The driver's newest controls: they reach the extrapolator at once, also in the middle of a chunk."""
        if not self.mailbox.put(message, now_s, driver):
            return
        self._foresight.feel_mouse(message.mouse_x, message.mouse_y)
        if (plan := self._foresight.look_ahead()) is not None:
            self._pager.foresee(self.world, plan)

    # ---- engine thread ----

    def change_driver(self) -> int:
        """Another connection steers: sequence numbers, mouse sums and orders begin again. Returns its number."""
        self.orders.clear()
        self._next_aim = None
        self._foresight.still_mouse()
        return self.mailbox.restart()
