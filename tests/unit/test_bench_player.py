"""The bench's player: input comes in while a chunk is drawn, however long its blocks take to decode."""

import gc
import threading
from types import SimpleNamespace

import numpy as np
import torch

from bench.pager_foresee import KNOWN_SHARES, Foreseer
from bench.pager_player import Player
from bench.pager_rule import rule_of
from bench.pager_trace import trajectory
from bench.pager_walk import WORLD, Terms, Walk
from models.base import FreshBlock
from server.pager.capacity import SHIPPED
from server.pager.lease import Lease
from shared.tiers import Tier

GEOMETRY = SHIPPED["matrix-game-2"]
PATIENCE_S = 60.0


class WatchedPager:
    """Gives out leases on nothing, and counts the plans that it is told."""

    def __init__(self):
        self.told = threading.Condition()
        self.num_plans = 0
        self.trails = 0
        self.may_collect = False

    def foresee(self, head, plan, trail=None):
        if head != WORLD:
            return
        with self.told:
            self.num_plans += 1
            self.trails += trail is not None
            self.told.notify_all()

    def recall(self, head, wanted):
        self.may_collect |= gc.isenabled()
        return Lease((), (), lambda lease: None)

    def stats(self, head):
        return SimpleNamespace(hits=(0, 0, 0), stalls=0, preempted=0)

    def tiers_of(self, keys):
        return [frozenset({Tier.GPU}) for _ in keys]

    def take_moves(self, head):
        return []

    def commit(self, key, fresh):
        pass


class SlowDecoder:
    """Decoding a chunk's blocks ends only when all plans of that chunk were told, or patience does."""

    def __init__(self, pager):
        self.pager = pager
        self.num_fills = 0
        self.plans_before: list[int] = []

    def fill(self, lease):
        self.num_fills += 1
        due = self.num_fills * len(KNOWN_SHARES)
        with self.pager.told:
            self.plans_before.append(self.pager.num_plans)
            assert self.pager.told.wait_for(lambda: self.pager.num_plans >= due, PATIENCE_S), "nobody plans meanwhile"
        return ()


def walk(folder, pager, buffer, policy="live"):
    chunks = trajectory("square", 6, GEOMETRY)
    alive = np.ones(len(chunks), dtype=np.bool_)
    foreseer = Foreseer("ours", chunks, GEOMETRY, rule_of(chunks, alive, 3), WORLD)
    fresh = FreshBlock(torch.zeros(0), {}, np.zeros(0), ())
    Walk(pager, buffer, foreseer, Terms(policy, 0.001), lambda index: fresh, alive, folder).run()


def test_a_chunk_is_planned_before_its_blocks_are_decoded_and_while_they_are(tmp_path):
    pager = WatchedPager()
    buffer = SlowDecoder(pager)
    walk(tmp_path, pager, buffer)
    assert pager.num_plans == 6 * len(KNOWN_SHARES)
    assert pager.trails == 6
    assert all(told > at * len(KNOWN_SHARES) for at, told in enumerate(buffer.plans_before))


def test_no_garbage_is_collected_in_the_middle_of_a_recall(tmp_path):
    pager = WatchedPager()
    walk(tmp_path, pager, SimpleNamespace(fill=lambda lease: ()))
    assert not pager.may_collect
    assert gc.isenabled()


def test_who_loads_on_demand_plans_nothing(tmp_path):
    pager = WatchedPager()
    walk(tmp_path, pager, SimpleNamespace(fill=lambda lease: ()), "on-demand")
    assert pager.num_plans == 0


def test_the_player_tells_of_every_share_of_every_chunk_in_order():
    told = []
    player = Player(lambda index, share, begin_s: told.append((index, share)), (0.25, 0.6), 1e-3)
    for index in range(5):
        player.begin(index, 0.0)
    player.finish()
    assert told == [(index, share) for index in range(5) for share in (0.25, 0.6)]
    player.close()
