"""Positions: the native table bit for bit, any integer beyond it, and what a chunk sees in front of itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from models.matrix_game_2 import positions
from tests.golden.test_matrix_game_2_parity import GOLDEN


def native_table(width):
    frequencies = 1.0 / torch.pow(10_000.0, torch.arange(0, width, 2).to(torch.float64).div(width))
    turned = torch.outer(torch.arange(1024), frequencies)
    return torch.polar(torch.ones_like(turned), turned)


@pytest.mark.parametrize("width", [12, 10, 44, 42])
def test_inside_the_native_range_angles_are_the_table_bit_for_bit(width):
    table = native_table(width)
    assert torch.equal(positions.angles(range(1024), width), table)
    for position in (0, 1, 340, 1023):
        assert torch.equal(positions.angles([position], width)[0], table[position])


def test_the_recorded_rows_are_reproduced_bit_for_bit():
    recorded = load_file(GOLDEN / "a_rope.safetensors")
    rows = recorded["rows"].tolist()
    for head_width in (32, 128):
        table = torch.cat([positions.angles(rows, width) for width in positions.axis_widths(head_width)], dim=-1)
        assert torch.equal(table.real, recorded[f"table_d{head_width}_real"])
        assert torch.equal(table.imag, recorded[f"table_d{head_width}_imag"])


def test_a_range_that_leaves_the_table_keeps_its_native_part_bit_for_bit():
    assert torch.equal(positions.angles([1022, 1023, 1024], 44)[:2], native_table(44)[1022:])
    assert torch.equal(positions.angles([-1, 0, 1], 44)[1:], native_table(44)[:2])


@given(position=st.integers(-100_000, 10_000_000), by=st.integers(-2_000, 2_000))
def test_angles_of_any_integers_compose(position, by):
    a, b, c = (positions.angles([p], 44)[0] for p in (position, by, position + by))
    assert (a * b - c).abs().max() < 1e-6


def test_turning_again_equals_turning_once_to_the_same_place():
    """Temporal re-rotation by p' - p (spec 9.3), within and beyond the table."""
    torch.manual_seed(0)
    keys = torch.randn(3 * 12, 2, 32, dtype=torch.float64)
    time_pairs = positions.axis_widths(32)[0] // 2
    for old, new in ((0, 1020), (5, 2_000), (1_200, -9), (1_021, 1_024)):
        first = positions.rotate(keys, positions.grid_angles((old, old + 1, old + 2), 3, 4, 32))
        by = positions.angles([new - old], positions.axis_widths(32)[0])[0]
        turns = torch.cat([by, torch.ones(16 - time_pairs, dtype=torch.complex128)]).expand(36, -1)
        direct = positions.rotate(keys, positions.grid_angles((new, new + 1, new + 2), 3, 4, 32))
        assert (positions.rotate(first, turns) - direct).abs().max() < 1e-11


def test_the_action_rotation_is_the_recorded_one_and_goes_on_behind_its_table():
    recorded = load_file(GOLDEN / "a_rope.safetensors")
    rows = recorded["action_rows"].tolist()
    cos, sin = positions.action_angles(rows, (8, 28, 28), 256.0)
    assert torch.equal(cos, recorded["action_cos"])
    assert torch.equal(sin, recorded["action_sin"])
    cos, _ = positions.action_angles([1_000_000], (8, 28, 28), 256.0)
    assert torch.allclose(cos[0, 0].double(), torch.tensor(1_000_000.0, dtype=torch.float64).cos(), atol=1e-6)


def native_frames(num_chunks, frames, capacity, sink):
    """What the native cache's own arithmetic keeps, chunk by chunk (spec 6): the content in front of each chunk."""
    content: list[int] = []
    seen = []
    for chunk in range(num_chunks):
        own = list(range(chunk * frames, (chunk + 1) * frames))
        evicted = max(0, len(content) + frames - capacity)
        content = content[:sink] + content[sink + evicted :]
        seen.append(tuple(content))
        content += own
    return seen


@given(frames=st.integers(1, 4), spare=st.integers(0, 9), sink=st.integers(0, 5))
def test_what_a_chunk_sees_is_what_the_native_evictions_leave(frames, spare, sink):
    sink = min(sink, spare)
    for chunk, expected in enumerate(native_frames(12, frames, frames + spare, sink)):
        assert positions.past_frames(chunk * frames, frames, frames + spare, sink) == expected


def test_gta_keeps_one_old_frame_and_universal_three():
    assert positions.past_frames(300, 3, 4, 0) == (299,)
    assert positions.past_frames(300, 3, 6, 0) == (297, 298, 299)
    assert positions.past_frames(300, 3, -1, 0) == tuple(range(300))
    assert positions.window_start(300, 3, 6, 0) == 297
    assert positions.window_start(300, 3, 9, 2) == 296


def test_always_rebase_puts_the_newest_block_in_front_of_the_window():
    assert positions.recall_starts("always-rebase", 297, 3, [90, 30, 0], 300) == (294, 291, 288)
    assert positions.recall_starts("always-rebase", 3, 3, [0, 0], 6) == (0, -3)


def test_native_then_rebase_changes_over_behind_chunk_340():
    last_native, next_chunk = 3 * 340, 3 * 341
    assert positions.recall_starts("native-then-rebase", last_native - 3, 3, [90, 30], last_native) == (90, 30)
    assert positions.recall_starts("native-then-rebase", next_chunk - 3, 3, [90, 30], next_chunk) == (1017, 1014)


def test_an_unknown_placement_is_refused():
    with pytest.raises(ValueError, match="placement"):
        positions.recall_starts("sideways", 3, 3, [0], 6)
