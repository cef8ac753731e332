"""What goes in: configs, action rows, pictures, noise, dead reckoning, and the calibration's registration."""

import math
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from models.base import Catalog
from models.matrix_game_2 import actions, calibrate, conditioning, retrieval, steering
from models.matrix_game_2.config import config_from_json, load_config
from models.matrix_game_2.noise import chunk_noise
from shared.controls import IDLE, Controls, Key
from shared.pose import Pose


@pytest.mark.parametrize(
    ("name", "keyboard", "window"), [("universal", 4, 6), ("gta_drive", 2, 4), ("templerun", 7, 6)]
)
def test_the_shipped_variants_are_those_of_the_specification(name, keyboard, window):
    config = load_config(name)
    network = config.network
    assert (network.dim, network.num_heads, network.num_layers, network.local_attn_size) == (1536, 12, 30, window)
    assert network.action.keyboard_dim_in == keyboard
    assert network.action.enable_mouse == (name != "templerun")
    assert config.frame_hw_px == (352, 640)
    assert config.chunk_tokens == 2640
    assert config.window_chunks == 1
    assert config.clip_tokens == 257


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"placement": "sideways"}, "placement"),
        ({"kind": "chess"}, "kind"),
        ({"latent_hw": [7, 8]}, "latent_hw"),
        ({"surprise": 1}, "surprise"),
        ({"denoising_step_list": []}, "step list"),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_name(change, told):
    import json

    from models.matrix_game_2.config import CONFIG_FOLDER

    raw = json.loads((CONFIG_FOLDER / "tiny.json").read_text())
    with pytest.raises(ValueError, match=told):
        config_from_json({**raw, **change})


def test_an_unknown_config_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"gta_drive.*templerun.*tiny.*universal"):
        load_config("nonsense")


def test_a_latent_sees_the_twelve_rows_before_it_and_row_zero_below_zero():
    rows = torch.arange(40.0)[:, None]
    seen = actions.windows(rows, 0, 3, 4, 12)[..., 0]
    assert seen[0].tolist() == [0.0] * 12
    assert seen[2].tolist() == [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert actions.windows(rows, 6, 1, 4, 12)[0, :, 0].tolist() == list(range(12, 24))
    late = actions.windows(rows + 1000, 256, 1, 4, 12, first_row=1000)
    assert late[0, :, 0].tolist() == list(range(1012, 1024))


def test_keyboard_rows_follow_the_variants():
    keys = Controls(Key.FORWARD | Key.RIGHT)
    assert actions.keyboard_vector(keys, "universal", 4) == [1, 0, 0, 1]
    assert actions.keyboard_vector(keys, "gta_drive", 2) == [1, 0]
    assert actions.keyboard_vector(IDLE, "templerun", 7) == [1, 0, 0, 0, 0, 0, 0]
    assert actions.keyboard_vector(Controls(Key.LEFT), "templerun", 7) == [0, 0, 0, 0, 0, 1, 0]
    assert actions.keyboard_vector(Controls(mouse_dx=-1.0), "templerun", 7) == [0, 0, 0, 1, 0, 0, 0]


def test_mouse_rows_are_vertical_first_and_inside_what_the_model_knows():
    config, before = load_config("universal"), Pose()
    controls = [Controls(mouse_dx=4.0, mouse_dy=-2.0), Controls(mouse_dx=-900.0)]
    poses = steering.steered(before, controls, config)
    rows = steering.action_rows(before, controls, poses, config).mouse
    scale = config.motion
    assert rows[0, 1].item() == pytest.approx(4.0 * 0.0025 / scale.yaw_rad_per_unit)
    assert rows[0, 0].item() == pytest.approx(2.0 * 0.0025 / scale.pitch_rad_per_unit)
    assert rows[1, 1].item() == pytest.approx(-scale.max_unit)


def test_gta_steers_with_a_and_d_and_templerun_runs_by_itself():
    gta, run = load_config("gta_drive"), load_config("templerun")
    (pose,) = steering.steered(Pose(), [Controls(Key.FORWARD | Key.RIGHT)], gta)
    assert pose.yaw_rad > 0
    rows = steering.action_rows(
        Pose(), [Controls(Key.RIGHT)], steering.steered(Pose(), [Controls(Key.RIGHT)], gta), gta
    )
    assert rows.mouse[0].tolist() == pytest.approx([0.0, 0.1])
    (pose,) = steering.steered(Pose(), [IDLE], run)
    assert pose.z_m > 0
    assert steering.action_rows(Pose(), [IDLE], [pose], run).mouse is None


def png(width, height, kind="PNG"):
    data = BytesIO()
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(data, kind)
    return data.getvalue()


def test_a_picture_is_decoded_when_it_is_small_enough_and_known():
    assert conditioning.decode_seed_image(png(20, 10)).shape == (10, 20, 3)
    assert conditioning.decode_seed_image(png(20, 10, "JPEG")).shape == (10, 20, 3)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"not a picture", "cannot be read"),
        (png(20, 10)[:40], "cannot be read"),
        (png(20, 10, "GIF"), "cannot be read"),
        (b"x" * (conditioning.MAX_IMAGE_BYTES + 1), "bytes"),
    ],
    ids=["text", "cut", "gif", "large"],
)
def test_any_other_picture_is_refused(data, told):
    with pytest.raises(ValueError, match=told):
        conditioning.decode_seed_image(data)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(conditioning, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match="pixels"):
        conditioning.decode_seed_image(png(20, 10))


