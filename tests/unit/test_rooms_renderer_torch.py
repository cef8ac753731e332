"""The renderer of tensor operations draws what the compiled one draws."""

import numpy as np
import torch

from models.rooms import rays_torch, renderer, renderer_torch
from models.rooms.scene import NUM_SPOTS, make_scene
from models.rooms.sizes import COLUMNS
from models.rooms.walk import random_walk

WORLDS = (800_001, 800_002, 800_003)


def views():
    scenes = [make_scene(world) for world in WORLDS]
    rng = np.random.default_rng(1)
    return scenes, [random_walk(scene, rng, 120)[::15] for scene in scenes]


def before_objects(scene):
    """Poses in the middles of rooms, looking at one of the room's objects from nearby."""
    index = np.flatnonzero(scene.objects[:, 4])[:8]
    row, column = np.divmod(index // NUM_SPOTS, 5)
    middle = np.stack([column * 5 + 3.0, row * 5 + 3.0], axis=1)
    to_object = scene.objects[index, :2] - middle
    return np.column_stack([middle + 0.3 * to_object, np.arctan2(to_object[:, 0], to_object[:, 1])])


def compare(scenes, walks):
    scene_of = torch.arange(len(scenes)).repeat_interleave(torch.tensor([len(walk) for walk in walks]))
    stacked = rays_torch.Scenes.of(scenes, torch.device("cpu"))
    rgb, depth = renderer_torch.render(stacked, scene_of, torch.from_numpy(np.concatenate(walks)))
    pairs = [renderer.render(scene, walk) for scene, walk in zip(scenes, walks, strict=True)]
    true_rgb, true_depth = (np.concatenate(part) for part in zip(*pairs, strict=True))
    difference = np.abs(rgb.numpy().astype(int) - true_rgb)
    assert difference.mean() < 0.2
    assert (difference > 8).mean() < 0.004  # a sample on an edge may fall to the other side
    assert np.quantile(np.abs(depth.numpy() / true_depth - 1.0), 0.99) < 0.01


def test_both_renderers_draw_the_same_walks():
    compare(*views())


def test_both_renderers_draw_the_same_objects_of_every_kind():
    scenes, _ = views()
    looks = [before_objects(scene) for scene in scenes]
    shapes = {tuple(scene.objects[index, 2:5]) for scene in scenes for index in np.flatnonzero(scene.objects[:, 4])[:8]}
    assert {shape[2] for shape in shapes} == {1.0, 2.0}
    compare(scenes, looks)


def test_both_say_the_same_of_walls_alone():
    scenes, walks = views()
    for scene, walk in zip(scenes, walks, strict=True):
        ours = rays_torch.wall_depths(scene, walk, COLUMNS)
        assert np.allclose(ours, renderer.wall_depths(scene, walk, COLUMNS), atol=1e-3)
