"""An exact recall that the engine asks after instead of standing still for it."""

from shared.tiers import Tier


def test_it_never_waits_and_says_when_all_has_come(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    keys = [paging.key(0), paging.key(1)]
    told = []
    pager.on_published = lambda: told.append(pager.is_complete("h", keys))
    paging.trouble.is_stalled = True
    answers = [pager.is_complete("h", keys) for _ in range(100)]  # returns, though the disk does not answer
    assert not any(answers)
    paging.trouble.is_stalled = False
    paging.wait_for(lambda: told and told[-1])
    with pager.recall_exact("h", keys, 0.0) as lease:
        assert (lease.keys, lease.missing, lease.stale) == (tuple(keys), (), False)
        assert paging.is_right(lease)


def test_what_cannot_come_is_not_waited_for(paging):
    pager = paging.pager()
    paging.commit(pager, range(2))
    pager.forget([paging.key(0)])
    keys = [paging.key(0), paging.key(1)]
    paging.wait_for(lambda: pager.is_complete("h", keys))
    with pager.recall_exact("h", keys, 0.0) as lease:
        assert lease.missing == (paging.key(0),)


def test_a_listener_that_fails_holds_nothing_up(paging):
    pager = paging.pager(dram=4, gpu=4)
    pager.on_published = lambda: 1 / 0
    paging.commit(pager, range(8))
    assert paging.recall_exact(pager, [0, 1]) == [0, 1]


def test_a_hanging_disk_under_an_exact_head_does_not_stop_what_others_have_in_memory(paging):
    pager = paging.pager(dram=4, gpu=6)
    paging.commit(pager, range(8))
    paging.wait_for(lambda: pager.tiers_of([paging.key(0)])[0] == {Tier.NVME})
    paging.trouble.is_stalled = True
    assert not pager.is_complete("exact", [paging.key(0)])
    near = [paging.key(6), paging.key(7)]
    pager.recall("live", near).release()
    paging.wait_for(lambda: all(Tier.GPU in tiers for tiers in pager.tiers_of(near)), 2.0)
    assert not pager.is_complete("exact", [paging.key(0)])


def test_waits_that_do_not_fit_beside_one_another_all_end(paging):
    pager = paging.pager(max_recall=3, gpu=6, dram=4)
    paging.commit(pager, range(16))
    left = {
        head: [paging.key(block) for block in range(first, first + 3)] for head, first in (("a", 0), ("b", 3), ("c", 6))
    }

    def one_came():
        for head in [head for head, keys in left.items() if pager.is_complete(head, keys)]:
            with pager.recall_exact(head, left.pop(head), 0.0) as lease:
                assert not lease.missing
        return not left

    paging.wait_for(one_came, 5.0)
