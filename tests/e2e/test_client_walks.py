"""The client over a real socket, against the rehearsal server: walks, cuts, refusals, the command line, a window."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from client.exact import walk_exact
from client.headless import UnreachableError, walk
from client.link import Link
from client.mailbox import News
from client.picture import Picture
from client.rehearsal import Play, Rehearsal, read_numbers
from client.status import Phase, Status
from client.wire import RefusedError, Visit
from shared.controls import Key
from shared.protocol import Welcome

FAST = Play(fps=30.0)
KEYS = {
    "fps_shown", "frame_time_ms", "gap_p50_ms", "gap_p95_ms", "frames_shown", "frames_dropped",
    "input_to_photon_p50_ms", "input_to_photon_p95_ms", "stalls", "longest_wait_ms", "stale_share", "recalled_from",
    "lost",
}  # fmt: skip


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The client's command line in a process of its own."""
    command = [sys.executable, "-m", "client", *arguments]
    clean = {key: value for key, value in os.environ.items() if key != "WORLDPAGER_TOKEN"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=clean | environment, check=False)


def test_a_walk_shows_every_frame_with_the_input_it_was_drawn_with() -> None:
    seen: list[Picture] = []
    with Rehearsal(FAST) as server:
        report = walk(server.url, "square", 2.0, on_picture=seen.append)
        assert server.unacknowledged <= 2
    assert [read_numbers(picture.rgb) for picture in seen] == [(one.frame_id, one.input_seq) for one in seen]
    ids = [picture.frame_id for picture in seen]
    assert ids == sorted(set(ids))
    assert report.frames_shown == len(seen) > 1
    assert report.input_to_photon_p50_ms is not None
    assert report.input_to_photon_p50_ms > 0.0
    assert seen[-1].pose.z_m > 0.0  # W was held


def test_a_cut_is_survived_with_the_resume_token_and_frames_go_on() -> None:
    seen: list[Picture] = []

    def cut_once(picture: Picture) -> None:
        seen.append(picture)
        if len(seen) == 20:
            server.cut()

    with Rehearsal(FAST) as server:
        report = walk(Visit(server.url, world="home"), "square", 3.0, on_picture=cut_once)
        assert [one.resume for one in server.hellos] == ["", "visit-0"]
        assert server.hellos[1].world == "home"
    assert report.reconnects == 1
    ids = [picture.frame_id for picture in seen]
    assert ids == sorted(set(ids))
    assert len(ids) > 20


def test_a_walk_ends_on_time_when_the_server_is_gone() -> None:
    server = Rehearsal(FAST)
    server.__enter__()
    seen: list[Picture] = []

    def leave(picture: Picture) -> None:
        seen.append(picture)
        if len(seen) == 10:
            server.__exit__()

    report = walk(server.url, "yaw-360", 2.0, on_picture=leave)
    assert report.frames_shown >= 10


def test_keys_are_released_when_the_players_thread_stops_steering() -> None:
    with Rehearsal(FAST) as server:
        link = Link(Visit(server.url))
        link.start()
        deadline_s = time.perf_counter() + 60.0
        while time.perf_counter() < deadline_s and not any(one.keys for one in server.inputs):
            link.controls.steer(Key.FORWARD, 0.0, 0.0, 0, time.perf_counter())
            time.sleep(0.01)
        assert any(one.keys == 1 for one in server.inputs)
        while time.perf_counter() < deadline_s and server.inputs[-1].keys:  # nobody steers any more
            time.sleep(0.01)
        last = server.inputs[-1]
        link.close()
    assert last.keys == 0


def test_a_player_who_takes_no_frames_is_sent_no_more() -> None:
    with Rehearsal(FAST) as server:
        link = Link(Visit(server.url))
        link.start()
        time.sleep(1.5)  # nobody drains the mailbox
        newest = max(one.ack for one in server.inputs)
        _, frames = link.arrivals.drain()
        link.close()
    assert newest <= 8
    assert frames[-1][0].frame_id <= 10


def collect(link: Link, seconds: float) -> list[News]:
    """All news of some seconds."""
    news: list[News] = []
    deadline_s = time.perf_counter() + seconds
    while time.perf_counter() < deadline_s:
        news.extend(link.arrivals.drain()[0])
        time.sleep(0.02)
    return news


def test_loading_stages_arrive_before_the_welcome() -> None:
    with Rehearsal(Play(fps=30.0, loading_s=0.3)) as server:
        link = Link(Visit(server.url))
        link.start()
        news = collect(link, 1.0)
        link.close()
    phases = [one.phase for one in news if isinstance(one, Status)]
    assert phases == [Phase.CONNECTING, Phase.LOADING, Phase.LOADING, Phase.LOADING, Phase.WALKING]
    assert any(isinstance(one, Welcome) for one in news)


