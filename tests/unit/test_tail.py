"""Below the critical rate prefetching never has the worse tail: the pager's own decisions in virtual time."""

import pytest

from bench.pager_trace import TRAJECTORIES
from bench.tail import RATES, Point, figures

SLACK_MS = 1.0  # a read that rests looks once a millisecond whether it may go on
SAMPLE = [("b1_ws", 0.1, 40), ("square", 0.1, 72)]


def tails(name, gbps, num_chunks):
    point = Point(name, num_chunks, gbps)
    return figures(point.walk(prefetches=True)), figures(point.walk(prefetches=False))


def assert_no_worse(name, gbps, num_chunks):
    wait, on_demand = tails(name, gbps, num_chunks)
    for key in ("median_wait_ms", "mean_wait_ms", "p99_wait_ms", "longest_wait_ms"):
        assert wait[key] <= on_demand[key] + SLACK_MS, key


@pytest.mark.parametrize(("name", "gbps", "num_chunks"), SAMPLE)
def test_below_the_critical_rate_prefetching_has_no_worse_tail_than_loading_on_demand(name, gbps, num_chunks):
    assert_no_worse(name, gbps, num_chunks)


@pytest.mark.slow
@pytest.mark.parametrize("gbps", RATES)
@pytest.mark.parametrize("name", sorted(TRAJECTORIES))
def test_at_no_rate_and_on_no_trajectory_has_prefetching_the_worse_tail(name, gbps):
    assert_no_worse(name, gbps, 100)


def test_a_walk_in_virtual_time_comes_out_the_same_every_time():
    assert tails("random", 0.25, 20) == tails("random", 0.25, 20)
