"""The list of worlds: what comes from the network is bounded and checked; the start screen's choice."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO

import pytest
from PIL import Image

from client.start import NEW_WORLD, Entrance, Move, Start, age_in_words, counted
from client.worlds import Listing, UnlistedError, fetch, http_address, read_list, read_picture

A, B = "a" * 26, "b" * 26


def world(world_id: str, played_s: float, **more) -> dict:
    return {"id": world_id, "name": world_id[:3], "played_s": played_s, **more}


def snapshot(name: str, created_s: float, **more) -> dict:
    return {"name": name, "n": 3, "chunk": 9, "created_s": created_s, **more}


def jpeg(size: tuple[int, int] = (96, 64), kind: str = "JPEG") -> bytes:
    data = BytesIO()
    Image.new("RGB", size, (10, 200, 30)).save(data, kind)
    return data.getvalue()


def test_the_last_played_world_comes_first_and_unknown_fields_are_passed_over() -> None:
    listed = read_list(json.dumps([world(A, 5.0), world(B, 9.0, weather="rain")]).encode())
    assert [one.id for one in listed] == [B, A]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[1]", b'[{"id": "../etc", "name": "x"}]', json.dumps([world(A, 1.0) | {"name": "n" * 65}]).encode(),
     json.dumps([world(A, float("nan"))]).encode(), b'{"a":' * 2_000],
)  # fmt: skip
def test_what_is_no_list_of_worlds_is_refused(body: bytes) -> None:
    with pytest.raises(UnlistedError):
        read_list(body)


def test_a_picture_is_refused_by_its_size_and_format_before_it_is_unpacked() -> None:
    assert read_picture(jpeg((960, 640))).size == (360, 240)
    for body in (jpeg((3_000, 10)), jpeg(kind="PNG"), jpeg()[:200], b"", b"GIF89a"):
        with pytest.raises(UnlistedError):
            read_picture(body)


def test_http_is_asked_at_the_same_place_as_the_websocket() -> None:
    assert http_address("ws://box:8765/ws", "/worlds") == "http://box:8765/worlds"
    assert http_address("wss://[::1]:443/ws", "/worlds") == "https://[::1]:443/worlds"


class Web(BaseHTTPRequestHandler):
    """Answers by path; remembers who asked with what."""

    asked: list[tuple[str, str]] = []  # noqa: RUF012 - one server, one list

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/worlds")
        elif self.path == "/refused":
            self.send_response(401)
        else:
            self.send_response(200)
        self.end_headers()
        if self.path == "/worlds":
            self.wfile.write(b"x" * 1_000)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quietly."""


@pytest.fixture
def web() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Web)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Web.asked.clear()
    yield f"ws://127.0.0.1:{server.server_port}/ws"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_fetch_sends_the_token_as_a_header_and_stops_at_its_limit(web: str) -> None:
    assert fetch(web, "/worlds", "t0k3n", 2_000) == b"x" * 1_000
    assert Web.asked == [("/worlds", "Bearer t0k3n")]
    with pytest.raises(UnlistedError, match="more than 999 bytes"):
        fetch(web, "/worlds", "", 999)


def test_a_redirect_is_not_followed_so_the_token_goes_nowhere_else(web: str) -> None:
    with pytest.raises(UnlistedError, match="302"):
        fetch(web, "/moved", "t0k3n", 100)
    assert [path for path, _ in Web.asked] == ["/moved"]


def test_a_refusal_is_final_and_silence_is_not(web: str) -> None:
    with pytest.raises(UnlistedError) as refused:
        fetch(web, "/refused", "", 100)
    assert not refused.value.is_silent
    with pytest.raises(UnlistedError) as silent:
        fetch("ws://127.0.0.1:9/ws", "/worlds", "", 100)
    assert silent.value.is_silent


def wait_for(is_so) -> None:
    until_s = time.monotonic() + 30.0
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_silent_server_is_asked_again_and_pictures_come_after_the_list() -> None:
    answers: dict[str, int] = {}

    def get(url: str, path: str, token: str, max_bytes: int) -> bytes:
        answers[path] = answers.get(path, 0) + 1
        if path == "/worlds":
            if answers[path] == 1:
                raise UnlistedError("Connection refused", is_silent=True)
            one = world(A, 1.0, thumbnail=True, snapshots=[snapshot("x", 1.0, thumbnail=True)])
            return json.dumps([one]).encode()
        if path.endswith("thumbnail.jpg"):
            return jpeg()
        raise UnlistedError("HTTP 404")

    listing = Listing("ws://box/ws", "", get)
    wait_for(lambda: listing.worlds is not None and answers.get(f"/worlds/{A}/snapshots/3.jpg"))
    listing.close()
    assert (listing.attempts, listing.silence, listing.fault) == (2, "Connection refused", "")
    assert list(listing.pictures) == [("world", A)]


def test_a_server_without_a_list_says_so_once() -> None:
    def get(url: str, path: str, token: str, max_bytes: int) -> bytes:
        raise UnlistedError("HTTP 404")

    listing = Listing("ws://box/ws", "", get)
    wait_for(lambda: listing.fault)
    assert listing.attempts == 1


def two_worlds() -> Start:
    entries = [world(A, 9.0, snapshots=[snapshot("old", 1.0), snapshot("new", 2.0)]), world(B, 5.0)]
    return Start(read_list(json.dumps(entries).encode()))


def test_enter_continues_the_world_that_was_played_last() -> None:
    assert two_worlds().take(Move.ENTER) == Entrance(A)


def test_the_rows_are_walked_with_arrows_and_end_with_a_new_world() -> None:
    start = two_worlds()
    for move in (Move.RIGHT, Move.RIGHT, Move.RIGHT):
        assert start.take(move) is None
    assert start.world is None
    assert start.take(Move.DOWN) is None  # a new world has no snapshots
    assert start.take(Move.ENTER) == NEW_WORLD
    start.take(Move.LEFT)
    assert start.take(Move.ENTER) == Entrance(B)
    assert start.take(Move.NEW) == NEW_WORLD


def test_snapshots_are_entered_by_name_the_newest_first() -> None:
    start = two_worlds()
    start.take(Move.DOWN)
    assert start.take(Move.ENTER) == Entrance(A, "new")
    start.take(Move.RIGHT)
    start.take(Move.RIGHT)
    assert start.take(Move.ENTER) == Entrance(A, "old")
    start.take(Move.UP)
    assert start.take(Move.ENTER) == Entrance(A)


def test_pointing_at_what_is_not_there_changes_nothing() -> None:
    start = two_worlds()
    start.choose(7)
    assert start.entrance == Entrance(A)
    start.choose(0, 1)
    assert start.entrance == Entrance(A, "old")
    start.choose(1, 5)
    assert start.entrance == Entrance(B)


def test_ages_and_counts_read_well() -> None:
    now_s = 1_800_000_000.0
    ages = [age_in_words(now_s - age_s, now_s) for age_s in (5, 150, 7_300, 3 * 86_400)]
    assert ages == ["just now", "2 min ago", "2 h ago", "3 days ago"]
    assert age_in_words(0.0, now_s) == ""
    assert age_in_words(now_s - 90 * 86_400, now_s).count("-") == 2
    assert [counted(1, "chunk"), counted(1_204, "chunk"), counted(2, "branch")] == [
        "1 chunk",
        "1,204 chunks",
        "2 branches",
    ]
