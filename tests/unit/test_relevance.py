"""What to forget first: the textbook's policies, ours, and the bar that ours has to meet on the shipped walks."""

from functools import cache

import numpy as np
import pytest

from bench.eviction import gap_closed, simulate
from bench.pager_trace import trajectory
from server.pager.capacity import SHIPPED
from server.pager.decide.relevance import POLICIES, Past, covered_by_older
from server.trace import TraceChunk, with_wanted
from shared.pose import Pose

SLOTS = 15  # what 2 GB hold
WITH_RETURNS = ("a_yaw", "b1_ws", "square", "figure-8")
OTHERS = ("out-and-back", "random")


def straight(count):
    return np.array([[0.0, 0.0, float(at), 0.0, 0.0] for at in range(count)])


def past(poses, candidates, last_wanted=None, next_wanted=None):
    candidates = np.array(candidates)
    covered = np.array([covered_by_older(poses, at) for at in range(len(poses))])
    last = candidates if last_wanted is None else np.array(last_wanted)
    ahead = np.full(len(candidates), np.inf) if next_wanted is None else np.array(next_wanted, dtype=float)
    return Past(poses, candidates, last, covered, ahead)


def first_to_go(policy, *args, **kwargs):
    view = past(*args, **kwargs)
    return int(view.candidates[np.argmin(POLICIES[policy](view))])


def test_each_textbook_policy_gives_up_what_its_name_says():
    poses = straight(10)
    walk = {"last_wanted": [9, 5, 6], "next_wanted": [11, 12, 40]}
    assert first_to_go("lru", poses, [1, 2, 3], **walk) == 2
    assert first_to_go("fifo", poses, [1, 2, 3], **walk) == 1
    assert first_to_go("belady", poses, [1, 2, 3], **walk) == 3


def test_a_view_that_an_older_block_covers_goes_before_the_older_one():
    turning = np.array([[0.0, 0.0, 0.0, 0.3 * at, 0.0] for at in range(44)])  # two turns on the spot
    assert covered_by_older(turning, 30)
    assert not covered_by_older(turning, 10)
    assert first_to_go("ours", turning, [9, 30], last_wanted=[20, 43]) == 30


def test_on_the_way_back_what_lies_ahead_outlives_what_was_passed():
    out = straight(30)
    back = out[::-1][1:13]  # backwards, still looking ahead
    walk = np.concatenate([out, back])
    assert first_to_go("ours", walk, [10, 28], last_wanted=[12, 40]) == 28


def test_the_simulated_tier_counts_hits_and_reads():
    chunks = [TraceChunk(Pose(z_m=float(at)), wanted=wanted) for at, wanted in enumerate([(), (), (0,), (1,), (0,)])]
    score = simulate(chunks, "fifo", 2)
    assert (score.hits, score.misses, score.waits) == (2, 1, 1)


@cache
def scores(name):
    chunks = with_wanted(trajectory(name, 160, SHIPPED["matrix-game-2"]), 3)
    return {policy: simulate(chunks, policy, SLOTS) for policy in POLICIES}


@pytest.mark.parametrize("name", WITH_RETURNS)
def test_on_walks_that_return_at_least_half_of_the_gap_to_the_oracle_is_closed(name):
    assert gap_closed(scores(name)) >= 0.5


@pytest.mark.parametrize("name", [*WITH_RETURNS, *OTHERS])
def test_ours_is_never_more_than_two_points_below_lru(name):
    assert scores(name)["ours"].hit_share >= scores(name)["lru"].hit_share - 0.02


@pytest.mark.parametrize("name", [*WITH_RETURNS, *OTHERS])
def test_no_policy_beats_the_oracle(name):
    best = max(score.hit_share for score in scores(name).values())
    assert scores(name)["belady"].hit_share == best
