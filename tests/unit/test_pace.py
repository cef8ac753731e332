"""When a chunk starts: just in time, and never while its driver does not read."""

import pytest

from server.pace import MARGIN_S, Pace


def test_the_first_chunk_starts_at_once():
    assert Pace(2, 10.0).start_s(5.0, 0, None) == 5.0


def test_a_chunk_starts_as_late_as_its_own_length_allows():
    pace = Pace(2, 10.0)
    for _ in range(8):
        pace.note(0.05)
    assert pace.start_s(0.0, 1, 7.0) == pytest.approx(7.0 + 0.1 - 0.05 - MARGIN_S)


def test_one_slow_chunk_makes_the_next_ones_start_earlier():
    pace = Pace(2, 10.0)
    for took_s in (0.05, 0.19, 0.05):
        pace.note(took_s)
    assert pace.start_s(0.0, 0, 7.0) == pytest.approx(7.0 + 0.1 - 0.2 - MARGIN_S)


def test_no_chunk_starts_while_frames_lie_unsent():
    pace = Pace(2, 10.0)
    assert pace.start_s(100.0, 4, 0.0) is None
    assert pace.start_s(100.0, 3, 0.0) is not None
