"""Parity with the recorded numbers of the original, and that the command fails when something is off."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.matrix_game_2.parity.__main__ import kind_of, main, run_case

GOLDEN = Path(__file__).parent / "matrix_game_2"
SHARED = Path(__file__).parents[3] / "shared" / "matrix-game-2" / "golden"
CASES = [path for path in sorted(GOLDEN.glob("*.json")) if kind_of(path.stem) is not None]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("manifest", CASES, ids=lambda path: path.stem)
def test_a_recorded_case_is_reproduced(manifest):
    report = run_case(manifest)
    assert report["ok"], report["failures"]
    assert report["compared"] > 0
    assert report["max_abs_error"] <= 1e-5


def copied(folder, *names):
    for name in names:
        for suffix in (".json", ".safetensors"):
            if (GOLDEN / name).with_suffix(suffix).exists():
                shutil.copy((GOLDEN / name).with_suffix(suffix), folder)


def test_the_command_writes_a_report_and_succeeds(tmp_path, capsys):
    copied(tmp_path, "f_scheduler", "j_clip")
    for _ in range(2):  # its own report in the folder is no case
        assert main([str(tmp_path), "--json", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"]
    assert {case["case"] for case in report["cases"]} == {"f_scheduler", "j_clip"}
    assert capsys.readouterr().out.count(" ok ") == 4


def test_a_changed_output_fails_the_command(tmp_path, capsys):
    copied(tmp_path, "f_scheduler")
    path = tmp_path / "f_scheduler.safetensors"
    tensors = load_file(path)
    tensors["templerun.x0_from_flow2"][0, 0, 0, 0] += 2e-5
    save_file(tensors, path)
    assert main([str(tmp_path)]) == 1
    assert "templerun.x0_from_flow2" in capsys.readouterr().out


def test_an_output_that_nobody_compares_fails_the_command(tmp_path, capsys):
    copied(tmp_path, "f_scheduler")
    path = tmp_path / "f_scheduler.safetensors"
    save_file(load_file(path) | {"another.output": torch.zeros(2)}, path)
    assert main([str(tmp_path)]) == 1
    assert "not compared: another.output" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest"])
def test_an_unreadable_case_fails_the_command(tmp_path, damage):
    copied(tmp_path, "f_scheduler", "j_clip")
    path = tmp_path / "f_scheduler.safetensors"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:1000])
    elif damage == "remove":
        path.unlink()
    else:
        path.with_suffix(".json").write_text("{")
    assert main([str(tmp_path)]) == 1


def test_a_case_whose_weights_are_missing_fails_the_command(tmp_path):
    copied(tmp_path, "d_model_tr")
    assert main([str(tmp_path)]) == 1


def test_an_empty_folder_is_not_a_success(tmp_path):
    assert main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("norm", "the dead norm weights, were they applied"),
        ("window", "the action window, were it a row late"),
        ("position", "the key positions, were they a frame late"),
    ],
)
def test_the_recordings_would_notice(monkeypatch, change, what):
    """The negative controls of spec 12."""
    from models.matrix_game_2 import action_module, window
    from models.matrix_game_2.parity import action_case

    if change == "norm":
        plain = action_module.unit_rms
        monkeypatch.setattr(action_module, "unit_rms", lambda x: plain(x) * torch.linspace(0.9, 1.1, x.shape[-1]))
    elif change == "window":
        plain_windows = action_case.windows
        monkeypatch.setattr(
            action_case, "windows", lambda rows, *cut: plain_windows(torch.cat([rows[:1], rows[:-1]]), *cut)
        )
    else:
        plain_grid = window.grid_angles
        monkeypatch.setattr(
            window, "grid_angles", lambda frames, *rest: plain_grid((frames[0] + 1, *frames[1:]), *rest)
        )
    report = run_case(GOLDEN / "e_rollout_tr.json")
    assert not report["ok"], what


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded set does not lie beside this checkout")
def test_the_whole_recorded_set_is_reproduced():
    assert main([str(SHARED)]) == 0
