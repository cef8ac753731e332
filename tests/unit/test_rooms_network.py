"""The parts of the network: positions, rotation, attention, patches, noise."""

import math

import numpy as np
import pytest
import torch

from models.plain import PlainModel
from models.rooms import attention, precision
from models.rooms.attention import attend
from models.rooms.checkpoint import load_weights
from models.rooms.geometry import PAIRS, distances, mate_angles, own_angles, seen_angles, world_points
from models.rooms.network import RoomsNetwork
from models.rooms.patches import CHANNELS, log_depth
from models.rooms.renderer import render
from models.rooms.rotation import Turn, _spread_torch, gather, spread
from models.rooms.sampling import noise
from models.rooms.scene import make_scene
from models.rooms.sizes import TOKENS
from models.rooms.walk import random_walk
from server.exactness import exactness


def test_a_point_seen_again_from_the_same_place_has_the_angles_of_its_patch():
    pose = torch.tensor([[[2.0, 3.0, 0.7]]])
    depth = torch.full((1, 1, TOKENS), math.log(2.5))
    points, distance = world_points(pose, depth).flatten(1, 2), distances(depth).flatten(1)
    angles = seen_angles(pose, points, distance)[0, 0]
    assert torch.allclose(angles[:, :11], own_angles()[:, :11], atol=0.05)  # the softening moves elevation a little


def test_a_chunk_mate_turned_right_sees_patches_farther_left():
    turned = mate_angles(torch.tensor([[[0.0, 0.0, 0.0], [0.0, 0.0, 0.3]]]))
    of_first_in_second = turned[0, 1, :TOKENS, 0]
    assert torch.allclose(of_first_in_second, own_angles()[:, 0] - 0.3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gather_undoes_spread(dtype):
    tokens = torch.randn(3, 10, 128).to(dtype)
    turn = Turn.by(torch.randn(3, 1, 10, PAIRS))
    back = gather(spread(tokens, turn), turn)
    assert torch.allclose(back.float(), tokens.float(), atol=0.05 if dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_the_compiled_rotation_and_its_gradient_equal_the_plain_one(dtype, error):
    tokens, turn = torch.randn(2, 7, 128).to(dtype), Turn.by(torch.randn(2, 3, 7, PAIRS))
    plain, fast = (part.clone().requires_grad_() for part in (tokens.float(), tokens))
    wanted, found = _spread_torch(plain, turn), spread(fast, turn)
    assert torch.allclose(found.float(), wanted, atol=error)
    weight = torch.randn(wanted.shape)
    (wanted * weight).sum().backward()
    (found * weight.to(dtype)).sum().backward()
    assert torch.allclose(fast.grad.float(), plain.grad, atol=4 * error)


def test_attention_for_training_equals_the_one_for_drawing():
    q, k, v = (torch.randn(2, 4, n, 64, requires_grad=True) for n in (5, 9, 9))
    taught = attend(q, k, v)
    taught.square().sum().backward()
    grads = [x.grad.clone() for x in (q, k, v)]
    for x in (q, k, v):
        x.grad = None
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    plain.square().sum().backward()
    assert torch.allclose(taught, plain, atol=1e-5)
    for found, x in zip(grads, (q, k, v), strict=True):
        assert torch.allclose(found, x.grad, atol=1e-4)


@pytest.mark.parametrize("has_unit", [True, False])
def test_attention_in_bfloat16_is_fused_where_a_cpu_has_a_matrix_unit_else_products(has_unit, monkeypatch):
    monkeypatch.setattr(attention, "has_matrix_unit", lambda: has_unit)
    q, k, v = (torch.randn(2, 4, n, 64) for n in (5, 90, 90))
    query, key, value = (part.bfloat16() for part in (q, k, v))
    products = torch.matmul(torch.matmul(query * 0.125, key.transpose(-1, -2)).softmax(-1), value)
    with torch.no_grad():
        found = attend(query, key, value)
        assert torch.equal(found, products) is not has_unit
        assert torch.allclose(found.float(), attend(q, k, v), atol=0.03)


@pytest.mark.parametrize(
    ("amx", "avx512", "dtype", "name"),
    [(True, True, torch.bfloat16, "AMX"), (False, True, torch.bfloat16, "bf16"), (False, False, torch.float32, "")],
)
def test_rooms_draws_in_what_the_cpu_multiplies_fast_and_the_fingerprint_tells(amx, avx512, dtype, name, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    questions = (precision.has_matrix_unit, precision.has_bfloat16_products)
    for question in questions:
        question.cache_clear()
    assert precision.preferred_dtype(torch.device("cpu")) == dtype
    assert exactness(PlainModel())["device"].split(torch.backends.cpu.get_cpu_capability())[1].strip() == name
    monkeypatch.undo()
    for question in questions:
        question.cache_clear()


def test_a_remembered_frame_depends_on_no_other():
    torch.manual_seed(0)
    network = RoomsNetwork(128, 2)
    frames = torch.randn(3, TOKENS, CHANNELS)
    together = network.encode(frames, torch.zeros(3))
    alone = network.encode(frames[1:2], torch.zeros(1))
    for (key, value), (own_key, own_value) in zip(together, alone, strict=True):
        assert torch.allclose(key[1:2], own_key, atol=1e-5)
        assert torch.allclose(value[1:2], own_value, atol=1e-5)


def test_noise_is_a_function_of_seed_chunk_and_pass():
    assert torch.equal(noise(1, 2, 0, 2), noise(1, 2, 0, 2))
    for other in ((2, 2, 0), (1, 3, 0), (1, 2, 1)):
        assert not torch.equal(noise(1, 2, 0, 2), noise(*other, 2))


def test_the_patch_basis_keeps_34_db_of_held_out_worlds():
    _, basis = load_weights()
    psnr = []
    for seed in range(900_020, 900_028):
        scene = make_scene(seed)
        rgb, depth_m = render(scene, random_walk(scene, np.random.default_rng(seed), 200)[::20])
        latents = basis.encode(rgb, depth_m)
        error = (basis.decode(latents) - (torch.from_numpy(rgb).float() / 127.5 - 1.0)) / 2.0
        psnr.append(-10.0 * math.log10(float(error.square().mean())))
        assert (log_depth(latents).exp() <= 8.2).all()
    assert np.mean(psnr) > 34.0
