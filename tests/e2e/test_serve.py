"""The server as a process: what it prints, how it stops, and with which exit code. The engine is the tiny one."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.app import DEAD_PEER_MS, NOTSENT_LOWAT_BYTES, CannotListen, listen, web_address

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from server.app import serve
from server.config import load_settings
from tests.e2e.tiny_engine import TinyEngine

def make_engine(settings):
    engine = TinyEngine()
    engine.failure = {failure!r}
    engine.is_ready = not engine.failure
    return engine

failure = serve(load_settings(dict(host=sys.argv[1], port=sys.argv[2]), {environment!r}).settings, make_engine)
print("stopped:", failure or "clean", flush=True)
"""


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(
    started: list["subprocess.Popen[str]"], host: str = "127.0.0.1", failure: str = "", token: str = ""
) -> "subprocess.Popen[str]":
    environment = {"WORLDPAGER_TOKEN": token} if token else {}
    script = SCRIPT.format(failure=failure, environment=environment)
    command = [sys.executable, "-c", script, host, "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    started.append(process)
    return process


def read_until(process: "subprocess.Popen[str]", prefix: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith(prefix):
            return lines
    pytest.fail(f"ended without {prefix!r}: {lines}")


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(processes: list["subprocess.Popen[str]"], name: signal.Signals) -> None:
    process = start(processes)
    lines = read_until(process, "ready: ")
    assert re.fullmatch(r"ready: ws://127\.0\.0\.1:\d+/ws", lines[-1])
    assert [line for line in lines if "token" in line] == []
    process.send_signal(name)
    assert read_until(process, "stopped:")[-1] == "stopped: clean"
    assert process.wait(60.0) == 0


def test_beyond_loopback_a_token_is_made_and_printed_once(processes: list["subprocess.Popen[str]"]) -> None:
    process = start(processes, host="0.0.0.0")
    lines = read_until(process, "ready: ")
    tokens = [match[1] for line in lines if (match := re.match(r"token: (\S{43})\b", line))]
    assert len(tokens) == 1
    assert "\n".join(lines).count(tokens[0]) == 1
    port = lines[-1].rsplit(":", 1)[1].removesuffix("/ws")
    assert health(port, tokens[0]) == 0
    assert health(port, "") == 1
    assert health(port, tokens[0] + "x") == 1


def health(port: str, token: str) -> int:
    """What the container's health check says."""
    environment = {**os.environ, "WORLDPAGER_PORT": port, "WORLDPAGER_TOKEN": token}
    script = ROOT / "deploy" / "health.py"
    return subprocess.run([sys.executable, str(script)], check=False, env=environment, capture_output=True).returncode


def test_a_given_token_is_not_printed(processes: list["subprocess.Popen[str]"]) -> None:
    lines = read_until(start(processes, host="0.0.0.0", token="a-token-that-was-given"), "ready: ")
    assert "a-token-that-was-given" not in "\n".join(lines)


def test_it_stops_by_itself_when_the_model_does_not_load(processes: list["subprocess.Popen[str]"]) -> None:
    process = start(processes, failure="no weights")
    assert read_until(process, "stopped:")[-1] == "stopped: no weights"
    assert process.wait(60.0) == 0


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port}"):
            listen("127.0.0.1", port)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        listen("192.0.2.1", 0)


def test_the_command_line_says_that_the_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "server", "--model", "plain", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "choose another --port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_NOTSENT_LOWAT is Linux's")
def test_the_kernel_may_not_hide_much_video() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == NOTSENT_LOWAT_BYTES
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == DEAD_PEER_MS


def test_the_printed_address_can_be_typed_in() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert web_address("127.0.0.1", listener) == f"127.0.0.1:{port}"
        assert web_address("::1", listener) == f"[::1]:{port}"
        assert web_address("0.0.0.0", listener) == f"{socket.gethostname()}:{port}"
