"""Who is let in: the token, the Host allow-list and the Origin rule, for HTTP and WebSocket alike. Event loop.

Starlette's CORS and BaseHTTP middleware never see a WebSocket, so this is plain ASGI around the whole application.
It decides by headers, and lets exactly one path through without a Bearer header: the WebSocket whose hello may carry
the token, which the connection then checks with `Rules.is_token`.
"""

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

HELLO_PATH = "/ws"
LET_IN = "worldpager.let_in"  # scope key: True when the header held the token, or none is needed
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is not answered: an HTTP status and a text that is safe to show."""

    status: int
    text: str


BAD_HOST = Denial(
    400,
    "This server does not go by that name. Use the address that it printed at its start, or start it with "
    "--allow-host NAME.\n",
)
BAD_ORIGIN = Denial(403, "A page of another site may not talk to this server. Open the server's own page instead.\n")
NO_TOKEN = Denial(
    401,
    "This server wants a token, and none or a wrong one was sent. It was printed at the server's start; give it to "
    "the client with --token, or send it as 'Authorization: Bearer TOKEN'.\n",
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a request. No token means that everybody who reaches the socket is let in."""

    token: str | None = None
    hosts: frozenset[str] = LOOPBACK_NAMES

    def is_token(self, given: str) -> bool:
        """True when no token is needed, or `given` is it. Takes the same time for every wrong token."""
        return self.token is None or hmac.compare_digest(given.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """True when only this machine can reach a socket bound to `host`. A name other than localhost is not asked for."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_rules(host: str, token: str | None, allow_hosts: Iterable[str] = ()) -> Rules:
    """The rules for a server bound to `host`. Anything but loopback gets a token, made here when none is given."""
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(32)
    own_name = socket.gethostname().lower()
    names = {host.lower(), *(name.lower().rstrip(".") for name in allow_hosts)}
    if not is_loopback(host):
        names |= {own_name, f"{own_name}.local"}
    return Rules(token, LOOPBACK_NAMES | names)


def host_name(host_header: str) -> str:
    """The name in a Host header, without port, brackets and final dot, in small letters."""
    name = host_header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def find_fault(scope: Scope, rules: Rules) -> Denial | None:
    """What is wrong with where a request comes from, token aside: its Host and its Origin."""
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
    hosts, origins = _values(headers, b"host"), _values(headers, b"origin")
    if len(hosts) != 1:
        return BAD_HOST
    # an address in the Host header that is the one the request arrived at cannot be a rebound name
    arrived_at = str((scope.get("server") or ("",))[0]).removeprefix("::ffff:")
    name = host_name(hosts[0])
    if not name or name not in {*rules.hosts, arrived_at}:
        return BAD_HOST
    if not origins:
        return None
    scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
    if origins != [f"{scheme}://{hosts[0].strip().lower()}"]:
        return BAD_ORIGIN
    return None


def judge(scope: Scope, rules: Rules) -> Denial | bool:
    """Why a request is denied, or whether it has already shown that it may come in."""
    fault = find_fault(scope, rules)
    if fault is not None:
        return fault
    credentials = _values(scope["headers"], b"authorization")
    if not credentials:
        if rules.token is None:
            return True
        is_hello = scope["type"] == "websocket" and scope["path"] == HELLO_PATH
        return False if is_hello else NO_TOKEN
    kind, _, given = credentials[0].partition(" ")
    if rules.token is None:
        return True
    if len(credentials) == 1 and kind.lower() == "bearer" and rules.is_token(given.strip()):
        return True
    return NO_TOKEN


class Access:
    """ASGI middleware: denies what `judge` denies, and adds the page headers to every HTTP answer."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge one request or WebSocket before anything else sees it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        verdict = judge(scope, self._rules)
        answer = _with_page_headers(send) if scope["type"] == "http" else send
        if isinstance(verdict, bool):
            scope[LET_IN] = verdict
            await self._app(scope, receive, answer)
        else:
            await _deny(verdict, scope, receive, answer)


async def _deny(denial: Denial, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"WWW-Authenticate": "Bearer"} if denial.status == 401 else None
    response = PlainTextResponse(denial.text, denial.status, headers)
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)


def _with_page_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(PAGE_HEADERS)
        await send(message)

    return send_with_headers
