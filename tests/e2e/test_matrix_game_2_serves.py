"""Matrix-Game 2.0 at tiny size as it is started for real: `python -m server`, a socket, three tiers, past chunk 341."""

import json
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.headless import walk, walk_exact
from client.wire import Visit
from models.matrix_game_2.config import CONFIG_FOLDER, load_config
from tests.e2e.wire_client import WireClient, close_all, receive
from tests.official_folder import write_official_folder

ROOT = Path(__file__).parents[2]
LAST_NATIVE_CHUNK = 340  # the published rotary table ends at latent 1,023
SMALL = ["--gpu", "220kB", "--dram", "80kB", "--nvme", "20MB"]  # a turn recalls from all three tiers
START_S = 60.0


@contextmanager
def tiny_server(folder, *flags, config_name="tiny"):
    """The address of a server process."""
    command = [sys.executable, "-m", "server", "--model", "matrix-game-2", "--model-config", config_name, *SMALL]
    command += ["--worlds", str(folder / "worlds"), "--port", "0", "--threads", "1", *flags]
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        until_s = time.monotonic() + START_S
        while not (found := re.search(r"ready: (\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.05)
        yield found[1]
    finally:
        process.terminate()
        assert process.wait(30.0) == 0, log.read_text()


def smallest_config(folder):
    """A config file below tiny: one layer, one step, 16x16 pixels."""
    raw = json.loads((CONFIG_FOLDER / "tiny.json").read_text())
    raw |= {"name": "smallest", "denoising_step_list": [1000], "vae_dim": 1, "latent_hw": [2, 2]}
    raw["network"]["num_layers"] = 1
    path = folder / "smallest.json"
    path.write_text(json.dumps(raw))
    return str(path)


def check_that_it_walks_past_the_table(folder, config_name):
    """A whole walk from chunk 0, in exact mode, so that every chunk is drawn and every recall is waited for."""
    config = load_config(config_name)
    seconds = (LAST_NATIVE_CHUNK + 6) * config.frames_per_chunk / config.fps
    with tiny_server(folder, "--random-weights", config_name=config_name) as url:
        report, frames = walk_exact(Visit(url, seed=5, mode="exact"), "out-and-back", seconds)
    assert frames[-1].picture.chunk > LAST_NATIVE_CHUNK
    assert len({frame.sha for frame in frames[-24:]}) > 12
    assert report.random_weights
    assert report.recalled_from.gpu > 0
    assert report.recalled_from.dram > 0
    assert report.recalled_from.nvme > 0
    assert report.lost == report.missed == 0


def test_a_walk_passes_the_end_of_the_native_table_with_blocks_from_three_tiers(tmp_path):
    check_that_it_walks_past_the_table(tmp_path, smallest_config(tmp_path))


@pytest.mark.slow
def test_the_shipped_tiny_config_does_so_too(tmp_path):
    check_that_it_walks_past_the_table(tmp_path, "tiny")


def test_the_shipped_tiny_config_serves_and_the_headless_client_walks(tmp_path):
    with tiny_server(tmp_path, "--random-weights") as url:
        report = walk(Visit(url, seed=7), "out-and-back", 3.0)
    assert report.frames_shown > 20
    assert report.chunks > 5
    assert report.random_weights


async def test_a_player_who_stands_still_is_told_that_the_picture_is_held(tmp_path):
    idle_chunks = load_config("tiny").idle_chunks
    with tiny_server(tmp_path, "--random-weights") as url:
        client = await WireClient.enter(url)
        assert client.welcome.capabilities == ["random-weights"]
        held, last_chunk = [], 0
        while not held or last_chunk < 2 + idle_chunks:
            message = await receive(client.socket)
            if message.type == "frame":
                client.ack = message.id
                await client.send_input()
            elif message.type == "stats":
                last_chunk = message.chunk
                held += [message.chunk] if message.held else []
        await close_all()
    assert held[0] == 1 + idle_chunks


def test_a_weights_folder_in_the_official_layout_is_served_and_its_world_goes_on(tmp_path):
    folder = write_official_folder(tmp_path / "weights")
    with tiny_server(tmp_path, "--weights", str(folder)) as url:
        report = walk(Visit(url, world="mine"), "out-and-back", 2.0)
    assert report.frames_shown > 20
    pictures = []
    with tiny_server(tmp_path, "--weights", str(folder)) as url:
        walk(Visit(url, world="mine"), "out-and-back", 1.0, on_picture=pictures.append)
    assert pictures[-1].chunk > report.chunks - 2, "the world goes on where it was left"
    assert report.model == "matrix-game-2"
    assert not report.random_weights


def test_without_weights_the_server_says_what_to_fetch_and_ends(tmp_path):
    command = [sys.executable, "-m", "server", "--model", "matrix-game-2", "--worlds", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "hf download Skywork/Matrix-Game-2.0" in done.stderr
    assert "Traceback" not in done.stderr
