"""Totals of recalls: exact, counted once, and by whom does not matter."""

import threading

from server.pager.blocks import BlockKey
from server.pager.lease import Lease, LeasedBlock, ReadySet
from server.pager.tally import STALL_MS, Entry, Tally
from shared.tiers import Tier

KEYS = tuple(BlockKey("w", block) for block in range(4))


def ready(*keys, hits=()):
    return ReadySet({key: LeasedBlock(key, 1, 0, None, {}) for key in keys}, {"h": dict(hits)})


def recalled(tally, wanted, there, *, wait_ms=0.0, was_descheduled=False):
    """A recall of what is there of `wanted`."""
    here = tuple(key for key in wanted if key in there.blocks)
    blocks = tuple(there.blocks[key] for key in here)
    lease = Lease(here, blocks, lambda _: None, tally.settle, stale=here != wanted, wait_ms=wait_ms)
    tally.enter(Entry(wanted, lease, there, was_descheduled))
    return lease


def test_a_block_is_a_hit_once_for_as_long_as_it_is_wanted():
    tally = Tally("h", set())
    for wanted in (KEYS[:2], KEYS[1:3], KEYS[:2]):
        recalled(tally, wanted, ready(*KEYS, hits={KEYS[0]: Tier.NVME}))
    tally.settle()
    assert tally.hits == [2, 0, 1]
    tally.count_anew({KEYS[0], KEYS[3]})
    recalled(tally, KEYS[:2], ready(*KEYS, hits={KEYS[0]: Tier.NVME}))
    tally.settle()
    assert tally.hits == [2, 0, 2]


def test_what_was_not_there_is_late_and_the_recall_stale():
    worlds = {"w"}
    tally = Tally("h", worlds)
    recalled(tally, (*KEYS[:2], BlockKey("other", 7)), ready(KEYS[0]))
    tally.settle()
    assert (tally.late, tally.stale_chunks, tally.chunks) == (2, 1, 1)
    assert worlds == {"w", "other"}


def test_a_long_wait_is_a_stall_unless_its_thread_was_descheduled():
    tally = Tally("h", set())
    for wait_ms, was_descheduled in ((STALL_MS, False), (0.9, False), (3.0, True)):
        recalled(tally, KEYS[:1], ready(*KEYS), wait_ms=wait_ms, was_descheduled=was_descheduled)
    tally.settle()
    assert (tally.stalls, tally.preempted, tally.longest_wait_ms) == (1, 1, 3.0)


def test_whoever_asks_a_lease_for_its_hit_tiers_has_it_counted():
    tally = Tally("h", set())
    first = recalled(tally, KEYS[:2], ready(*KEYS, hits={KEYS[0]: Tier.DRAM}))
    second = recalled(tally, KEYS[:1], ready(*KEYS))
    assert tally.chunks == 0
    assert first.hit_tiers == (Tier.DRAM, Tier.GPU)
    assert second.hit_tiers == (Tier.DRAM,), "as long as it stays wanted it keeps its tier"
    assert tally.chunks == 2


def test_what_several_threads_count_is_counted_once():
    tally, is_over = Tally("h", set()), threading.Event()

    def count():
        while not is_over.is_set():
            tally.settle()

    counting = [threading.Thread(target=count) for _ in range(3)]
    for thread in counting:
        thread.start()
    for turn in range(3000):
        recalled(tally, (KEYS[turn % 2],), ready(*KEYS))
    is_over.set()
    for thread in counting:
        thread.join()
    tally.settle()
    assert (tally.chunks, tally.hits) == (3000, [3000, 0, 0])
