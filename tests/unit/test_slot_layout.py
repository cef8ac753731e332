"""One slot's arithmetic, and the header that says whose it is."""

import pytest
import torch

from models.base import KVSpec, SidePlane
from server.pager.budgets import Budgets, slot_counts
from server.pager.codec import Codec
from server.pager.errors import BudgetError
from server.pager.header import Identity, block_fingerprint, fault_in, read_identity, seal
from server.pager.layout import PAGE_BYTES, SlotLayout

MATRIX_GAME_2 = SlotLayout(KVSpec(layers=30, tokens=2640, width=1536, head_width=128))
SMALL = SlotLayout(
    KVSpec(2, 6, 24, 24, (SidePlane("depth", (2, 3), torch.float32), SidePlane("mask", (5,), torch.uint8)))
)
OWNER = Identity(b"f" * 16, b"s" * 16, 7, 9)


def test_matrix_game_2_has_the_sizes_of_the_paper():
    layout = MATRIX_GAME_2
    assert layout.spec.kv_bytes == 486_604_800
    assert layout.planes_bytes + layout.scales_bytes == 129_254_400
    assert layout.bits_per_value == 4.25
    assert layout.plane_bytes == 495 * PAGE_BYTES
    assert layout.moved_bytes == 31_558 * PAGE_BYTES
    assert layout.slot_bytes == 62 * (2 << 20)


@pytest.mark.parametrize(("width", "group", "bits"), [(1536, 128, 4.25), (192, 64, 4.5), (96, 32, 5.0), (48, 16, 6.0)])
def test_other_widths_work_and_say_their_bits(width, group, bits):
    layout = SlotLayout(KVSpec(1, 3, width, width))
    assert (layout.group, layout.bits_per_value) == (group, bits)


def test_parts_stand_on_pages_and_do_not_overlap():
    for layout in (MATRIX_GAME_2, SMALL):
        assert layout.planes_at % PAGE_BYTES == layout.scales_at % PAGE_BYTES == layout.slot_bytes % PAGE_BYTES == 0
        ends = [layout.header_bytes]
        for section in layout.sections:
            assert section.offset >= ends[-1]
            ends.append(section.offset + section.num_bytes)
        assert ends[-1] <= layout.moved_bytes <= layout.slot_bytes


def sealed():
    slot = torch.zeros(SMALL.slot_bytes, dtype=torch.uint8)
    numbers = torch.Generator().manual_seed(1)
    Codec(SMALL).encode(torch.randn(SMALL.spec.shape, generator=numbers).bfloat16(), slot)
    side = {"depth": torch.randn(2, 3, generator=numbers), "mask": torch.arange(5, dtype=torch.uint8)}
    Codec(SMALL).store_side(side, slot)
    view = memoryview(slot.numpy().data)
    seal(view, SMALL, OWNER)
    return slot, view, side


def test_a_sealed_slot_is_good_and_its_side_planes_come_back_byte_for_byte():
    slot, view, side = sealed()
    assert fault_in(view, SMALL, OWNER) is None
    assert read_identity(view[: SMALL.header_bytes]) == OWNER
    for name, plane in Codec(SMALL).side_of(slot).items():
        assert torch.equal(plane, side[name])


def test_any_flipped_byte_of_a_part_or_of_the_header_is_found():
    _, view, _ = sealed()
    places = [at for part in SMALL.sections for at in (part.offset, part.offset + part.num_bytes - 1)]
    for at in [0, 8, 40, 96, 128, 300, SMALL.header_bytes - 1, *places]:
        view[at] ^= 1
        assert fault_in(view, SMALL, OWNER) is not None, at
        view[at] ^= 1
    assert fault_in(view, SMALL, OWNER) is None


@pytest.mark.parametrize(
    "other",
    [
        OWNER.__class__(b"g" * 16, OWNER.store_id, 7, 9),
        OWNER.__class__(OWNER.fingerprint, b"t" * 16, 7, 9),
        OWNER.__class__(OWNER.fingerprint, OWNER.store_id, 8, 9),
        OWNER.__class__(OWNER.fingerprint, OWNER.store_id, 7, 10),
    ],
    ids=["fingerprint", "world", "block", "generation"],
)
def test_the_bytes_of_another_block_are_not_taken(other):
    _, view, _ = sealed()
    assert fault_in(view, SMALL, other) == "it holds another block"


def test_the_fingerprint_changes_with_weights_and_layout():
    marks = {block_fingerprint(name, layout) for name in ("a", "b") for layout in (SMALL, MATRIX_GAME_2)}
    assert len(marks) == 4


def test_widths_that_16_does_not_divide_come_back_too():
    kv = torch.randn(SMALL.spec.shape, generator=torch.Generator().manual_seed(2)).bfloat16()
    slot, out = torch.zeros(SMALL.slot_bytes, dtype=torch.uint8), torch.empty(SMALL.spec.shape)
    Codec(SMALL).encode(kv, slot)
    Codec(SMALL).decode(slot, out)
    assert (out - kv.float()).norm() / kv.float().norm() < 0.12


def test_budgets_that_cannot_work_say_what_they_need():
    layout = MATRIX_GAME_2
    buffer = 3 * layout.spec.kv_bytes
    assert slot_counts(layout, Budgets(4_000_000_000, 2_000_000_000, 0), 3, torch.bfloat16) == (19, 15)
    with pytest.raises(BudgetError, match=f"need {buffer + 6 * layout.slot_bytes:,}"):
        slot_counts(layout, Budgets(2_000_000_000, 2_000_000_000, 0), 3, torch.bfloat16)
    with pytest.raises(BudgetError, match="--dram"):
        slot_counts(layout, Budgets(4_000_000_000, 400_000_000, 0), 3, torch.bfloat16)
