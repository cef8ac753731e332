"""A server as a process of its own: killed in the middle of a walk, and on a file system that fills up."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from client.headless import walk
from client.wire import Visit
from server.world_log import read_world_log
from tests.e2e.server_process import server_process

PLAIN = ("--model", "plain")
HANGS_S = 180.0  # nothing takes so long, on however busy a machine


def walk_in_thread(url, world, seconds, result):
    result["shown_s"] = []

    def go():
        shown_s = result["shown_s"]
        result["report"] = walk(
            Visit(url, world=world), "out-and-back", seconds, on_picture=lambda _: shown_s.append(time.monotonic())
        )

    thread = threading.Thread(target=go)
    thread.start()
    return thread


def until(is_so):
    """Wait until a condition holds."""
    until_s = time.monotonic() + HANGS_S
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def saved_moment(worlds):
    """The moment of the newest head that the only world's log says is saved."""
    heads = [kept for card in worlds.glob("*/world.json") for kept in read_world_log(card.parent).heads.get("main", [])]
    return max((kept.moment for kept in heads), default=0)


def test_a_killed_server_opens_its_world_again_and_says_what_was_lost(tmp_path):
    result = {}
    with server_process(tmp_path, *PLAIN, "--autosave-s", "1") as (process, url):
        thread = walk_in_thread(url, "attic", 8.0, result)
        until(lambda: saved_moment(tmp_path) > 8)
        process.send_signal(signal.SIGKILL)
        process.wait()
        thread.join()
    pictures = []
    with server_process(tmp_path, *PLAIN) as (process, url):
        report = walk(Visit(url, world="attic"), "out-and-back", 1.0, on_picture=pictures.append)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 0
    assert report.frames_shown > 0
    assert pictures[0].chunk > 5, "the world began anew"
    assert result["report"].frames_shown > 0


def test_a_clean_stop_loses_nothing(tmp_path):
    last = []
    with server_process(tmp_path, *PLAIN) as (process, url):
        walk(Visit(url, world="attic"), "square", 2.0, on_picture=last.append)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 0
    first = []
    with server_process(tmp_path, *PLAIN) as (_, url):
        walk(Visit(url, world="attic"), "square", 0.5, on_picture=first.append)
    assert 0 <= first[0].chunk - last[-1].chunk <= 6


@pytest.fixture
def small_file_system(tmp_path):
    """64 MiB of tmpfs."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path):
    """Take all space that is left."""
    with (folder / "other").open("wb") as file:
        try:
            while True:
                file.write(os.urandom(1 << 16))
                file.flush()
        except OSError:
            return


def test_the_walk_goes_on_when_another_file_fills_the_disk(small_file_system):
    result = {}
    with server_process(small_file_system, *PLAIN, "--nvme", "48MB", "--autosave-s", "1") as (process, url):
        thread = walk_in_thread(url, "attic", 5.0, result)
        until(lambda: len(result["shown_s"]) > 20)
        fill(small_file_system)
        full_s = time.monotonic()
        thread.join()
        assert process.poll() is None
    assert any(at_s > full_s for at_s in result["shown_s"]), "nothing was drawn once the disk was full"
    (small_file_system / "other").unlink()
    with server_process(small_file_system, *PLAIN, "--nvme", "48MB") as (_, url):
        again = walk(Visit(url, world="attic"), "square", 1.0)
    assert again.frames_shown > 0


def test_a_disk_too_small_for_the_budget_is_said_at_once(small_file_system):
    with (
        server_process(small_file_system, *PLAIN, "--nvme", "1GB") as (_, url),
        pytest.raises(Exception, match="smaller --nvme") as caught,
    ):
        walk(Visit(url, world="attic"), "square", 1.0)
    assert str(small_file_system) not in str(caught.value)
