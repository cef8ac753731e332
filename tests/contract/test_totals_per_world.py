"""What happened in one world is counted for its own head, and nobody sees it twice or in another's HUD."""

import errno
import threading
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from server.metrics import MemoryCollector
from shared.tiers import Tier

WORLDS = ("anna", "ben", "cleo")


@pytest.fixture
def three(paging, tmp_path):
    """A pager with three worlds, each with a head of its own."""
    pager = paging.pager(opens=False, dram=6, gpu=6)
    for world in WORLDS:
        (tmp_path / world).mkdir()
        pager.open_world(world, tmp_path / world)
        pager.stats(world)
    return pager


def commit(paging, pager, world, num):
    for block in range(num):
        pager.commit(paging.key(block, world), paging.fresh(block))
        time.sleep(0.001)


def metric(pager, name):
    registry = CollectorRegistry()
    registry.register(MemoryCollector(lambda: [pager.stats(world) for world in WORLDS]))
    lines = generate_latest(registry).decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(f"worldpager_{name}")}


def test_losses_and_bytes_of_one_world_are_not_anothers(paging, three):
    paging.trouble.is_stalled = True
    commit(paging, three, "anna", 30)
    paging.wait_for(lambda: three.stats("anna").lost > 10)
    assert three.stats("anna").queued_moves > 0
    assert three.stats("ben").queued_moves == 0
    paging.trouble.is_stalled = False
    assert three.flush(60.0)
    anna, ben = three.stats("anna"), three.stats("ben")
    kept = 30 - anna.lost
    assert anna.disk_written_bytes == anna.spilled_bytes == kept * three.layout.moved_bytes
    assert (ben.lost, ben.spilled_bytes, ben.disk_written_bytes) == (0, 0, 0)
    assert anna.tiers == ben.tiers, "the tiers are shared"


def test_a_recall_is_in_the_totals_at_once_whatever_the_pager_thread_does(paging, three):
    commit(paging, three, "anna", 3)
    assert three.flush(60.0)
    keys = [paging.key(block, "anna") for block in range(2)]
    is_busy, may_go_on = threading.Event(), threading.Event()

    def hold_the_pager_thread():
        is_busy.set()
        may_go_on.wait(60.0)
        return ()

    three.foresee("ben", hold_the_pager_thread)
    assert is_busy.wait(60.0)
    with three.recall("anna", keys) as lease:
        assert lease.stale
    stats = three.stats("anna")
    may_go_on.set()
    assert (stats.chunks, stats.stale_chunks, stats.missed, stats.wanted) == (1, 1, 2, (0, 1))
    assert three.flush(60.0)
    assert (three.stats("anna").chunks, three.stats("anna").missed) == (1, 2), "and counted once"


def test_a_fault_is_told_to_the_heads_of_its_world_only(paging, three):
    commit(paging, three, "anna", 8)
    commit(paging, three, "ben", 8)
    assert three.flush(60.0)
    key = paging.key(0, "anna")
    paging.wait_for(lambda: three.tiers_of([key])[0] == {Tier.NVME})
    paging.trouble.read_errors.extend([errno.EIO] * 2)
    three.recall_exact("anna", [key], 10.0).release()
    anna, ben = three.stats("anna"), three.stats("ben")
    assert any("could not read" in words for words in anna.notes)
    assert anna.missed > 0
    assert (ben.missed, [words for words in ben.notes if "read" in words]) == (0, [])


def test_the_metrics_take_each_total_once(paging, three):
    commit(paging, three, "anna", 8)
    commit(paging, three, "ben", 4)
    assert three.flush(60.0)
    kept = sum(three.is_durable(paging.key(block, world)) for world in WORLDS for block in range(8))
    assert metric(three, "disk_written_bytes")["worldpager_disk_written_bytes"] == kept * three.layout.moved_bytes
    (nvme,) = (usage for usage in three.usage() if usage.tier is Tier.NVME)
    assert metric(three, "tier_used_bytes")['worldpager_tier_used_bytes{tier="nvme"}'] == nvme.used_bytes


def test_a_world_that_was_opened_again_counts_anew(paging, three, tmp_path):
    commit(paging, three, "anna", 4)
    assert three.flush(60.0)
    three.leave("anna")
    three.close_world("anna")
    three.open_world("anna", tmp_path / "anna")
    assert three.stats("anna").disk_written_bytes == 0
    three.commit(paging.key(10, "anna"), paging.fresh(10))
    assert three.flush(60.0)
    assert three.stats("anna").disk_written_bytes == three.layout.moved_bytes
