"""Which blocks rooms wants: those that saw what the camera is about to see."""

import math

import numpy as np
import torch

from models.base import Catalog
from models.rooms.geometry import world_points
from models.rooms.remembered import planar, pose_rows
from models.rooms.retrieval import coverage, wanted, without_holes
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, MAX_RECALL, ROWS, TOKENS
from shared.pose import Pose


def at(x_m, z_m, yaw_rad):
    return Pose(x_m, CAMERA_HEIGHT_M, z_m, yaw_rad)


def seen(poses, depth_m):
    """The footprint of a block whose frames saw a wall across the view at `depth_m`."""
    return world_points(planar(poses), torch.full((2, TOKENS), math.log(depth_m))).flatten(0, 1).numpy()


def catalog(views, window_start=10**6, depth_m=2.0, alive=None):
    pairs = [(view, view) for view in views]
    number = np.arange(len(views))
    footprints = np.stack([seen(pair, depth_m) for pair in pairs])
    return Catalog(number, number, np.stack([pose_rows(pair) for pair in pairs]), footprints, window_start, alive)


ROUND = [at(0.0, 0.0, turn * math.pi / 4) for turn in range(8)]


def test_the_block_that_saw_this_view_is_wanted_first():
    for index, view in enumerate(ROUND):
        assert wanted(view, catalog(ROUND))[0] == index


def test_what_lies_to_both_sides_of_the_view_is_wanted_after_it():
    """Else a key view there would be invented anew."""
    left, right = at(0.0, 0.0, math.radians(-80.0)), at(0.0, 0.0, math.radians(80.0))
    assert wanted(ROUND[0], catalog([left, ROUND[4], right, ROUND[0]])) == (3, 0, 2)
    assert wanted(ROUND[0], catalog([left, ROUND[4], right])) == (0, 2)


def test_of_many_blocks_those_aside_are_looked_through_as_well():
    near = [at(0.01 * i, 0.0, 0.0) for i in range(60)]
    aside = at(0.0, 0.0, math.radians(80.0))
    assert 60 in wanted(ROUND[0], catalog([*near, aside]))


def test_no_more_blocks_are_wanted_than_a_recall_holds():
    many = [at(0.1 * i, 0.0, 0.1 * i) for i in range(20)]
    assert len(wanted(at(0.3, -1.0, 0.4), catalog(many))) <= MAX_RECALL


def test_of_blocks_that_saw_the_same_the_oldest_is_wanted():
    assert wanted(ROUND[0], catalog([ROUND[0]] * 5)) == (0,)


def test_blocks_in_the_window_are_never_wanted_but_what_they_cover_needs_less():
    everything = catalog(ROUND, window_start=0)
    assert wanted(ROUND[0], everything) == ()
    twice = [ROUND[0], ROUND[4], ROUND[0]]
    both = wanted(ROUND[0], catalog(twice))
    assert both == (0,)
    assert set(wanted(ROUND[0], catalog(twice, window_start=2))) <= {0}


def test_forgotten_blocks_are_never_wanted():
    alive = np.ones(8, np.bool_)
    alive[0] = False
    assert 0 not in wanted(ROUND[0], catalog(ROUND, alive=alive))


def test_a_block_that_looked_away_is_not_wanted():
    assert wanted(ROUND[0], catalog([ROUND[4]])) == ()


def test_what_lies_behind_a_nearer_wall_does_not_count():
    here, beyond = at(0.0, 0.0, 0.0), at(0.0, 2.5, 0.0)
    footprints = np.stack([seen((here, here), 1.5), seen((beyond, beyond), 2.0)])
    places = np.stack([pose_rows((here, here)), pose_rows((beyond, beyond))])
    cover = coverage(here, places, footprints)
    assert cover[0].sum() > 0.9 * TOKENS
    assert cover[1].sum() < 0.1 * TOKENS


def test_an_empty_catalog_wants_nothing():
    empty = Catalog(
        np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2, 5)), np.zeros((0, 2 * TOKENS, 3), np.float32), 0
    )
    assert wanted(ROUND[0], empty) == ()


def test_five_thousand_blocks_are_looked_through_and_no_view_is_chosen_twice():
    rng = np.random.default_rng(0)
    few = [at(*rng.uniform(-6, 6, 2), rng.uniform(-3, 3)) for _ in range(500)]
    small = catalog(few)
    big = Catalog(
        np.arange(5000),
        np.arange(5000),
        np.tile(small.poses, (10, 1, 1)),
        np.tile(small.footprints, (10, 1, 1)),
        10**6,
    )
    chosen = wanted(ROUND[0], big)
    assert 0 < len(chosen) <= MAX_RECALL
    assert len({block % 500 for block in chosen}) == len(chosen)


def test_holes_between_points_of_a_view_from_farther_away_are_closed_and_its_edge_does_not_grow():
    cover = np.zeros((ROWS, COLUMNS), np.float32)
    cover[0:7:2, 0:9:2] = 0.8  # every other patch of the left part: twice as near as it was seen
    closed = without_holes(cover.reshape(-1)).reshape(ROWS, COLUMNS)
    assert (closed[:7, :9] == np.float32(0.8)).all()
    assert (closed[:, 9:] == 0.0).all()
    assert (closed[7] == 0.0).all()


def test_a_nearer_view_of_a_seen_wall_is_shown_once_its_holes_are_closed():
    near, far = at(0.0, 1.3, 0.0), at(0.0, 0.0, 0.0)
    cover = coverage(near, pose_rows((far, far))[None], seen((far, far), 3.0)[None]).max(0)
    shown = (cover > 0.5).mean()
    assert 0.0 < shown < 0.5
    assert (without_holes(cover) > 0.5).mean() > 1.5 * shown
