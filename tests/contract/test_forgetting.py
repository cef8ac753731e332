"""What leaves a tier, what is forgotten, and what is kept for a snapshot: real threads, files and bytes."""

import math
import threading
import time

import numpy as np

from server.pager.decide.relevance import Trail
from shared.tiers import Tier


def keys(paging, *blocks):
    return [paging.key(block) for block in blocks]


def tiers(paging, pager, blocks):
    return dict(zip(blocks, pager.tiers_of(keys(paging, *blocks)), strict=True))


def test_what_is_spilled_leaves_memory_and_its_next_use_is_a_read_and_a_hit(paging):
    pager = paging.pager()
    paging.commit(pager, range(3))
    paging.recall_exact(pager, [0, 1])
    pager.spill(keys(paging, 0, 1))
    paging.wait_for(lambda: tiers(paging, pager, [0, 1]) == {0: {Tier.NVME}, 1: {Tier.NVME}})
    assert Tier.DRAM in tiers(paging, pager, [2])[2]
    with pager.recall_exact("h", keys(paging, 0, 1), 10.0) as lease:
        assert lease.hit_tiers == (Tier.NVME, Tier.NVME)
        assert paging.is_right(lease)
    assert pager.stats("h").hits == (0, 2, 2)


def test_what_the_disk_does_not_have_yet_is_spilled_when_it_has(paging):
    pager = paging.pager()
    paging.trouble.is_stalled = True
    pager.commit(paging.key(0), paging.fresh(0))
    paging.wait_for(lambda: Tier.DRAM in tiers(paging, pager, [0])[0])
    pager.spill(keys(paging, 0))
    paging.trouble.is_stalled = False
    paging.wait_for(lambda: tiers(paging, pager, [0])[0] == {Tier.NVME})


def test_what_is_wanted_again_before_it_could_go_stays(paging):
    pager = paging.pager()
    paging.trouble.is_stalled = True
    pager.commit(paging.key(0), paging.fresh(0))
    paging.wait_for(lambda: Tier.DRAM in tiers(paging, pager, [0])[0])
    pager.spill(keys(paging, 0))
    pager.foresee("h", lambda: [(time.monotonic() + 5.0, keys(paging, 0))])
    paging.wait_for(lambda: Tier.GPU in tiers(paging, pager, [0])[0])
    paging.trouble.is_stalled = False
    assert pager.flush(60.0)
    assert tiers(paging, pager, [0])[0] == {Tier.GPU, Tier.DRAM, Tier.NVME}


def test_a_snapshots_blocks_are_forgotten_last_and_it_is_said_when_one_is(paging):
    pager = paging.pager(nvme=6, dram=4)
    paging.commit(pager, range(4))
    pager.set_pinned("w", {0, 1})
    for block in range(4, 14):
        paging.commit(pager, [block])
    kept = {block for block, each in tiers(paging, pager, range(14)).items() if Tier.NVME in each}
    assert {0, 1} <= kept
    assert pager.stats("w").forgotten > 0
    assert not [words for words in pager.stats("w").notes if "snapshot" in words]
    pager.set_pinned("w", range(14))
    for block in range(14, 22):
        paging.commit(pager, [block])
        pager.set_pinned("w", range(block + 1))
    paging.wait_for(lambda: [words for words in pager.stats("w").notes if "snapshot" in words])


def test_pins_are_of_their_own_world(paging, tmp_path_factory):
    pager = paging.pager(nvme=4, dram=4)
    pager.open_world("other", tmp_path_factory.mktemp("other"))
    pager.set_pinned("other", {0, 1})
    pager.set_pinned("nowhere", {0})
    paging.commit(pager, range(8))
    assert not any(pager.is_durable(key) for key in keys(paging, 0, 1))


def turning(count, step_rad):
    return np.array([[0.0, 0.0, 0.0, step_rad * at, 0.0] for at in range(count)])


def walk_along(paging, pager, poses):
    for block in range(len(poses)):
        trail = Trail("w", np.arange(block), poses[:block], poses[block], 1.0)
        pager.foresee("w", list, trail)
        paging.commit(pager, [block])


def test_when_nvme_is_full_what_older_blocks_show_too_is_never_written(paging):
    """Three turns on the spot: the first shows all there is to see, and the drive has room for it."""
    poses = turning(48, 2 * math.pi / 16)
    written = {}
    for eviction in ("relevance", "lru"):
        paging.folder = paging.folder.parent / eviction
        paging.folder.mkdir()
        pager = paging.pager(nvme=20, dram=6, eviction=eviction)
        walk_along(paging, pager, poses)
        written[eviction] = pager.stats("w").disk_written_bytes // pager.layout.moved_bytes
        first_turn = {block for block in range(16) if pager.is_durable(paging.key(block))}
        assert (len(first_turn) == 16) is (eviction == "relevance")
        assert pager.stats("w").lost == 0
    assert written["lru"] == 48
    assert written["relevance"] < 30


def test_when_nvme_is_full_whoever_sees_something_new_still_has_it_written(paging):
    poses = np.array([[0.0, 0.0, 1.2 * at, 0.0, 0.0] for at in range(36)])
    pager = paging.pager(nvme=20, dram=6)
    walk_along(paging, pager, poses)
    assert pager.stats("w").disk_written_bytes // pager.layout.moved_bytes == 36
    assert all(pager.is_durable(key) for key in keys(paging, *range(26, 36)))


def test_an_exact_recall_of_what_is_here_asks_nobody(paging):
    pager = paging.pager()
    paging.commit(pager, range(2))
    paging.recall_exact(pager, [0, 1])
    is_busy, may_go_on = threading.Event(), threading.Event()

    def hold_the_pager_thread():
        is_busy.set()
        may_go_on.wait(60.0)
        return ()

    pager.foresee("other", hold_the_pager_thread)
    assert is_busy.wait(60.0)
    with pager.recall_exact("h", keys(paging, 0, 1)) as lease:
        assert lease.keys == tuple(keys(paging, 0, 1))
        assert not may_go_on.is_set()
    may_go_on.set()
