"""What to forget first: by where the walk has been, and the bar that this has to meet on the shipped walks."""

from functools import cache

import numpy as np
import pytest

from bench.eviction import COLUMNS, gap_closed, simulate
from bench.pager_trace import trajectory
from server.pager.capacity import SHIPPED
from server.pager.decide.relevance import FARTHEST_M, REPRESENTS, Outlook, Trail, may_pick, wanted_by
from server.pager.decide.views import again, earlier_visits, likely_views, overlap, within
from server.trace import TraceChunk, with_wanted
from shared.pose import Pose

SLOTS = 15  # what 2 GB hold
WITH_RETURNS = ("a_yaw", "b1_ws", "square", "figure-8", "out-and-back")
ALL = (*WITH_RETURNS, "random", "long-round-trip")


def straight(count):
    return np.array([[0.0, 0.0, float(at), 0.0, 0.0] for at in range(count)])


def turning(count):
    return np.array([[0.0, 0.0, 0.0, 0.3 * at, 0.0] for at in range(count)])


def outlook(poses, alive=None):
    found = Outlook()
    found.move_on(Trail("w", np.arange(len(poses)), poses, poses[-1], 1.0, alive))
    return found


def first_to_go(poses, idle):
    """`idle`: seconds since each candidate was wanted, by block."""
    worths = outlook(poses).worths(list(idle), list(idle.values()))
    return list(idle)[int(np.argmin(worths))]


def covers(poses, alive=None):
    found = outlook(poses, alive)
    found.worths([0], [0.0])
    return found._covers


def test_a_view_that_an_older_block_covers_goes_before_the_older_one():
    assert covers(turning(44))[30] == 9
    assert covers(turning(44))[10] == REPRESENTS
    assert first_to_go(turning(44), {9: 24, 30: 1}) == 30


def test_a_walk_of_one_block_is_looked_at_too():
    assert covers(straight(1), np.ones(1, dtype=np.bool_)).tolist() == [REPRESENTS]


def picked_one_by_one(view, poses):
    """The rule as it reads, over every block."""
    worth, picks = overlap(view, poses), []
    while len(picks) < 3:
        picks.append(int(np.argmax(worth >= worth.max() - 0.03)) if worth.max() >= 0.15 else -1)
        worth = worth * (1.0 - 0.8 * overlap(poses[picks[-1]], poses))
        worth[picks[-1]] = 0.0
    return picks


def test_what_a_view_wants_is_what_the_rule_names_over_all_blocks():
    dice = np.random.default_rng(5)
    poses = dice.uniform(-9.0, 9.0, size=(300, 5))
    views = dice.uniform(-9.0, 9.0, size=(40, 5))
    assert wanted_by(views, poses).tolist() == [picked_one_by_one(view, poses) for view in views]
    assert (wanted_by(views, poses + 1000.0) == -1).all()


def test_a_view_looks_at_the_blocks_near_it_however_long_the_walk():
    walk = straight(2000)
    looked_at = [may_pick(walk[-9:], walk[-num:]).shape[1] for num in (100, 2000)]
    assert looked_at[0] == looked_at[1] <= 2 * FARTHEST_M + 1


def test_what_lies_out_of_every_views_reach_is_left_out_and_changes_nothing():
    walk = np.random.default_rng(3).normal(scale=20.0, size=(200, 5))
    views, _ = likely_views(walk)
    near = within(walk, views, FARTHEST_M)
    assert 0 < len(near) < len(walk)
    picks, picks_near = wanted_by(views, walk), wanted_by(views, walk[near])
    assert np.array_equal(picks, np.where(picks_near >= 0, near[picks_near], -1))


def test_what_covered_a_view_and_is_gone_covers_it_no_more():
    alive = np.ones(44, dtype=np.bool_)
    found = outlook(turning(44))
    found.worths([0], [0.0])
    alive[9] = False
    found.move_on(Trail("w", np.arange(44), turning(44), turning(44)[-1], 1.0, alive))
    found.worths([0], [0.0])
    assert found._covers[30] == REPRESENTS


def test_another_line_of_moments_is_looked_at_anew():
    found = outlook(turning(44))
    found.worths([0], [0.0])
    other = np.concatenate([np.arange(10), np.arange(50, 60)])
    found.move_on(Trail("w", other, straight(20), straight(20)[-1], 1.0))
    assert len(found.worths([3, 55, 30], [1.0, 1.0, 1.0])) == 3
    assert (found._covers == covers(straight(20))).all()


def test_a_view_wants_the_oldest_of_those_that_saw_as_much_and_then_what_is_beside_it():
    poses = np.concatenate([turning(3), turning(3)])
    picks = wanted_by(np.zeros((1, 5)), poses)[0]
    assert picks[0] == 0
    assert not {3, 4, 5} & set(picks)


def test_who_comes_home_facing_the_other_way_is_known_to_be_on_the_way_back():
    out = straight(20)
    home = out[::-1][:6].copy()
    home[:, 3] = np.pi
    path = np.concatenate([out, home])
    assert earlier_visits(path)[0] == 14
    views, worth = again(path)
    assert views[0].tolist() == [0.0, 0.0, 13.0, 0.0 + np.pi, 0.0]
    assert worth[0] == worth.max()


def test_on_the_way_back_what_lies_ahead_outlives_what_was_passed():
    out = straight(30)
    walk = np.concatenate([out, out[::-1][1:13]])  # backwards, still looking ahead
    assert first_to_go(walk, {10: 30, 28: 1}) == 28


def test_a_block_of_no_ancestor_is_worth_less_than_one_that_may_be_wanted():
    assert first_to_go(straight(20), {18: 3, 777: 3}) == 777


def test_the_simulated_tier_counts_hits_and_reads():
    chunks = [TraceChunk(Pose(z_m=float(at)), wanted=wanted) for at, wanted in enumerate([(), (), (0,), (1,), (0,)])]
    score = simulate(chunks, "fifo", 2)
    assert (score.hits, score.misses, score.waits) == (2, 1, 1)


@cache
def scores(name):
    chunks = with_wanted(trajectory(name, 160, SHIPPED["matrix-game-2"]), 3)
    return {column: simulate(chunks, column, SLOTS) for column in COLUMNS}


@pytest.mark.parametrize("name", WITH_RETURNS)
def test_on_walks_that_return_at_least_half_of_the_gap_to_the_oracle_is_closed(name):
    assert gap_closed(scores(name)) >= 0.5


@pytest.mark.parametrize("name", ALL)
def test_ours_is_never_more_than_two_points_below_lru(name):
    assert scores(name)["ours"].hit_share >= scores(name)["lru"].hit_share - 0.02


@pytest.mark.parametrize("name", ALL)
def test_no_policy_beats_the_oracle(name):
    best = max(score.hit_share for score in scores(name).values())
    assert scores(name)["belady"].hit_share == best
