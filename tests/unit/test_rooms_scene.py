"""The procedural rooms, their renderer and the walks through them."""

from dataclasses import replace

import numpy as np
import pytest

from models.rooms.renderer import render, wall_depths
from models.rooms.scene import (
    DOORWAY,
    NUM_ROOMS,
    NUM_SPOTS,
    OBJECT_SHARE,
    OBJECT_SPOTS_M,
    PAINTS,
    PITCH_CELLS,
    ROOMS_PER_SIDE,
    SIDE_CELLS,
    TILES,
    make_scene,
)
from models.rooms.sizes import COLUMNS, FAR_M, HEIGHT_PX, STEP_M, TURN_RAD, WIDTH_PX
from models.rooms.walk import is_free, random_walk


def test_a_seed_always_gives_the_same_world_and_pictures():
    first, again = make_scene(900_001), make_scene(900_001)
    poses = random_walk(first, np.random.default_rng(0), 3)
    for a, b in zip(render(first, poses), render(again, poses), strict=True):
        assert np.array_equal(a, b)


def test_other_seeds_give_other_worlds():
    assert not np.array_equal(make_scene(900_001).palette, make_scene(900_002).palette)


def test_walls_of_one_room_bear_paints_of_their_own_on_every_cell():
    scene = make_scene(900_002)
    room = 7
    rows, columns = np.nonzero(scene.room == room)
    z, x = slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1)
    walls = [
        scene.paint[z, columns.max() + 1, 0],
        scene.paint[z, columns.min() - 1, 1],
        scene.paint[rows.max() + 1, x, 2],
        scene.paint[rows.min() - 1, x, 3],
    ]
    assert all((wall == wall[0]).all() and wall[0] in PAINTS for wall in walls)
    seen = [paint for number in range(8) for paint in np.unique(make_scene(number).paint.reshape(-1, 3), axis=0)]
    assert len(np.unique(seen, axis=0)) == len(PAINTS) + 1  # and the doorways'


