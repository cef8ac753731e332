"""The settings: where each value comes from, and what a wrong one says."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.rooms import precision
from models.rooms.model import RoomsModel
from server.config import BUDGETS, NAMES, SettingsError, load_settings, parse_bytes
from server.load import torch_threads
from server.pager.budgets import Budgets, slot_counts
from server.pager.layout import SlotLayout

SECRET = "a-secret-of-thirty-characters!"


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("24000000", 24_000_000),
        (24_000_000, 24_000_000),
        ("24MB", 24_000_000),
        ("10.22GB", 10_220_000_000),
        ("10GiB", 10 * 2**30),
        ("1.5 KiB", 1_536),
        ("1tb", 10**12),
        ("512B", 512),
        ("0", 0),
    ],
)
def test_bytes_are_read_as_people_write_them(text: object, num_bytes: int) -> None:
    assert parse_bytes(text) == num_bytes


@pytest.mark.parametrize(
    "text", ["", "GB", "12XB", "-5MB", "1e9", "10 GB extra", "iB", "5iB", "\u0661GB", "nan", True, None]
)
def test_what_is_no_number_of_bytes_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a number of bytes"):
        parse_bytes(text)


@given(st.integers(0, 2**61))
def test_a_plain_number_is_itself(number: int) -> None:
    assert parse_bytes(str(number)) == number == parse_bytes(number)


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('port = 1\ndram = "2MB"\nnvme = 3\n"model-config" = "small"\n')
    environment = {"WORLDPAGER_PORT": "10", "WORLDPAGER_DRAM": "20MB", "WORLDPAGER_CONFIG": str(file), "HOME": "/x"}
    loaded = load_settings({"port": "100"}, environment)
    settings = loaded.settings
    assert (settings.port, settings.dram_bytes, settings.nvme_bytes) == (100, 20_000_000, 3)
    assert (settings.model_settings, settings.gpu_bytes) == ("small", parse_bytes(BUDGETS["rooms"]["gpu"]))
    assert loaded.sources["port"] == "flag --port"
    assert loaded.sources["dram"] == "environment WORLDPAGER_DRAM"
    assert loaded.sources["nvme"] == f"file {file}"
    assert loaded.sources["gpu"] == "default"


@pytest.mark.parametrize(
    ("flags", "environment", "says"),
    [
        ({"port": "x"}, {}, ["port", "flag --port", "integer"]),
        ({"port": "70000"}, {}, ["port", "65535"]),
        ({"gpu": "12XB"}, {}, ["gpu", "flag --gpu", "10.22GB"]),
        ({"model": "none"}, {}, ["model", "'rooms'"]),
        ({}, {"WORLDPAGER_FOO": "1"}, ["foo", "environment WORLDPAGER_FOO", "no such setting"]),
        ({}, {"WORLDPAGER_THREADS": "0"}, ["threads", "environment WORLDPAGER_THREADS"]),
        ({}, {"WORLDPAGER_AUTOSAVE_S": "nan"}, ["autosave_s", "environment WORLDPAGER_AUTOSAVE_S"]),
        ({"random_weights": "perhaps"}, {}, ["random_weights", "flag --random-weights"]),
        ({"config": "/nowhere.toml"}, {}, ["config", "flag --config", "/nowhere.toml"]),
        ({"weights": "/nowhere"}, {}, ["weights", "flag --weights", "/nowhere"]),
    ],
)
def test_a_wrong_value_names_itself_and_its_source(
    flags: dict[str, object], environment: dict[str, str], says: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags, environment)
    assert [part for part in says if part not in str(caught.value)] == []


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"port": "x", "gpu": "y"}, {"WORLDPAGER_FOO": "1"})
    assert {line.split()[0] for line in str(caught.value).splitlines()} == {"port", "gpu", "foo"}


@pytest.mark.parametrize("text", ["unknown = 1", "port = 'x'", "port = [1", "[server]\nport = 1"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"settings\.toml"):
        load_settings({"config": str(file)}, {})


@pytest.mark.parametrize("token", ["short-secret", "x" * 257, "with a space in the middle", "ünïcödë-and-long-enough"])
def test_a_bad_token_is_refused_without_being_repeated(token: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {"WORLDPAGER_TOKEN": token})
    assert token not in str(caught.value)
    assert "environment WORLDPAGER_TOKEN" in str(caught.value)


def test_the_token_is_masked_wherever_settings_are_shown() -> None:
    loaded = load_settings({}, {"WORLDPAGER_TOKEN": SECRET.replace("!", "")})
    shown = loaded.describe() + repr(loaded) + str(loaded.settings)
    assert SECRET.replace("!", "") not in shown
    assert 'token = "********"  # environment WORLDPAGER_TOKEN' in loaded.describe()


def test_what_is_printed_is_toml_and_gives_the_same_settings(tmp_path: Path) -> None:
    loaded = load_settings({"port": "1", "allow_host": ["a.lan", "b.lan"], "seed": "7", "random_weights": True}, {})
    file = tmp_path / "settings.toml"
    file.write_text(loaded.describe())
    assert set(tomllib.loads(loaded.describe())) <= set(NAMES)
    assert load_settings({"config": str(file)}, {}).settings == loaded.settings


def test_names_with_commas_are_several_names() -> None:
    assert load_settings({}, {"WORLDPAGER_ALLOW_HOST": "a.lan, b.lan,"}).settings.allow_host == ("a.lan", "b.lan")


def test_the_settings_cannot_be_changed() -> None:
    settings = load_settings({}, {}).settings
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1


def test_the_large_model_gets_larger_budgets() -> None:
    settings = load_settings({"model": "matrix-game-2", "dram": "1GB"}, {}).settings
    assert (settings.gpu_bytes, settings.dram_bytes) == (parse_bytes(BUDGETS["matrix-game-2"]["gpu"]), 1_000_000_000)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "server", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)


def test_the_command_line_stops_at_a_wrong_value_with_code_2_and_no_traceback() -> None:
    done = run("--port", "x")
    assert done.returncode == 2
    assert "port (flag --port)" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_prints_the_settings_and_stops() -> None:
    done = run("serve", "--nvme", "1GiB", "--print-config")
    assert done.returncode == 0
    assert "nvme = 1073741824  # flag --nvme" in done.stdout


@pytest.mark.parametrize("arguments", [["--bogus"], ["--worlds", "/proc/nowhere"], ["--config", "/nowhere"], ["walk"]])
def test_no_wrong_command_line_shows_a_traceback(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert arguments[-1] in done.stderr
    assert "Traceback" not in done.stderr


def test_every_setting_has_a_flag() -> None:
    shown = run("serve", "--help").stdout
    assert [name for name in NAMES if f"--{name.replace('_', '-')}" not in shown] == []


def test_the_settings_are_checked_before_torch_is_imported() -> None:
    script = "import sys, server.__main__, server.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


@pytest.mark.parametrize(("flags", "threads"), [({"model": "plain"}, 1), ({"threads": "3"}, 3)])
def test_torch_has_as_many_threads_as_are_asked_for_and_one_for_a_small_model(flags, threads):
    assert torch_threads(load_settings(flags, {}).settings) == threads


def test_matrix_game_2_computes_on_every_core():
    assert torch_threads(load_settings({"model": "matrix-game-2"}, {}).settings) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("has_bfloat16", "threads"), [(True, 1), (False, min(4, len(os.sched_getaffinity(0))))])
def test_rooms_shares_a_chunk_among_threads_only_in_float32(has_bfloat16, threads, monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16_products", lambda: has_bfloat16)
    assert torch_threads(load_settings({}, {}).settings) == threads


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rooms_starts_with_the_budgets_of_no_flag_whatever_a_processor_computes_in(dtype):
    gpu, dram, nvme = (parse_bytes(BUDGETS["rooms"][tier]) for tier in ("gpu", "dram", "nvme"))
    layout = SlotLayout(RoomsModel.kv_spec)
    slots, _ = slot_counts(layout, Budgets(gpu, dram, nvme), RoomsModel.max_recall, dtype)
    assert slots >= 2 * RoomsModel.max_recall
