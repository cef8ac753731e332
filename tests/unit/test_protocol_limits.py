"""What one connection may say: how much, and first of all a hello."""

import msgpack
import pytest

from server.limits import BURST_MESSAGES, CLOSE_CODES, CLOSE_OTHER, MESSAGES_PER_S, TokenBucket, read_hello
from shared.protocol import PROTOCOL_VERSION, Hello, Ping, ProtocolError, pack


def test_sixty_inputs_a_second_never_run_out() -> None:
    bucket = TokenBucket(0.0)
    assert all(bucket.take(number / 60) for number in range(10_000))


def test_a_burst_after_ten_seconds_of_standstill_passes_and_more_does_not() -> None:
    bucket = TokenBucket(0.0)
    assert all(bucket.take(10.0) for _ in range(int(BURST_MESSAGES)))
    assert not bucket.take(10.0)
    assert bucket.take(10.0 + 1.5 / MESSAGES_PER_S)


def test_twice_the_rate_is_stopped_within_ten_seconds() -> None:
    bucket = TokenBucket(0.0)
    assert not all(bucket.take(number / (2 * MESSAGES_PER_S)) for number in range(2_400))


def test_every_sent_frame_may_be_acknowledged_however_fast_the_model_draws() -> None:
    bucket = TokenBucket(0.0)
    for number in range(5_000):
        bucket.give()
        assert bucket.take(number / 1_000)


def test_a_hello_of_this_version_is_read() -> None:
    assert read_hello(pack(Hello(version=PROTOCOL_VERSION, world="w"))).world == "w"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (pack(Ping(t_ms=1.0)), "unexpected"),
        (pack(Hello(version=PROTOCOL_VERSION + 1)), "version"),
        (msgpack.packb({"type": "hello", "version": PROTOCOL_VERSION + 1, "new_field": 1}), "version"),
        (msgpack.packb({"type": "hello", "version": "two"}), "version"),
        (msgpack.packb({"type": "hello", "version": PROTOCOL_VERSION, "new_field": 1}), "invalid"),
        (msgpack.packb({"type": "hello"}), "invalid"),
        (msgpack.packb({"type": "greeting", "version": 2}), "invalid"),
        (msgpack.packb([1, 2]), "invalid"),
        (b"", "too_deep"),
        (b"\x81\xa4type", "too_deep"),
        (b"\x00" * 70_000, "too_large"),
    ],
)
def test_any_other_first_message_says_what_is_wrong(data: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_hello(data)
    assert caught.value.code == code


def test_close_codes_are_legal_ones() -> None:
    for code in (*CLOSE_CODES.values(), CLOSE_OTHER):
        assert code in (1003, 1009) or 4_000 <= code <= 4_999
