"""From what the driver holds to the blocks that a plan names: every likely pose is asked for, the likeliest first."""

import math
from dataclasses import replace

import numpy as np
import pytest

from models.base import Catalog
from models.plain import PlainModel
from server.foresight import CHUNKS_AHEAD, Foresight
from server.mailbox import ControlsMailbox
from shared.controls import NO_KEYS, Key
from shared.pose import MOUSE_RAD_PER_COUNT, Pose
from shared.protocol import Input


class NearestModel(PlainModel):
    """Wants the one block whose view is nearest, and remembers for which poses it was asked."""

    def __init__(self):
        super().__init__(max_recall=1)
        self.asked = []

    def wanted(self, pose, catalog):
        self.asked.append(pose)
        return super().wanted(pose, catalog)


def round_view(count):
    """Blocks all around the start, one every few degrees."""
    poses = np.zeros((count, 2, 5))
    poses[:, :, 3] = (2.0 * math.pi * np.arange(count) / count)[:, None]
    chunks = np.arange(count)
    return Catalog(chunks, chunks, poses, np.zeros((count, 2, 3)), window_start=count)


class Player:
    """A model, a foresight and a clock that stands where the test puts it."""

    def __init__(self, pose=None):
        self.now_s = 100.0
        self.model = NearestModel()
        self.mailbox = ControlsMailbox()
        self.foresight = Foresight(self.model, "w", self.mailbox, clock=lambda: self.now_s)
        self.foresight.stand(pose or Pose(), round_view(64))
        self.seq = 0

    def send(self, keys=NO_KEYS, mouse_x=0.0):
        self.seq += 1
        self.mailbox.put(
            Input(seq=self.seq, t_ms=0.0, keys=int(keys), mouse_x=mouse_x, mouse_y=0.0, ack=-1), self.now_s
        )
        self.foresight.feel_mouse(mouse_x, 0.0)

    def turn(self, counts_per_s, seconds=0.1):
        for at in range(7):
            self.send(mouse_x=counts_per_s * seconds * at / 6)
            self.now_s += seconds / 6


def blocks(plan):
    return [[key.block for key in keys] for _, keys in plan]


def test_a_plan_says_when_each_horizon_is_due():
    player = Player()
    deadlines = [due_s for due_s, _ in player.foresight.look_ahead()()]
    chunk_s = player.model.frames_per_chunk / player.model.fps
    assert deadlines == pytest.approx([100.0 + ahead * chunk_s for ahead in CHUNKS_AHEAD])


def test_who_turns_may_go_on_or_look_straight_ahead_again_and_both_are_planned():
    player = Player()
    player.turn(counts_per_s=400.0)
    plan = player.foresight.look_ahead()()
    assert [len(keys) for keys in blocks(plan)] == [1, 2, 2, 2]
    chunk_s = player.model.frames_per_chunk / player.model.fps
    turned_rad = [each.yaw_rad for each in player.model.asked]
    rate_rad_s = 400.0 * MOUSE_RAD_PER_COUNT
    assert turned_rad[-2] == pytest.approx(rate_rad_s * 8 * chunk_s, rel=0.2)
    assert turned_rad[-1] == pytest.approx(turned_rad[0])


def test_what_leaves_the_attention_window_on_the_way_is_planned_before_it_is_wanted():
    player = Player()
    seen = round_view(64)
    facing = Pose(yaw_rad=float(seen.poses[62, 0, 3]))
    player.foresight.stand(facing, replace(seen, window_start=62))  # 62 and 63 may not be recalled yet
    by_horizon = dict(zip(CHUNKS_AHEAD, blocks(player.foresight.look_ahead()()), strict=True))
    assert by_horizon == {1: [61], 2: [62], 4: [62], 8: [62]}


def test_nothing_is_planned_anew_until_the_outlook_changes():
    player = Player()
    assert player.foresight.look_ahead() is not None
    assert player.foresight.look_ahead() is None
    player.send(Key.FORWARD)
    assert player.foresight.look_ahead() is not None


def test_the_trail_is_where_the_head_has_been_and_stands():
    player = Player(Pose(x_m=3.0))
    trail = player.foresight.trail
    assert trail.world == "w"
    assert trail.here[0] == 3.0
    assert trail.poses.shape == (64, 5)
    assert trail.chunk_s == player.model.frames_per_chunk / player.model.fps
    assert Foresight(player.model, "w", player.mailbox).trail is None
