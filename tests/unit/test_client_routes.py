"""Routes: shipped ones by what they do, files by what they may hold."""

import json
import math
from pathlib import Path

import pytest

from client.legs import SHIPPED, TURN_RAD_S
from client.routes import MAX_LINES, RouteError, parse_route, route, write_lines
from shared.controls import Key
from shared.pose import MOUSE_RAD_PER_COUNT, Motion, Pose, advance, distance_m, wrap_rad

FPS = 10.0
MOTION = Motion(1.1, 2.0, 0.0)


def walked(name: str, seconds: float) -> list[Pose]:
    """The poses of a shipped route in a world without walls."""
    poses = [Pose()]
    for controls in route(name, seconds).frames(FPS, round(seconds * FPS)):
        poses.append(advance(poses[-1], controls, MOTION, 1.0 / FPS))
    return poses


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("seconds", [1.0, 60.0, 7_200.0])
def test_every_shipped_route_lasts_as_asked_and_turns_no_faster_than_a_model_can(name: str, seconds: float) -> None:
    path = route(name, seconds)
    assert path.lines[-1].t_s == pytest.approx(seconds)
    limit_counts = TURN_RAD_S / MOUSE_RAD_PER_COUNT / FPS
    assert all(abs(one.mouse_dx) <= limit_counts * 1.001 for one in path.frames(FPS, round(seconds * FPS)))


def test_a_route_that_comes_back_ends_where_it_began() -> None:
    for name in ("out-and-back", "long-round-trip"):
        poses = walked(name, 60.0)
        farthest = max(range(len(poses)), key=lambda index: distance_m(poses[0], poses[index]))
        assert distance_m(poses[0], poses[farthest]) > 2.0
        assert distance_m(poses[0], poses[-1]) < 0.5
        assert abs(wrap_rad(poses[-1].yaw_rad - math.pi)) < 0.05


def test_out_and_back_turns_around_at_half_of_the_time() -> None:
    path = route("out-and-back", 60.0)
    assert path.keys_at(30.0) == Key(0)
    turned = path.mouse_at(32.0)[0] - path.mouse_at(28.0)[0]
    assert turned * MOUSE_RAD_PER_COUNT == pytest.approx(math.pi, abs=0.1)


def test_yaw_360_turns_whole_turns_and_stays() -> None:
    poses = walked("yaw-360", 24.0)
    assert distance_m(poses[0], poses[-1]) == 0.0
    assert abs(wrap_rad(poses[-1].yaw_rad)) < 1e-6


def test_a_shipped_route_is_the_same_every_time() -> None:
    assert route("random", 30.0).lines == route("random", 30.0).lines


def test_a_written_route_reads_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "walk.jsonl"
    original = route("square", 20.0)
    path.write_text(write_lines(original), "utf-8")
    again = route(str(path), 999.0)
    assert again.frames(FPS, 200)[50].keys == original.frames(FPS, 200)[50].keys
    assert again.mouse_at(20.0)[0] == pytest.approx(original.mouse_at(20.0)[0])


def test_keys_hold_until_the_next_line_and_mouse_travel_is_spread_over_it() -> None:
    path = parse_route('{"t_s": 1, "keys": "W"}\n\n{"t_s": 3, "keys": "", "mouse": [40, -8]}\n', "r")
    assert [path.keys_at(at_s) for at_s in (0.5, 1.0, 2.9, 3.0)] == [Key(0), Key.FORWARD, Key.FORWARD, Key(0)]
    assert path.mouse_at(2.0) == (20.0, -4.0)
    assert path.mouse_at(9.0) == (40.0, -8.0)
    assert path.controls_between(2.0, 3.0).mouse_dx == 20.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no lines"),
        ("{", "line 1: not JSON"),
        ("[1]", "line 1: a line is an object"),
        ('{"keys": "W"}', "t_s is a number"),
        ('{"t_s": true}', "t_s is a number"),
        ('{"t_s": NaN}', "t_s is a number"),
        ('{"t_s": -1}', "t_s lies between"),
        ('{"t_s": 1}\n{"t_s": 0.5}', "line 2: t_s goes back"),
        ('{"t_s": 0, "keys": "Q"}', "not one of W, A, S, D"),
        ('{"t_s": 0, "keys": "WWWWW"}', "keys is a text"),
        ('{"t_s": 0, "mouse": [1]}', "two numbers"),
        ('{"t_s": 0, "mouse": [1e300, 0]}', "mouse lies between"),
        ('{"t_s": 0, "speed": 1}', "unknown field 'speed'"),
        ("[" * 100_000, "line 1"),
        ('{"t_s": 0}\n' * (MAX_LINES + 1), "more than"),
    ],
)
def test_a_bad_route_says_which_line_is_wrong_and_why(text: str, said: str) -> None:
    with pytest.raises(RouteError, match=said):
        parse_route(text, "r")


def test_an_unknown_name_lists_the_shipped_routes(tmp_path: Path) -> None:
    with pytest.raises(RouteError, match="out-and-back"):
        route("moonwalk", 10.0)
    binary = tmp_path / "b"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RouteError, match="cannot be read"):
        route(str(binary), 10.0)
    with pytest.raises(RouteError, match="seconds"):
        route("square", math.nan)
    assert json.loads(write_lines(route("square", 5.0)).splitlines()[0])["keys"] == "W"
