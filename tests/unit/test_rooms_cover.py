"""What of a drawn chunk is remembered already: it decides which chunks leave a block."""

import math

import torch

from models.base import RecalledBlock
from models.rooms.cover import drawn_cover, shown_share
from models.rooms.geometry import UP, world_points
from models.rooms.remembered import planar
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, ROWS
from shared.pose import Pose

ENOUGH = 0.58  # of detail
WALL_M = 4.0  # the wall ahead, across all of the view, of a camera at the start


def at(ahead_m, yaw_rad=0.0):
    return (Pose(0.0, CAMERA_HEIGHT_M, ahead_m, yaw_rad),) * 2


def seen_from(poses, wall_z_m=WALL_M):
    """The points [C, N, 3] of frames towards a wall, between floor and ceiling."""
    away_m = torch.tensor([wall_z_m - pose.z_m for pose in poses])[:, None]
    return world_points(planar(poses), torch.minimum(away_m, CAMERA_HEIGHT_M / UP.abs()).log()).numpy()


def block(poses, points):
    return RecalledBlock(7, 7, torch.zeros(0), {}, points.reshape(-1, 3), poses)


def share(poses, points, *recall):
    return shown_share(drawn_cover(points, poses, (), recall), ENOUGH)


def test_what_is_seen_again_from_the_same_place_is_all_there():
    assert share(at(0.0), seen_from(at(0.0)), block(at(0.0), seen_from(at(0.0)))) == 1.0


def test_nothing_is_seen_where_nothing_is_remembered_or_the_camera_looked_away():
    there = block(at(0.0, math.pi), seen_from(at(0.0, math.pi), 8.0))
    assert share(at(0.0), seen_from(at(0.0))) == 0.0
    assert share(at(0.0), seen_from(at(0.0)), there) == 0.0


def test_a_step_ahead_nothing_new_comes_into_view_though_points_lie_apart():
    near = at(0.8)
    assert share(near, seen_from(near), block(at(0.0), seen_from(at(0.0)))) > 0.95


def test_of_a_wall_more_detail_is_needed_than_of_floor_and_ceiling():
    near = at(2.2)  # the wall is 1.8 m away instead of 4
    cover = drawn_cover(seen_from(near), near, (), (block(at(0.0), seen_from(at(0.0))),))[0].reshape(ROWS, COLUMNS)
    assert (cover[ROWS // 2 - 1 : ROWS // 2 + 1] < ENOUGH).all()
    level = at(1.0)  # floor at 0.9 m was seen from 1.9
    cover = drawn_cover(seen_from(level), level, (), (block(at(0.0), seen_from(at(0.0))),))[0].reshape(ROWS, COLUMNS)
    assert (cover[[0, -1]] > ENOUGH).all()


def test_what_lies_behind_a_wall_that_was_seen_is_not_seen():
    beyond = at(0.0)
    assert share(beyond, seen_from(beyond, 6.0), block(at(0.0), seen_from(at(0.0), 3.0))) < 0.8
    cover = drawn_cover(seen_from(beyond, 6.0), beyond, (), (block(at(0.0), seen_from(at(0.0), 3.0)),))[0]
    assert (cover.reshape(ROWS, COLUMNS)[ROWS // 2 - 1 : ROWS // 2 + 1] == 0.0).all()


def test_what_stands_between_a_post_and_the_wall_behind_it_is_not_seen():
    depth = torch.full((ROWS, COLUMNS), 6.0)
    depth[:, : COLUMNS // 2] = 1.0  # a post on the left
    seen = world_points(planar(at(0.0)), depth.flatten().log().expand(2, -1)).numpy()
    there = world_points(planar(at(0.0)), torch.full((2, ROWS * COLUMNS), 3.0).log()).numpy()
    middle = drawn_cover(there, at(0.0), (), (block(at(0.0), seen),))[0].reshape(ROWS, COLUMNS)[3:5]
    assert (middle == 0.0).all()


def test_blocks_that_each_show_a_part_show_it_together():
    here, left, right = at(0.0), at(0.0, -math.pi / 4), at(0.0, math.pi / 4)
    parts = [block(poses, _turned(poses)) for poses in (left, right)]
    assert share(here, seen_from(here), *parts) > 0.9
    assert share(here, seen_from(here), parts[0]) < 0.6


def _turned(poses):
    """The points of frames that look at the same wall aslant."""
    turn = poses[0].yaw_rad
    right = (torch.arange(COLUMNS) + 0.5).sub(COLUMNS / 2).div(COLUMNS / 2).repeat(ROWS)
    towards = (math.cos(turn) - right * math.sin(turn)).clamp(min=1e-3)
    depth = torch.minimum(WALL_M / towards, CAMERA_HEIGHT_M / UP.abs()).clamp(max=20.0)
    return world_points(planar(poses), depth.log().expand(len(poses), -1)).numpy()
