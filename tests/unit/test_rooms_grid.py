"""What the layout network is told of the grid that rooms stand on, against the renderer's worlds."""

import numpy as np
import torch

from models.rooms.geometry import UP
from models.rooms.grid import NUM_FACTS, fine_facts, grid_facts
from models.rooms.renderer import wall_depths
from models.rooms.scene import DOORWAY, make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M, COLUMNS, FAR_M, TOKENS
from models.rooms.walk import random_walk

SEED = 900_000
PLANE_DEPTHS = (44, 56, 68, 80)  # where the logs of the depths of wall planes stand, of x twice, then of z twice
CHECKER = 40


def standing_in_rooms(scene, num_frames=300):
    """Poses of a walk, those in doorways left out."""
    walk = random_walk(scene, np.random.default_rng(1), num_frames)
    return walk[scene.room[walk[:, 1].astype(int), walk[:, 0].astype(int)] != DOORWAY]


def test_walls_stand_on_the_first_planes_unless_there_is_a_door():
    scene = make_scene(SEED)
    poses = standing_in_rooms(scene)
    true_m = torch.from_numpy(wall_depths(scene, poses, COLUMNS))
    facts = grid_facts(torch.from_numpy(poses))[:, :COLUMNS]
    first_m = torch.minimum(facts[..., PLANE_DEPTHS[0]], facts[..., PLANE_DEPTHS[2]]).exp()
    assert (first_m <= true_m + 0.01).all()
    assert ((first_m - true_m).abs() < 0.01).float().mean() > 0.7


def test_tiles_alternate_as_the_renderer_lays_them():
    poses = torch.from_numpy(standing_in_rooms(make_scene(SEED)))
    facts = grid_facts(poses)
    row = TOKENS - COLUMNS // 2  # a patch right of the middle of the lowest row
    level_m = CAMERA_HEIGHT_M / float(-UP[row])
    across = (COLUMNS // 2 - COLUMNS / 2 + 0.5) * 2 / COLUMNS
    x = poses[:, 0] + level_m * (poses[:, 2].sin() + across * poses[:, 2].cos())
    z = poses[:, 1] + level_m * (poses[:, 2].cos() - across * poses[:, 2].sin())
    is_even = (x.floor() + z.floor()) % 2 == 0
    assert torch.equal(facts[:, row, CHECKER] > 0, is_even)


def test_the_tiles_of_the_next_room_are_told_behind_the_first_plane():
    poses = torch.tensor([[3.0, 2.5, torch.pi / 2]])  # eastwards, through where a door may be
    here, beyond, _, behind, beyond_next = fine_facts(poses)[0]
    middle = here.shape[-1] // 2
    slope = (torch.arange(here.shape[0] // 2) + 0.5) * 2 / 48  # of the lines below the horizon, from there down
    x = 3.0 + CAMERA_HEIGHT_M / slope  # where a ray down the middle meets the floor
    below = slice(here.shape[0] // 2, None)
    for fact, told in ((here, x < 5.0), (behind, (x > 5.0) & (x < 10.0))):
        assert torch.equal(fact[below, middle] != 0, told)
    sees_floor = x < 10.0
    told = (here + behind)[below, middle][sees_floor]
    assert torch.equal(told > 0, (x[sees_floor].floor() + 2) % 2 == 0)
    assert (beyond_next <= beyond).all()


def test_facts_come_again_on_every_second_room_and_hold_no_world():
    poses = torch.tensor([[3.2, 4.1, 0.3], [7.9, 2.2, -2.0]])
    facts = grid_facts(poses)
    assert facts.shape == (2, TOKENS, NUM_FACTS)
    assert torch.allclose(facts, grid_facts(poses + torch.tensor([10.0, -20.0, 2 * torch.pi])), atol=1e-3)
    assert not torch.allclose(facts, grid_facts(poses + torch.tensor([0.5, 0.0, 0.0])), atol=1e-1)


def test_every_pose_has_facts_of_a_few_units():
    turns = torch.arange(16) * torch.pi / 8
    spots = torch.tensor([0.0, 1.0, 2.5, 5.0, -3.0, 1000.0])
    poses = torch.cartesian_prod(spots, spots, turns)
    facts = grid_facts(poses)
    assert facts.isfinite().all()
    assert facts.abs().max() <= np.log(FAR_M) + 1.0
