"""What rooms promises as a WorldModel: pure steps, immutable states, blocks without a position or pixels."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.base import Catalog, RecalledBlock
from models.rooms.model import RoomsModel
from shared.controls import IDLE, Controls, Key

AHEAD = (Controls(Key.FORWARD),) * 2
RIGHT = (Controls(mouse_dx=60.0),) * 2


@pytest.fixture(scope="module", params=[torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def model(request):
    return RoomsModel(dtype=request.param)


@pytest.fixture(scope="module")
def beginning(model):
    return model.begin(900_100)


def drawn(model, state, controls, recall=()):
    steps = model.step(state, controls, recall)
    frames = []
    while True:
        try:
            frames.append(next(steps))
        except StopIteration as end:
            return np.stack([frame.pixels for frame in frames]), end.value


def recalled(model, chunk_index, block):
    return RecalledBlock(chunk_index, chunk_index, block.kv.to(model.dtype), block.side, block.footprint, block.poses)


def numbers(model, state):
    saved = model.dump(state)
    return saved.facts, {name: tensor.clone() for name, tensor in saved.tensors.items()}


def test_a_world_begins_with_four_seeded_chunks_all_remembered(model, beginning):
    assert len(beginning.chunks) == 4
    assert beginning.state.chunk_index == 4
    assert all(chunk.block is not None for chunk in beginning.chunks)
    assert beginning.chunks[-1].frames[-1].pose == beginning.state.pose
    for chunk in beginning.chunks:
        assert chunk.block.kv.shape == model.kv_spec.shape
        assert chunk.block.kv.dtype == torch.bfloat16
        assert chunk.block.side["depth"].shape == model.kv_spec.side[0].shape
        assert chunk.block.footprint.shape == (model.kv_spec.tokens, 3)
        assert chunk.block.footprint.dtype == np.float32


def test_the_same_step_gives_the_same_frames_and_block(model, beginning):
    recall = [recalled(model, 0, beginning.chunks[0].block)]
    frames, step = drawn(model, beginning.state, AHEAD, recall)
    again, same = drawn(model, beginning.state, AHEAD, recall)
    assert np.array_equal(frames, again)
    assert (step.block is None) == (same.block is None)
    if step.block is not None:
        assert torch.equal(step.block.kv, same.block.kv)
    assert frames.shape == (2, 64, 96, 3)


def test_a_returned_state_is_never_written_to(model, beginning):
    _, first = drawn(model, beginning.state, AHEAD)
    facts, tensors = numbers(model, first.state)
    kept = beginning.chunks[1].block.kv.clone()
    drawn(model, first.state, RIGHT, [recalled(model, 1, beginning.chunks[1].block)])
    _, second = drawn(model, first.state, AHEAD)
    drawn(model, second.state, RIGHT)
    assert numbers(model, first.state)[0] == facts
    for name, tensor in numbers(model, first.state)[1].items():
        assert torch.equal(tensor, tensors[name]), name
    assert torch.equal(beginning.chunks[1].block.kv, kept)


def test_an_abandoned_step_changes_nothing(model, beginning):
    frames, _ = drawn(model, beginning.state, RIGHT)
    abandoned = model.step(beginning.state, RIGHT, ())
    next(abandoned)
    abandoned.close()
    assert np.array_equal(drawn(model, beginning.state, RIGHT)[0], frames)


def test_a_saved_state_loads_bit_for_bit_and_goes_on_the_same(model, beginning):
    _, step = drawn(model, beginning.state, RIGHT)
    loaded = model.load(model.dump(step.state))
    facts, tensors = numbers(model, step.state)
    assert numbers(model, loaded)[0] == facts
    for name, tensor in numbers(model, loaded)[1].items():
        assert torch.equal(tensor, tensors[name]), name
    assert np.array_equal(drawn(model, loaded, AHEAD)[0], drawn(model, step.state, AHEAD)[0])


def test_a_state_that_does_not_fit_is_refused_by_field(model, beginning):
    saved = model.dump(beginning.state)
    del saved.tensors["walls"]
    with pytest.raises(ValueError, match="walls"):
        model.load(saved)


def test_an_idle_player_leaves_no_block_and_sees_the_same_frame(model, beginning):
    frames, step = drawn(model, beginning.state, (IDLE, IDLE))
    assert step.block is None
    assert np.array_equal(frames[0], beginning.chunks[-1].frames[-1].pixels)
    assert step.state.chunk_index == beginning.state.chunk_index + 1
    other = model.begin(900_101).chunks[0].block
    redrawn, step = drawn(model, beginning.state, (IDLE, IDLE), [recalled(model, 0, other)])
    assert not np.array_equal(redrawn, frames)  # what is newly recalled is shown
    assert step.block is None


def test_a_new_view_leaves_a_block_and_a_view_already_kept_leaves_none(model, beginning):
    state, left = beginning.state, []
    for _ in range(12):
        _, step = drawn(model, state, RIGHT)
        left.append(step.block is not None)
        state = step.state
    assert any(left)
    small = (Controls(mouse_dx=2.0),) * 2
    blocks = [recalled(model, index, chunk.block) for index, chunk in enumerate(beginning.chunks[:2])]
    _, step = drawn(model, beginning.state, small, blocks)
    assert step.block is None


def test_other_recalled_bytes_give_another_picture(model, beginning):
    turned, _ = drawn(model, beginning.state, RIGHT)
    other = model.begin(900_101).chunks[0].block
    poisoned, _ = drawn(model, beginning.state, RIGHT, [recalled(model, 0, other)])
    assert not np.array_equal(turned, poisoned)


def test_the_order_of_a_recall_hardly_matters(model, beginning):
    blocks = [recalled(model, index, chunk.block) for index, chunk in enumerate(beginning.chunks[:2])]
    one, _ = drawn(model, beginning.state, RIGHT, blocks)
    two, _ = drawn(model, beginning.state, RIGHT, blocks[::-1])
    assert np.abs(one.astype(np.int16) - two.astype(np.int16)).mean() < 2.0


def test_the_way_back_to_the_start_wants_its_seeded_blocks(model, beginning):
    blocks = [chunk.block for chunk in beginning.chunks]
    number = np.arange(4)
    poses = np.array([[pose.as_tuple() for pose in block.poses] for block in blocks])
    catalog = Catalog(number, number, poses, np.stack([block.footprint for block in blocks]), 100)
    for index, chunk in enumerate(beginning.chunks):
        assert index in model.wanted(chunk.frames[0].pose, catalog)


def test_steering_turns_and_walks_at_the_models_pace(model, beginning):
    poses = model.steer(beginning.state, RIGHT)
    turn_rad = (poses[1].yaw_rad - poses[0].yaw_rad) % (2 * math.pi)
    assert turn_rad == pytest.approx(60 * 0.0025)
    ahead = model.steer(beginning.state, AHEAD)
    assert math.dist((ahead[0].x_m, ahead[0].z_m), (ahead[1].x_m, ahead[1].z_m)) == pytest.approx(0.11)


def test_a_picture_to_begin_with_is_refused(model):
    with pytest.raises(ValueError, match="seed"):
        model.begin(1, np.zeros((64, 96, 3), np.uint8))


def test_two_noise_seeds_give_two_continuations_of_one_start(model, beginning):
    frames = [drawn(model, replace(beginning.state, seed=seed), AHEAD)[0] for seed in (1, 2, 1)]
    assert (frames[0] != frames[1]).any()
    assert (frames[0] == frames[2]).all()
