"""`python -m server play`: a server on a free loopback port and a client before it; closing the client stops both."""

import signal
import subprocess
import sys
from collections.abc import Sequence

STOP_WAIT_S = 25.0  # a server saves its worlds within 12 s of being asked


def play(client_arguments: Sequence[str]) -> int:
    """Start both, wait for the client, stop the server so that it saves. Returns the exit code. Main thread."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends us must not leave a server behind
    server = subprocess.Popen(
        [sys.executable, "-m", "server", "serve", "--host", "127.0.0.1", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = _url_when_ready(server)
        if url is None:
            return server.wait() or 1
        return subprocess.call(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "client", url, *client_arguments]
        )
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        _stop(server)


def _url_when_ready(server: "subprocess.Popen[str]") -> str | None:
    """Pass the server's lines on until it says where it serves; None when it ended before that."""
    assert server.stdout is not None
    for line in server.stdout:
        print(line, end="", flush=True)  # noqa: T201 - the console is where a player looks
        if line.startswith("ready: "):
            return line.removeprefix("ready: ").strip()
    return None


def _stop(server: "subprocess.Popen[str]") -> None:
    if server.poll() is not None:
        return
    server.terminate()
    try:
        server.wait(STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        server.kill()
