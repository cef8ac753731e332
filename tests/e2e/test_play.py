"""`python -m server play`: both processes at once, a killed server, and one that cannot start. The plain model."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANGS_S = 180.0  # nothing takes so long, on however busy a machine


@contextmanager
def playing(*arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """`play` on a display that nobody sees; ended at the end, and with it both of its processes."""
    command = [sys.executable, "-m", "server", "play", *arguments]
    settings = {"WORLDPAGER_MODEL": "plain", "SDL_VIDEODRIVER": "dummy", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **settings, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(HANGS_S)


def read_until(process: "subprocess.Popen[str]", pattern: str) -> str:
    """The first line that matches, from here on."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            return line.strip()
    pytest.fail(f"ended without {pattern!r}: {''.join(lines)}")


def children(pid: int) -> dict[str, int]:
    """The packages that children of a process run, and their ids."""
    found: dict[str, int] = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split():
        words = Path(f"/proc/{child}/cmdline").read_text("utf-8").split("\0")
        found[words[2]] = int(child)
    return found


def await_frames(ready: str) -> None:
    """Wait until the server at this address has sent some frames."""
    http = ready.removeprefix("ready: ").replace("ws://", "http://").replace("/ws", "/metrics")
    until_s = time.monotonic() + HANGS_S
    while time.monotonic() < until_s:
        with urllib.request.urlopen(http) as answer:
            sent = re.search(r"^worldpager_frames_sent_total (\S+)", answer.read().decode(), re.MULTILINE)
        if sent is not None and float(sent[1]) > 5.0:
            return
        time.sleep(0.05)
    pytest.fail("no frames were sent")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_client_starts_beside_the_server_and_a_killed_server_is_started_again(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    walk = ["--route", "yaw-360", "--seconds", "600", "--report", str(report)]
    with playing(*walk, WORLDPAGER_WORLDS=str(tmp_path / "worlds")) as process:
        ready = read_until(process, "^(ready|loading): ")
        running = children(process.pid)
        assert set(running) == {"server", "client"}  # before anybody could walk
        ready = ready if ready.startswith("ready") else read_until(process, "^ready: ")
        await_frames(ready)
        os.kill(running["server"], signal.SIGKILL)
        assert "your walk goes on" in read_until(process, "^The server")
        assert read_until(process, "^ready: ") == ready
        await_frames(ready)
        assert children(process.pid)["client"] == running["client"]
    walked = json.loads(report.read_text("utf-8"))
    assert walked["reconnects"] >= 1
    assert walked["frames_shown"] > 5
    with pytest.raises(ProcessLookupError):
        os.kill(running["client"], 0)


def test_a_server_that_is_stopped_while_it_loads_ends_at_once_and_without_a_word_of_its_libraries(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "server", "--model", "plain", "--port", "0", "--worlds", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        read_until(process, "^loading: ")
        process.terminate()
        said = process.communicate(timeout=HANGS_S)[0]
    assert process.returncode == 0
    assert [line for line in said.splitlines() if not line.startswith(("loading: ", "ready: "))] == []


def test_a_server_that_cannot_start_ends_the_client_and_says_why() -> None:
    with playing(WORLDPAGER_GPU="much") as process:
        read_until(process, "WORLDPAGER_GPU")
        read_until(process, "The server ended")
        assert process.wait(HANGS_S) == 2
