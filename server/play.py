"""`python -m server play`: a server on a free loopback port and a client before it; closing the client stops both.

Both are started at once: the window is there while the server still loads, and says how far it is.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

STOP_WAIT_S = 25.0  # a server saves its worlds within 12 s of being asked
LOOK_EVERY_S = 0.1
MAX_RESTARTS = 3
Process = subprocess.Popen[bytes]


def play(client_arguments: Sequence[str]) -> int:
    """Start both, wait for the client, stop the server so that it saves. Returns the exit code. Main thread."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends us must not leave a server behind
    port = _free_port()
    processes = [_start_server(port)]
    try:
        if "--headless" in client_arguments:
            _await_listener(processes[0], port)
        url = f"ws://127.0.0.1:{port}/ws"
        client = _start("client", url, "--starting", *client_arguments)
        processes.append(client)
        return _watch(processes, client, port)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for process in reversed(processes):
            _stop(process)


def _watch(processes: list[Process], client: Process, port: int) -> int:
    """Until the client ends: its exit code. A killed server is started again; one that gave up ends the client."""
    num_restarts = 0
    while (code := client.poll()) is None:
        fault = processes[0].poll()
        if fault is not None and fault < 0 and num_restarts < MAX_RESTARTS:
            num_restarts += 1
            _tell(f"The server was killed (signal {-fault}). It is started again, and your walk goes on.")
            processes[0] = _start_server(port)
        elif fault is not None:
            _tell("The server ended, so the window is closed; the lines above say why.")
            return abs(fault) or 1
        time.sleep(LOOK_EVERY_S)
    return code


def _free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _await_listener(server: Process, port: int) -> None:
    """A walk without a window connects once: wait until somebody listens, or the server ended."""
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(LOOK_EVERY_S)


def _start_server(port: int) -> Process:
    return _start("server", "serve", "--host", "127.0.0.1", "--port", str(port))


def _start(package: str, *arguments: str) -> Process:
    return subprocess.Popen([sys.executable, "-m", package, *arguments])  # noqa: S603 - our own interpreter and modules


def _stop(process: Process) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the console is where a player looks
