"""`bench planner`: the way back is found by its picture, and what it prints was measured."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench import planner
from server.environment import BACK, FORWARD, WorldEnv


def test_the_psnr_of_a_picture_and_itself_is_high_and_of_noise_low() -> None:
    dice = np.random.default_rng(0)
    one, other = dice.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    assert planner.psnr_db(one, one) > 70.0
    assert planner.psnr_db(one, other) < 12.0


def test_rollouts_are_counted_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "PREFIX", 3)
    monkeypatch.setattr(planner, "REPEATS", 1)
    monkeypatch.setattr(planner, "NUM_FORKS", 3)
    env = WorldEnv("plain")
    figures = planner.rollouts(env)
    env.close()
    assert all(value > 0.0 for value in figures.values())


def test_a_search_that_finds_nothing_says_so_and_stops_at_its_limit() -> None:
    env = WorldEnv("plain")  # its pictures are labels of their chunk: none is ever seen twice
    env.reset(seed=1)
    found = planner.search(env, limit=6)
    env.close()
    assert found.found is None
    assert found.way() == []
    assert 6 <= len(found.nodes) <= 6 + len(planner.UNDOES)


@pytest.mark.slow
def test_in_rooms_the_way_back_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "AWAY", (FORWARD, FORWARD))
    picture, report = tmp_path / "search.png", tmp_path / "report.json"
    assert planner.main(["--picture", str(picture), "--json", str(report)]) == 0
    values = json.loads(report.read_text())
    assert values["found"]
    assert values["way"] == ["back", "back"] == [planner.ACTIONS[BACK]] * 2
    assert Image.open(picture).size[0] > 800