def test_the_mask_is_one_at_latent_zero_only_and_the_tail_goes_on_for_ever():
    tail = conditioning.CondTail(torch.randn(16, 30, 4, 6))
    first, later, far = (tail.chunk(start, 3, 20) for start in (0, 27, 100_000))
    assert first[:4, 0].eq(1).all()
    assert first[:4, 1:].eq(0).all()
    assert later[:4].eq(0).all()
    assert torch.equal(later[4:], tail.latents[:, 27:30])
    assert torch.equal(far[4:], tail.latents[:, 29:].expand(-1, 3, -1, -1))


def test_noise_is_a_function_of_seed_chunk_and_step():
    one = chunk_noise(5, 7, 0, (16, 3, 4, 6))
    assert torch.equal(one, chunk_noise(5, 7, 0, (16, 3, 4, 6)))
    for other in ((6, 7, 0), (5, 8, 0), (5, 7, 1), (-5, 7, 0)):
        assert not torch.equal(one, chunk_noise(*other, (16, 3, 4, 6)))
    assert abs(one.mean()) < 0.1
    assert one.std() == pytest.approx(1.0, abs=0.1)


def test_the_first_view_is_a_function_of_the_seed():
    assert np.array_equal(conditioning.first_view(3, (32, 48)), conditioning.first_view(3, (32, 48)))
    assert not np.array_equal(conditioning.first_view(3, (32, 48)), conditioning.first_view(4, (32, 48)))


@pytest.mark.parametrize("shift_px", [3, 11, -6])
def test_registration_finds_how_far_the_picture_moved(shift_px):
    wide = np.random.default_rng(1).integers(0, 256, (60, 260, 3), dtype=np.uint8)
    before, after = wide[:, 40:200], wide[:, 40 + shift_px : 200 + shift_px]
    assert calibrate.column_shift_px(before, after) == pytest.approx(shift_px, abs=0.3)


def test_a_turn_follows_from_the_shift_and_the_field_of_view():
    assert calibrate.turn_rad(320, 640, math.radians(90)) == pytest.approx(math.radians(45))


def test_the_calibration_command_prints_a_motion_entry(capsys):
    import json

    torch.set_num_threads(1)
    calibrate.main(["--model-config", "tiny", "--random-weights", "--chunks", "1"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["pairs"] == 12
    assert figures["weights"] == "random"
    assert "yaw_rad_per_unit" in figures["motion"]


def looking(*yaws_rad, x_m=0.0):
    return np.array([[[x_m, 1.6, 0.0, yaw, 0.0]] * 3 for yaw in yaws_rad])


def test_retrieval_prefers_the_same_view_then_the_older_of_equals_and_never_the_far_side():
    poses = looking(0.0, 1.0, math.pi, 0.0, 0.01)
    catalog = Catalog(np.arange(5) + 10, np.arange(5), poses, np.arange(5)[:, None] * 3, 5)
    found = retrieval.wanted(Pose(y_m=1.6), catalog, 3)
    assert found[0] == 10
    assert 12 not in found
    assert retrieval.wanted(Pose(y_m=1.6), replace(catalog, window_start=0), 3) == ()
    assert retrieval.wanted(Pose(y_m=1.6), catalog, 0) == ()


def test_retrieval_forgives_the_drift_of_old_blocks():
    eye = np.array(Pose(y_m=1.6).as_tuple())
    drifted = looking(0.2, x_m=0.8)
    young, old = (retrieval.overlap(eye, drifted, np.array([age]))[0] for age in (1, 100))
    assert old > young
    assert old == pytest.approx(1.0)


def test_the_needs_at_full_size_are_those_of_the_specification():
    from models.matrix_game_2.needs import action_bytes, block_bytes, needs

    config, bf16 = load_config("universal"), torch.bfloat16
    assert block_bytes(config, bf16) == 486_604_800
    assert action_bytes(config, bf16) == 162_201_600 + 184_320
    figures = needs(config, torch.device("cuda"), bf16)
    assert figures["decoder_state"] == 2 * 532_674_560
    assert figures["cross_state"] == 47_370_240
    assert figures["weights"] == 2 * 1_619_242_304