def test_the_picture_shows_the_paint_of_the_wall_ahead():
    scene = make_scene(900_004)
    rgb, _ = render(scene, np.array([[4.0, 1.5, np.pi / 2]]))  # in the first room, towards its east wall
    shown = rgb[0, HEIGHT_PX // 2, WIDTH_PX // 2].astype(np.float64)
    paint = scene.paint[1, 5, 0].astype(np.float64)
    assert shown / shown.sum() == pytest.approx(paint / paint.sum(), abs=0.04)


def test_every_quarter_of_a_floor_has_tiles_of_its_own():
    worlds = [make_scene(seed) for seed in range(8)]
    tiles = np.stack([scene.tiles[:NUM_ROOMS] for scene in worlds])  # [worlds, rooms, quarters, 2, 3]
    kinds = (tiles[..., None, :, :] == TILES).all((-1, -2))
    assert (kinds.sum(-1) == 1).all()
    assert len(np.unique(kinds.argmax(-1))) == len(TILES)
    is_alike = kinds.argmax(-1)[..., :1] == kinds.argmax(-1)[..., 1:]
    assert is_alike.mean() == pytest.approx(1 / len(TILES), abs=0.05)


@pytest.mark.parametrize(("yaw", "quarter"), [(-0.75, 2), (0.75, 3), (2.4, 1), (-2.4, 0)])
def test_the_picture_shows_the_tiles_of_the_quarter_ahead(yaw, quarter):
    scene = replace(make_scene(900_004), objects=np.zeros_like(make_scene(900_004).objects))
    rgb, _ = render(scene, np.array([[3.0, 3.0, yaw * np.pi / 3]]))  # in the middle of the first room
    line = HEIGHT_PX * 3 // 4
    shown = rgb[0, line, WIDTH_PX // 2].astype(np.float64)
    alike = [np.abs(shown / shown.sum() - shade / shade.sum()).max() for shade in scene.tiles[0].reshape(-1, 3)]
    assert np.argmin(alike) // 2 == quarter


def test_objects_stand_on_spots_of_their_own_in_about_half_of_them():
    worlds = np.stack([make_scene(seed).objects.reshape(NUM_ROOMS, NUM_SPOTS, 8) for seed in range(20)])
    stands = worlds[..., 4] > 0
    assert stands.mean() == pytest.approx(OBJECT_SHARE, abs=0.03)
    assert stands.all(2).any()  # a room with all four
    row, column = np.divmod(np.arange(NUM_ROOMS), ROOMS_PER_SIDE)
    corners = np.stack([column, row], axis=1) * PITCH_CELLS + 1
    from_corner_m = (worlds[..., :2] - corners[:, None])[stands]
    assert {tuple(spot) for spot in from_corner_m.round(3)} == {tuple(spot) for spot in OBJECT_SPOTS_M}


def test_no_object_stands_in_the_way_to_a_door():
    for scene in (make_scene(seed) for seed in range(10)):
        doors = np.argwhere((scene.solid == 0) & (scene.room == DOORWAY))
        assert len(doors)
        for z, x in doors:
            leads_east = x % PITCH_CELLS == 0
            way = np.linspace(-1.5, 1.5, 31)
            places = [(x + 0.5 + ahead, z + 0.5) if leads_east else (x + 0.5, z + 0.5 + ahead) for ahead in way]
            assert all(is_free(scene.solid, scene.objects, *place) for place in places)


def test_every_open_cell_belongs_to_a_room_or_a_doorway():
    scene = make_scene(900_003)
    open_cells = scene.solid == 0
    assert (scene.room[open_cells] <= DOORWAY).all()
    assert scene.solid[0].all()
    assert scene.solid[-1].all()
    assert open_cells.shape == (SIDE_CELLS, SIDE_CELLS)


def test_a_wall_straight_ahead_has_its_distance_as_depth():
    scene = make_scene(900_004)
    _, depth_m = render(scene, np.array([[3.0, 3.4, np.pi / 2]]))  # in the first room, towards its east wall
    middle = depth_m[0, HEIGHT_PX // 2 - 1 : HEIGHT_PX // 2 + 1, WIDTH_PX // 2 - 1 : WIDTH_PX // 2 + 1]
    assert np.allclose(middle, 2.0, atol=0.02)


def test_turning_right_moves_the_picture_to_the_left():
    scene = make_scene(900_005)
    columns = 12
    ahead = wall_depths(scene, np.array([[3.0, 3.0, 0.0]]), columns)[0]
    turned = wall_depths(scene, np.array([[3.0, 3.0, np.arctan(1.0)]]), columns)[0]
    # the ray half way to the right edge at yaw 0 is 26.6 degrees right of it, and 18.4 degrees left of yaw 45
    right, left = np.array([0.5]), np.array([-1.0 / 3.0])
    there = wall_depths(scene, np.array([[3.0, 3.0, 0.0]]), columns * 24 + 1)[0]
    at = lambda depths, across: np.interp(across, (np.arange(len(depths)) + 0.5) * 2 / len(depths) - 1, depths)
    fine = wall_depths(scene, np.array([[3.0, 3.0, np.pi / 4]]), columns * 24 + 1)[0]
    assert at(there, right) * np.hypot(1, right) == pytest.approx(at(fine, left) * np.hypot(1, left), rel=0.02)
    assert ahead.shape == turned.shape == (columns,)


def test_depth_ends_where_the_fog_is_total():
    scene = make_scene(900_006)
    _, depth_m = render(scene, random_walk(scene, np.random.default_rng(1), 60)[::6])
    assert depth_m.max() <= FAR_M
    assert depth_m.min() > 0.0


def test_walks_stay_free_and_move_at_the_pace_of_play():
    scene = make_scene(900_007)
    walk = random_walk(scene, np.random.default_rng(2), 500)
    assert all(is_free(scene.solid, scene.objects, x, z) for x, z, _ in walk)
    steps = np.diff(walk, axis=0)
    assert np.hypot(steps[:, 0], steps[:, 1]).max() <= STEP_M + 1e-9
    assert np.abs(steps[:, 2]).max() <= TURN_RAD + 1e-9
    assert np.ptp(walk[:, 0]) + np.ptp(walk[:, 1]) > 2.0
    assert wall_depths(scene, walk, COLUMNS).min() > 0.2
