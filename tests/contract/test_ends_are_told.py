"""A block that is gone is told of once and for all: the head of its world stops wanting it."""

import errno
import time

from server.pager.heads import NUM_NOTES, HeadRecord
from server.pager.moves import MoveNote
from shared.tiers import Tier


def told_gone(pager, head="w"):
    notes = [note for note in pager.take_moves(head) if note.to_tier is None]
    return {note.key for note in notes if not pager.tiers_of([note.key])[0]}


def test_a_block_that_is_lost_before_it_was_encoded_is_told_to_a_head_that_wanted_nothing_yet(paging):
    pager = paging.pager(dram=4)
    pager.take_moves("w")
    pager.take_moves("stranger")
    paging.trouble.is_stalled = True
    keys = [paging.key(block) for block in range(30)]
    for key in keys:
        pager.commit(key, paging.fresh(key.block))
        time.sleep(0.001)
    paging.trouble.is_stalled = False
    assert pager.flush(60.0)
    gone = {key for key, tiers in zip(keys, pager.tiers_of(keys), strict=True) if not tiers}
    assert gone  # how many depends on how fast this machine encodes
    assert told_gone(pager) == gone
    assert told_gone(pager, "stranger") == set()


def test_a_block_that_cannot_be_read_and_is_nowhere_else_is_told_of(paging):
    pager = paging.pager(dram=4, gpu=4)
    paging.commit(pager, range(8))
    pager.take_moves("w")
    paging.trouble.read_errors.extend([errno.EIO] * 2)
    assert paging.recall_exact(pager, [0]) == []
    assert told_gone(pager) == {paging.key(0)}
    assert pager.is_durable(paging.key(0)), "it may be read again when the world is opened again"


def test_a_forgotten_block_is_told_of_while_a_move_still_reads_it(paging):
    pager = paging.pager()
    paging.trouble.is_stalled = True
    pager.commit(paging.key(0), paging.fresh(0))
    paging.wait_for(lambda: pager.tiers_of([paging.key(0)])[0])
    pager.take_moves("w")
    pager.forget([paging.key(0)])
    told = set()
    paging.wait_for(lambda: told.update(told_gone(pager)) or told, 2.0)
    assert told == {paging.key(0)}


def test_closing_a_world_ends_no_block(paging):
    pager = paging.pager()
    paging.commit(pager, range(4))
    pager.take_moves("w")
    pager.close_world("w")
    assert pager.take_moves("w") == []


def test_that_a_block_is_gone_is_never_left_out_however_much_else_moves():
    record = HeadRecord(None, {"w"})
    record.ends.extend(MoveNote(("w", block), None, None) for block in range(NUM_NOTES + 100))
    record.moves.extend(MoveNote(("w", 9999), Tier.DRAM, Tier.GPU) for _ in range(NUM_NOTES))
    first, second = record.take_moves(), record.take_moves()
    assert len(first) == NUM_NOTES
    assert {note.key[1] for note in first + second} - {9999} == set(range(NUM_NOTES + 100))
    assert record.take_moves() == []
