"""Two chunks that show something new share a block, and nothing that was to be kept is lost on the way."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.revisit_walk import explorer, run_step
from models.rooms.keeping import left_by
from models.rooms.model import RoomsModel
from models.rooms.patches import CHANNELS
from models.rooms.remembered import WindowChunk
from models.rooms.sizes import TOKENS
from shared.pose import Pose

HERE = Pose(1.0, 0.5, 2.0, 0.3)
STEPS = 40


def chunk(index, *, is_kept=True, turn_rad=0.05):
    """A chunk whose every number says which frame it is of."""
    numbers = torch.tensor([2.0 * index, 2.0 * index + 1.0])
    latents = numbers[:, None, None].expand(2, TOKENS, CHANNELS).contiguous()
    kv = numbers.repeat_interleave(TOKENS)[None, None, :, None].expand(3, 2, 2 * TOKENS, 4).contiguous()
    poses = tuple(replace(HERE, x_m=0.1 * index, yaw_rad=HERE.yaw_rad + turn) for turn in (0.0, turn_rad))
    return WindowChunk(index, poses, latents, kv, is_kept)


def test_the_second_of_two_new_chunks_leaves_the_last_frame_of_each():
    first, second = chunk(5), chunk(7)
    assert left_by(None, first, None) == (None, first)
    left, waiting = left_by(None, second, first)
    assert waiting is None
    assert left.chunk_index == 7
    assert left.poses == (first.poses[1], second.poses[1])
    assert left.latents[:, 0, 0].tolist() == [11.0, 15.0]
    assert left.kv[0, 0, [0, TOKENS - 1, TOKENS, -1], 0].tolist() == [11.0, 11.0, 15.0, 15.0]
    assert left.is_kept


def test_a_key_view_leaves_its_own_block_and_lets_a_chunk_wait_on():
    key, waiting = chunk(7), chunk(5)
    assert left_by(key, chunk(7, is_kept=False), waiting) == (key, waiting)


def test_what_is_known_leaves_nothing_and_a_chunk_that_waited_long_is_a_block_of_its_own():
    waiting = chunk(5)
    assert left_by(None, chunk(6, is_kept=False), None) == (None, None)
    assert left_by(None, chunk(12, is_kept=False), waiting) == (None, waiting)
    left, after = left_by(None, chunk(13, is_kept=False), waiting)
    assert after is None
    assert left.chunk_index == 13
    assert left.poses == waiting.poses
    assert torch.equal(left.kv, waiting.kv)


def test_frames_far_apart_and_what_a_world_begins_with_are_blocks_at_once():
    wide, waiting = chunk(6, turn_rad=0.8), chunk(5)
    assert left_by(None, wide, waiting) == (wide, waiting)
    first = chunk(0)
    assert left_by(None, first, None) == (first, None)


@pytest.fixture(scope="module")
def walked():
    """A model, and the steps of a walk into what was never seen, with no recall."""
    model, steps = RoomsModel(), []
    state, guide = model.begin(900_307).state, explorer(2)
    for _ in range(STEPS):
        _, step = run_step(model, state, model.steer(state, guide(state)), ())
        steps.append((state, step))
        state = step.state
    return model, steps


def test_a_walk_has_chunks_wait_and_every_one_of_them_becomes_a_block(walked):
    _, steps = walked
    waited = {after.state.waiting.poses[-1] for _, after in steps if after.state.waiting is not None}
    still = steps[-1][1].state.waiting
    left = {pose for _, step in steps if step.block is not None for pose in step.block.poses}
    assert len(waited) > 1
    assert waited - left == ({still.poses[-1]} if still is not None else set())


def test_a_chunk_that_waits_is_drawn_from_after_it_left_the_window(walked):
    model, steps = walked
    state = next(s for s, _ in steps if s.waiting is not None and s.waiting not in s.window)
    assert state.seen == (state.waiting, *state.window)
    assert state.waiting in state.originals
    poses = model.steer(state, explorer(2)(state))
    frames, _ = run_step(model, state, poses, ())
    without, _ = run_step(model, replace(state, waiting=None), poses, ())
    assert not all(np.array_equal(a.pixels, b.pixels) for a, b in zip(frames, without, strict=True))


def test_a_state_with_a_chunk_that_waits_is_saved_bit_for_bit_and_older_ones_load(walked):
    model, steps = walked
    state = next(s for s, _ in steps if s.waiting is not None and s.waiting not in s.window)
    saved = model.dump(state)
    loaded = model.load(saved)
    assert (loaded.waiting.chunk_index, loaded.waiting.poses) == (state.waiting.chunk_index, state.waiting.poses)
    assert torch.equal(loaded.waiting.kv, state.waiting.kv)
    assert state.num_bytes > replace(state, waiting=None).num_bytes
    del saved.facts["waiting"]
    assert model.load(saved).waiting is None
    saved = model.dump(state)
    del saved.tensors["waiting.kv"]
    with pytest.raises(ValueError, match=r"waiting\.kv"):
        model.load(saved)
