"""The table of block states: what is legal, and that nothing else is."""

import itertools

import pytest

from server.pager.blocks import COPY_CHANGES, LIFE_CHANGES, NO_SLOT, Block, BlockKey, Change, Copy, Life
from server.pager.errors import BlockStateError
from shared.tiers import Tier


def kept_in(*tiers):
    block = Block(BlockKey("w", 1), serial=1, generation=1)
    block.live(Life.ENCODING)
    block.begin(Tier.DRAM, 5)
    block.end(Tier.DRAM, failed=False)
    block.live(Life.KEPT)
    for tier in tiers:
        if tier is not Tier.DRAM:
            block.begin(tier, 7)
            block.end(tier, failed=False)
    return block


def test_every_state_of_a_copy_can_be_reached_and_left():
    assert set(COPY_CHANGES.values()) == set(Copy)
    assert {before for before, _ in COPY_CHANGES} == set(Copy)
    assert {change for _, change in COPY_CHANGES} == set(Change)


def test_every_life_ends_lost_or_forgotten():
    ends = {life for life, after in LIFE_CHANGES.items() if not after}
    assert ends == {Life.LOST, Life.FORGOTTEN}


@pytest.mark.parametrize(("copy", "change"), list(itertools.product(Copy, Change)))
def test_a_change_outside_the_table_raises_and_changes_nothing(copy, change):
    block = kept_in(Tier.DRAM)
    block.copies[Tier.GPU] = copy
    if (copy, change) in COPY_CHANGES:
        block._change(Tier.GPU, change)
        assert block.copies[Tier.GPU] is COPY_CHANGES[copy, change]
    else:
        with pytest.raises(BlockStateError):
            block._change(Tier.GPU, change)
        assert block.copies[Tier.GPU] is copy


def test_a_tier_is_filled_only_from_the_ready_copy_below_or_above_it():
    block = Block(BlockKey("w", 1), serial=1, generation=1)
    for tier in Tier:
        with pytest.raises(BlockStateError):
            block.begin(tier, 0)


def test_a_copy_that_a_move_reads_cannot_be_dropped():
    block = kept_in(Tier.DRAM)
    block.begin(Tier.NVME, 3)
    assert not block.can_drop(Tier.DRAM)
    with pytest.raises(BlockStateError):
        block.drop(Tier.DRAM)
    block.end(Tier.NVME, failed=False)
    assert block.can_drop(Tier.DRAM)


def test_a_failed_move_gives_its_slot_back_and_a_good_one_keeps_it():
    block = kept_in(Tier.DRAM)
    block.begin(Tier.GPU, 9)
    assert block.end(Tier.GPU, failed=True) == 9
    assert block.slots[Tier.GPU] == NO_SLOT
    block.begin(Tier.GPU, 4)
    assert block.end(Tier.GPU, failed=False) == NO_SLOT
    assert block.slots[Tier.GPU] == 4


def test_a_dropped_copy_is_offered_no_more_and_holds_its_slot_until_it_is_freed():
    block = kept_in(Tier.GPU)
    block.drop(Tier.GPU)
    assert block.tiers == {Tier.DRAM}
    assert block.slots[Tier.GPU] == 7
    assert block.free(Tier.GPU) == 7
    assert not block.is_idle


def test_a_dead_block_does_not_live_again():
    block = kept_in()
    block.live(Life.LOST)
    for life in Life:
        with pytest.raises(BlockStateError):
            block.live(life)
