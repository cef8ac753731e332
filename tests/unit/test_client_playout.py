"""The jitter buffer against a clock that the tests hold in their hands."""

import random
from itertools import pairwise

import pytest

from client.picture import Picture
from client.playout import MAX_CUSHION, MIN_CUSHION, Playout
from shared.pose import Pose

FRAME_S = 0.1
TICK_S = 1.0 / 60.0


def picture(frame_id: int) -> Picture:
    """A frame whose time is its number."""
    return Picture(
        frame_id=frame_id, pts_s=frame_id * FRAME_S, chunk=frame_id // 2, index=frame_id % 2, pose=Pose(),
        input_seq=-1, held_ms=0.0, seeded=False, width_px=1, height_px=1, rgb=b"\0\0\0",
    )  # fmt: skip


def play(arrivals_s: list[float], until_s: float) -> tuple[Playout, list[tuple[float, int]]]:
    """Let frames 0, 1, 2, … arrive at these times; the playout, and what was shown when."""
    playout = Playout(FRAME_S)
    waiting = list(enumerate(arrivals_s))
    shown: list[tuple[float, int]] = []
    for tick in range(int(until_s / TICK_S)):
        now_s = tick * TICK_S
        while waiting and waiting[0][1] <= now_s:
            frame_id, at_s = waiting.pop(0)
            playout.put(picture(frame_id), at_s)
        due = playout.take(now_s)
        if due is not None:
            shown.append((now_s, due.frame_id))
    return (playout, shown)


def gaps_s(shown: list[tuple[float, int]]) -> list[float]:
    """The times between shown frames."""
    return [b[0] - a[0] for a, b in pairwise(shown)]


def test_even_arrivals_are_shown_evenly_and_none_is_lost() -> None:
    playout, shown = play([index * FRAME_S for index in range(100)], 10.0)
    assert [frame_id for _, frame_id in shown] == list(range(len(shown)))
    assert len(shown) >= 97
    assert max(gaps_s(shown)) <= FRAME_S + 1.5 * TICK_S
    assert (playout.dropped, playout.gaps, playout.cushion) == (0, 0, MIN_CUSHION)


def test_the_first_frame_waits_for_the_cushion() -> None:
    _, shown = play([0.0, 0.1, 0.2], 1.0)
    assert shown[0][0] == pytest.approx(MIN_CUSHION * FRAME_S, abs=2 * TICK_S)


def test_bursts_of_a_chunk_come_out_evenly() -> None:
    arrivals_s = [chunk * 2 * FRAME_S for chunk in range(60) for _ in range(2)]
    playout, shown = play(arrivals_s, 11.0)
    assert max(gaps_s(shown)) <= 1.5 * FRAME_S
    assert playout.gaps == 0


def test_jitter_below_the_cushion_makes_no_gap() -> None:
    dice = random.Random(3)
    arrivals_s = sorted(index * FRAME_S + dice.uniform(0.0, 0.12) for index in range(300))
    playout, shown = play(arrivals_s, 29.0)
    ordered = sorted(gaps_s(shown))
    assert playout.gaps == 0
    assert ordered[int(0.95 * len(ordered))] <= 1.5 * FRAME_S


@pytest.mark.parametrize("rate", [0.94, 1.06])
def test_a_generator_that_is_a_little_slow_or_fast_is_followed(rate: float) -> None:
    playout, shown = play([index * FRAME_S / rate for index in range(600)], 540.0 * FRAME_S / rate)
    ordered = sorted(gaps_s(shown))
    assert ordered[int(0.95 * len(ordered))] <= 1.5 * FRAME_S
    assert playout.buffered <= MAX_CUSHION + 1


def test_a_generator_at_half_speed_is_shown_evenly_at_half_speed() -> None:
    _, shown = play([index * 2 * FRAME_S for index in range(200)], 39.0)
    late = gaps_s(shown)[60:]
    assert max(late) <= 3.0 * FRAME_S
    assert min(late) >= FRAME_S


def test_a_gap_grows_the_cushion_up_to_four_and_calm_shrinks_it() -> None:
    arrivals_s: list[float] = []
    at_s = 0.0
    for index in range(700):
        at_s += FRAME_S + (1.0 if index in (50, 100, 150, 200) else 0.0)
        arrivals_s.append(at_s)
    grown, _ = play(arrivals_s, 27.0)
    assert grown.cushion == MAX_CUSHION
    assert grown.gaps == 4
    calm, _ = play(arrivals_s, 72.0)
    assert calm.cushion < MAX_CUSHION


def test_a_pause_is_no_gap() -> None:
    playout = Playout(FRAME_S)
    playout.put(picture(0), 0.0)
    playout.take(0.2)
    playout.hold()
    playout.take(5.0)
    assert (playout.gaps, playout.cushion) == (0, MIN_CUSHION)


def test_late_frames_are_skipped_and_an_older_one_is_never_shown() -> None:
    playout = Playout(FRAME_S)
    for frame_id in (0, 1, 2, 5):
        playout.put(picture(frame_id), 0.0)
    playout.put(picture(3), 0.01)
    due = playout.take(0.42)
    assert due is not None
    assert due.frame_id == 2
    assert playout.dropped == 3  # 0 and 1 were late, 3 came after 5
    due = playout.take(0.8)
    assert due is not None
    assert due.frame_id == 5


def test_a_window_that_hung_goes_on_with_the_newest_frame() -> None:
    playout = Playout(FRAME_S)
    for frame_id in range(3):
        playout.put(picture(frame_id), frame_id * FRAME_S)
    playout.take(0.25)
    for frame_id in range(3, 20):
        playout.put(picture(frame_id), 2.0)
    due = playout.take(2.0)
    assert due is not None
    assert due.frame_id >= 17
