"""What a walk measured, from frames and stats that the tests make up."""

import json

import pytest

from client.atlas import Atlas
from client.picture import Picture
from client.readings import bytes_in_words, marks, ms_in_words, readings
from client.report import Record, percentile
from shared.pose import Pose
from shared.protocol import BlockNote, Stats, TierState, Welcome
from shared.tiers import Tier

KEYS = {
    "fps_shown", "frame_time_ms", "gap_p50_ms", "gap_p95_ms", "frames_shown", "frames_dropped",
    "input_to_photon_p50_ms", "input_to_photon_p95_ms", "stalls", "longest_wait_ms", "stale_share", "recalled_from",
    "lost",
}  # fmt: skip


def picture(frame_id: int, input_seq: int = 0) -> Picture:
    """A frame that stands at its own number."""
    return Picture(
        frame_id=frame_id, pts_s=frame_id / 10.0, chunk=0, index=0, pose=Pose(float(frame_id)), input_seq=input_seq,
        held_ms=0.0, seeded=False, width_px=1, height_px=1, rgb=b"\0\0\0",
    )  # fmt: skip


def stats(chunk: int, recalled: list[int], tiers: list[int], **totals: float) -> Stats:
    """A Stats message that says nothing but what the test needs."""
    facts: dict[str, object] = {
        "chunk": chunk, "tiers": [TierState(blocks=1, used_bytes=5, budget_bytes=10)] * 3, "wanted": recalled,
        "recalled": recalled, "recalled_tiers": tiers, "stale": False, "hits": [0, 0, 0], "chunks": chunk,
        "stale_chunks": 0, "lost": 0, "forgotten": 0, "missed": 0, "fetched_bytes": 0, "spilled_bytes": 0,
        "disk_read_bytes": 0, "disk_written_bytes": 0, "queued_moves": 0, "stalls": 0, "preempted": 0,
        "longest_wait_ms": 0.0, "prediction_error_m": 0.0, "prediction_error_rad": 0.0, "foreseen": None,
        "stages_ms": {}, "notes": [],
    }  # fmt: skip
    return Stats.model_validate(facts | totals)


def test_a_percentile_is_interpolated() -> None:
    assert percentile([], 0.5) is None
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5


def test_ten_frames_a_second_are_reported_as_ten() -> None:
    record = Record()
    for index in range(11):
        record.shown(picture(index), index * 0.1 - 0.25, index * 0.1)
    report = record.report()
    assert report.fps_shown == pytest.approx(10.0)
    assert report.frame_time_ms == pytest.approx(100.0)
    assert report.gap_p95_ms == pytest.approx(100.0)
    assert report.input_to_photon_p50_ms == pytest.approx(250.0)
    assert report.frames_shown == 11


def test_a_frame_without_an_input_has_no_latency() -> None:
    record = Record()
    record.shown(picture(0, input_seq=-1), 0.0, 1.0)
    record.shown(picture(1), None, 2.0)
    assert record.report().input_to_photon_p50_ms is None


def test_the_report_of_nothing_still_has_every_key() -> None:
    report = json.loads(Record().report().to_json())
    assert set(report) >= KEYS
    assert report["recalled_from"] == {"gpu": 0, "dram": 0, "nvme": 0}


def test_a_block_counts_each_time_that_it_enters_the_recall() -> None:
    record = Record()
    record.learn(stats(1, [5, 6], [2, 1]))
    record.learn(stats(2, [5, 7], [2, 0]))  # 5 stays: it is not counted again
    record.learn(stats(3, [], []))
    record.learn(stats(4, [5], [0]))
    came = record.report().recalled_from
    assert (came.gpu, came.dram, came.nvme) == (2, 1, 1)


def test_totals_survive_a_new_session_of_the_server() -> None:
    record = Record()
    record.learn(stats(10, [], [], stalls=2, longest_wait_ms=9.0, lost=1, stale_chunks=5))
    record.new_session()
    record.learn(stats(10, [], [], stalls=1, longest_wait_ms=3.0))
    report = record.report()
    assert (report.stalls, report.longest_wait_ms, report.lost, report.stale_share) == (3, 9.0, 1, 0.25)


