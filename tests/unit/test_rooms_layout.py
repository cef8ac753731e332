"""Codes of patches, the network that chooses them, and its training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.revisit_metrics import psnr
from models.base import RecalledBlock
from models.rooms.attention import KeyValueBuffer, attend
from models.rooms.checkpoint import WEIGHTS, add_layout, load_layout_weights, load_weights
from models.rooms.codebook import NUM_CODES
from models.rooms.grid import grid_facts
from models.rooms.layout import LayoutNetwork
from models.rooms.layout_objective import known_patches
from models.rooms.layout_sampling import _turns, decided, picked
from models.rooms.model import RoomsModel
from models.rooms.network import RoomsNetwork
from models.rooms.patches import CHANNELS
from models.rooms.renderer import render
from models.rooms.sampling import mates_of, turned
from models.rooms.scene import make_scene
from models.rooms.sizes import TOKENS
from models.rooms.train_layout import LayoutTrainer, Teacher, drawing_network, new_run, training_book
from shared.controls import Controls, Key

AHEAD = (Controls(Key.FORWARD),) * 2
RIGHT = (Controls(mouse_dx=60.0),) * 2
CAMERAS = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.2]])


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    network = RoomsNetwork(64, 2).requires_grad_(False).bfloat16().eval()
    _, basis = load_weights()
    return Teacher(network, training_book(basis, 0, 16), basis)


@pytest.fixture(scope="module")
def weights(tmp_path_factory, teacher):
    """The shipped drawing network with no layout network, and with one that chooses anything."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(1)
    layout = LayoutNetwork()
    torch.nn.init.normal_(layout.leave.weight, std=0.05)
    add_layout(WEIGHTS, layout.state_dict(), teacher.book, folder / "layout.safetensors")
    add_layout(WEIGHTS, {}, teacher.book, folder / "plain.safetensors")
    return folder


def drawn(model, state, controls, recall=()):
    steps = model.step(state, controls, recall)
    frames = []
    while True:
        try:
            frames.append(next(steps).pixels)
        except StopIteration as end:
            return np.stack(frames), end.value


def left_the_room(model):
    """A state that has turned to where nothing was ever seen: nothing in its window shows it."""
    state = model.begin(900_100).state
    return replace(state, window=())


def test_a_code_stands_for_a_patch_that_has_this_code(teacher):
    codes, bins = torch.arange(NUM_CODES), torch.arange(NUM_CODES) % 32
    found = teacher.book.encode(teacher.book.decode(codes, bins))
    assert (found[0] == codes).float().mean() > 0.99  # two codes may stand for the same patch
    assert torch.equal(teacher.book.depths[found[1]], teacher.book.depths[bins])


def test_the_code_book_that_ships_keeps_most_of_a_patch(teacher):
    trainer = LayoutTrainer(0, teacher, samples=4)
    latents = torch.cat([trainer.batch(step).targets for step in range(4)])
    _, book = load_layout_weights()
    kept = book.decode(*book.encode(latents))
    assert (kept - latents).square().mean() < 0.3 * latents.square().mean()


def test_what_hidden_patches_show_cannot_be_seen(teacher):
    torch.manual_seed(2)
    layout = LayoutNetwork(64, 2)
    latents, is_known = torch.randn(1, 2, TOKENS, CHANNELS), torch.rand(1, 2, TOKENS) < 0.5
    changed = torch.where(is_known[..., None], latents, torch.randn(latents.shape))
    facts, mates = grid_facts(CAMERAS)[None], mates_of(CAMERAS)
    seen = layout.look(latents, is_known, facts, mates, [])
    assert torch.equal(seen, layout.look(changed, is_known, facts, mates, []))
    other = layout.look(latents.flip(2), is_known, facts, mates, [])
    assert not torch.equal(seen, other)


def test_fixed_memory_gets_no_gradient_and_changes_none():
    q, k, v = (torch.randn(2, 4, n, 64, requires_grad=True) for n in (5, 9, 9))
    fixed = (torch.randn(2, 4, 7, 64), torch.randn(2, 4, 7, 64))
    found = attend(q, k, v, fixed)
    found.square().sum().backward()
    grads = [x.grad.clone() for x in (q, k, v)]
    for x in (q, k, v):
        x.grad = None
    plain = attend(q, k, v, tuple(part.clone().requires_grad_() for part in fixed))
    plain.square().sum().backward()
    assert torch.allclose(found, plain, atol=1e-6)
    for grad, x in zip(grads, (q, k, v), strict=True):
        assert torch.allclose(grad, x.grad, atol=1e-5)


def test_a_buffer_gives_what_memory_joined_to_a_chunk_gives_at_every_look():
    k, v = (torch.randn(2, 4, 7, 64) for _ in range(2))
    buffer = KeyValueBuffer(*(torch.cat([part, torch.full((2, 4, 9, 64), torch.nan)], dim=2) for part in (k, v)), 7)
    with torch.no_grad():
        for _ in range(2):
            query, key, value = (torch.randn(2, 4, n, 64) for n in (5, 9, 9))
            assert torch.equal(attend(query, key, value, buffer), attend(query, key, value, (k, v)))


