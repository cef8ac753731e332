"""A session: one driver's live head on a world. `step` is one chunk from controls to frames; read it top to bottom.

Owns its catalog and its seats, and the branch it stands on while it stands there. Every method belongs to the engine
thread, except those that say otherwise.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from models.base import Catalog, DrawnFrame
from server.catalog import GrowingCatalog
from server.drawing import Drawn, Place, decoded, draw, moment_of
from server.faults import SnapshotFault
from server.foresight import Foresight
from server.head import Branch, Head, Snapshot
from server.journal import Journal
from server.mailbox import ControlsMailbox, Taken
from server.moments import Moment
from server.orders import Orders
from server.pace import Pace
from server.pager.blocks import BlockKey
from server.pager.lease import Lease
from server.rewind import drawn_again, way_back
from server.ring import Ring
from server.saves import Save, head_record
from server.setting import Setting
from server.show import Show
from server.stages import Stages
from server.timeline import Timeline
from shared.pose import Pose
from shared.protocol import Input, Mode

EXACT_WAIT_S = 30.0  # then a chunk is drawn without the blocks that did not come, and its moment says so


@dataclass(frozen=True, slots=True)
class Aim:
    """One chunk before it is drawn: controls, the frames' poses, and the blocks wanted at the last of them."""

    taken: Taken
    poses: tuple[Pose, ...]
    wanted: tuple[BlockKey, ...]


