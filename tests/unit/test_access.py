"""Who is let in, judged by headers alone."""

from typing import Any

import pytest

from server.access import BAD_HOST, BAD_ORIGIN, NO_TOKEN, Rules, host_name, is_loopback, judge, make_rules

TOKEN = "a-token-of-some-length"
OPEN = Rules()
CLOSED = Rules(token=TOKEN)


def scope(*headers: tuple[str, str], kind: str = "http", path: str = "/", at: str = "127.0.0.1") -> dict[str, Any]:
    return {
        "type": kind,
        "scheme": "ws" if kind == "websocket" else "http",
        "path": path,
        "server": (at, 8765),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }


HERE = ("Host", "127.0.0.1:8765")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    assert make_rules(host, None).token is None


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "192.168.1.5", "::", "gpubox", "127.0.0.1.evil.test", "localhost.evil.test"]
)
def test_any_other_host_gets_a_token_of_256_bits(host: str) -> None:
    token = make_rules(host, None).token
    assert token is not None
    assert len(token) >= 43
    assert token != make_rules(host, None).token


def test_a_given_token_counts_on_loopback_too() -> None:
    assert make_rules("127.0.0.1", TOKEN).token == TOKEN


@pytest.mark.parametrize(
    ("header", "name"),
    [("a.lan:80", "a.lan"), ("A.LAN.", "a.lan"), ("[::1]:8765", "::1"), ("127.0.0.1", "127.0.0.1"), ("", "")],
)
def test_the_name_is_taken_out_of_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("host", ["localhost:8765", "LOCALHOST", "127.0.0.1", "[::1]:8765"])
def test_the_names_of_this_machine_are_allowed(host: str, kind: str) -> None:
    assert judge(scope(("Host", host), kind=kind), OPEN) is True


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:8765", "localhost.evil.test", "127.0.0.1.nip.io", "192.168.1.5", "", "@127.0.0.1"]
)
def test_a_rebound_name_is_refused(host: str, kind: str) -> None:
    assert judge(scope(("Host", host), kind=kind), OPEN) is BAD_HOST


def test_two_or_no_host_headers_are_refused() -> None:
    assert judge(scope(HERE, ("Host", "evil.test")), OPEN) is BAD_HOST
    assert judge(scope(), OPEN) is BAD_HOST


def test_the_address_that_a_request_arrived_at_is_allowed() -> None:
    assert judge(scope(("Host", "192.168.1.5:8765"), at="192.168.1.5"), OPEN) is True


def test_a_dual_stack_socket_tells_the_same_address() -> None:
    assert judge(scope(("Host", "192.168.1.5:8765"), at="::ffff:192.168.1.5"), OPEN) is True


def test_own_names_and_allowed_hosts_are_allowed_beyond_loopback() -> None:
    rules = make_rules("192.168.1.5", TOKEN, ["Walk.Example."])
    assert {"192.168.1.5", "walk.example", "localhost"} <= rules.hosts


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.test",
        "null",
        "",
        "https://127.0.0.1:8765",
        "http://127.0.0.1:3000",
        "http://127.0.0.1",
        "http://localhost:8765",
        "http://127.0.0.1:8765.evil.test",
        "http://127.0.0.1:8765/",
        "file://",
    ],
)
def test_a_foreign_or_null_origin_is_refused_on_loopback_too(origin: str, kind: str) -> None:
    assert judge(scope(HERE, ("Origin", origin), kind=kind), OPEN) is BAD_ORIGIN


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_same_origin_and_none_are_allowed(kind: str) -> None:
    assert judge(scope(HERE, ("Origin", "http://127.0.0.1:8765"), kind=kind), OPEN) is True
    assert judge(scope(HERE, kind=kind), OPEN) is True


def test_two_origins_are_refused_even_when_one_is_right() -> None:
    both = scope(HERE, ("Origin", "http://127.0.0.1:8765"), ("Origin", "http://evil.test"))
    assert judge(both, OPEN) is BAD_ORIGIN


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_token_lets_in(kind: str) -> None:
    assert judge(scope(HERE, ("Authorization", f"Bearer {TOKEN}"), kind=kind), CLOSED) is True
    assert judge(scope(HERE, ("Authorization", f"bearer  {TOKEN} "), kind=kind), CLOSED) is True


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é"]
)
def test_a_wrong_token_does_not(value: str, kind: str) -> None:
    assert judge(scope(HERE, ("Authorization", value), kind=kind, path="/ws"), CLOSED) is NO_TOKEN


def test_without_a_token_only_the_websocket_may_wait_for_the_hello() -> None:
    assert judge(scope(HERE, kind="websocket", path="/ws"), CLOSED) is False
    assert judge(scope(HERE, kind="websocket", path="/other"), CLOSED) is NO_TOKEN
    assert judge(scope(HERE, kind="websocket", path="/ws/"), CLOSED) is NO_TOKEN
    assert judge(scope(HERE, path="/ws"), CLOSED) is NO_TOKEN


def test_a_token_does_not_open_the_door_to_a_foreign_page() -> None:
    with_token = scope(HERE, ("Authorization", f"Bearer {TOKEN}"), ("Origin", "http://evil.test"))
    assert judge(with_token, CLOSED) is BAD_ORIGIN
