"""Foresight: from the newest controls to the blocks that the coming chunks will want, and by when.

A plan holds what each likely pose wants; the pager cancels the fetches of what is in none.
The event loop calls `look_ahead` on each input and the engine after each chunk; the pager thread runs the plan that it
returns. Shared values are immutable and swapped by one reference; no lock.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.base import Catalog, WorldModel
from server.mailbox import ControlsMailbox
from server.pager.blocks import BlockKey
from server.pager.decide.extrapolate import likely_poses
from server.pager.decide.place import Plan
from server.pager.decide.relevance import Trail
from shared.controls import Controls
from shared.pose import Pose, distance_m, wrap_rad

CHUNKS_AHEAD = (1, 2, 4, 8)  # near ones first: a queue in deadline order
MOUSE_SPAN_S = 0.15  # the mouse rate is taken over this long
WORTH_REPLANNING_M = 0.05
WORTH_REPLANNING_RAD = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the head stands: its pose, and the catalog of its ancestors as the chunk drawn from there will see it."""

    pose: Pose
    catalog: Catalog
    at_s: float


class Foresight:
    """Predicts one head's poses from what the driver holds now."""

    def __init__(
        self,
        model: WorldModel,
        world: str,
        mailbox: ControlsMailbox,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._world = world
        self._mailbox = mailbox
        self._clock = clock
        self._chunk_s = model.frames_per_chunk / model.fps
        self._standing: Standing | None = None
        self._mouse: deque[tuple[float, float, float]] = deque(maxlen=32)  # time_s and cumulative counts
        self.next_pose: Pose | None = None  # at the end of the coming chunk
        self._planned: tuple[Pose, int] | None = None

    def stand(self, pose: Pose, catalog: Catalog) -> None:
        """The head moved on. Engine thread."""
        self._standing = Standing(pose, catalog, self._clock())

    def feel_mouse(self, x_counts: float, y_counts: float) -> None:
        """A new cumulative mouse sum. Event loop."""
        self._mouse.append((self._clock(), x_counts, y_counts))

    def still_mouse(self) -> None:
        """The sums start from zero again: a new connection."""
        self._mouse.clear()

    @property
    def trail(self) -> Trail | None:
        """Where the head has been, for the choice of what to forget. Any thread."""
        if (standing := self._standing) is None:
            return None
        catalog, here = standing.catalog, np.array(standing.pose.as_tuple())
        poses = catalog.poses[:, -1]  # [B, 5] of each block's last frame, where its chunk ended
        return Trail(self._world, catalog.ids, poses, here, self._chunk_s, catalog.alive)

    def look_ahead(self) -> Callable[[], Plan] | None:
        """A plan to be worked out by the pager, or None when the one before still serves."""
        standing = self._standing
        if standing is None:
            return None
        poses = self._poses_ahead(standing)
        self.next_pose = poses[0][0]
        planned = (poses[-1][0], int(standing.catalog.ids[-1]) if len(standing.catalog.ids) else -1)
        if self._planned is not None and not _differs(planned, self._planned):
            return None
        self._planned = planned
        return lambda: self._plan(standing, poses)

    def _poses_ahead(self, standing: Standing) -> list[tuple[Pose, ...]]:
        keys, pending_x, pending_y = self._mailbox.peek()
        rate_x, rate_y = self._mouse_rate()
        frame_s = 1.0 / self._model.fps
        held = Controls(keys, rate_x * frame_s, rate_y * frame_s)
        num_frames = self._model.frames_per_chunk
        first = Controls(
            keys,
            max(held.mouse_dx, pending_x / num_frames, key=abs),
            max(held.mouse_dy, pending_y / num_frames, key=abs),
        )
        return likely_poses(
            standing.pose, first, held, self._model.motion, frame_s, [ahead * num_frames for ahead in CHUNKS_AHEAD]
        )

    def _mouse_rate(self) -> tuple[float, float]:
        """Counts per second over the last moments."""
        now_s = self._clock()
        recent = [sample for sample in tuple(self._mouse) if now_s - sample[0] <= MOUSE_SPAN_S]
        if len(recent) < 2:
            return (0.0, 0.0)
        span_s = max(now_s - recent[0][0], 1e-3)
        return ((recent[-1][1] - recent[0][1]) / span_s, (recent[-1][2] - recent[0][2]) / span_s)

    def _plan(self, standing: Standing, poses: Sequence[tuple[Pose, ...]]) -> Plan:
        """What the likeliest pose of each horizon wants comes first in it."""
        plan: list[tuple[float, Sequence[BlockKey]]] = []
        for ahead, likely in zip(CHUNKS_AHEAD, poses, strict=True):
            catalog = standing.catalog.moved_on(ahead - 1)  # what leaves the window meanwhile will be wanted
            wanted = (block_id for pose in likely for block_id in self._model.wanted(pose, catalog))
            keys = [BlockKey(self._world, block_id) for block_id in dict.fromkeys(wanted)]
            plan.append((standing.at_s + ahead * self._chunk_s, keys))
        return plan


def _differs(a: tuple[Pose, int], b: tuple[Pose, int]) -> bool:
    return (
        a[1] != b[1]
        or distance_m(a[0], b[0]) > WORTH_REPLANNING_M
        or abs(wrap_rad(a[0].yaw_rad - b[0].yaw_rad)) > WORTH_REPLANNING_RAD
        or abs(a[0].pitch_rad - b[0].pitch_rad) > WORTH_REPLANNING_RAD
    )