def test_sure_patches_are_decided_at_once_and_all_in_the_last_pass():
    doubt, turns = torch.tensor([0.0, 3.0, 0.01, 3.0, 3.0, 0.0]), torch.tensor([0.9, 0.5, 0.8, 0.2, 0.7, 0.1])
    assert sorted(decided(doubt, turns, 0, 8).tolist()) == [0, 2, 3, 5]
    assert sorted(decided(doubt, turns, 7, 8).tolist()) == [0, 1, 2, 3, 4, 5]
    assert decided(torch.tensor([5.0]), torch.tensor([0.9]), 0, 8).tolist() == [0]


def test_few_open_patches_are_decided_at_first_and_more_later():
    doubt, turns = torch.full((96,), 2.0), torch.linspace(0.0, 0.99, 96)
    nums = []
    for number in range(8):
        first = decided(doubt, turns, number, 8)
        nums.append(len(first))
        doubt, turns = doubt[len(first) :], turns[len(first) :]
    assert sum(nums) == 96
    assert nums[0] <= 3
    assert nums == sorted(nums)


def test_patches_whose_turns_follow_each_other_lie_apart():
    turns = _turns(1, 5, 7, 1000)
    assert torch.equal(turns, _turns(1, 5, 7, 1000))
    assert not torch.equal(turns, _turns(1, 5, 8, 1000))
    first = turns.argsort()[:8]
    rows, columns = first // 12, first % 12
    apart = torch.cdist(torch.stack([rows, columns], 1).float(), torch.stack([rows, columns], 1).float())
    assert apart[~torch.eye(8, dtype=torch.bool)].min() >= 2.0


def test_choices_come_as_often_as_they_are_likely():
    share = torch.tensor([0.6, 0.3, 0.09, 0.01])
    chosen = picked(share.log().expand(10_001, 4), torch.linspace(0.0, 1.0, 10_001))
    assert torch.allclose(torch.bincount(chosen, minlength=4) / 10_001, share, atol=1e-3)


def test_some_chunks_are_all_hidden_some_all_known_and_others_between():
    share = known_patches(torch.Size((400, 2)), torch.Generator().manual_seed(0)).flatten(1).float().mean(1)
    assert 0.08 < (share == 0).float().mean() < 0.25
    assert 0.15 < (share == 1).float().mean() < 0.35
    assert ((share > 0.1) & (share < 0.9)).float().mean() > 0.3


def test_weights_without_a_layout_network_draw_as_before(weights):
    plain = RoomsModel(weights / "plain.safetensors", dtype=torch.bfloat16)
    assert plain.inventor is None
    assert load_layout_weights(weights / "plain.safetensors") is None


def test_a_new_view_is_invented_the_same_way_from_the_same_seed(weights):
    model = RoomsModel(weights / "layout.safetensors", dtype=torch.bfloat16)
    state = left_the_room(model)
    frames, step = drawn(model, state, RIGHT)
    again, same = drawn(model, state, RIGHT)
    assert np.array_equal(frames, again)
    assert torch.equal(step.block.kv, same.block.kv)
    other, _ = drawn(model, replace(state, seed=7), RIGHT)
    assert not np.array_equal(frames, other)
    later, _ = drawn(model, replace(state, chunk_index=state.chunk_index + 1), RIGHT)
    assert not np.array_equal(frames, later)


def test_what_memory_shows_is_copied_without_chance(weights):
    model = RoomsModel(weights / "layout.safetensors", dtype=torch.bfloat16)
    beginning = model.begin(900_100)
    blocks = [
        RecalledBlock(index, index, chunk.block.kv, chunk.block.side, chunk.block.footprint, chunk.block.poses)
        for index, chunk in enumerate(beginning.chunks[:2])
    ]
    hardly = (Controls(mouse_dx=1.0),) * 2
    seen, _ = drawn(model, beginning.state, hardly, blocks)
    same, _ = drawn(model, replace(beginning.state, seed=7, chunk_index=50), hardly, blocks)
    assert np.array_equal(seen, same)


def test_what_memory_shows_is_copied_well():
    model = RoomsModel(dtype=torch.bfloat16)
    hardly = (Controls(mouse_dx=1.0),) * 2
    found = []
    for seed in range(900_100, 900_104):
        beginning = model.begin(seed)
        blocks = [
            RecalledBlock(index, index, chunk.block.kv, chunk.block.side, chunk.block.footprint, chunk.block.poses)
            for index, chunk in enumerate(beginning.chunks[:2])
        ]
        pose = model.steer(beginning.state, hardly)[-1]
        frames, _ = drawn(model, beginning.state, hardly, blocks)
        truth, _ = render(make_scene(seed), np.array([[pose.x_m, pose.z_m, pose.yaw_rad]]))
        found.append(psnr(frames[-1:], truth)[0])
    assert np.mean(found) > 31.5  # what a world shows decides on 3 dB of it


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_new_views_are_invented_in_either_precision(weights, dtype):
    plain, inventive = (RoomsModel(weights / f"{n}.safetensors", dtype=dtype) for n in ("plain", "layout"))
    seen, _ = drawn(plain, left_the_room(plain), RIGHT)
    other, _ = drawn(inventive, left_the_room(inventive), RIGHT)
    assert not np.array_equal(seen, other)


