"""Decisions without a pager: plans in, steps out."""

import math

import numpy as np
import pytest

from models.base import Catalog
from server.pager.blocks import Block, BlockKey, Copy, Life
from server.pager.decide.evict import POLICIES, Candidate, least_worthy
from server.pager.decide.extrapolate import Seen, constant_velocity
from server.pager.decide.place import Drop, Fetch, place, pressing, useless, wants_of
from server.pager.decide.retrieve import by_view_overlap
from shared.pose import Pose
from shared.tiers import Tier


def key(block):
    return BlockKey("w", block)


class Shelves:
    """A view of three shelves; carries a step out at once."""

    def __init__(self, *, gpu=2, dram=3, limit=9, read_s=0.0):
        self.read_s = read_s
        self.room = {Tier.GPU: gpu, Tier.DRAM: dram}
        self.limit = limit
        self.blocks = {}
        self.wanted_at = {}

    def add(self, block, *tiers):
        entry = Block(key(block), serial=block + 1, generation=block, life=Life.KEPT)
        for tier in tiers:
            entry.copies[tier] = Copy.READY
        entry.tiers = frozenset(tiers)
        self.blocks[key(block)] = entry

    def block(self, block_key):
        return self.blocks.get(block_key)

    def free(self, tier):
        return self.room[tier] - sum(block.copies[tier] is not Copy.NONE for block in self.blocks.values())

    def leaving(self, tier):
        return 0

    def can_start(self, to):
        return sum(block.copies[to] is Copy.FILLING for block in self.blocks.values()) < self.limit

    def next_read_ends_s(self, now_s):
        return now_s + self.read_s * (
            1 + sum(block.copies[Tier.DRAM] is Copy.FILLING for block in self.blocks.values())
        )

    def victim(self, tier, now_s):
        copies = [
            Candidate(each, self.wanted_at.get(each, math.inf), block.last_wanted_s)
            for each, block in self.blocks.items()
            if block.copies[tier] is Copy.READY
        ]
        return least_worthy(copies, now_s)

    def run(self, plans, now_s=0.0):
        wants = wants_of(plans, now_s)
        self.wanted_at = {want.key: want.deadline_s for want in wants}
        steps = []
        for step in place(wants, self, now_s):
            steps.append(step)
            if isinstance(step, Drop):
                self.blocks[step.key].copies[step.tier] = Copy.NONE
            else:
                self.blocks[step.key].copies[step.to] = Copy.FILLING
        return steps


def test_work_is_ordered_by_deadline_then_worth_and_each_block_comes_once():
    plans = [[(2.0, [key(5), key(1)])], [(1.0, [key(7), key(5)])]]
    assert [want.key.block for want in wants_of(plans, 0.0)] == [7, 5, 1]


def test_an_overdue_wish_fades_as_if_it_were_that_far_in_the_future():
    wants = wants_of([[(8.0, [key(1)]), (10.5, [key(2)])]], now_s=10.0)
    assert [(want.key.block, want.deadline_s) for want in wants] == [(2, 10.5), (1, 12.0)]


def test_a_wanted_block_climbs_one_tier_at_a_time():
    shelves = Shelves()
    shelves.add(1, Tier.NVME)
    shelves.add(2, Tier.DRAM, Tier.NVME)
    assert shelves.run([[(1.0, [key(1), key(2), key(3)])]]) == [Fetch(key(1), Tier.DRAM), Fetch(key(2), Tier.GPU)]


def test_room_is_made_by_the_copy_that_is_wanted_last():
    shelves = Shelves(gpu=2)
    shelves.add(1, Tier.GPU, Tier.DRAM)
    shelves.add(2, Tier.GPU, Tier.DRAM)
    shelves.add(3, Tier.DRAM)
    steps = shelves.run([[(1.0, [key(3)]), (2.0, [key(1)]), (3.0, [key(2)])]])
    assert steps == [Drop(key(2), Tier.GPU), Fetch(key(3), Tier.GPU)]


def test_nothing_wanted_as_soon_is_driven_out():
    shelves = Shelves(gpu=1)
    shelves.add(1, Tier.GPU, Tier.DRAM)
    shelves.add(2, Tier.DRAM)
    assert shelves.run([[(1.0, [key(1), key(2)])]]) == []


