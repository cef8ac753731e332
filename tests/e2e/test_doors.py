"""Who is let in, over real sockets: every route, the WebSocket, other sites, rebound names, and the token."""

import logging
from typing import Any

import httpx
import pytest
import websockets
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import Route, WebSocketRoute

from server.access import PAGE_HEADERS, Rules
from server.app import create_app
from server.config import load_settings
from shared.protocol import PROTOCOL_VERSION, Hello, pack
from tests.e2e.conftest import TOKEN, Running
from tests.e2e.tiny_engine import TinyEngine
from tests.e2e.wire_client import WireClient, connect

pytestmark = pytest.mark.usefixtures("no_socket_left_open")
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WRONG = "another-token-of-some-length"


def routes() -> list[tuple[str, str]]:
    """(kind, path) of everything the application answers, from its own table."""
    engine = TinyEngine()
    app = create_app(load_settings({}, {}).settings, engine, Rules())
    engine.stop(1.0)
    table = []
    for route in app.routes:
        if isinstance(route, APIWebSocketRoute | WebSocketRoute):
            table.append(("ws", route.path))
        elif isinstance(route, APIRoute | Route):
            table.append(("http", route.path))
        else:
            pytest.fail(f"{route!r}: teach this test about such routes")
    return table


ROUTES = routes()


def test_the_routes_are_known() -> None:
    assert {("http", "/"), ("http", "/healthz"), ("http", "/metrics"), ("ws", "/ws")} <= set(ROUTES)


def let_in(path: str) -> tuple[int, ...]:
    """What a route answers to whom it lets in; the pictures of a world that is not there are absent."""
    return (404,) if "{" in path else (101, 200)


async def status_of(server: Running, kind: str, path: str, headers: dict[str, str]) -> int:
    """The HTTP status that a request gets; 101 when a WebSocket was opened."""
    path = path.replace("{world}", "a" * 26).replace("{number}", "0")
    if kind == "http":
        async with httpx.AsyncClient() as client:
            return (await client.get(server.http + path, headers=headers)).status_code
    try:
        await connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers)
    except websockets.InvalidStatus as refused:
        return refused.response.status_code
    return 101


@pytest.mark.parametrize(("kind", "path"), ROUTES)
async def test_every_route_refuses_without_a_token(shared_token_server: Running, kind: str, path: str) -> None:
    if (kind, path) != ("ws", "/ws"):
        assert await status_of(shared_token_server, kind, path, {}) == 401
        return
    socket = await connect(shared_token_server.url)  # its hello may carry the token
    await socket.send(pack(Hello(version=PROTOCOL_VERSION)))
    assert (await WireClient(socket, None).next("error")).code == "unauthorized"
    await socket.wait_closed()
    assert socket.close_code == 4401


