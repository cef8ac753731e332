"""The adapter at tiny size with random weights: the contract of a world model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.base import Catalog, RecalledBlock
from models.matrix_game_2.config import load_config
from models.matrix_game_2.model import MatrixGame2Model
from models.matrix_game_2.weights import random_parts
from shared.controls import IDLE, Controls, Key

CPU = torch.device("cpu")
FORWARD = Controls(Key.FORWARD, mouse_dx=3.0)
BACK = Controls(Key.BACK | Key.LEFT, mouse_dx=-8.0, mouse_dy=2.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(kind="universal", **changes):
    config = load_config("tiny")
    action = config.network.action
    if kind == "gta_drive":
        config = replace(
            config,
            kind=kind,
            network=replace(config.network, local_attn_size=4, action=replace(action, keyboard_dim_in=2)),
        )
    if kind == "templerun":
        action = replace(action, keyboard_dim_in=7, enable_mouse=False, mouse_hidden_dim=0)
        config = replace(config, kind=kind, network=replace(config.network, action=action))
    config = replace(config, **changes)
    return MatrixGame2Model(random_parts(config, CPU, torch.float32), config, CPU, torch.float32, "test")


@pytest.fixture(scope="module")
def model():
    return make()


@pytest.fixture(scope="module")
def beginning(model):
    """One world for many tests: states are values."""
    return model.begin(2)


def run(model, state, controls=FORWARD, recall=()):
    """All frames of a chunk, and its step."""
    drawing = model.step(state, [controls] * model.frames_per_chunk, recall)
    frames = []
    while True:
        try:
            frames.append(next(drawing))
        except StopIteration as end:
            return frames, end.value


def pixels(frames):
    return np.stack([frame.pixels for frame in frames])


def recalled(model, block, chunk_index, block_id=0):
    return RecalledBlock(block_id, chunk_index, block.kv.to(model.dtype), {}, block.footprint, block.poses)


def reachable(state):
    saved = [state.scene.cond.latents, state.scene.cross, *state.decoder, state.rows.keyboard, state.rows.mouse]
    saved += [kv for c in state.window for kv in (c.self_kv, c.keyboard_kv, c.mouse_kv)]
    return [tensor for tensor in saved if tensor is not None] + [torch.from_numpy(state.last_frame.copy())]


def test_a_world_begins_with_nine_frames_and_goes_on_with_twelve(model, beginning):
    (chunk,) = beginning.chunks
    assert len(chunk.frames) == 9
    assert beginning.state.chunk_index == 1
    frames, step = run(model, beginning.state)
    assert len(frames) == model.frames_per_chunk == 12
    assert frames[0].pixels.shape == (model.frame_size[1], model.frame_size[0], 3)
    assert step.block.kv.shape == model.kv_spec.shape
    assert step.block.kv.dtype == torch.bfloat16
    assert len(step.block.poses) == len(chunk.block.poses) == 3
    assert [f.pose for f in frames] == list(model.steer(beginning.state, [FORWARD] * 12))
    assert step.state.pose == step.block.poses[-1] == frames[-1].pose
    assert set(step.timings_ms) == {"rotate", "denoise", "frames", "context"}


def test_a_returned_state_is_never_written_to(model, beginning):
    _, step = run(model, beginning.state)
    kept = step.state
    before = [tensor.clone() for tensor in reachable(kept)]
    first = recalled(model, beginning.chunks[0].block, 0)
    run(model, kept, FORWARD)
    _, other = run(model, kept, BACK, (first,))
    run(model, other.state, BACK)
    assert all(torch.equal(a, b) for a, b in zip(reachable(kept), before, strict=True))


def test_no_state_keeps_a_view_of_the_recall_buffer(model, beginning):
    state = beginning.state
    _, step = run(model, state)
    block = recalled(model, beginning.chunks[0].block, 0)
    frames, after = run(model, step.state, FORWARD, (block,))
    copies = [tensor.clone() for tensor in reachable(after.state)]
    block.kv.fill_(7.0)
    assert all(torch.equal(a, b) for a, b in zip(reachable(after.state), copies, strict=True))
    assert not np.array_equal(pixels(frames), pixels(run(model, step.state, FORWARD, (block,))[0]))


def test_the_same_state_and_controls_draw_the_same_bytes(model, beginning):
    state = beginning.state
    assert np.array_equal(pixels(run(model, state)[0]), pixels(run(model, state)[0]))
    again = make().begin(2).state
    assert np.array_equal(pixels(run(model, state)[0]), pixels(run(model, again)[0]))


def test_controls_seed_and_picture_change_what_is_drawn(model, beginning):
    state = beginning.state
    plain = pixels(run(model, state)[0])
    assert not np.array_equal(plain, pixels(run(model, state, BACK)[0]))
    assert not np.array_equal(plain, pixels(run(model, model.begin(4).state)[0]))
    picture = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    assert not np.array_equal(plain, pixels(run(model, model.begin(2, picture).state)[0]))


def test_an_abandoned_step_commits_nothing(model, beginning):
    state = beginning.state
    expected = pixels(run(model, state)[0])
    drawing = model.step(state, [BACK] * 12, ())
    next(drawing)
    drawing.close()
    assert np.array_equal(pixels(run(model, state)[0]), expected)


def test_a_loaded_state_is_the_dumped_one_bit_for_bit(model, beginning):
    _, step = run(model, beginning.state)
    loaded = model.load(model.dump(step.state))
    assert all(torch.equal(a, b) for a, b in zip(reachable(loaded), reachable(step.state), strict=True))
    assert loaded.pose == step.state.pose
    assert np.array_equal(pixels(run(model, loaded)[0]), pixels(run(model, step.state)[0]))


@pytest.mark.parametrize("field", ["window.0.self", "scene.cross", "last_frame", "decoder.3"])
def test_a_saved_state_that_lacks_a_tensor_is_refused_by_name(model, beginning, field):
    saved = model.dump(beginning.state)
    tensors = {name: tensor for name, tensor in saved.tensors.items() if name != field}
    with pytest.raises(ValueError, match=field):
        model.load(replace(saved, tensors=tensors))


def test_a_saved_state_of_other_shapes_or_facts_is_refused_by_name(model, beginning):
    saved = model.dump(beginning.state)
    with pytest.raises(ValueError, match=r"rows\.keyboard"):
        model.load(replace(saved, tensors={**saved.tensors, "rows.keyboard": torch.zeros(3)}))
    with pytest.raises(ValueError, match=r"decoder\.4"):
        model.load(replace(saved, tensors={**saved.tensors, "decoder.4": torch.zeros(1, 2, 3, 4, 5)}))
    with pytest.raises(ValueError, match="window"):
        model.load(replace(saved, facts={**saved.facts, "start": 300}))
    with pytest.raises(ValueError, match="seed"):
        model.load(replace(saved, facts={**saved.facts, "seed": "x"}))
    with pytest.raises(ValueError, match="pose"):
        model.load(replace(saved, facts={**saved.facts, "pose": [1.0]}))


def test_the_window_and_the_rows_do_not_grow(model, beginning):
    state = beginning.state
    sizes = []
    for _ in range(4):
        state = run(model, state)[1].state
        sizes.append((state.num_bytes, len(state.rows.keyboard)))
    assert sizes[1:] == [sizes[1]] * 3


def test_a_recalled_block_that_still_lies_in_the_window_is_left_out(model, beginning):
    block = recalled(model, beginning.chunks[0].block, 0)
    assert np.array_equal(
        pixels(run(model, beginning.state)[0]), pixels(run(model, beginning.state, FORWARD, (block,))[0])
    )


def test_the_order_in_which_a_recall_is_handed_over_does_not_matter(model, beginning):
    state, blocks = beginning.state, [recalled(model, beginning.chunks[0].block, 0)]
    for index in range(1, 4):
        _, step = run(model, state)
        state = step.state
        blocks.append(recalled(model, step.block, index, index))
    one, other = (pixels(run(model, state, FORWARD, order)[0]) for order in (blocks[:2], blocks[1::-1]))
    assert np.array_equal(one, other)


def test_an_idle_player_gets_the_held_frame_and_leaves_nothing_in_memory(beginning):
    model, state = make(idle_chunks=2), beginning.state
    for _ in range(2):
        assert not model.is_held(state)
        _, step = run(model, state, IDLE)
        assert step.block is not None
        state = step.state
    assert model.is_held(state)
    frames, step = run(model, state, IDLE)
    assert step.block is None
    assert all(np.array_equal(frame.pixels, state.last_frame) for frame in frames)
    assert step.state.chunk_index == state.chunk_index + 1
    assert step.state.start == state.start
    frames, moved = run(model, step.state, FORWARD)
    assert moved.block is not None
    assert not model.is_held(moved.state)


def catalog_of(blocks, window_start):
    return Catalog(
        np.arange(len(blocks)),
        np.array([index for index, _ in blocks]),
        np.array([[pose.as_tuple() for pose in block.poses] for _, block in blocks]),
        np.stack([block.footprint for _, block in blocks]),
        window_start,
    )


def test_wanted_names_old_blocks_seen_from_here_and_none_of_the_window(model, beginning):
    state, blocks = beginning.state, [(0, beginning.chunks[0].block)]
    turn = Controls(mouse_dx=40.0)
    for index in range(1, 8):
        _, step = run(model, state, turn)
        state = step.state
        blocks.append((index, step.block))
    window_start = state.chunk_index - model.window_chunks
    wanted = model.wanted(state.pose, catalog_of(blocks, window_start))
    assert 0 < len(wanted) <= model.max_recall
    assert all(blocks[i][0] < window_start for i in wanted)
    start = model.wanted(beginning.state.pose, catalog_of(blocks, window_start))
    assert start[0] == 0
    assert model.wanted(state.pose, catalog_of(blocks[:1], 0)) == ()
    newest_drawn_from = step.state.pose
    assert 7 in model.wanted(newest_drawn_from, catalog_of(blocks, window_start).moved_on(model.window_chunks))


@pytest.mark.parametrize("kind", ["gta_drive", "templerun"])
def test_the_other_variants_walk_remember_and_save(kind):
    model = make(kind)
    beginning = model.begin(2)
    state = beginning.state
    for _ in range(2):
        frames, step = run(model, state, Controls(Key.FORWARD | Key.RIGHT))
        state = step.state
    assert state.pose.yaw_rad > 0 or kind == "templerun"
    block = recalled(model, beginning.chunks[0].block, 0)
    with_memory, _ = run(model, state, FORWARD, (block,))
    assert not np.array_equal(pixels(with_memory), pixels(run(model, state, FORWARD)[0]))
    loaded = model.load(model.dump(state))
    assert np.array_equal(pixels(run(model, loaded, FORWARD)[0]), pixels(run(model, state, FORWARD)[0]))
    assert len(frames) == 12


@pytest.mark.parametrize("placement", ["always-rebase", "native-then-rebase"])
def test_a_walk_passes_the_end_of_the_native_table(placement, beginning):
    """The window of a short walk is set down just before latent 1,020; a recalled block goes along."""
    model, state = make(placement=placement), beginning.state
    state = run(model, state)[1].state
    by = 3 * 339 - state.start
    window = tuple(replace(chunk, start=chunk.start + by) for chunk in state.window)
    state = replace(state, start=state.start + by, chunk_index=339, window=window)
    old = recalled(model, beginning.chunks[0].block, 0)
    for _ in range(4):
        frames, step = run(model, state, FORWARD, (old,))
        assert np.isfinite(pixels(frames)).all()
        assert torch.isfinite(step.block.kv).all()
        state = step.state
    assert state.start == 3 * 343


def test_in_bfloat16_a_walk_remembers_exactly_what_its_window_held():
    config = load_config("tiny")
    model = MatrixGame2Model(random_parts(config, CPU, torch.bfloat16), config, CPU, torch.bfloat16, "test")
    beginning = model.begin(2)
    state = beginning.state
    for _ in range(2):
        _, step = run(model, state)
        state = step.state
    assert torch.equal(step.block.kv, state.window[-1].self_kv)
    frames, _ = run(model, state, FORWARD, (recalled(model, beginning.chunks[0].block, 0),))
    assert len({frame.pixels.tobytes() for frame in frames}) > 1


@pytest.mark.slow
def test_a_walk_of_400_chunks_with_memory(model, beginning):
    state, blocks = beginning.state, [(0, beginning.chunks[0].block)]
    while state.chunk_index < 400:
        catalog = catalog_of(blocks, state.chunk_index - model.window_chunks)
        keys = [Key.FORWARD, Key.RIGHT, Key.BACK, Key.LEFT][state.chunk_index % 4]
        recall = [recalled(model, blocks[i][1], blocks[i][0], i) for i in model.wanted(state.pose, catalog)]
        _, step = run(model, state, Controls(keys, mouse_dx=5.0), recall)
        assert torch.isfinite(step.block.kv).all()
        blocks.append((state.chunk_index, step.block))
        state = step.state
    assert state.start == 1_200
    assert len(blocks) == 400
