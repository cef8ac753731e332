"""The judge of plausibility: it learns a difference that is there, and its file says what it was trained against."""

import numpy as np
import pytest
import torch

from bench.classifier import Pictures, main, right_share, train
from bench.classifier_network import WEIGHTS, Judge, JudgeNetwork, load_judge, save_judge


def pictures(seed, count=60):
    """Rendered: sharp squares at random places. Invented: the same, blurred."""
    rng = np.random.default_rng(seed)
    sharp = np.zeros((2 * count, 64, 96, 3), np.uint8)
    for frame in sharp:
        for _ in range(4):
            top, left = rng.integers(0, 48), rng.integers(0, 80)
            frame[top : top + 16, left : left + 16] = rng.integers(60, 255, 3)
    blurred = np.mean([np.roll(sharp[:count].astype(np.float32), step, axis=2) for step in range(-3, 4)], axis=0)
    return Pictures(blurred.astype(np.uint8), sharp[count:])


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_it_learns_to_tell_blurred_from_sharp_on_pictures_it_never_saw():
    network = train(pictures(0), pictures(1), num_steps=60, seed=0)
    assert right_share(Judge(network, "", ""), pictures(2)) > 0.9


def test_a_judge_that_knows_nothing_is_right_about_half_of_the_time():
    class Coin(Judge):
        def __init__(self):
            pass

        def opinions(self, frames):
            return np.random.default_rng(0).random(len(frames)).astype(np.float32)

    assert right_share(Coin(), pictures(3)) == pytest.approx(0.5, abs=0.2)


def test_a_judge_that_calls_everything_invented_is_right_half_of_the_time():
    class Grump(Judge):
        def __init__(self):
            pass

        def opinions(self, frames):
            return np.ones(len(frames), np.float32)

    assert right_share(Grump(), pictures(3)) == 0.5


def test_its_file_keeps_the_judgement_and_what_it_was_trained_against(tmp_path):
    torch.manual_seed(0)
    network = JudgeNetwork().half().float()
    save_judge(network, {"trained_against": "some weights"}, tmp_path / "judge")
    judge = load_judge(tmp_path / "judge")
    assert judge.trained_against == "some weights"
    frames = pictures(0).invented
    assert np.allclose(judge.opinions(frames), Judge(network, "", "").opinions(frames), atol=1e-5)
    assert (tmp_path / "judge").stat().st_size < 300_000


@pytest.mark.skipif(not WEIGHTS.exists(), reason="no judge ships")
def test_the_judge_that_ships_is_small_and_answers_in_shares():
    assert WEIGHTS.stat().st_size < 300_000
    answers = load_judge().opinions(pictures(0, 4).rendered)
    assert ((answers >= 0.0) & (answers <= 1.0)).all()


@pytest.mark.usefixtures("one_thread")
def test_one_command_draws_trains_and_measures_and_reads_kept_worlds_again(tmp_path, capsys):
    flags = ["--worlds", "1", "--choosing-worlds", "1", "--test-worlds", "1", "--chunks", "14", "--steps", "4"]
    places = ["--kept", str(tmp_path / "kept"), "--out", str(tmp_path / "judge"), "--json", str(tmp_path / "report")]
    assert main([*flags, *places]) == 0
    first = capsys.readouterr()
    assert first.err.count("invented") == 3
    assert main([*flags, *places]) == 0
    again = capsys.readouterr()
    assert "invented," not in again.err
    assert again.out.splitlines()[0] == first.out.splitlines()[0]  # the same accuracy
    torch.set_grad_enabled(True)