def test_the_atlas_follows_blocks_through_the_tiers_and_forgets_what_is_gone() -> None:
    atlas = Atlas()
    atlas.note(BlockNote(blocks=[(3, 1.0, 2.0, 0.5, 0, True)], moves=[(3, -1, 0)]), 1.0)
    atlas.note(BlockNote(blocks=[(3, 1.0, 2.0, 0.5, 2, True)], moves=[(3, 0, 2)]), 2.0)
    assert atlas.places[3].tier is Tier.NVME
    assert [(move.source, move.target) for move in atlas.moves] == [(None, Tier.GPU), (Tier.GPU, Tier.NVME)]
    atlas.note(BlockNote(blocks=[(3, 1.0, 2.0, 0.5, -1, True)], moves=[(3, 2, -1)]), 3.0)
    assert not atlas.places


def test_a_trail_of_hours_stays_bounded() -> None:
    atlas = Atlas()
    for index in range(20_000):
        atlas.stand(Pose(index * 0.1))
    assert len(atlas.trail) <= 4_097
    assert atlas.trail[-1][0] == pytest.approx(1_999.9)


def test_rates_are_bytes_over_the_last_seconds() -> None:
    atlas = Atlas()
    for index in range(30):
        atlas.learn(stats(index, [], [], fetched_bytes=index * 100_000, spilled_bytes=0), index * 0.2)
    fetch, spill = atlas.rates(5.8)
    assert fetch == pytest.approx(500_000, rel=0.15)
    assert spill == 0.0


def test_readings_say_what_is_wrong() -> None:
    record, atlas = Record(), Atlas()
    assert len(readings(record, atlas, None, 0.0)) == 3
    atlas.learn(stats(10, [], [], stalls=1, lost=2, missed=3), 0.0)
    bad = {line.label for line in readings(record, atlas, 0.4, 0.0) if line.is_bad}
    assert bad == {"stalls", "lost"}


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (12_400_000, "12.4 MB"), (999_600, "1.00 MB"), (5e12, "5.00 TB")],
)
def test_bytes_have_three_digits_and_a_unit(num_bytes: float, words: str) -> None:
    assert bytes_in_words(num_bytes) == words


def test_short_times_keep_a_digit() -> None:
    assert [ms_in_words(value) for value in (None, 0.0, 0.123, 4.56, 311.2)] == ["-", "0", "0.12", "4.6", "311"]


def welcome(**facts: object) -> Welcome:
    """A Welcome of a server that draws a square picture."""
    given: dict[str, object] = {
        "version": 1, "session": "s", "world": "w", "seed": 1, "model": "m", "mode": "live", "role": "driver",
        "codec": "jpeg", "fps": 10.0, "width": 8, "height": 8, "frames_per_chunk": 2, "max_recall": 3, "walk_m_s": 1.0,
        "turn_rad_s": 1.0, "max_pitch_rad": 0.0, "credit": 2, "resume": "",
    }  # fmt: skip
    return Welcome.model_validate(given | facts)


def test_a_server_with_random_weights_is_marked_in_words() -> None:
    assert marks(welcome(), stats(1, [], [])) == []
    (mark,) = marks(welcome(capabilities=["random-weights"]), None)
    assert "random" in mark.value
    assert "noise" in mark.value
    assert mark.is_bad


def test_a_held_picture_is_said_to_be_held() -> None:
    (mark,) = marks(welcome(), stats(1, [], [], held=True))
    assert "held" in mark.value


def test_totals_that_fall_are_of_a_server_that_was_started_again_and_are_added() -> None:
    record = Record()
    record.learn(stats(40, [], [], stalls=2))
    record.learn(stats(3, [], [], stalls=1))
    report = record.report()
    assert (report.chunks, report.stalls) == (43, 3)


def test_a_frame_rate_below_one_in_three_seconds_is_no_zero_and_falls_while_nothing_comes() -> None:
    record = Record()
    assert record.fps_lately(1.0) == 0.0
    for index in range(3):
        record.shown(picture(index), None, 10.0 + 4.0 * index)
    assert record.fps_lately(18.0) == pytest.approx(0.25)
    assert record.fps_lately(34.0) == pytest.approx(0.05)
