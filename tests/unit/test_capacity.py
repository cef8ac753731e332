"""The analytical model: the paper's figures from its budgets, and the arithmetic of the notes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.pager.budgets import Budgets
from server.pager.capacity import (
    SHIPPED,
    Load,
    critical_read_gbps,
    new_per_chunk,
    spill_chunks,
    stall_class,
    stored_chunks,
    wear,
)

MG2 = SHIPPED["matrix-game-2"]
PAPER = Budgets(10_220_000_000, 29_250_000_000, 100_000_000_000)


def test_the_papers_spill_chunks_follow_from_its_budgets():
    spill = spill_chunks(MG2, PAPER)
    assert (spill["gpu_bf16"], spill["dram_bf16"], spill["dram_int4"]) == (21, 60, 226)


def test_the_papers_position_limit_is_chunk_341():
    assert MG2.position_limit_chunk == 341
    assert SHIPPED["rooms"].position_limit_chunk is None


def test_the_block_sizes_are_those_of_the_paper():
    assert (MG2.bf16_bytes, MG2.int4_bytes) == (486_604_800, 129_254_400)


def test_three_new_blocks_a_chunk_need_a_third_of_a_gigabyte_a_second():
    assert critical_read_gbps(MG2.int4_bytes, 3.0, 1200.0) == pytest.approx(0.323, abs=5e-4)
    assert stall_class(0.25, 0.323) == "non-zero"
    assert stall_class(0.323, 0.323) == "zero"


def test_writing_every_block_is_388_gigabytes_an_hour():
    hours = wear(MG2, PAPER, 3, Load(1200.0, 3.0, 3.5))
    assert hours["write_gb_per_hour"] == pytest.approx(387.8, abs=0.1)
    assert hours["hours_until_nvme_full"] == pytest.approx(769 / 3000)
    assert hours["hours_until_600_tbw"] == pytest.approx(1547, abs=1)


def test_a_walk_that_leaves_nothing_behind_never_fills_the_drive():
    hours = wear(MG2, PAPER, 3, Load(1200.0, 3.0, 3.5, blocks_per_chunk=0.0))
    assert hours["hours_until_nvme_full"] == hours["hours_until_600_tbw"] == float("inf")


def test_new_blocks_are_those_that_the_chunk_before_did_not_have():
    assert new_per_chunk([(), (1, 2), (2, 3), (3, 2)]) == pytest.approx(1.0)
    assert new_per_chunk([(1, 2)]) == 0.0


@pytest.mark.parametrize("name", sorted(SHIPPED))
@given(gpu=st.integers(0, 10**11), dram=st.integers(0, 10**11), nvme=st.integers(0, 10**12))
def test_slots_never_hold_more_chunks_than_their_payload_would(name, gpu, dram, nvme):
    geometry, budgets = SHIPPED[name], Budgets(gpu, dram, nvme)
    spill, stored = spill_chunks(geometry, budgets), stored_chunks(geometry, budgets, geometry.k)
    assert all(0 <= stored[tier] <= spill[tier] for tier in spill)


def test_the_shipped_geometries_are_those_of_the_models():
    from models.matrix_game_2.config import load_config
    from models.matrix_game_2.steering import motion_of
    from models.rooms.model import RoomsModel

    config = load_config("universal")
    spec = MG2.spec
    assert spec.shape == (config.network.num_layers, 2, config.chunk_tokens, config.network.dim)
    assert (MG2.k, MG2.fps, MG2.frames_per_chunk) == (config.max_recall, config.fps, config.frames_per_chunk)
    assert MG2.motion == motion_of(config)
    rooms = SHIPPED["rooms"]
    assert rooms.motion == RoomsModel.motion
    assert rooms.spec == RoomsModel.kv_spec
    assert (rooms.k, rooms.fps, rooms.frames_per_chunk) == (
        RoomsModel.max_recall,
        RoomsModel.fps,
        RoomsModel.frames_per_chunk,
    )
