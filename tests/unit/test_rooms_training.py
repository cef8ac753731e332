"""Training is a function of its seed, also when it is interrupted."""

import numpy as np
import pytest
import torch

from models.rooms.checkpoint import WEIGHTS, export_weights, load_weights
from models.rooms.dataset import MemoryShares, Prefetch, _coverage_each, _views, training_batch
from models.rooms.renderer import wall_depths
from models.rooms.scene import make_scene
from models.rooms.sizes import COLUMNS
from models.rooms.train import new_run, train_basis
from models.rooms.trainer import Trainer, TrainSettings

TINY = TrainSettings(seed=5, samples=1, width=64, layers=2)


@pytest.fixture(scope="module")
def basis():
    return train_basis(0, 4)


def run(trainer, steps):
    batches = Prefetch(lambda step: training_batch(trainer.basis, TINY.seed, step, TINY.samples), trainer.step)
    losses = [trainer.train(batches.take(trainer.step)) for _ in range(steps)]
    batches.close()
    return losses


def test_a_batch_is_a_function_of_seed_and_step(basis):
    first, again = training_batch(basis, 3, 17, 2), training_batch(basis, 3, 17, 2)
    assert torch.equal(first.memory, again.memory)
    assert torch.equal(first.targets, again.targets)
    assert torch.equal(first.target_poses, again.target_poses)
    assert first.noise_seed == again.noise_seed != training_batch(basis, 3, 18, 2).noise_seed


def test_who_turns_round_remembers_hardly_anything_of_what_is_to_be_drawn():
    shown = {}
    for name, shares in (("aside", MemoryShares(0.0, aside=1.0)), ("best", MemoryShares(0.0))):
        views = _views(np.arange(12), 4, np.random.default_rng(2), shares)
        covers = []
        for world, poses in zip(views.worlds, views.poses, strict=True):
            depths = wall_depths(make_scene(int(world)), poses, COLUMNS)
            covers.append(_coverage_each(poses, depths, np.arange(4), 4).max(0).mean())
        shown[name] = float(np.mean(covers))
    assert shown["aside"] < 0.2, shown
    assert shown["best"] > 0.4, shown


def test_a_resumed_run_ends_with_the_same_weights(basis, tmp_path):
    whole = Trainer(TINY, basis)
    losses = run(whole, 20)
    first = Trainer(TINY, basis)
    run(first, 9)
    first.save(tmp_path / "checkpoint.safetensors")
    second = Trainer.resume(tmp_path / "checkpoint.safetensors")
    assert second.step == 9
    assert run(second, 11) == losses[9:]
    for name, master in whole.masters.weights.items():
        assert torch.equal(master, second.masters.weights[name]), name
        assert torch.equal(whole.masters.ema[name], second.masters.ema[name]), name


def test_a_run_begins_with_the_weights_that_it_is_given():
    tensors, _ = load_weights()
    trainer = new_run(0, WEIGHTS)
    for name, average in trainer.averaged().state_dict().items():
        assert torch.equal(average, tensors[name]), name
        assert torch.equal(trainer.masters.weights[name].bfloat16(), tensors[name]), name
        assert torch.equal(trainer.network.state_dict()[name], tensors[name]), name


def test_the_rate_warms_up_with_the_first_updates_whatever_the_step(basis):
    moved = []
    for step in (0, 1_000):
        trainer = Trainer(TINY, basis)
        trainer.step = step
        before = trainer.masters.weights["place"].detach().clone()
        trainer.train(training_batch(basis, TINY.seed, 0, TINY.samples))
        moved.append((trainer.masters.weights["place"].detach() - before).abs().max())
    assert moved[0] == moved[1] < 0.1 * TINY.learning_rate


def test_training_lowers_the_loss(basis):
    losses = run(Trainer(TINY, basis), 70)
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:5])


def test_exported_weights_load(basis, tmp_path):
    trainer = Trainer(TINY, basis)
    export_weights(trainer.masters.ema, basis, tmp_path / "weights.safetensors")
    tensors, loaded = load_weights(tmp_path / "weights.safetensors")
    assert set(tensors) == set(trainer.masters.ema)
    assert torch.equal(loaded.directions, basis.directions)


def test_views_from_afar_see_the_chunk_at_less_than_its_detail():
    """What training remembers of a place that is come up to was seen from farther away than it is drawn from."""

    def nearest_m(afar_share):
        rng, far = np.random.default_rng(2), []
        for world in range(24):
            views = _views(np.array([world]), 4, rng, MemoryShares(0.0, afar=afar_share)).poses[0]
            far.append(np.hypot(*(views[:4, :2] - views[4, :2]).T).min())
        return float(np.mean(far))

    assert nearest_m(1.0) > nearest_m(0.0)
