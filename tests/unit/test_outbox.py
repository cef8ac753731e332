"""The outbox under a clock that the tests turn."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.outbox import Outbox, OutFrame

FPS = 10.0


def frame(number: int, made_s: float = 0.0, *, input_seq: int = -1, input_s: float = 0.0) -> OutFrame:
    return OutFrame(
        id=number,
        pts_s=number / FPS,
        chunk=number // 12,
        index=number % 12,
        pose=(0.0, 0.0, 0.0, 0.0, 0.0),
        input_seq=input_seq,
        input_s=input_s,
        made_s=made_s,
        seeded=False,
        codec="jpeg",
        data=b"",
    )


def sent_id(outbox: Outbox, now_s: float) -> int | None:
    out, _ = outbox.pull(now_s)
    return None if out is None else out.id


def test_an_empty_outbox_waits_for_a_wake() -> None:
    assert Outbox(FPS, 14).pull(0.0) == (None, None)


def test_a_push_wakes_the_connection() -> None:
    woken: list[int] = []
    outbox = Outbox(FPS, 14, wake=lambda: woken.append(1))
    outbox.push(frame(0))
    assert woken == [1]


def test_the_first_frame_is_due_at_once_and_the_next_a_frame_time_later() -> None:
    outbox = Outbox(FPS, 14)
    outbox.push(frame(0, made_s=5.0))
    outbox.push(frame(1, made_s=5.0))
    assert sent_id(outbox, 5.0) == 0
    out, wait_s = outbox.pull(5.04)
    assert out is None
    assert wait_s == pytest.approx(0.06)
    assert sent_id(outbox, 5.1) == 1


def test_no_more_frames_leave_than_the_credit_allows() -> None:
    outbox = Outbox(FPS, 14, credit=2)
    for number in range(5):
        outbox.push(frame(number))
    assert [sent_id(outbox, number / FPS) for number in range(5)] == [0, 1, None, None, None]
    assert not outbox.has_credit
    assert outbox.pull(0.4) == (None, None)  # nothing to wait for but an acknowledgement


def test_an_acknowledgement_counts_for_all_frames_before_it() -> None:
    outbox = Outbox(FPS, 14, credit=2)
    for number in range(5):
        outbox.push(frame(number))
    sent_id(outbox, 0.0)
    sent_id(outbox, 0.1)
    outbox.ack(1)
    assert outbox.has_credit
    assert [sent_id(outbox, 0.2), sent_id(outbox, 0.3), sent_id(outbox, 0.4)] == [2, 3, None]


@pytest.mark.parametrize("lie", [-1, 2, 2**52])
def test_an_acknowledgement_gives_no_credit_beyond_what_was_sent(lie: int) -> None:
    outbox = Outbox(FPS, 14, credit=2)
    outbox.ack(lie)
    for number in range(5):
        outbox.push(frame(number))
    assert [sent_id(outbox, number / FPS) for number in range(5)] == [0, 1, None, None, None]


def test_a_late_frame_is_skipped_only_when_one_can_be_sent() -> None:
    outbox = Outbox(FPS, 14, credit=1)
    for number in range(6):
        outbox.push(frame(number))
    assert sent_id(outbox, 0.0) == 0
    assert sent_id(outbox, 0.45) is None
    assert outbox.unsent == 5  # nothing was skipped while nothing could be sent
    outbox.ack(0)
    assert sent_id(outbox, 0.45) == 4
    assert outbox.counts().skipped == 3


def test_a_late_frame_without_a_due_successor_is_sent() -> None:
    outbox = Outbox(FPS, 14)
    outbox.push(frame(0))
    outbox.push(frame(1))
    assert sent_id(outbox, 0.09) == 0
    assert sent_id(outbox, 0.18) == 1


def test_a_frame_that_was_made_late_moves_everything_after_it() -> None:
    outbox = Outbox(FPS, 14)
    outbox.push(frame(0, made_s=0.0))
    assert sent_id(outbox, 0.0) == 0
    outbox.push(frame(1, made_s=0.5))
    outbox.push(frame(2, made_s=0.5))
    outbox.ack(0)
    assert sent_id(outbox, 0.5) == 1
    assert outbox.pull(0.5)[1] == pytest.approx(0.1)
    assert outbox.last_due_s() == pytest.approx(0.6)


def test_after_a_pause_the_newest_frame_is_due_now() -> None:
    outbox = Outbox(FPS, 14, credit=2)
    for number in range(8):
        outbox.push(frame(number))
    sent_id(outbox, 0.0)
    sent_id(outbox, 0.1)
    outbox.ack(1)
    assert sent_id(outbox, 20.0) == 7  # none of the old ones
    assert outbox.last_due_s() == pytest.approx(20.0)
    outbox.push(frame(8, made_s=20.05))
    assert outbox.pull(20.05)[1] == pytest.approx(0.05)


def test_over_capacity_the_oldest_frame_goes_and_the_others_move_up() -> None:
    outbox = Outbox(FPS, capacity=3)
    for number in range(5):
        outbox.push(frame(number))
    assert outbox.unsent == 3
    assert outbox.counts().dropped == 2
    assert sent_id(outbox, 0.0) == 2


def test_a_reader_that_fell_behind_does_not_stay_behind() -> None:
    outbox = Outbox(FPS, capacity=3)
    for number in range(10):
        outbox.push(frame(number, made_s=0.0))
    assert outbox.last_due_s() == pytest.approx(0.2)


def test_exact_mode_sends_every_frame_at_once_within_the_credit() -> None:
    outbox = Outbox(FPS, capacity=3, credit=2)
    outbox.every_frame = True
    for number in range(6):
        outbox.push(frame(number))
    got = []
    for _ in range(6):
        out, _ = outbox.pull(100.0)
        assert out is not None
        got.append(out.id)
        outbox.ack(out.id)
    assert got == list(range(6))
    outbox.push(frame(6))
    outbox.push(frame(7))
    outbox.push(frame(8))
    assert [sent_id(outbox, 0.0) for _ in range(3)] == [6, 7, None]


def test_an_older_frame_never_follows_a_newer_one() -> None:
    outbox = Outbox(FPS, 14)
    outbox.push(frame(5))
    outbox.push(frame(5))
    outbox.push(frame(4))
    assert outbox.unsent == 1


def test_held_time_counts_from_the_input_and_is_zero_without_one() -> None:
    assert frame(0, input_seq=3, input_s=1.0).message(1.25).held_ms == pytest.approx(250.0)
    assert frame(0).message(9.0).held_ms == 0.0


def test_nothing_is_due_before_the_first_frame() -> None:
    assert Outbox(FPS, 14).last_due_s() is None
    assert Outbox(FPS, 14).newest_id == -1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.floats(0.0, 0.5)),
            st.tuples(st.just("pull"), st.floats(0.0, 0.5)),
            st.tuples(st.just("ack"), st.integers(-1, 60)),
        ),
        max_size=120,
    )
)
def test_whatever_happens_frames_rise_credit_holds_and_none_leaves_early(steps: list[tuple[str, float]]) -> None:
    outbox, now_s, made, credit = Outbox(FPS, 5, credit=2), 100.0, 0, 2
    sent: list[int] = []
    acked = -1
    for kind, value in steps:
        if kind == "push":
            now_s += value
            outbox.push(frame(made, made_s=now_s))
            made += 1
        elif kind == "ack":
            outbox.ack(int(value))
            acked = max(acked, min(int(value), sent[-1] if sent else -1))
        else:
            now_s += value
            last_due_s = outbox.last_due_s()
            newest_id = outbox.newest_id
            out, wait_s = outbox.pull(now_s)
            if out is not None:
                sent.append(out.id)
                assert last_due_s is not None
                assert last_due_s - (newest_id - out.id) / FPS <= now_s + 1e-6  # it was due
            assert wait_s is None or 0.0 < wait_s <= 5 / FPS + 0.5
        assert all(b > a for a, b in itertools.pairwise(sent))
        assert sum(1 for number in sent if number > acked) <= credit
        assert outbox.unsent <= 5
    counts = outbox.counts()
    assert counts.pushed == made
    assert counts.sent == len(sent)
    assert made == counts.sent + counts.skipped + counts.dropped + outbox.unsent
