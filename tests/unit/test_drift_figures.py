"""What drift says of frames whose liveliness is known."""

import numpy as np
import pytest

from bench.drift import last_over_first, liveliness, segments_of


def flat(level, count=40):
    frames = np.full((count, 64, 96, 3), 100, np.uint8)
    frames[:, :, ::2, 0] = 100 + level
    return frames


def test_a_walk_that_is_like_the_truth_has_ratios_of_one():
    lively = liveliness(flat(50))
    segments = segments_of(lively, lively)
    assert [segment["frame"] for segment in segments] == list(range(0, 40, 4))
    for segment in segments:
        assert segment["contrast_ratio"] == segment["saturation_ratio"] == segment["sharpness_ratio"] == 1.0
    assert set(last_over_first(segments).values()) == {1.0}


def test_a_walk_that_fades_is_told_by_its_last_segment():
    drawn = liveliness(np.concatenate([flat(60, 20), flat(30, 20)]))
    found = last_over_first(segments_of(drawn, liveliness(flat(60))))
    assert found["contrast_last_over_first"] == pytest.approx(0.5, abs=0.01)
    assert found["saturation_last_over_first"] == pytest.approx(0.5, abs=0.01)
    assert found["sharpness_last_over_first"] == pytest.approx(0.25, abs=0.01)