@pytest.mark.parametrize(("kind", "path"), ROUTES)
@pytest.mark.parametrize("value", [f"Bearer {WRONG}", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer"])
async def test_every_route_refuses_a_wrong_token(
    shared_token_server: Running, kind: str, path: str, value: str
) -> None:
    assert await status_of(shared_token_server, kind, path, {"Authorization": value}) == 401


@pytest.mark.parametrize(("kind", "path"), ROUTES)
async def test_every_route_lets_the_token_in(shared_token_server: Running, kind: str, path: str) -> None:
    assert await status_of(shared_token_server, kind, path, BEARER) in let_in(path)


@pytest.mark.parametrize(("kind", "path"), ROUTES)
@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://localhost:1", "https://127.0.0.1"])
async def test_every_route_refuses_a_foreign_page_on_loopback(
    shared_server: Running, kind: str, path: str, origin: str
) -> None:
    assert await status_of(shared_server, kind, path, {"Origin": origin}) == 403


@pytest.mark.parametrize(("kind", "path"), ROUTES)
async def test_every_route_takes_its_own_origin(shared_server: Running, kind: str, path: str) -> None:
    assert await status_of(shared_server, kind, path, {"Origin": shared_server.http}) in let_in(path)


@pytest.mark.parametrize(("kind", "path"), ROUTES)
async def test_every_route_refuses_a_rebound_name(shared_server: Running, kind: str, path: str) -> None:
    if kind == "http":
        assert await status_of(shared_server, kind, path, {"Host": "evil.test"}) == 400
        return
    with pytest.raises(websockets.InvalidStatus) as refused:  # the name in the Host header, the address in the socket
        await connect(f"ws://evil.test:{shared_server.port}{path}", host="127.0.0.1", port=shared_server.port)
    assert refused.value.response.status_code == 400


async def test_the_hello_may_carry_the_token(shared_token_server: Running) -> None:
    client = await WireClient.enter(shared_token_server.url, token=TOKEN)
    assert (await client.next_frame()).id == 0


async def test_a_bearer_needs_no_token_in_the_hello(shared_token_server: Running) -> None:
    client = await WireClient.enter(shared_token_server.url, headers=BEARER)
    assert (await client.next_frame()).id == 0


async def test_a_token_never_shows_in_a_log(shared_token_server: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in (TOKEN, WRONG):
        await status_of(shared_token_server, "http", "/healthz", {"Authorization": f"Bearer {token}"})
        await status_of(shared_token_server, "ws", "/ws", {"Authorization": f"Bearer {token}"})
        await status_of(shared_token_server, "http", f"/?token={token}", {})
        socket = await connect(shared_token_server.url + f"?token={token}")
        await socket.send(pack(Hello(version=PROTOCOL_VERSION, token=token)))
        await socket.recv()
    ours = [
        record for record in caplog.records if not record.name.startswith(("websockets.client", "httpcore", "httpx"))
    ]
    assert ours, "nothing was logged at all: this test would not notice a token"
    shown = " ".join(f"{record.getMessage()} {record.args} {record.exc_text}" for record in ours)
    assert TOKEN not in shown
    assert WRONG not in shown


async def test_no_answer_repeats_a_token(shared_token_server: Running) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.get(shared_token_server.http + "/healthz", headers={"Authorization": f"Bearer {WRONG}"})
    assert WRONG not in answer.text + str(answer.headers)
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_every_http_answer_has_the_page_headers(shared_token_server: Running) -> None:
    async with httpx.AsyncClient() as client:
        for path, headers in [("/", BEARER), ("/nowhere", BEARER), ("/", {}), ("/metrics", BEARER)]:
            answer = await client.get(shared_token_server.http + path, headers=headers)
            assert {name: answer.headers.get(name) for name in PAGE_HEADERS} == PAGE_HEADERS


async def test_health_is_200_only_when_frames_can_be_made(server: Running) -> None:
    async def health() -> tuple[int, dict[str, Any]]:
        async with httpx.AsyncClient() as client:
            answer = await client.get(server.http + "/healthz")
            return answer.status_code, answer.json()

    assert await health() == (200, {"ready": True, "stage": "ready", "share": 1.0})
    server.engine.is_ready = False
    assert await health() == (503, {"ready": False, "stage": "weights", "share": 0.5})
    server.engine.failure = "no weights at /secret"
    assert await health() == (503, {"ready": False, "stage": "failed", "share": 0.5})


async def test_the_page_says_how_to_walk_in(shared_server: Running) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.get(shared_server.http + "/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "make client URL=" in answer.text


async def test_metrics_count_frames_and_tell_of_the_tiers(server: Running) -> None:
    client = await WireClient.enter(server.url, world="w")
    for _ in range(5):
        await client.next_frame()
    async with httpx.AsyncClient() as browser:
        text = (await browser.get(server.http + "/metrics")).text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["worldpager_frames_sent_total"]) >= 5
    assert float(values["worldpager_connections"]) == 1
    assert float(values['worldpager_tier_used_bytes{tier="gpu"}']) == 300
    assert float(values['worldpager_hits{tier="nvme"}']) == 3
