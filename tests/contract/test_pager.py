"""The pager as the engine and the application see it, with real threads, files and bytes."""

import errno
import fcntl
import os
import sys
import time

import numpy as np
import pytest
import torch

from models.base import FreshBlock
from server.pager.budgets import Budgets
from server.pager.errors import BlockStateError, BudgetError, WorldFault
from server.pager.pager import Pager
from shared.tiers import Tier


def keys(paging, *blocks):
    return [paging.key(block) for block in blocks]


def test_a_block_goes_down_to_the_disk_and_comes_back_up_the_same(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(12))
    assert pager.tiers_of(keys(paging, 0, 11)) == [{Tier.NVME}, {Tier.DRAM, Tier.NVME}]
    with pager.recall_exact("h", keys(paging, 0, 11), 10.0) as lease:
        assert lease.keys == tuple(keys(paging, 0, 11))
        assert lease.hit_tiers == (Tier.NVME, Tier.DRAM)
        assert paging.is_right(lease)
        buffer = pager.recall_buffer()
        for decoded in buffer.fill(lease):
            fresh = paging.fresh(decoded.key.block)
            assert (decoded.kv.float() - fresh.kv.float()).norm() / fresh.kv.float().norm() < 0.12
            assert torch.equal(decoded.side["depth"], fresh.side["depth"])
    stats = pager.stats("h")
    assert stats.hits == (0, 1, 1)
    assert stats.disk_read_bytes == pager.layout.moved_bytes


def test_a_live_recall_takes_the_last_complete_set_and_the_wanted_one_when_it_has_come(paging):
    pager = paging.pager(dram=4, gpu=6)
    paging.commit(pager, range(8))
    with pager.recall_exact("h", keys(paging, 0, 1), 10.0):
        pass
    paging.trouble.is_stalled = True
    with pager.recall("h", keys(paging, 2, 3)) as lease:
        assert (lease.keys, lease.stale) == (tuple(keys(paging, 0, 1)), True)
    paging.trouble.is_stalled = False
    paging.wait_for(lambda: pager.is_complete("h", keys(paging, 2, 3)))
    with pager.recall("h", keys(paging, 2, 3)) as lease:
        assert (lease.keys, lease.stale) == (tuple(keys(paging, 2, 3)), False)
    stats = pager.stats("h")
    assert (stats.chunks, stats.stale_chunks, stats.missed) == (3, 1, 2)


def test_what_was_foreseen_is_there_when_it_is_asked_for_and_its_hit_tier_is_where_it_was_then(paging):
    pager = paging.pager(dram=4, gpu=6)
    paging.commit(pager, range(8))
    pager.foresee("h", lambda: [(time.monotonic() + 1.0, keys(paging, 0, 7))])
    paging.wait_for(lambda: all(Tier.GPU in tiers for tiers in pager.tiers_of(keys(paging, 0, 7))))
    paging.wait_for(lambda: pager.is_complete("onlooker", keys(paging, 0, 7)))  # a set is published after it has come
    with pager.recall("h", keys(paging, 0, 7)) as lease:
        assert (lease.stale, lease.hit_tiers) == (False, (Tier.NVME, Tier.DRAM))
    with pager.recall("h", keys(paging, 0, 7)):
        pass
    assert pager.stats("h").hits == (0, 1, 1), "a hit counts once for as long as the block stays wanted"


