"""The drift bench on the real model and pager: a short walk, whose figures make sense."""

import json

import numpy as np
import torch

from bench.drift import EXPLORER, main, true_walk
from models.rooms.model import RoomsModel


def test_a_short_walk_has_ten_segments_and_says_what_it_weighs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # the world is made below the current folder
    path = tmp_path / "drift.json"
    try:
        assert main(["--frames", "40", "--seed", "900301", "--json", str(path)]) == 0
    finally:
        torch.set_grad_enabled(True)
    report = json.loads(path.read_text())
    for name in ("command", "commit", "hardware", "seconds"):
        assert name in report
    assert report["scaled"] == {"frames": "40 of 10000"}
    assert [segment["frame"] for segment in report["segments"]] == list(range(0, 40, 4))
    for segment in report["segments"]:
        for name in ("contrast_ratio", "saturation_ratio", "sharpness_ratio"):
            assert 0.05 < segment[name] < 5.0
    assert 0.0 < report["bytes_share"] <= 1.0
    assert report["fps"] > 0.0
    assert report["blocks"] >= 4
    assert report["bytes_per_hour"] > 0
    assert "bytes_share" in capsys.readouterr().out
    assert not list(tmp_path.glob("drift-*"))


def test_the_truth_that_drift_is_held_against_is_lively():
    truth = true_walk(RoomsModel(), 900_300, EXPLORER, 20)
    assert 0.05 < np.mean(truth["contrast"]) < 0.5
    assert np.mean(truth["sharpness"]) > 1e-4
