"""Walls that the model has drawn stop the player."""

import math

import numpy as np
import torch

from models.rooms.checkpoint import load_weights
from models.rooms.geometry import world_points
from models.rooms.patches import log_depth
from models.rooms.remembered import planar
from models.rooms.renderer import render
from models.rooms.scene import make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M
from models.rooms.steering import NO_CELLS, REACH_M, steered, with_drawn
from shared.controls import Controls, Key
from shared.pose import Motion, Pose

MOTION = Motion(walk_m_s=1.1, turn_rad_s=2.0)
DT_S = 0.1


def wall_ahead(distance_m):
    """Wall cells after looking at a flat wall straight ahead."""
    pose = Pose(0.0, CAMERA_HEIGHT_M, 0.0)
    points = world_points(planar([pose]), torch.full((1, 96), math.log(distance_m))).numpy()
    return with_drawn(NO_CELLS, [pose], points)


def walk(pose, keys, walls, frames=60, mouse=0.0):
    return steered(pose, [Controls(keys, mouse_dx=mouse)] * frames, MOTION, DT_S, walls)


def test_nobody_walks_through_a_wall():
    end = walk(Pose(0.0, 0.5, 0.0), Key.FORWARD, wall_ahead(1.5))[-1]
    assert 0.9 < end.z_m <= 1.5 - REACH_M + 0.1


def test_the_way_is_free_where_nothing_was_drawn():
    end = walk(Pose(0.0, 0.5, 0.0), Key.FORWARD, NO_CELLS)[-1]
    assert end.z_m == 60 * 0.11 or abs(end.z_m - 6.6) < 1e-6


def test_walking_at_a_slant_slides_along_the_wall():
    end = walk(Pose(0.0, 0.5, 0.6, 0.6), Key.FORWARD, wall_ahead(1.2), frames=12)[-1]
    assert end.x_m > 0.4
    assert end.z_m < 1.2


def test_a_player_at_a_wall_can_always_leave():
    walls = wall_ahead(1.0)
    near = walk(Pose(0.0, 0.5, 0.0), Key.FORWARD, walls)[-1]
    end = walk(near, Key.BACK, walls, frames=10)[-1]
    assert end.z_m < near.z_m - 0.9


def test_walking_backwards_into_a_remembered_wall_stops_too():
    walls = wall_ahead(1.5)
    end = walk(Pose(0.0, 0.5, 0.0, math.pi), Key.BACK, walls)[-1]
    assert end.z_m <= 1.5 - REACH_M + 0.1


def test_idle_players_stay():
    pose = Pose(0.3, 0.5, 0.2, 0.1)
    assert set(walk(pose, Key(0), wall_ahead(1.0), frames=3)) == {pose}


def test_given_cells_are_left_alone():
    walls = wall_ahead(1.5)
    before = walls.copy()
    with_drawn(walls, [Pose(1.0, 0.5, 0.0)], np.zeros((1, 96, 3), np.float32))
    assert np.array_equal(walls, before)


def test_sliding_along_a_flat_wall_is_steady():
    wall = np.array([[x, 10] for x in range(-20, 60)], np.int32)
    path = walk(Pose(0.0, 0.5, 0.69, math.pi / 4), Key.FORWARD, wall, frames=12)
    steps = np.diff([pose.x_m for pose in path])
    assert (steps > 0.06).all(), steps
    assert min(pose.z_m for pose in path) > 0.65


def test_what_lies_too_far_away_to_be_judged_stays():
    far = np.array([[0, 45]], np.int32)
    pose = Pose(0.0, CAMERA_HEIGHT_M, 0.0)
    nothing_near = world_points(planar([pose]), torch.full((1, 96), math.log(4.8))).numpy()
    assert [0, 45] in with_drawn(far, [pose], nothing_near).tolist()


def test_a_frame_that_sees_through_a_cell_takes_it_away():
    stray = wall_ahead(1.0)
    pose = Pose(0.0, CAMERA_HEIGHT_M, 0.0)
    beyond = world_points(planar([pose]), torch.full((1, 96), math.log(1.8))).numpy()
    walls = with_drawn(stray, [pose], beyond)
    assert set(map(tuple, walls)) == set(map(tuple, wall_ahead(1.8)))


def test_what_is_out_of_sight_stays():
    behind = Pose(0.0, CAMERA_HEIGHT_M, 0.0, math.pi)
    beyond = world_points(planar([behind]), torch.full((1, 96), math.log(1.8))).numpy()
    walls = with_drawn(wall_ahead(1.0), [behind], beyond)
    assert set(map(tuple, wall_ahead(1.0))) < set(map(tuple, walls))


def test_a_corner_that_is_brushed_is_walked_round():
    corner = np.array([[2, 10]], np.int32)  # 0.25 m to the right of the way, nearer than a camera comes
    end = walk(Pose(0.0, 0.5, 0.0), Key.FORWARD, corner, frames=20)[-1]
    assert end.z_m > 1.5
    assert -0.2 < end.x_m < 0.0


def drawn_truly(scene, basis, pose, walls):
    """Wall cells after a look at the true world with the model's own patches."""
    planar_pose = np.array([[pose.x_m, pose.z_m, pose.yaw_rad]])
    depth = log_depth(basis.encode(*render(scene, planar_pose)))
    return with_drawn(walls, [pose], world_points(planar([pose]), depth).numpy())


def test_true_depth_lets_players_through_every_door():
    _, basis = load_weights()
    scene = make_scene(900_010)
    doors = [(z, 5) for z in range(2, 25, 5) if not scene.solid[z, 5]]  # from the first column of rooms to the second
    assert len(doors) > 2
    for z, x in doors:
        for aside_m, slant_rad in ((0.0, 0.0), (0.25, 0.0), (-0.25, 0.0), (0.6, 0.45), (-0.6, -0.45)):
            pose = Pose(x - 1.2, CAMERA_HEIGHT_M, z + 0.5 + aside_m, math.pi / 2 + slant_rad)
            walls = NO_CELLS
            for _ in range(30):
                walls = drawn_truly(scene, basis, pose, walls)
                pose = walk(pose, Key.FORWARD, walls, frames=2)[-1]
            assert pose.x_m > x + 1.0, (z, aside_m, slant_rad, pose)


def test_true_depth_keeps_random_players_inside_the_rooms():
    _, basis = load_weights()
    for seed in range(900_010, 900_014):
        scene, rng = make_scene(seed), np.random.default_rng(seed)
        pose, walls = Pose(3.0, 0.5, 3.0, rng.uniform(-3, 3)), NO_CELLS
        for _ in range(150):
            walls = drawn_truly(scene, basis, pose, walls)
            keys = Key.FORWARD if rng.random() < 0.8 else Key(int(rng.integers(16)))
            pose = walk(pose, keys, walls, frames=2, mouse=float(rng.choice([-40, 0, 0, 40])))[-1]
            assert not scene.solid[math.floor(pose.z_m), math.floor(pose.x_m)]