def test_recall_never_waits_whatever_the_disk_does(paging):
    pager = paging.pager(dram=4, gpu=6)
    paging.commit(pager, range(16))
    waits_ms = []
    for trouble in ("healthy", "slow", "stalled", "failing"):
        paging.trouble.read_s = 0.01 if trouble == "slow" else 0.0
        paging.trouble.is_stalled = trouble == "stalled"
        paging.trouble.read_errors.extend([errno.EIO] * 10 if trouble == "failing" else [])
        for turn in range(100):
            with pager.recall("h", keys(paging, turn % 16, (turn + 5) % 16)) as lease:
                waits_ms.append(lease.wait_ms)
            time.sleep(0.0005)
    waits_ms.sort()
    assert waits_ms[len(waits_ms) // 2] < 0.05
    assert pager.stats("h").stalls == 0


def test_the_recall_buffer_decodes_only_what_is_not_in_place(paging):
    pager = paging.pager(max_recall=3, gpu=8)
    paging.commit(pager, range(5))
    buffer = pager.recall_buffer()
    with pager.recall_exact("h", keys(paging, 0, 1, 2), 10.0) as lease:
        first = {block.key: block.kv.clone() for block in buffer.fill(lease)}
    with pager.recall_exact("h", keys(paging, 2, 0, 4), 10.0) as lease:
        second = {block.key: block.kv.clone() for block in buffer.fill(lease)}
        assert [block.key for block in buffer.fill(lease)] == keys(paging, 2, 0, 4)
    assert buffer.num_decoded == 4
    assert torch.equal(first[paging.key(2)], second[paging.key(2)])
    with pytest.raises(ValueError, match="released"):
        buffer.fill(lease)


def test_a_full_nvme_tier_forgets_the_least_recently_wanted_and_the_walk_goes_on(paging):
    pager = paging.pager(nvme=6, dram=4)
    paging.commit(pager, range(6))
    paging.recall_exact(pager, [0, 1])
    for block in range(6, 10):
        paging.commit(pager, [block])
        paging.recall_exact(pager, [0, 1])
    here = [block for block, tiers in enumerate(pager.tiers_of(keys(paging, *range(10)))) if tiers]
    assert {0, 1, 9} <= set(here)
    assert pager.stats("h").forgotten >= 2
    assert pager.stats("h").lost == 0


def test_a_disk_too_slow_for_the_walk_loses_blocks_and_says_how_many(paging):
    pager = paging.pager(dram=4)
    pager.stats("w")
    paging.trouble.write_s = 0.05
    for block in range(40):
        pager.commit(paging.key(block), paging.fresh(block))
        time.sleep(0.002)
    paging.wait_for(lambda: pager.stats("w").lost > 0)
    paging.trouble.write_s = 0.0
    assert pager.flush(60.0)
    kept = sum(bool(tiers) for tiers in pager.tiers_of(keys(paging, *range(40))))
    assert kept + pager.stats("w").lost == 40


def test_without_a_disk_tier_blocks_live_in_memory_and_are_never_durable(paging):
    pager = paging.pager(nvme=0)
    for block in range(4):
        pager.commit(paging.key(block), paging.fresh(block))
    assert paging.recall_exact(pager, [0, 3]) == [0, 3]
    assert not pager.flush(5.0)
    assert not pager.is_durable(paging.key(0))


def test_a_forgotten_block_is_gone_and_stays_gone(paging):
    pager = paging.pager()
    paging.commit(pager, range(3))
    pager.forget(keys(paging, 1))
    assert paging.recall_exact(pager, [0, 1, 2][:2]) == [0]
    paging.wait_for(lambda: paging.key(1) not in pager._table.blocks)
    paging.pagers.pop().close()
    assert paging.pager().durable_at_start == {0, 2}


def test_worlds_share_memory_and_nothing_else(paging, tmp_path_factory):
    pager = paging.pager()
    pager.open_world("other", tmp_path_factory.mktemp("other"))
    paging.commit(pager, [0])
    pager.commit(paging.key(0, "other"), paging.fresh(5))
    with pager.recall_exact("h", [paging.key(0), paging.key(0, "other")], 10.0) as lease:
        mine, others = lease.blocks
        assert torch.equal(paging.parts(mine.packed), paging.encoded(0))
        assert torch.equal(paging.parts(others.packed), paging.encoded(5))
    pager.close_world("other")
    assert pager.recall_exact("h", [paging.key(0, "other")], 5.0).missing == (paging.key(0, "other"),)


def test_moves_are_told_to_the_head_whose_world_it_is(paging):
    pager = paging.pager()
    paging.commit(pager, [0])
    pager.take_moves("stranger")
    paging.recall_exact(pager, [0])
    pager.take_moves("h")
    paging.commit(pager, [1])
    moves = [(note.key.block, note.from_tier, note.to_tier) for note in pager.take_moves("h")]
    assert moves == [(1, None, Tier.DRAM), (1, Tier.DRAM, Tier.NVME)]
    assert pager.take_moves("h") == pager.take_moves("stranger") == []


def test_a_world_that_another_process_holds_is_refused_in_words(paging):
    fd = os.open(paging.folder, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    pager = paging.pager(opens=False)
    with pytest.raises(WorldFault, match="open in another process"):
        pager.open_world("w", paging.folder)
    os.close(fd)
    assert pager.open_world("w", paging.folder) == frozenset()


def test_budgets_that_cannot_work_stop_the_start(paging):
    with pytest.raises(BudgetError, match="--gpu"):
        Pager(paging.layout.spec, "weights", Budgets(1000, 10**9, 10**9), max_recall=2)


def test_our_own_mistakes_are_told_at_once(paging):
    pager = paging.pager()
    paging.commit(pager, [0])
    with pytest.raises(BlockStateError, match="twice"):
        pager.commit(paging.key(0), paging.fresh(0))
    with pytest.raises(BlockStateError, match="not open"):
        pager.commit(paging.key(0, "nowhere"), paging.fresh(0))
    with pytest.raises(ValueError, match="K,V"):
        pager.commit(paging.key(1), FreshBlock(torch.zeros(1), {}, np.zeros(1), ()))


def test_closing_twice_is_closing_once(paging):
    pager = paging.pager()
    paging.commit(pager, range(3))
    pager.close()
    pager.close()
    pager.close_world("w")
    paging.pagers.remove(pager)
    assert paging.pager().durable_at_start == {0, 1, 2}


def test_a_slab_is_never_shrunk_under_its_blocks_and_grows_when_asked(paging):
    paging.commit(paging.pager(nvme=8), range(8))
    paging.pagers.pop().close()
    smaller = paging.pager(nvme=4)
    assert smaller.durable_at_start == set(range(8))
    assert any("more than --nvme" in note for note in smaller.stats("w").notes)
    paging.pagers.pop().close()
    larger = paging.pager(nvme=16)
    assert larger.durable_at_start == set(range(8))
    paging.commit(larger, range(8, 16))
    assert larger.stats("w").forgotten == 0


def test_a_lease_shows_its_own_blocks_bytes_however_fast_slots_are_reused(paging):
    pager = paging.pager(gpu=5, dram=5)
    paging.commit(pager, range(20))
    true = {block: paging.encoded(block) for block in range(20)}
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for turn in range(600):
            wanted = keys(paging, (3 * turn) % 20, (3 * turn + 7) % 20)
            pager.foresee("h", lambda wanted=wanted: [(time.monotonic() + 0.01, wanted)])
            with pager.recall("h", wanted) as lease:
                for _ in range(3):
                    for each in lease.blocks:
                        assert torch.equal(paging.parts(each.packed), true[each.key.block])
                    time.sleep(0.0003)
    finally:
        sys.setswitchinterval(interval_s)
    assert pager.stats("h").disk_read_bytes > 0
