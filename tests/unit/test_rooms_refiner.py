"""The refiner changes what is shown and nothing else, and its training is a function of its seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.rooms.checkpoint import WEIGHTS, add_refiner, load_refiner_weights, load_weights
from models.rooms.critic import Critic, critic_loss
from models.rooms.grid import fine_facts
from models.rooms.layout import LayoutNetwork
from models.rooms.layout_sampling import Inventor
from models.rooms.model import RoomsModel
from models.rooms.network import RoomsNetwork
from models.rooms.refiner import Refiner
from models.rooms.refiner_pairs import Painters, Pool, training_group
from models.rooms.train import train_basis
from models.rooms.train_layout import training_book
from models.rooms.train_refiner import RefinerTrainer, loss, seam_ratio, sharpness
from shared.controls import Controls

RIGHT = (Controls(mouse_dx=60.0),) * 2
FINE = fine_facts(torch.tensor([[3.0, 3.0, 0.2], [2.2, 4.1, 2.0]]))


@pytest.fixture(scope="module")
def drawing():
    torch.manual_seed(0)
    network = RoomsNetwork(64, 2)
    torch.nn.init.normal_(network.leave.weight, std=0.05)
    return Painters(network.bfloat16().eval(), train_basis(0, 4))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The shipped network without a refiner, and with one that does something."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(1)
    refiner = Refiner()
    torch.nn.init.normal_(refiner.leave.weight, std=0.1)
    add_refiner(WEIGHTS, {}, folder / "plain.safetensors")
    add_refiner(WEIGHTS, refiner.state_dict(), folder / "refined.safetensors")
    return folder


def pictures(frames):
    return torch.rand(frames, 64, 96, 3, generator=torch.Generator().manual_seed(frames)) * 2 - 1


def run(trainer, painters, folder, steps):
    pool = Pool(painters, trainer.seed, folder, num_worlds=1, num_frames=2)
    losses = [trainer.train(pool.batch(trainer.step)) for _ in range(steps)]
    pool.close()
    return losses


def test_a_new_refiner_changes_nothing_and_is_small():
    refiner = Refiner()
    assert sum(parameter.numel() for parameter in refiner.parameters()) < 150_000
    assert torch.equal(refiner(pictures(2), FINE), pictures(2))


def test_a_refined_picture_does_not_depend_on_its_mates(weights):
    refiner = Refiner()
    refiner.load_state_dict(load_refiner_weights(weights / "refined.safetensors"))
    both = refiner(pictures(2), FINE)
    assert not torch.equal(both, pictures(2))
    for index in range(2):
        alone = refiner(pictures(2)[index : index + 1], FINE[index : index + 1])[0]
        assert torch.allclose(alone, both[index], atol=1e-4)
    assert not torch.equal(refiner(pictures(2), FINE.flip(0)), both)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_refiner_changes_pictures_but_no_latents_no_block_and_no_state(weights, dtype):
    plain, refined = (RoomsModel(weights / f"{name}.safetensors", dtype=dtype) for name in ("plain", "refined"))
    assert plain.refiner is None
    assert refined.refiner is not None
    assert plain.fingerprint != refined.fingerprint
    ends = []
    for model in (plain, refined):
        nothing_seen = replace(model.begin(900_100).state, window=())  # so that a block is left
        step = model.step(nothing_seen, RIGHT, ())
        frames = [next(step), next(step)]
        with pytest.raises(StopIteration) as end:
            next(step)
        ends.append((frames, end.value.value))
    (seen, left), (seen_refined, left_refined) = ends
    assert not np.array_equal(seen[0].pixels, seen_refined[0].pixels)
    assert [frame.pose for frame in seen] == [frame.pose for frame in seen_refined]
    assert torch.equal(left.block.kv, left_refined.block.kv)
    for name, tensor in plain.dump(left.state).tensors.items():
        assert torch.equal(tensor, refined.dump(left_refined.state).tensors[name]), name


def test_a_refiner_is_added_replaced_and_taken_away_beside_the_network(weights, tmp_path):
    before, basis = load_weights(WEIGHTS)
    for name, has_refiner in (("plain", False), ("refined", True)):
        tensors, found = load_weights(weights / f"{name}.safetensors")
        assert set(tensors) == set(before)
        assert all(torch.equal(tensors[key], before[key]) for key in before)
        assert torch.equal(found.directions, basis.directions)
        assert (load_refiner_weights(weights / f"{name}.safetensors") is not None) == has_refiner
    add_refiner(weights / "refined.safetensors", Refiner().state_dict(), tmp_path / "again.safetensors")
    replaced = load_refiner_weights(tmp_path / "again.safetensors")
    assert replaced is not None
    assert not replaced["leave.weight"].any()


def test_a_group_is_a_function_of_seed_and_number(drawing):
    first, again = training_group(drawing, 3, 1, num_worlds=2), training_group(drawing, 3, 1, num_worlds=2)
    other = training_group(drawing, 3, 2, num_worlds=2)
    for name in ("drawn", "given", "rendered", "poses"):
        assert torch.equal(getattr(first, name), getattr(again, name)), name
        assert not torch.equal(getattr(first, name), getattr(other, name)), name


def test_half_of_the_samples_are_drawn_by_the_layout_network_where_there_is_one(drawing):
    torch.manual_seed(4)
    layout = LayoutNetwork(64, 2).bfloat16().eval()
    torch.nn.init.normal_(layout.leave.weight, std=0.05)
    book = training_book(drawing.basis, 0, 8)
    both = training_group(Painters(drawing.network, drawing.basis, Inventor(layout, book)), 3, 1, num_worlds=4)
    alone = training_group(drawing, 3, 1, num_worlds=4)
    assert torch.equal(both.poses, alone.poses)
    assert not torch.equal(both.drawn, alone.drawn)


def test_the_encoded_frames_of_a_group_show_what_is_rendered(drawing):
    group = training_group(drawing, 3, 1, num_worlds=2)
    shown = drawing.basis.decode(group.given.float())
    assert (shown - (group.rendered.float() / 127.5 - 1.0)).abs().mean() < 0.03


def test_a_resumed_run_ends_with_the_same_weights(drawing, tmp_path):
    whole = RefinerTrainer(5)
    losses = run(whole, drawing, tmp_path / "one", 20)
    first = RefinerTrainer(5)
    run(first, drawing, tmp_path / "two", 9)
    first.save(tmp_path / "checkpoint.safetensors")
    second = RefinerTrainer.resume(tmp_path / "checkpoint.safetensors")
    assert second.step == 9
    assert run(second, drawing, tmp_path / "two", 11) == losses[9:]
    for ended, resumed in ((whole.refiner, second.refiner), (whole.critic, second.critic)):
        for name, tensor in ended.state_dict().items():
            assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_critic_learns_to_tell_soft_from_sharp_pictures_and_its_word_sharpens():
    torch.manual_seed(6)
    critic, sharp = Critic(), pictures(8).round()
    soft = sharp * 0.5
    fine = FINE.repeat(4, 1, 1, 1)
    adam = torch.optim.AdamW(critic.parameters(), lr=1e-3)
    for _ in range(40):
        adam.zero_grad()
        critic_loss(critic, soft, sharp, fine).backward()
        adam.step()
    assert critic(soft, fine).shape == (8, 16, 24)
    assert critic(sharp, fine).mean() > critic(soft, fine).mean() + 0.5
    soft.requires_grad_()
    critic(soft, fine).mean().backward()
    assert ((soft + 0.1 * soft.grad.sign()).detach() - sharp).square().mean() < (soft - sharp).square().mean()


def test_a_patch_that_is_quite_wrong_teaches_little():
    rendered = torch.zeros(1, 64, 96, 3)
    near, far = rendered.clone(), rendered.clone()
    near[:, :8, :8] = 0.1
    far[:, :8, :8] = 1.0
    shares = [loss(wrong, wrong, rendered) / wrong.abs().mean() for wrong in (near, far)]
    assert shares[1] < 0.2 * shares[0]


def test_seams_and_sharpness_are_what_they_say():
    flat = torch.zeros(1, 64, 96, 3)
    flat[:, :, 1::2] = 1.0  # a line every second pixel, whatever the patch
    assert seam_ratio(flat) == pytest.approx(1.0, rel=0.2)
    patched = (torch.arange(64) // 8 % 2)[None, :, None, None] + torch.zeros(1, 64, 96, 3) + flat * 1e-3
    assert seam_ratio(patched) > 100
    assert sharpness(patched * 0.5) == pytest.approx(sharpness(patched) / 4)
