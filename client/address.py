"""The server's address as a player may type it, made into a WebSocket URL. Pure; any thread."""

from urllib.parse import urlsplit

DEFAULT_URL = "ws://127.0.0.1:8765/ws"
_SCHEMES = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}


class AddressError(ValueError):
    """The address cannot be one of a server; the text says why."""


def websocket_url(typed: str) -> str:
    """The WebSocket URL of `typed`: "host", "host:port", "http://…" and "ws://…" are all understood."""
    text = typed.strip()
    parts = urlsplit(text if "://" in text else f"ws://{text}")
    if parts.scheme not in _SCHEMES:
        raise AddressError(f"{typed!r} is not an address of a server; one looks like {DEFAULT_URL}")
    try:
        port = parts.port
    except ValueError as error:
        raise AddressError(f"the port in {typed!r} is not a number from 1 to 65535") from error
    if not parts.hostname:
        raise AddressError(f"{typed!r} names no host; an address looks like {DEFAULT_URL}")
    if parts.query or parts.username or parts.password:
        raise AddressError("an address carries no token: give it with --token or WORLDPAGER_TOKEN")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = _SCHEMES[parts.scheme]
    default_port = 443 if scheme == "wss" else 8765
    path = parts.path if parts.path not in ("", "/") else "/ws"
    return f"{scheme}://{host}:{port or default_port}{path}"
