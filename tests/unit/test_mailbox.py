"""Controls between event loop and engine: keys overwrite, mouse sums add up, nothing is lost or counted twice."""

from server.mailbox import ControlsMailbox
from shared.controls import Key
from shared.protocol import Input


def message(seq, keys=0, mouse_x=0.0, mouse_y=0.0):
    return Input(seq=seq, t_ms=0.0, keys=keys, mouse_x=mouse_x, mouse_y=mouse_y, ack=-1)


def test_mouse_travel_is_spread_over_the_frames_and_taken_once():
    box = ControlsMailbox()
    box.put(message(0, mouse_x=30.0), 1.0)
    box.put(message(1, mouse_x=80.0, mouse_y=-8.0), 1.1)
    taken = box.take(4)
    assert [held.mouse_dx for held in taken.controls] == [20.0] * 4
    assert [held.mouse_dy for held in taken.controls] == [-2.0] * 4
    assert (taken.input_seq, taken.arrived_s) == (1, 1.1)
    assert all(held.is_idle for held in box.take(4).controls)


def test_a_key_tapped_between_two_chunks_counts_for_one_chunk():
    box = ControlsMailbox()
    box.put(message(0, keys=int(Key.FORWARD)), 0.0)
    box.put(message(1, keys=0), 0.0)
    assert box.take(2).controls[0].keys == Key.FORWARD
    assert box.take(2).controls[0].keys == Key(0)


def test_a_held_key_stays_held():
    box = ControlsMailbox()
    box.put(message(0, keys=int(Key.LEFT)), 0.0)
    assert [box.take(1).controls[0].keys for _ in range(3)] == [Key.LEFT] * 3


def test_an_older_message_changes_nothing():
    box = ControlsMailbox()
    box.put(message(5, keys=1, mouse_x=10.0), 0.0)
    box.put(message(4, keys=2, mouse_x=4.0), 0.0)
    assert box.take(1).controls[0].mouse_dx == 10.0
    assert box.take(1).controls[0].keys == Key.FORWARD


def test_released_keys_are_not_held_any_more():
    box = ControlsMailbox()
    box.put(message(0, keys=1), 0.0)
    box.take(1)
    box.release_keys()
    assert box.take(1).controls[0].is_idle


def test_a_new_connection_counts_from_zero():
    box = ControlsMailbox()
    box.put(message(900, mouse_x=5_000.0), 0.0)
    driver = box.restart()
    assert box.put(message(0, mouse_x=3.0), 0.0, driver)
    assert box.take(1).controls[0].mouse_dx == 3.0


def test_a_driver_who_was_replaced_steers_no_more():
    box = ControlsMailbox()
    first = box.restart()
    second = box.restart()
    assert not box.put(message(5_000, keys=2), 0.0, first)
    assert box.put(message(0, keys=1), 0.0, second)
    assert box.take(1).controls[0].keys == Key.FORWARD