class Session:
    """One live head. It draws when its driver needs frames, and stands still when nobody reads or steers."""

    def __init__(
        self,
        setting: Setting,
        timeline: Timeline,
        branch: Branch,
        mode: Mode,
        first_view: DrawnFrame | None = None,
    ) -> None:
        """A session that stands on `branch`, whose head is in RAM. `first_view`: of a new world, before any chunk."""
        assert branch.head is not None
        self.timeline = timeline
        self.branch = branch
        self.world = timeline.world
        self.seed = timeline.seed
        self.mode: Mode = mode
        self.recalls = True  # False: chunks are drawn from the model's own window alone
        self.head_id = timeline.head_id()
        self.ring = Ring()
        self.pace = Pace(setting.model.frames_per_chunk, setting.model.fps)
        self.orders = Orders(setting.model.frames_per_chunk)
        self.mailbox = ControlsMailbox()
        self.is_resumed = False  # by the token of the driver who walked here before the world was closed
        self._setting = setting
        self._model = setting.model
        self._pager = setting.pager
        self._shelf = setting.shelf
        self._catalog = GrowingCatalog(branch.head.line, timeline.gone)
        self.show = Show(setting.model, self.head_id, timeline, self._catalog)
        self._next_aim: Aim | None = None  # exact mode: of a chunk that waits for its recall
        self._foresight = Foresight(setting.model, self.world, self.mailbox)
        self._take(branch)
        frame = first_view or branch.head.frame
        if frame is not None:
            self.show.still(frame, branch.head.chunk_index, seeded=first_view is not None)
        self._has_jumped = False
        self._look_ahead()

    @property
    def head(self) -> Head:
        """Where it stands: a value that may be kept, and gone back to with `restore`, for as long as it is held."""
        assert self.branch.head is not None, "a session's branch has its head in RAM"
        return self.branch.head

    @property
    def journal(self) -> Journal:
        return self.timeline.journal

    # ---- one chunk ----

    def step(self, exact_wait_s: float = EXACT_WAIT_S) -> Moment:
        """Draw one chunk and return its moment. In live mode nothing here waits for storage."""
        self.settle()
        stages = Stages()
        foreseen = self._foresight.next_pose
        aim = self._aim()
        self._foresight.stand(aim.poses[-1], self._view().moved_on(1))  # inputs meanwhile look ahead from its end
        stages.mark("want")
        with self._recall(aim.wanted, exact_wait_s) as lease:
            stages.mark("recall")
            recall = decoded(lease, self._setting.buffer, self._catalog)
            stages.mark("decode")
            chunk_index = self.head.chunk_index
            drawn = draw(
                self._model,
                self.head.state,
                aim.taken.controls,
                recall,
                lambda frame, index, pixel_hash: self.show.frame(frame, chunk_index, index, aim.taken, pixel_hash),
            )
            stages.mark("draw")
            moment = self._commit(aim, drawn, lease)
        self.orders.drew()
        self._look_ahead()
        stages.mark("commit")
        self.show.journal_fault = self.journal.fault
        stages_ms = {**drawn.step.timings_ms, **stages.ms}
        gone = self.show.report(
            moment, self._pager, foreseen, stages_ms, is_held=drawn.step.is_held, recalls=self.recalls
        )
        self._catalog.bury(gone)
        self._keep_recent()
        return moment

    @property
    def has_chunk_to_draw(self) -> bool:
        """Exact mode: whether somebody asked for a chunk that is not drawn yet."""
        return self._next_aim is not None or not self.orders.is_empty

    def is_recall_complete(self) -> bool:
        """Exact mode: whether the next chunk's recall is all there. Asks for it, and never waits."""
        if self._next_aim is None:
            self._next_aim = self._aim()
        return self._pager.is_complete(self.head_id, self._next_aim.wanted)

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
        wanted = self._model.wanted(poses[-1], self._view()) if self.recalls else ()
        return Aim(taken, poses, tuple(BlockKey(self.world, block_id) for block_id in wanted))

    def _view(self) -> Catalog:
        return self._catalog.view(self.head.state.window_start)

    def _recall(self, wanted: Sequence[BlockKey], exact_wait_s: float) -> Lease:
        if self.mode == "exact":
            return self._pager.recall_exact(self.head_id, wanted, exact_wait_s)
        return self._pager.recall(self.head_id, wanted)

    def _commit(self, aim: Aim, drawn: Drawn, lease: Lease) -> Moment:
        block, before = drawn.step.block, self.head
        place = Place(self.timeline.take_id(), before, self.seed, self.branch.name)
        moment = moment_of(drawn, place, aim.taken.controls, aim.poses, lease)
        line = before.line
        if block is not None:
            self._pager.commit(BlockKey(self.world, moment.id), block)
            line = self._catalog.append(moment.id, moment.chunk_index, block.poses, block.footprint)
        self.branch.stand_at(Head(moment.id, drawn.step.state, line, drawn.last, lease.keys))
        self.timeline.commit(moment)
        return moment

    def _look_ahead(self) -> None:
        self._foresight.stand(self.head.state.pose, self._view())
        if (plan := self._foresight.look_ahead()) is not None:
            self._pager.foresee(self.head_id, plan, self._foresight.trail)

    def save(self) -> Future[bool]:
        """Make the head durable, in the background."""
        head = self.head
        record = head_record(self.branch.name, head.moment, self.timeline.next_id, self.branch.resume_hash)
        return self.journal.keep(Save(head.moment, self._model.dump(head.state), (record,), head.frame, head.block_ids))

    # ---- the timeline: O(1), except where a head must be drawn again ----

    def snapshot(self, name: str = "") -> Snapshot:
        """Keep this moment under a name; without one, as the next quick snapshot. Raises SnapshotFault."""
        return self.timeline.snapshot(self.head, name)

    def fork(self, name: str = "") -> Branch:
        """Begin a branch at this moment. The session stays on its own. Raises SnapshotFault."""
        return self.timeline.fork(self.head, name)

    def restore(self, to: Snapshot | Head | str = "") -> None:
        """Go to a snapshot, by name or itself (the newest quick one by default), or to a head that was held.

        At once when its state is in RAM, else after reading it. Raises SnapshotFault and stays when that fails.
        """
        to = self.timeline.find(to) if isinstance(to, str) else to
        self._jump(to if isinstance(to, Head) else self.timeline.head_of(to))

    def rewind(self, chunks: int) -> int:
        """Go back so many chunks, or as far as anything is kept: at once to a kept head, else by drawing again what
        lies between it and the moment asked for. Returns how many chunks were drawn again. Raises SnapshotFault and
        stays when that cannot be done.
        """
        way = way_back(self.timeline, self.ring, self.head, chunks)
        heads = list(drawn_again(self._setting, self.timeline, self.head_id, way, self.head.line))
        self._jump(way.start)
        for head in heads:
            self._jump(head)
            self._keep_recent()
        return len(heads)

    def switch(self, branch: Branch) -> None:
        """Go on on another branch, on which nobody stands. Raises SnapshotFault."""
        if branch.is_taken:
            raise SnapshotFault(f"somebody walks on branch {branch.name!r}: choose another one")
        head = self.timeline.head_of(branch)
        branch.resume_hash, self.branch.resume_hash = self.branch.resume_hash, b""
        self.timeline.leave(self.branch)  # or it would be found where it was last saved
        self.leave_branch()
        self._take(branch)
        self._jump(head)

    def leave_branch(self) -> None:
        """Its branch keeps this head, and is free for somebody else."""
        self.branch.is_taken = False
        if self.timeline.is_kept(self.branch):
            self._shelf.hold(self.branch, self.timeline)

    def end(self) -> Future[bool]:
        """The session is over: its head is saved, its branch is free, nothing is kept for going back."""
        self.let_go()
        if self.timeline.is_kept(self.branch):
            return self.timeline.write(self.branch)
        nothing: Future[bool] = Future()
        nothing.set_result(True)
        return nothing

    def let_go(self) -> None:
        """Keep nothing for this session any more, and save nothing: a planner's future that was only looked at."""
        for recent in self.ring.clear():
            self._shelf.release(recent)
        self.leave_branch()
        self._pager.leave(self.head_id)

    def _take(self, branch: Branch) -> None:
        branch.is_taken = True
        self._shelf.release(branch)
        self.branch = branch

    def _jump(self, head: Head) -> None:
        """Stand at another moment. Pager, look-ahead and whoever watches hear of the last of several with `settle`."""
        self.branch.stand_at(head)
        self._catalog.line = head.line
        if self.has_chunk_to_draw:
            self._next_aim = None
            self.orders.drop()  # what was asked for was meant for where it stood
        self._has_jumped = True

    def settle(self) -> None:
        """What jumps, snapshots and forks left to do. Called before each chunk and between chunks; never waits."""
        if self._has_jumped:
            self._has_jumped = False
            self._pager.jump(self.head_id, self.head.recalled)
            if self.head.frame is not None:
                self.show.still(self.head.frame, self.head.chunk_index)
            self.show.whole_map(self._pager)
            self._look_ahead()
        self.timeline.settle()

    def _keep_recent(self) -> None:
        newest, leaving = self.ring.add(self.head)
        for recent in leaving:
            self._shelf.release(recent)
        self._shelf.hold(newest, self.timeline)

    # ---- from the event loop; never blocks ----

    def take_input(self, message: Input, now_s: float, driver: int) -> None:
        """The driver's newest controls: they reach the extrapolator at once, also in the middle of a chunk."""
        if not self.mailbox.put(message, now_s, driver):
            return
        self._foresight.feel_mouse(message.mouse_x, message.mouse_y)
        if (plan := self._foresight.look_ahead()) is not None:
            self._pager.foresee(self.head_id, plan)

    # ---- engine thread ----

    def change_driver(self) -> int:
        """Another connection steers: sequence numbers, mouse sums and orders begin again. Returns its number."""
        self.orders.clear()
        self._next_aim = None
        self._foresight.still_mouse()
        return self.mailbox.restart()
