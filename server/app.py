"""The web application: lifespan, routes and the WebSocket; the listening socket and the run of uvicorn. Event loop.

The engine loads its model in its own thread while the socket is already open: until then /healthz says 503 and a
client gets `loading` messages.
"""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Response, WebSocket
from fastapi.responses import HTMLResponse, JSONResponse

from server.access import Access, Rules, is_loopback, make_rules
from server.config import Settings
from server.connection import Connection
from server.door import Door
from server.listing import Listing
from server.metrics import MemoryCollector, Traffic
from server.page import PAGE
from shared.protocol import MAX_CLIENT_MESSAGE_BYTES

NOTSENT_LOWAT_BYTES = 32_768
DEAD_PEER_MS = 30_000
MAX_CONNECTIONS = 256
STOP_TIMEOUT_S = 12.0  # with uvicorn's 3 s inside the 20 s that systemd and Docker give
STOP_LOADING_S = 0.5
ANNOUNCE_EVERY_S = 0.1


class CannotListen(Exception):  # noqa: N818 - the name is the message
    """The address is taken, or is not one of this machine."""


def create_app(settings: Settings, engine: Door, rules: Rules | None = None) -> FastAPI:
    """The application around a started engine, which it stops at its end."""
    if rules is None:
        rules = make_rules(settings.host, _given_token(settings), settings.allow_host)
    traffic = Traffic()
    traffic.registry.register(MemoryCollector(engine.sessions))

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            is_loading = not (engine.is_ready or engine.failure)  # then there is nothing to save, and no end in sight
            await asyncio.to_thread(engine.stop, STOP_LOADING_S if is_loading else STOP_TIMEOUT_S)

    # the interactive documentation loads scripts from elsewhere, which the content policy forbids
    app = FastAPI(title="WorldPager", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Access, rules=rules)
    _add_routes(app, engine, rules, traffic)
    Listing(settings.worlds).add_routes(app)
    return app


def _add_routes(app: FastAPI, engine: Door, rules: Rules, traffic: Traffic) -> None:
    async def page() -> Response:
        """What this is, and how to walk in."""
        return HTMLResponse(PAGE)

    async def health() -> Response:
        """200 when frames can be made, else 503 with what is being loaded."""
        if engine.is_ready:
            return JSONResponse({"ready": True, "stage": "ready", "share": 1.0})
        stage, share = engine.loading
        return JSONResponse({"ready": False, "stage": "failed" if engine.failure else stage, "share": share}, 503)

    async def metrics() -> Response:
        """Counters of the memory and the wire for Prometheus."""
        return Response(traffic.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def play(websocket: WebSocket) -> None:
        """One client; docs/protocol.md."""
        await Connection(websocket, engine, rules, traffic).run()

    app.add_api_route("/", page, response_class=HTMLResponse)
    app.add_api_route("/healthz", health)
    app.add_api_route("/metrics", metrics)
    app.add_api_websocket_route("/ws", play)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket for uvicorn. Raises CannotListen with what to do about it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return _listen_at(*found[0])
    except OSError as error:
        raise CannotListen(
            f"The server cannot listen on {host} port {port}: {error.strerror}. Another server may be running there; "
            "stop it, or choose another --port (or an address of this machine for --host)."
        ) from error


def _listen_at(family: int, kind: int, protocol: int, _name: str, address: Any) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":
            # accepted sockets inherit it: the kernel then hides 0.7 s of a stopped reader's video instead of 12 s
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES)
            # and the kernel gives up on a peer that takes nothing, also after uvicorn has closed and only flushes
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_MS)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def make_server(app: FastAPI) -> uvicorn.Server:
    """Make uvicorn as it must be for frames on credit: no compression, small input messages, its own quick pings."""
    config = uvicorn.Config(
        app,
        loop="uvloop" if sys.platform == "linux" else "asyncio",
        lifespan="on",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=MAX_CLIENT_MESSAGE_BYTES,
        ws_ping_interval=5.0,
        ws_ping_timeout=10.0,
        timeout_graceful_shutdown=3,
        limit_concurrency=MAX_CONNECTIONS,
        workers=1,  # one process owns the GPU
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="warning",  # below it, uvicorn and websockets log paths and headers, and a header may hold the token
    )
    return uvicorn.Server(config)


def web_address(host: str, listener: socket.socket) -> str:
    """NAME:PORT to type in, for a server bound to `host`."""
    port = listener.getsockname()[1]
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - a comparison
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def serve(settings: Settings, make_engine: Callable[[Settings], Door]) -> str:
    """Serve until SIGINT or SIGTERM, and save. Returns what failed, or nothing. Raises CannotListen. Main thread."""
    listener = listen(settings.host, settings.port)
    rules = make_rules(settings.host, _given_token(settings), settings.allow_host)
    if rules.token is not None and settings.token is None:
        # the only place that ever shows it; a token that was given is not repeated
        _tell(f"token: {rules.token} (made for this run; clients send it with --token)")
    if not is_loopback(settings.host):
        _tell("note: the network is not encrypted; who can listen in on it can read the token")
    engine = make_engine(settings)
    server = make_server(create_app(settings, engine, rules))
    _ignore_repeated_signals()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server, engine, listener, f"ws://{web_address(settings.host, listener)}/ws"))
    return engine.failure


async def _serve(server: uvicorn.Server, engine: Door, listener: socket.socket, url: str) -> None:
    telling = asyncio.create_task(_announce(server, engine, url))
    await server.serve(sockets=[listener])
    telling.cancel()


async def _announce(server: uvicorn.Server, engine: Door, url: str) -> None:
    """Tell each stage of loading, and then, once, that the server is ready; or stop it when it never will be."""
    told = ""
    while not (engine.is_ready or engine.failure):
        stage, share = engine.loading
        line = f"loading: {stage} ({share:.0%})"
        if line != told:
            _tell(line)
            told = line
        await asyncio.sleep(ANNOUNCE_EVERY_S)
    if engine.is_ready:
        _tell(f"ready: {url}")
    else:
        server.should_exit = True


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the console is where an operator looks; a log would keep the token


def _given_token(settings: Settings) -> str | None:
    return settings.token.get_secret_value() if settings.token else None


def _ignore_repeated_signals() -> None:
    """Let uvicorn raise the signal that stopped it once more at its end: by then all is saved, the exit is clean."""

    def ignore(_signal: int, _frame: FrameType | None) -> None:
        pass

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, ignore)
