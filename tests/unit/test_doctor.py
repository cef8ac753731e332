"""`python -m server doctor`: what is needed, what is there, and what to do about the difference."""

import json

import pytest

from models.matrix_game_2 import checkpoint
from server.doctor import main
from server.read_speed import measure_read_speed
from tests.official_folder import write_official_folder

SMALL = ["--model-config", "tiny", "--gpu", "200kB", "--dram", "300kB", "--nvme", "1MB"]


def diagnose(tmp_path, *flags):
    """Exit status and findings by name."""
    path = tmp_path / "report.json"
    status = main([*flags, "--worlds", str(tmp_path / "worlds"), "--json", str(path)])
    report = json.loads(path.read_text())
    assert report["ok"] == (status == 0)
    assert all({"what", "needed", "found", "advice"} <= set(finding) for finding in report["findings"])
    return status, {finding["what"]: finding for finding in report["findings"]}


def test_rooms_needs_nothing_that_is_not_here(tmp_path):
    status, findings = diagnose(tmp_path)
    assert status == 0, findings
    assert findings["predicted stall class"]["found"] == "zero"
    assert not (tmp_path / "worlds").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json"]


def test_missing_weights_are_named_each_with_the_line_that_fetches_them(tmp_path):
    status, findings = diagnose(tmp_path, "--model", "matrix-game-2", *SMALL, "--weights", str(tmp_path / "none"))
    assert status == 1
    files = checkpoint.files_of(tmp_path / "none", "universal").all()
    for path in files:
        assert findings[str(path)]["found"] == "missing"
        assert "hf download Skywork/Matrix-Game-2.0" in findings[str(path)]["advice"]
    assert "11.8 GB for the weights" in findings[f"disk space in {tmp_path}"]["needed"]


def test_a_folder_in_the_official_layout_is_found_good_and_a_wrong_shape_in_it_bad(tmp_path):
    folder = write_official_folder(tmp_path / "weights")
    flags = ["--model", "matrix-game-2", *SMALL, "--weights", str(folder)]
    status, findings = diagnose(tmp_path, *flags)
    assert status == 0, findings
    network = folder / "base_distilled_model" / "config.json"
    network.write_text(network.read_text().replace('"ffn_dim": 128', '"ffn_dim": 64'))
    status, findings = diagnose(tmp_path, *flags)
    assert status == 1
    assert "ffn" in findings["names and shapes of the weights"]["found"]


def test_random_weights_need_no_files_and_are_called_noise(tmp_path):
    status, findings = diagnose(tmp_path, "--model", "matrix-game-2", *SMALL, "--random-weights")
    assert status == 0, findings
    assert "noise" in findings["weights"]["advice"]


def test_budgets_that_hold_no_recall_are_bad(tmp_path):
    flags = ["--model", "matrix-game-2", *SMALL, "--random-weights", "--gpu", "20kB"]
    status, findings = diagnose(tmp_path, *flags)
    assert status == 1
    assert "--gpu" in findings["budgets"]["advice"]


def test_more_nvme_than_the_disk_has_is_bad(tmp_path):
    flags = ["--model", "matrix-game-2", *SMALL, "--random-weights", "--nvme", "900TB"]
    status, findings = diagnose(tmp_path, *flags)
    assert status == 1
    assert "--nvme" in findings[f"disk space in {tmp_path}"]["advice"]


def test_a_wrong_setting_ends_with_its_name_and_exit_2(tmp_path, capsys):
    assert main(["--model", "nope"]) == 2
    assert "model (flag --model)" in capsys.readouterr().err


@pytest.mark.parametrize("block_bytes", [10_000, 1_000_000])
def test_reading_is_measured_and_nothing_is_left_behind(tmp_path, block_bytes):
    speed = measure_read_speed(tmp_path, block_bytes, num_bytes=4_000_000)
    assert speed.gbps > 0.0
    assert list(tmp_path.iterdir()) == []