def test_inventing_writes_to_nothing_that_was_remembered(weights):
    model = RoomsModel(weights / "layout.safetensors", dtype=torch.bfloat16)
    state = drawn(model, left_the_room(model), RIGHT)[1].state
    before = {name: tensor.clone() for name, tensor in model.dump(state).tensors.items()}
    drawn(model, state, (Controls(mouse_dx=80.0),) * 2)
    for name, tensor in model.dump(state).tensors.items():
        assert torch.equal(tensor, before[name]), name


def test_the_layout_network_reads_what_the_drawing_network_wrote(teacher):
    torch.manual_seed(3)
    layout = LayoutNetwork(64, 2).bfloat16()
    torch.nn.init.normal_(layout.layers[0].join.weight, std=0.1)
    latents = torch.randn(2, TOKENS, CHANNELS)
    with torch.no_grad():
        kept = teacher.drawing.encode(latents, torch.zeros(2))
        remembered = [(torch.rand(2, 1, 5, 64).bfloat16(),) * 2 for _ in kept]
        hidden = torch.zeros(1, 2, TOKENS, dtype=torch.bool)
        alone = layout.look(latents[None], hidden, grid_facts(CAMERAS)[None], mates_of(CAMERAS), [])
        together = layout.look(latents[None], hidden, grid_facts(CAMERAS)[None], mates_of(CAMERAS), remembered)
    assert turned(teacher.drawing, CAMERAS, []) == []
    assert not torch.equal(alone, together)


def run(trainer, steps):
    return [float(trainer.train(trainer.batch(trainer.step)).total.detach()) for _ in range(steps)]


def test_a_resumed_run_ends_with_the_same_weights(teacher, tmp_path):
    whole = LayoutTrainer(5, teacher, samples=1)
    losses = run(whole, 8)
    first = LayoutTrainer(5, teacher, samples=1)
    run(first, 3)
    first.save(tmp_path / "checkpoint.safetensors")
    second = LayoutTrainer.resume(tmp_path / "checkpoint.safetensors", teacher.drawing, teacher.basis)
    assert second.step == 3
    assert run(second, 5) == losses[3:]
    for name, master in whole.masters.weights.items():
        assert torch.equal(master, second.masters.weights[name]), name
        assert torch.equal(whole.masters.ema[name], second.masters.ema[name]), name


def test_a_run_begins_with_the_layout_network_that_ships_and_goes_on_from_it(tmp_path):
    drawing, basis = drawing_network(WEIGHTS)
    tensors, book = load_layout_weights()
    trainer = new_run(drawing, basis, 0, WEIGHTS, book_worlds=16)
    assert torch.equal(trainer.teacher.book.depths, book.depths)
    assert not torch.equal(trainer.teacher.book.colours, book.colours)
    for name, average in trainer.averaged().state_dict().items():
        assert torch.equal(average, tensors[name]), name
        assert torch.equal(trainer.masters.weights[name].bfloat16(), tensors[name]), name
        assert torch.equal(trainer.layout.state_dict()[name], tensors[name]), name
    trainer.save(tmp_path / "checkpoint.safetensors")
    assert LayoutTrainer.resume(tmp_path / "checkpoint.safetensors", drawing, basis).step == trainer.step > 0


def test_a_run_cannot_begin_with_a_layout_network_that_is_not_there(weights, teacher):
    with pytest.raises(ValueError, match="no layout network"):
        new_run(teacher.drawing, teacher.basis, 0, weights / "plain.safetensors")


def test_a_run_is_not_resumed_beside_another_drawing_network(teacher, tmp_path):
    LayoutTrainer(5, teacher, samples=1).save(tmp_path / "checkpoint.safetensors")
    other = RoomsNetwork(64, 2).bfloat16()
    with pytest.raises(ValueError, match="other weights"):
        LayoutTrainer.resume(tmp_path / "checkpoint.safetensors", other, teacher.basis)


def test_training_lowers_the_loss_and_leaves_the_drawing_network_alone(teacher):
    before = {name: tensor.clone() for name, tensor in teacher.drawing.state_dict().items()}
    trainer = LayoutTrainer(1, teacher, samples=1)
    batch = trainer.batch(0)
    losses = [float(trainer.train(batch).total.detach()) for _ in range(24)]
    assert np.mean(losses[-4:]) < 0.95 * np.mean(losses[:4])
    for name, tensor in teacher.drawing.state_dict().items():
        assert torch.equal(tensor, before[name]), name
