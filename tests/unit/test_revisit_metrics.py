"""Each figure of the revisit meter, on made-up input whose answer is known."""

import math

import numpy as np
import pytest

from bench.bootstrap import interval
from bench.revisit_geometry import depth_errors
from bench.revisit_metrics import contrast, psnr, saturation, sharpness, ssim
from bench.revisit_places import finds_itself, other_places
from models.rooms.geometry import RIGHT, UP
from models.rooms.sizes import CAMERA_HEIGHT_M, TOKENS


def noise(seed, count=3):
    return np.random.default_rng(seed).integers(0, 256, (count, 64, 96, 3)).astype(np.uint8)


def test_psnr_of_equal_frames_is_the_ceiling_and_of_a_known_error_is_the_formula():
    black = np.zeros((2, 64, 96, 3), np.uint8)
    assert psnr(black, black) == pytest.approx([60.0, 60.0])
    assert psnr(black, black + 51) == pytest.approx([-20 * math.log10(0.2)] * 2, abs=1e-3)


def test_ssim_is_one_for_equal_frames_and_near_nothing_for_unrelated_noise():
    frames = noise(1)
    assert ssim(frames, frames) == pytest.approx([1.0] * 3, abs=1e-4)
    assert ssim(frames, noise(2)).max() < 0.1


def test_sharpness_of_stripes_is_their_step_squared_and_blur_lowers_it():
    stripes = np.zeros((1, 64, 96, 3), np.uint8)
    stripes[:, :, ::2] = 255
    assert sharpness(stripes) == pytest.approx([0.5], abs=1e-3)  # 1 along, 0 down
    soft = (stripes.astype(np.float32) + np.roll(stripes, 1, axis=2)) / 2
    assert sharpness(soft.astype(np.uint8)) < 0.01


def test_contrast_and_saturation_of_flat_grey_are_nothing_and_of_red_are_known():
    grey = np.full((1, 64, 96, 3), 90, np.uint8)
    red = np.zeros_like(grey)
    red[..., 0] = 200
    assert contrast(grey) == pytest.approx([0.0], abs=1e-6)
    assert saturation(grey) == pytest.approx([0.0])
    assert saturation(red) == pytest.approx([200.0])


def test_an_interval_holds_the_mean_and_one_value_has_no_width():
    values = np.random.default_rng(0).normal(10.0, 1.0, 64)
    found = interval(values.tolist())
    assert found["low"] < found["mean"] < found["high"]
    assert found["high"] - found["low"] == pytest.approx(4 * 1.0 / math.sqrt(64), rel=0.3)
    assert interval([3.0]) == {"mean": 3.0, "low": 3.0, "high": 3.0}
    with pytest.raises(ValueError, match="at least one"):
        interval([])


def test_a_frame_that_returns_finds_itself_and_another_worlds_does_not():
    path = np.array([(0.0, 2.0 * index, 0.0) for index in range(20)])
    first = noise(3, 20)
    own = np.arange(20)
    soft = np.clip(first.astype(np.int16) + 12, 0, 255).astype(np.uint8)
    assert finds_itself(soft, first, own, path) == pytest.approx(np.ones(20))
    assert finds_itself(noise(4, 20), first, own, path).mean() < 0.5


def test_other_places_are_elsewhere_or_look_elsewhere_and_without_any_there_is_no_answer():
    spin = np.array([(1.0, 1.0, turn) for turn in np.arange(0, 2 * math.pi, 0.1)])
    others = other_places(spin, 0)
    assert 0 < len(others) <= 15
    assert (np.cos(spin[others, 2]) <= math.cos(math.radians(60.0)) + 1e-9).all()
    still = np.zeros((4, 3))
    frames = noise(5, 4)
    assert np.isnan(finds_itself(frames, frames, np.arange(4), still)).all()


def wall_depth(distance_m):
    """Log depth [N] of a frame in a corridor that ends at a wall: floor, ceiling and wall are planes."""
    up = np.abs(UP.numpy())
    return np.log(np.minimum(distance_m, CAMERA_HEIGHT_M / np.maximum(up, 1e-6))).astype(np.float32)


def test_depth_of_a_wall_that_comes_nearer_agrees_and_depth_that_stays_does_not():
    path = np.array([(0.0, 0.2 * step, 0.0) for step in range(6)])
    facing = np.stack([np.full(TOKENS, math.log(3.0 - 0.2 * step), np.float32) for step in range(6)])
    assert np.median(depth_errors(path, facing)) == pytest.approx(0.0, abs=1e-5)
    stuck = np.full((6, TOKENS), math.log(3.0), np.float32)
    assert np.median(depth_errors(path, stuck)) == pytest.approx(0.2 / 3.0, abs=2e-3)


def test_depth_of_a_floor_agrees_between_patch_centres_too():
    path = np.array([(0.05 * step, 0.1 * step, 0.02 * step) for step in range(4)])
    floors = np.stack([wall_depth(50.0)] * 4)  # the same from everywhere: two endless planes
    assert np.median(depth_errors(path, floors)) < 0.02


def test_a_turn_on_the_spot_inside_a_round_room_agrees():
    path = np.array([(0.0, 0.0, 0.1 * step) for step in range(5)])
    z = 2.0 / np.sqrt(1.0 + RIGHT.numpy() ** 2)  # z-depth of a cylinder around the camera
    round_room = np.stack([np.log(z).astype(np.float32)] * 5)
    assert np.median(depth_errors(path, round_room)) < 0.01
