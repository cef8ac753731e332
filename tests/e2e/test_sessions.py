"""Sessions without a socket, on the plain model: memory over three tiers, exactness, and coming back."""

import numpy as np
import pytest

from bench.drive import start
from bench.identity import budgets_by_tier, differing_bytes
from client.routes import route
from models.plain import PlainModel, read_label
from server.pager.budgets import buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.pager import Budgets
from server.record_log import read_records
from shared.controls import Controls
from shared.tiers import Tier

SECONDS = 12.0


@pytest.fixture
def model():
    return PlainModel()


def controls_of(model, seconds=SECONDS, name="out-and-back"):
    num_frames = int(seconds * model.fps)
    return route(name, seconds).frames(model.fps, num_frames)


def small_budgets(model):
    layout = SlotLayout(model.kv_spec)
    slot, buffer = layout.slot_bytes, buffer_bytes(layout, model.max_recall, model.dtype)
    return Budgets(2 * model.max_recall * slot + buffer + 2 * slot, 12 * slot, 400 * slot)


def test_looking_around_twice_recalls_from_memory_and_from_disk(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=5) as drive:
        drive.walk([Controls(mouse_dx=31.4)] * 320, lambda: drive.pager.flush(60.0))  # four turns
        stats = drive.stats
    assert stats.hits[Tier.DRAM] > 0, stats.hits
    assert stats.hits[Tier.NVME] > 0, stats.hits
    assert stats.disk_read_bytes > 0
    assert read_label(drive.frames[-1])["recalled"] == model.max_recall


def test_every_frame_says_its_own_world_chunk_and_index(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=77) as drive:
        drive.walk(controls_of(model, 2.0))
    labels = [read_label(frame) for frame in drive.frames]
    assert {label["seed"] for label in labels} == {77}
    assert [(label["chunk"], label["index"]) for label in labels] == [
        (1 + at // 2, at % 2) for at in range(len(labels))
    ]


def test_leaving_and_coming_back_continues_as_if_never_left(model, tmp_path):
    controls = controls_of(model, 6.0)
    half = len(controls) // 2
    with start(model, small_budgets(model), tmp_path / "a", seed=9) as whole:
        whole.walk(controls)
    with start(model, small_budgets(model), tmp_path / "b", seed=9, world="attic") as first:
        first.walk(controls[:half])
    with start(model, small_budgets(model), tmp_path / "b", seed=0, world="attic") as second:
        second.walk(controls[half:])
        assert second.seat.welcome.notes == []
    assert differing_bytes(whole.frames, [*first.frames, *second.frames]) == 0


def test_a_live_walk_never_waits(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=5, mode="live") as drive:
        drive.walk(controls_of(model))
        stats = drive.stats
    assert stats.longest_wait_ms < 900.0  # a descheduled thread may be late; the disk may not make it so
    assert stats.chunks == len(controls_of(model)) // model.frames_per_chunk


def test_two_seeds_give_two_worlds(model, tmp_path):
    frames = []
    for seed in (1, 2):
        with start(model, small_budgets(model), tmp_path / str(seed), seed=seed) as drive:
            drive.walk(controls_of(model, 1.0))
        frames.append(np.stack(drive.frames))
    assert (frames[0] != frames[1]).any()


def test_budgets_by_tier_differ_only_in_where_blocks_fit(model):
    budgets = budgets_by_tier(model, 50)
    assert budgets["gpu"].gpu_bytes > budgets["dram"].gpu_bytes == budgets["nvme"].gpu_bytes
    assert budgets["dram"].dram_bytes > budgets["nvme"].dram_bytes


def test_a_block_that_outlived_its_moment_is_never_taken_for_another(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as first:
        first.walk(controls_of(model, 2.0))
        first.pager.flush(60.0)
        folder = tmp_path / first.session.world
    log = folder / "moments.log"
    ends = [end for _, end in read_records(log)]
    with log.open("r+b") as file:
        file.truncate(ends[3])  # a kill: the blocks were durable, the moments after the first were not
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as second:
        second.walk(controls_of(model, 2.0))
    assert differing_bytes(first.frames, second.frames) == 0
