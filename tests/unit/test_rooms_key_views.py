"""Where rooms draws a key view, and that what it shows is remembered as part of the step that drew it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.revisit_walk import run_step
from models.rooms.key_views import key_poses
from models.rooms.model import RoomsModel
from models.rooms.renderer import render
from models.rooms.scene import make_scene
from models.rooms.sizes import COLUMNS, ROWS, TOKENS, WINDOW_CHUNKS
from models.rooms.state import RoomsState
from shared.controls import Controls, Key
from shared.pose import Pose

HERE = Pose(1.0, 0.5, 2.0, 0.3)
AHEAD = (Controls(Key.FORWARD),) * 2
RIGHT = (Controls(mouse_dx=60.0),) * 2


def shown(columns):
    """A view of which these columns are shown."""
    is_shown = np.zeros((ROWS, COLUMNS), np.bool_)
    is_shown[:, list(columns)] = True
    return is_shown.reshape(TOKENS)


def test_a_view_that_is_shown_or_a_camera_that_stands_still_needs_no_key_view():
    moved = replace(HERE, yaw_rad=0.4)
    assert key_poses(HERE, (HERE, moved), shown(range(COLUMNS)), 5.0) == ()
    assert key_poses(HERE, (HERE, HERE), shown([]), 5.0) == ()


@pytest.mark.parametrize(("columns", "side"), [(range(8), 1.0), (range(4, COLUMNS), -1.0)])
def test_a_turn_has_it_on_the_side_that_is_less_known(columns, side):
    moved = replace(HERE, yaw_rad=0.4)
    first, second = key_poses(HERE, (HERE, moved), shown(columns), 5.0)
    assert (first.x_m, first.z_m) == (second.x_m, second.z_m) == (HERE.x_m, HERE.z_m)
    turns = [side * (pose.yaw_rad - moved.yaw_rad) for pose in (first, second)]
    assert 0.0 < turns[0] < turns[1] < math.pi / 2


def test_a_walk_has_it_straight_ahead_and_never_in_a_wall():
    moved = replace(HERE, x_m=HERE.x_m + 0.2 * math.sin(0.3), z_m=HERE.z_m + 0.2 * math.cos(0.3))
    for free_m in (1.0, 2.0, 9.0):
        poses = key_poses(HERE, (HERE, moved), shown(range(6)), free_m)
        assert len(poses) == 2
        for pose in poses:
            ahead_m = math.dist((pose.x_m, pose.z_m), (moved.x_m, moved.z_m))
            assert 0.0 < ahead_m <= free_m - 0.5
            assert math.atan2(pose.x_m - moved.x_m, pose.z_m - moved.z_m) == pytest.approx(0.3)
    assert key_poses(HERE, (HERE, moved), shown(range(6)), 0.6) == ()


@pytest.fixture(scope="module")
def drawn_with_key():
    """A model, and a step that turns away from all that was seen."""
    model = RoomsModel(dtype=torch.bfloat16)
    state = model.begin(900_100).state
    state = replace(state, window=state.window[-1:])
    frames, step = run_step(model, state, model.steer(state, RIGHT), ())
    return model, state, frames, step


def test_a_step_that_draws_one_shows_its_own_frames_and_leaves_the_key_view(drawn_with_key):
    model, state, frames, step = drawn_with_key
    poses = model.steer(state, RIGHT)
    assert tuple(frame.pose for frame in frames) == poses
    assert step.state.pose == poses[-1]
    assert step.state.window[-1].poses == poses
    assert step.block is not None
    assert step.block.poses not in (poses, state.window[-1].poses)
    key = step.state.window[-2]
    assert (key.chunk_index, key.poses) == (step.state.window[-1].chunk_index, step.block.poses)


def test_a_key_view_is_drawn_once_and_leaves_the_window_with_its_chunk(drawn_with_key):
    model, _, _, step = drawn_with_key
    state, key = step.state, step.block.poses
    _, again = run_step(model, state, model.steer(state, (Controls(mouse_dx=4.0),) * 2), ())
    assert again.block is None or again.block.poses != key
    for _ in range(WINDOW_CHUNKS):
        assert any(chunk.poses == key for chunk in state.window)
        state = run_step(model, state, model.steer(state, (Controls(mouse_dx=4.0),) * 2), ())[1].state
    assert not any(chunk.poses == key for chunk in state.window)


def test_a_state_with_a_key_view_is_saved_and_goes_on_the_same(drawn_with_key):
    model, _, _, step = drawn_with_key
    loaded = model.load(model.dump(step.state))
    poses = model.steer(step.state, AHEAD)
    frames, one = run_step(model, step.state, poses, ())
    same, two = run_step(model, loaded, poses, ())
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(frames, same, strict=True))
    assert (one.block is None) == (two.block is None)


@pytest.mark.parametrize(("turn_rad", "leaves_a_block"), [(0.02, False), (0.25, True)])
def test_a_chunk_leaves_a_block_where_a_strip_of_it_was_never_seen(turn_rad, leaves_a_block):
    model, scene = RoomsModel(), make_scene(900_100)
    middle = Pose(13.5, 0.5, 13.5, 0.3)
    step = None
    state = RoomsState.start(900_100, middle)
    for yaw_rad in (0.3, 0.3 + turn_rad):
        poses = (replace(middle, yaw_rad=yaw_rad - 0.005), replace(middle, yaw_rad=yaw_rad))
        latents = model.basis.encode(*render(scene, np.array([(p.x_m, p.z_m, p.yaw_rad) for p in poses])))
        step = model.given_at(state, poses, latents, ())
        state = step.state
    assert (step.block is not None) == leaves_a_block