def test_a_server_that_is_still_being_started_is_waited_for_without_alarm() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    link = Link(Visit(f"ws://127.0.0.1:{port}/ws", is_starting=True))
    link.start()
    before = collect(link, 1.0)
    with Rehearsal(replace(FAST, port=port)):
        after = collect_until(link, Phase.WALKING)
    after += collect_until(link, Phase.LOST)
    link.close()
    assert {one.phase for one in before if isinstance(one, Status)} == {Phase.STARTING}
    assert any(isinstance(one, Welcome) for one in after)


def collect_until(link: Link, phase: Phase) -> list[News]:
    """All news until the link is in this phase."""
    news: list[News] = []
    until_s = time.perf_counter() + 60.0
    while not any(isinstance(one, Status) and one.phase is phase for one in news):
        assert time.perf_counter() < until_s, news
        news += collect(link, 0.02)
    return news


def test_the_player_pauses_the_world() -> None:
    with Rehearsal(FAST) as server:
        link = Link(Visit(server.url))
        link.start()
        collect(link, 0.5)
        link.pause(on=True)
        whys = [one.why for one in collect(link, 0.4) if one.__class__.__name__ == "Paused"]  # type: ignore[union-attr]
        link.close()
    assert whys == ["player"]


def test_a_refusal_is_final_and_says_what_to_do() -> None:
    with Rehearsal(Play(token="right")) as server:
        with pytest.raises(UnreachableError, match="--token"):
            walk(Visit(server.url, token="wrong"), "square", 1.0)
        with pytest.raises(RefusedError):
            walk_exact(Visit(server.url, mode="exact"), "square", 1.0)
        assert walk(Visit(server.url, token="right"), "square", 0.5).frames_shown > 1
    with Rehearsal(Play(refuse_with="version")) as server, pytest.raises(UnreachableError, match="same version"):
        walk(server.url, "square", 1.0)


def test_an_exact_walk_gets_every_frame_of_the_route() -> None:
    with Rehearsal(Play(frames_per_chunk=4)) as server:
        report, frames = walk_exact(Visit(server.url, mode="exact"), "square", 6.1)
        seen: list[Picture] = []
        again = walk(Visit(server.url, mode="exact"), "square", 1.0, on_picture=seen.append)
    assert [frame.picture.frame_id for frame in frames] == list(range(64))  # 61 frames, whole chunks
    assert all(frame.sha == f"{index:032x}" and frame.png for index, frame in enumerate(frames))
    assert report.frames_shown == 64
    assert again.frames_shown == len(seen) == 12


def test_the_headless_report_has_every_key(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with Rehearsal(FAST) as server:
        done = run(server.url, "--headless", "--route", "random", "--seconds", "1", "--report", str(path),
                   "--world", "w", "--seed", "800001", "--token", "t")  # fmt: skip
        assert (server.hellos[0].world, server.hellos[0].seed) == ("w", 800_001)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text("utf-8"))
    assert set(report) >= KEYS
    assert report["fps_shown"] > 0.0
    assert report["route"] == "random"


def test_a_dead_server_gives_a_clear_message_and_exit_code_one() -> None:
    done = run("ws://127.0.0.1:9/ws", "--headless", "--route", "square", "--seconds", "1")
    assert done.returncode == 1
    assert "No server answers" in done.stderr
    assert "make serve" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://box"], "not an address"),
        (["--headless", "--route", "moonwalk"], "no route or file"),
        (["--headless", "--report", "/nowhere/at/all.json"], "does not exist"),
        (["--seconds", "-1"], "above 0"),
        (["--at", "the door"], "--world NAME"),
    ],
)
def test_wrong_use_is_said_before_anything_starts(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_window_walks_a_route_and_reports(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with Rehearsal(FAST) as server:
        done = run(server.url, "--route", "square", "--seconds", "1.5", "--report", str(path), SDL_VIDEODRIVER="dummy")
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text("utf-8"))["frames_shown"] > 1


def test_without_a_display_the_client_says_what_to_do_and_ends() -> None:
    done = run("ws://127.0.0.1:9/ws", DISPLAY="", WAYLAND_DISPLAY="", SDL_VIDEODRIVER="", SDL_VIDEO_DRIVER="")
    assert done.returncode == 2
    assert "--headless" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_display_that_does_not_answer_is_said(tmp_path: Path) -> None:
    done = run("ws://127.0.0.1:9/ws", DISPLAY=":4094", WAYLAND_DISPLAY="", SDL_VIDEODRIVER="", SDL_VIDEO_DRIVER="")
    assert done.returncode == 2
    assert "cannot be opened" in done.stderr


def test_a_server_without_a_list_of_worlds_gives_a_new_one_without_a_key(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with Rehearsal(FAST) as server:
        done = run(server.url, "--seconds", "1", "--report", str(path), SDL_VIDEODRIVER="dummy")
        assert server.hellos[0].world == ""
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text("utf-8"))["frames_shown"] > 0