def test_a_busy_mover_is_given_no_more_than_it_takes_at_once():
    shelves = Shelves(dram=9, limit=2)
    for block in range(5):
        shelves.add(block, Tier.NVME)
    assert len(shelves.run([[(1.0, [key(block) for block in range(5)])]])) == 2


def wanted(*plan):
    return {want.key: want for want in wants_of([plan], 0.0)}


def test_a_read_that_serves_no_plan_is_useless():
    assert useless([key(1), key(2)], wanted((1.0, [key(1)])), Shelves(), 0.0) == [key(2)]


def test_what_is_due_later_is_not_read_beside_what_would_be_late_then():
    plan = [(1.0, [key(1)]), (2.0, [key(2)])]
    for read_s, blocks in ((0.3, [1, 2]), (0.6, [1])):
        shelves = Shelves(read_s=read_s)
        shelves.add(1, Tier.NVME)
        shelves.add(2, Tier.NVME)
        assert [step.key.block for step in shelves.run([plan])] == blocks


def test_a_read_gives_way_to_what_is_due_sooner_and_would_come_too_late_behind_it():
    wants = wanted((1.0, [key(1)]), (2.0, [key(2)]))
    for read_s, given_up in ((0.3, []), (0.6, [key(2)])):
        shelves = Shelves(read_s=read_s)
        shelves.add(1, Tier.NVME)
        shelves.add(2, Tier.NVME)
        shelves.blocks[key(2)].copies[Tier.DRAM] = Copy.FILLING
        assert useless([key(2)], wants, shelves, 0.0) == given_up


def test_while_the_engine_waits_for_the_disk_nothing_else_is_read():
    shelves = Shelves()
    shelves.add(1, Tier.NVME)
    shelves.add(2, Tier.NVME)
    shelves.add(3, Tier.DRAM, Tier.NVME)
    wants = {want.key: want for want in wants_of([[(0.0, [key(1), key(3)]), (1.0, [key(2)])]], 0.0)}
    assert list(pressing(wants, {key(1), key(3)}, shelves)) == [key(1), key(3)]
    assert pressing(wants, {key(3)}, shelves) is wants


@pytest.mark.parametrize("policy", POLICIES.values())
def test_what_a_plan_names_goes_after_what_none_does_and_the_soonest_wanted_last(policy):
    soon, later = Candidate(key(1), 11.0, 0.0), Candidate(key(2), 20.0, 0.0)
    old, new = Candidate(key(3), math.inf, 1.0, serial=3), Candidate(key(4), math.inf, 9.0, serial=4)
    left, order = [soon, later, new, old], []
    while left:
        order.append(least_worthy(left, 10.0, policy))
        left.remove(order[-1])
    assert order == [old, new, later, soon]
    assert least_worthy([], 10.0, policy) is None


def test_recency_and_seniority_are_not_the_same():
    old, new = Candidate(key(3), math.inf, 9.0, serial=3), Candidate(key(4), math.inf, 1.0, serial=4)
    assert least_worthy([old, new], 10.0, POLICIES["lru"]) == new
    assert least_worthy([old, new], 10.0, POLICIES["fifo"]) == old


def test_constant_velocity_goes_on_as_before_across_the_turn_of_the_circle():
    recent = [Seen(0.0, Pose(0.0, 1.0, 0.0, 3.0, 0.0)), Seen(0.5, Pose(1.0, 1.0, 0.5, 3.1, 0.1))]
    pose = constant_velocity(recent, 1.0)
    assert pose.as_tuple() == pytest.approx((2.0, 1.0, 1.0, 3.2 - 2 * math.pi, 0.2))


def test_one_pose_stands_still_and_none_is_refused():
    assert constant_velocity([Seen(3.0, Pose(1.0))], 9.0) == Pose(1.0)
    with pytest.raises(ValueError, match="no pose"):
        constant_velocity([], 1.0)


def test_view_overlap_names_what_saw_most_and_never_the_window():
    yaws = np.array([0.0, 0.3, math.pi, 0.05, 0.0])
    poses = np.zeros((5, 1, 5))
    poses[:, 0, 3] = yaws
    catalog = Catalog(np.arange(10, 15), np.arange(5), poses, np.zeros((5, 1)), window_start=4)
    assert by_view_overlap(Pose(), catalog, 2) == (10, 13)
    assert by_view_overlap(Pose(), catalog, 9) == (10, 13, 11)
