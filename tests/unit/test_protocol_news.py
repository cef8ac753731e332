"""What a newer server may say to this client without breaking it."""

import msgpack
import pytest

from shared.protocol import Paused, Ping, ProtocolError, Unknown, pack, unpack_client, unpack_server


def test_a_field_that_this_version_does_not_know_is_passed_over():
    newer = msgpack.packb({"type": "paused", "why": "player", "until_s": 3.0})
    assert unpack_server(newer) == Paused(why="player")


def test_a_message_of_an_unknown_type_is_named_and_not_refused():
    assert unpack_server(msgpack.packb({"type": "weather", "rain": True})) == Unknown(type="weather")


def test_a_known_message_with_a_wrong_field_is_refused():
    with pytest.raises(ProtocolError, match="why"):
        unpack_server(msgpack.packb({"type": "paused", "why": 3}))


def test_a_client_may_not_say_what_the_server_does_not_know():
    for value in ({"type": "weather"}, {"type": "ping", "t_ms": 1.0, "more": 1}):
        with pytest.raises(ProtocolError):
            unpack_client(msgpack.packb(value))
    assert unpack_client(pack(Ping(t_ms=1.0)))
