"""Where the camera will be: constant velocity as the paper has it, and what held keys and the mouse say beyond it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.pager.decide.extrapolate import Seen, constant_velocity, held_controls, likely_poses
from shared.controls import Controls, Key
from shared.pose import MOUSE_RAD_PER_COUNT, Motion, Pose, distance_m, wrap_rad

WALK = Motion(walk_m_s=1.6, turn_rad_s=2.0)
FRAME_S = 1 / 16
AHEAD = (12, 24, 48, 96)


def test_constant_velocity_goes_on_as_before():
    recent = [Seen(0.0, Pose()), Seen(1.0, Pose(z_m=1.0, yaw_rad=0.2))]
    pose = constant_velocity(recent, 2.5)
    assert (pose.z_m, pose.yaw_rad) == pytest.approx((2.5, 0.5))


def test_constant_velocity_turns_the_short_way_through_half_a_turn():
    recent = [Seen(0.0, Pose(yaw_rad=3.1)), Seen(1.0, Pose(yaw_rad=-3.1))]
    assert constant_velocity(recent, 2.0).yaw_rad == pytest.approx(-3.1 + wrap_rad(-6.2))


def test_one_pose_stands_still_and_none_is_an_error():
    assert constant_velocity([Seen(1.0, Pose(x_m=2.0))], 9.0) == Pose(x_m=2.0)
    with pytest.raises(ValueError, match="no pose"):
        constant_velocity([], 1.0)


def test_held_keys_see_a_stop_that_constant_velocity_does_not():
    recent = [Seen(0.0, Pose()), Seen(0.75, Pose(z_m=1.2))]
    stopped = held_controls(recent[-1].pose, Controls(), Controls(), WALK, FRAME_S, [12])[0]
    assert stopped == recent[-1].pose
    assert distance_m(constant_velocity(recent, 1.5), stopped) == pytest.approx(1.2)


def test_a_turn_may_go_on_or_end_with_the_coming_chunk():
    turning = Controls(Key.FORWARD, mouse_dx=10.0)
    likely = likely_poses(Pose(), turning, turning, WALK, FRAME_S, AHEAD)
    assert [len(poses) for poses in likely] == [1, 2, 2, 2]
    after_one = 12 * 10.0 * MOUSE_RAD_PER_COUNT
    going_on, ended = likely[1]
    assert going_on.yaw_rad == pytest.approx(2 * after_one)
    assert ended.yaw_rad == pytest.approx(after_one)


def test_a_straight_walk_has_one_likely_pose():
    straight = Controls(Key.FORWARD)
    likely = likely_poses(Pose(), straight, straight, WALK, FRAME_S, AHEAD)
    assert [len(poses) for poses in likely] == [1, 1, 1, 1]
    assert likely[0][0].z_m == pytest.approx(0.75 * 1.6)


@given(
    keys=st.integers(0, 15),
    mouse=st.floats(-100.0, 100.0),
    yaw=st.floats(-math.pi, math.pi),
)
def test_the_likeliest_pose_is_where_the_held_controls_lead(keys, mouse, yaw):
    held = Controls(Key(keys), mouse_dx=mouse)
    pose = Pose(yaw_rad=yaw)
    likely = likely_poses(pose, held, held, WALK, FRAME_S, AHEAD)
    assert [poses[0] for poses in likely] == held_controls(pose, held, held, WALK, FRAME_S, AHEAD)
