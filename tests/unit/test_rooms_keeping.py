"""Two chunks that show something new share a block, and neither is lost on the way to it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.revisit_walk import beginning, explorer, run_step
from models.rooms.keeping import left_by
from models.rooms.model import RoomsModel
from models.rooms.patches import CHANNELS
from models.rooms.remembered import WindowChunk
from models.rooms.sizes import TOKENS, WINDOW_CHUNKS
from shared.pose import Pose

HERE = Pose(1.0, 0.5, 2.0, 0.3)
STEPS = 40


def chunk(index, *, turn_rad=0.05):
    """A chunk whose every number says which frame it is of."""
    numbers = torch.tensor([2.0 * index, 2.0 * index + 1.0])
    latents = numbers[:, None, None].expand(2, TOKENS, CHANNELS).contiguous()
    kv = numbers.repeat_interleave(TOKENS)[None, None, :, None].expand(3, 2, 2 * TOKENS, 4).contiguous()
    poses = tuple(replace(HERE, x_m=0.1 * index, yaw_rad=HERE.yaw_rad + turn) for turn in (0.0, turn_rad))
    return WindowChunk(index, poses, latents, kv, is_kept=False)


def test_the_second_of_two_new_chunks_leaves_the_last_frame_of_each():
    first, second = chunk(5), chunk(7)
    assert left_by(first, None, is_new=True) == (None, first)
    left, waiting = left_by(second, first, is_new=True)
    assert waiting is None
    assert left.chunk_index == 7
    assert left.poses == (first.poses[1], second.poses[1])
    assert left.latents[:, 0, 0].tolist() == [11.0, 15.0]
    assert left.kv[0, 0, [0, TOKENS - 1, TOKENS, -1], 0].tolist() == [11.0, 11.0, 15.0, 15.0]
    assert left.is_kept


def test_what_is_known_leaves_nothing():
    waiting = chunk(5)
    assert left_by(chunk(6), None, is_new=False) == (None, None)
    assert left_by(chunk(6), waiting, is_new=False) == (None, waiting)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_chunk_that_waited_long_is_a_block_by_itself(is_new):
    waiting, late = chunk(5), chunk(9)
    left, after = left_by(late, waiting, is_new=is_new)
    assert after is (late if is_new else None)
    assert (left.chunk_index, left.poses, left.is_kept) == (9, waiting.poses, True)
    assert torch.equal(left.kv, waiting.kv)


def test_frames_far_apart_are_a_block_of_their_own():
    wide, waiting = chunk(6, turn_rad=0.8), chunk(5)
    left, after = left_by(wide, waiting, is_new=True)
    assert after is waiting
    assert (left.poses, left.is_kept) == (wide.poses, True)


@pytest.fixture(scope="module")
def walked():
    """A model, and the steps of a walk into what was never seen."""
    model, steps, guide = RoomsModel(), [], explorer(2)
    state, memory, _ = beginning(model, 900_307)
    for _ in range(STEPS):
        poses = model.steer(state, guide(state))
        recall = memory.recall(poses[-1], state.window_start)
        _, step = run_step(model, state, poses, recall)
        memory.write(state.chunk_index, step.block)
        steps.append((state, step, recall))
        state = step.state
    return model, steps


def test_the_last_frame_of_every_chunk_that_waits_gets_into_a_block(walked):
    _, steps = walked
    waited = {after.state.waiting.poses[-1] for _, after, _ in steps if after.state.waiting is not None}
    still = steps[-1][1].state.waiting
    left = {pose for _, step, _ in steps if step.block is not None for pose in step.block.poses}
    assert len(waited) > 1
    assert waited - left == ({still.poses[-1]} if still is not None else set())


def test_a_chunk_that_waits_is_drawn_from_after_it_left_the_window(walked):
    model, steps = walked
    state, _, recall = next(kept for kept in steps if waits_outside(kept[0]) and kept[2])
    assert state.seen == (state.waiting, *state.window)
    assert state.waiting in state.originals
    poses = model.steer(state, explorer(2)(state))
    frames, _ = run_step(model, state, poses, recall)
    assert not same(frames, run_step(model, replace(state, waiting=None), poses, recall)[0])


def test_without_recall_the_window_alone_is_drawn_from_and_the_chunk_waits_on(walked):
    model, steps = walked
    state = next(s for s, _, _ in steps if waits_outside(s))
    poses = model.steer(state, explorer(2)(state))
    frames, step = run_step(model, state, poses, ())
    assert same(frames, run_step(model, replace(state, waiting=None), poses, ())[0])
    assert step.state.waiting is state.waiting


def test_a_block_that_two_chunks_share_stays_in_the_window_until_it_may_be_recalled(walked):
    _, steps = walked
    at = next(i for i, (s, step, _) in enumerate(steps) if s.waiting is not None and step.state.waiting is None)
    block = steps[at][1].block
    for offset in range(WINDOW_CHUNKS):
        assert any(chunk.poses == block.poses and chunk.is_kept for chunk in steps[at + offset][1].state.window)


def test_a_state_with_a_chunk_that_waits_is_saved_bit_for_bit_and_goes_on_the_same(walked):
    model, steps = walked
    state, step, recall = next(kept for kept in steps if waits_outside(kept[0]))
    saved = model.dump(state)
    loaded = model.load(saved)
    assert (loaded.waiting.chunk_index, loaded.waiting.poses) == (state.waiting.chunk_index, state.waiting.poses)
    assert torch.equal(loaded.waiting.kv, state.waiting.kv)
    assert state.num_bytes > replace(state, waiting=None).num_bytes
    again = run_step(model, loaded, step.state.window[-1].poses, recall)[1]
    assert (again.block is None) == (step.block is None)
    assert torch.equal(again.state.window[-1].latents, step.state.window[-1].latents)
    del saved.tensors["waiting.kv"]
    with pytest.raises(ValueError, match=r"waiting\.kv"):
        model.load(saved)


def test_a_chunk_that_waits_in_the_window_is_saved_once_and_states_of_before_load(walked):
    model, steps = walked
    state = next(s for s, _, _ in steps if s.waiting is not None and not waits_outside(s))
    saved = model.dump(state)
    assert not any(name.startswith("waiting") for name in saved.tensors)
    loaded = model.load(saved)
    assert any(loaded.waiting is chunk for chunk in loaded.window)
    saved.facts["waiting"] = 9
    with pytest.raises(ValueError, match="waiting: 9"):
        model.load(saved)
    del saved.facts["waiting"]
    assert model.load(saved).waiting is None


def waits_outside(state):
    return state.waiting is not None and state.waiting.chunk_index < state.window_start


def same(frames, others):
    return all(np.array_equal(a.pixels, b.pixels) for a, b in zip(frames, others, strict=True))
