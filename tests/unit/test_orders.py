"""Exact mode's queue: whole chunks, in order, none skipped, and done is said once."""

import pytest

from server.orders import Orders
from shared.controls import Key
from shared.protocol import ExactStep, ProtocolError


def order(seq, num_frames):
    return ExactStep(seq=seq, controls=[(1, float(frame), 0.0) for frame in range(num_frames)])


def test_chunks_come_in_the_order_in_which_they_were_asked_for():
    orders = Orders(2)
    orders.add(order(7, 4))
    orders.add(order(8, 2))
    taken = [orders.take(0.0) for _ in range(3)]
    assert [chunk.input_seq for chunk in taken] == [7, 7, 8]
    assert [held.mouse_dx for chunk in taken[:2] for held in chunk.controls] == [0.0, 1.0, 2.0, 3.0]
    assert taken[0].controls[0].keys == Key.FORWARD
    assert orders.is_empty


def test_an_order_is_done_when_its_last_chunk_was_taken_and_said_once():
    orders = Orders(2)
    orders.add(order(7, 4))
    orders.take(0.0)
    orders.drew()
    assert orders.finished() is None
    orders.take(0.0)
    assert orders.finished() is None
    orders.drew()
    assert orders.finished() == 7
    assert orders.finished() is None


def test_a_part_of_a_chunk_is_refused():
    with pytest.raises(ProtocolError, match="multiple of 2"):
        Orders(2).add(order(0, 3))


def test_too_many_waiting_frames_are_refused():
    orders = Orders(2)
    orders.add(order(0, 8), max_waiting=10)
    with pytest.raises(ProtocolError, match="waiting"):
        orders.add(order(1, 4), max_waiting=10)


def test_another_driver_finds_nothing_of_the_last_one():
    orders = Orders(2)
    orders.add(order(0, 2))
    orders.take(0.0)
    orders.drew()
    assert orders.finished() == 0
    orders.add(order(1, 400))
    orders.clear()
    assert orders.is_empty
    orders.add(order(0, 2))
    orders.take(0.0)
    orders.drew()
    assert orders.finished() == 0


def test_what_was_dropped_counts_as_done_once():
    orders = Orders(2)
    orders.add(order(7, 4))
    orders.add(order(8, 4))
    orders.take(0.0)
    orders.drop()
    assert orders.is_empty
    assert (orders.finished(), orders.finished()) == (8, None)
    orders.add(order(9, 2))
    orders.take(0.0)  # its last chunk waits for its recall
    orders.drop()
    assert (orders.finished(), orders.finished()) == (9, None)


def test_an_order_that_was_drawn_and_not_reported_is_reported_after_a_jump():
    orders = Orders(2)
    orders.add(order(7, 2))
    orders.take(0.0)
    orders.drew()
    orders.drop()
    assert (orders.finished(), orders.finished()) == (7, None)
