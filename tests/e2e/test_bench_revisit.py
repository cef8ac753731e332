"""The revisit meter on the real model: one world, a short walk. Figures are not held to bars here, only to sense."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.revisit import main
from bench.revisit_long import long_walk
from bench.revisit_metrics import psnr, sharpness
from bench.revisit_rows import Asked, _quarters_ahead, measure
from bench.revisit_walk import beginning, explorer, glance, guided, rendered, walk
from models.rooms.model import RoomsModel
from models.rooms.scene import DOORWAY
from shared.controls import Key
from shared.pose import Pose

SEED, TURNED_SEED = 900_007, 900_307


@pytest.fixture(scope="module")
def model():
    torch.set_grad_enabled(False)
    yield RoomsModel()
    torch.set_grad_enabled(True)


def test_the_command_writes_every_key_of_the_contract(tmp_path, capsys):
    path = tmp_path / "report.json"
    flags = ["--seeds", "900000:900001", "--chunks", "14", "--walk-frames", "16", "--walks", "1"]
    assert main([*flags, "--memory", "paged,window,none", "--json", str(path)]) == 0
    torch.set_grad_enabled(True)
    report = json.loads(path.read_text())
    for name in ("command", "commit", "hardware", "seconds", "scaled"):
        assert name in report
    given, invented = report["given"], report["invented"]
    assert given["paged"]["psnr"] > given["window"]["psnr"] > 8.0
    assert given["paged"]["psnr"] > given["none"]["psnr"]
    assert given["paged"]["psnr"] > report["poisoned_psnr"] + 3.0
    assert 0.0 < given["paged"]["ssim"] <= 1.0
    assert invented["paged"]["psnr"] > invented["window"]["psnr"]
    assert report["turned"]["psnr"] > given["window"]["psnr"]
    assert 0.0 <= report["turned"]["wrong"] < 0.3
    assert 0.05 < invented["sharpness_ratio"] < 3.0
    assert len(invented["sharpness_by_quarter"]) == 4
    assert 5.0 < report["diversity_psnr"] < 40.0
    assert 5.0 < report["diversity_psnr_of_renderer"] < 60.0
    assert report["gain_psnr"]["low"] <= report["gain_psnr"]["mean"] <= report["gain_psnr"]["high"]
    assert 0.0 <= report["recall_at_1"]["paged"] <= 1.0
    assert 0.0 <= report["geometry_rel_error"] < 0.5
    assert report["geometry_rel_error_of_renderer"] < 0.03
    assert [line["gap_chunks"] for line in report["by_gap"]] == [4, 16]
    assert report["scaled"] == {"worlds": "1 of 16", "walk_frames": "16 of 1000"}
    assert "gain_psnr" in capsys.readouterr().out


def test_who_comes_back_from_the_other_side_sees_what_memory_knows(model):
    """Of this world, with no look to the sides of a view, a quarter of what memory knows was drawn wrong."""
    turned = measure(model, TURNED_SEED, Asked(parts=("turned",), num_chunks=60), None)["turned"][0]
    assert len(turned["psnr"]) == len(turned["wrong"]) > 60
    assert np.mean(turned["psnr"]) > 25.0
    assert np.mean(turned["wrong"]) < 0.05


def test_a_wrong_flag_measures_nothing_and_says_so(capsys):
    assert main(["--codec", "int7"]) == 2
    torch.set_grad_enabled(True)
    assert "--codec" in capsys.readouterr().err


def test_codecs_differ_by_little_and_every_noise_is_another_draw(model):
    asked = Asked(codecs=("int4", "bf16"), parts=("codec",), num_chunks=12, noises=2)
    returns = measure(model, SEED, asked, None)["returns"]
    assert [(found["codec"], found["noise"]) for found in returns] == [
        ("int4", 1),
        ("int4", 2),
        ("bf16", 1),
        ("bf16", 2),
    ]
    full = np.array(returns[2]["psnr"])
    assert np.abs(np.array(returns[0]["psnr"]) - full).mean() < 1.0
    assert not np.array_equal(full, np.array(returns[3]["psnr"]))


def test_the_renderer_against_itself_is_perfect(model):
    state, _, scene = glance(model, SEED)
    guide = explorer(model.frames_per_chunk)
    once = walk(model, state, 8, guide, rendered(model, scene))
    again = walk(model, state, 8, guide, rendered(model, scene))
    assert psnr(once.frames, again.frames).min() == pytest.approx(60.0)
    assert sharpness(once.frames).mean() / sharpness(again.frames).mean() == 1.0


def test_the_explorer_turns_away_from_a_drum_that_it_could_look_over(model):
    state, _, scene = beginning(model, 900_000)
    guide, pose = explorer(model.frames_per_chunk), state.pose
    for height_m, stands in ((0.36, True), (0.05, False)):
        ahead = (pose.x_m + 0.9 * math.sin(pose.yaw_rad), pose.z_m + 0.9 * math.cos(pose.yaw_rad))
        objects = np.zeros_like(scene.objects)
        objects[0] = (*ahead, 0.24, height_m, 1, 0.9, 0.2, 0.2)
        _, seen = rendered(model, replace(scene, objects=objects))(state, (pose, pose))
        assert [Key.FORWARD in held.keys for held in guide(seen.state)] == [not stands] * 2


def test_the_explorer_leaves_a_room_by_its_only_door(model):
    state, _, scene = beginning(model, 900_000)
    room = int(scene.room[int(state.pose.z_m), int(state.pose.x_m)])
    rows, columns = np.nonzero(scene.room == room)
    solid = scene.solid.copy()
    z, x = slice(rows.min() - 1, rows.max() + 2), slice(columns.min() - 1, columns.max() + 2)
    solid[z, [x.start, x.stop - 1]] = solid[[z.start, z.stop - 1], x] = 1
    solid[rows.min() + 1, x.start] = 0
    lonely = replace(scene, solid=solid, objects=np.zeros_like(scene.objects))
    out = walk(model, state, 150, explorer(model.frames_per_chunk), rendered(model, lonely))
    assert any(scene.room[int(z), int(x)] not in (room, DOORWAY) for x, z, _ in out.path)


def test_the_first_view_gives_away_the_quarters_of_the_floor_ahead():
    assert _quarters_ahead(Pose(3.0, 0.5, 1.5, 0.0)).tolist() == [True, True, True, True]
    assert _quarters_ahead(Pose(3.0, 0.5, 3.0, 0.0)).tolist() == [False, False, True, True]
    assert _quarters_ahead(Pose(8.0, 0.5, 8.0, np.pi / 2)).tolist() == [False, True, False, True]


def test_the_explorer_gets_somewhere_and_stays_out_of_walls(model):
    state, _, scene = beginning(model, SEED)
    out = walk(model, state, 60, explorer(model.frames_per_chunk), rendered(model, scene))
    assert np.ptp(out.path[:, 0]) + np.ptp(out.path[:, 1]) > 2.0
    assert not any(scene.solid[int(z), int(x)] for x, z, _ in out.path)


def test_routes_by_name_turn_and_walk(model):
    state, _, scene = glance(model, SEED)
    lap = walk(model, state, 16, guided(model, "yaw-360", 16, state.chunk_index), rendered(model, scene))
    assert np.ptp(np.unwrap(lap.path[:, 2])) == pytest.approx(2 * np.pi * 31 / 32, abs=0.01)
    held = guided(model, "square", 6, state.chunk_index)
    assert len(held(state)) == model.frames_per_chunk


def test_a_long_walk_has_a_figure_for_every_frame(model):
    walked = long_walk(model, SEED, 12)
    assert len(walked["sharpness"]) == len(walked["true_sharpness"]) == 12
    assert 0.0 <= walked["kept_share"] <= 1.0
