"""`python -m bench pager` against the real pager: its keys, its policies, and the analytical model held against it."""

import json

import pytest

from bench.pager import main
from bench.pager_grid import GRID, SPILLS, STALLS
from bench.pager_trace import TRAJECTORIES, natural_chunks, trajectory
from server.pager.capacity import SHIPPED
from server.pager.move.disk import RealDisk
from server.trace import SHIPPED_FOLDER, write_trace

KEYS = {
    "command",
    "commit",
    "hardware",
    "seconds",
    "scaled",
    "stalls",
    "preempted",
    "longest_wait_ms",
    "median_wait_ms",
    "stale_share",
    "lost",
    "hits",
    "fetched_in_time_share",
    "bytes_written",
    "bytes_read",
    "rss_slope_bytes_per_chunk",
    "page_cache_slope_bytes_per_chunk",
    "chunk_ms",
}
SAMPLE = {SPILLS[1], STALLS[12]}  # a busy machine makes waits where none should be: those are for make test-slow


def bench(tmp_path, *flags):
    path = tmp_path / "run.json"
    assert (
        main(["--fast", "--patient", "--chunk-ms", "400", "--folder", str(tmp_path), *flags, "--json", str(path)]) == 0
    )
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    return json.loads(path.read_text())


def test_a_live_walk_says_what_it_moved(tmp_path):
    figures = bench(tmp_path, "--chunks", "60", "--trace", "square", "--dram", "1GB", "--nvme", "4GB")
    assert set(figures) >= KEYS
    assert figures["lost"] == 0
    assert figures["forgotten"] > 0
    block = 129_261_568
    assert 25 * block < figures["bytes_written"] < 61 * block  # a full NVME is not written over for what is worth less
    assert figures["hits"]["nvme"] + figures["hits"]["dram"] > 0
    assert figures["page_cache_slope_bytes_per_chunk"] == 0.0


def test_what_to_forget_is_chosen_by_name(tmp_path):
    """A walk to and fro: what it sees again is not written again, but by a rule that does not look."""
    flags = ("--chunks", "60", "--trace", "b1_ws", "--dram", "1GB", "--nvme", "4GB", "--eviction")
    written = {name: bench(tmp_path, *flags, name)["bytes_written"] for name in ("ours", "fifo")}
    assert written["fifo"] > written["ours"]


def test_forced_from_nvme_every_recall_is_a_read_and_a_hit(tmp_path):
    figures = bench(tmp_path, "--chunks", "40", "--trace", "b1_ws", "--recall-from", "nvme", "--patient")
    assert figures["hits"]["nvme"] >= 0.9 * sum(figures["hits"].values())
    assert figures["stale_share"] == 0.0  # who walks straight on is foreseen, and a patient chunk gets what is planned
    assert figures["bytes_read"] >= 0.9 * sum(figures["hits"].values()) * 129_261_568


def test_on_demand_waits_for_reads_and_recompute_for_as_long_as_it_is_told(tmp_path):
    flags = ("--chunks", "24", "--trace", "b1_ws", "--recall-from", "nvme", "--read-gbps", "2")
    waits = [bench(tmp_path, *flags, "--policy", policy)["median_wait_ms"] for policy in ("on-demand", "recompute")]
    assert waits[0] > 0.5
    assert waits[1] >= 585.5 / 20


def test_a_slow_drive_does_not_slow_recomputing(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("bench.pager.ThrottledDisk", lambda rate: made.append(rate) or RealDisk())
    bench(tmp_path, "--chunks", "4", "--read-gbps", "0.1", "--policy", "recompute")
    assert not made
    bench(tmp_path, "--chunks", "4", "--read-gbps", "0.1", "--policy", "on-demand")
    assert made


def test_a_trace_file_says_what_is_wanted(tmp_path):
    lines = [{"pose": [0, 0, at, 0, 0], "keys": "W", "wanted": [at - 4] if at > 4 else []} for at in range(20)]
    path = tmp_path.parent / f"{tmp_path.name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert bench(tmp_path, "--trace", str(path), "--policy", "wait")["wanted"] == 15


def test_a_budget_that_is_too_small_is_said(tmp_path, capsys):
    assert main(["--fast", "--chunks", "3", "--gpu", "1GB", "--folder", str(tmp_path)]) == 2
    assert "too small" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(TRAJECTORIES))
def test_a_shipped_trace_is_the_trajectory_of_its_name(name):
    walked = trajectory(name, natural_chunks(name), SHIPPED["matrix-game-2"])
    assert (SHIPPED_FOLDER / f"{name}.jsonl").read_text() == write_trace(walked)


@pytest.mark.parametrize("config", [each for each in GRID if each in SAMPLE], ids=str)
def test_the_analytical_model_is_right_on_a_sample(config, tmp_path):
    is_right, words = config.is_right(tmp_path)
    assert is_right, words


@pytest.mark.slow
@pytest.mark.parametrize("config", [each for each in GRID if each not in SAMPLE], ids=str)
def test_the_analytical_model_is_right_on_the_grid(config, tmp_path):
    is_right, words = config.is_right(tmp_path)
    assert is_right, words


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a_yaw", "b1_ws", "out-and-back", "square", "figure-8", "random"])
def test_blocks_come_in_time_on_every_trajectory_and_never_worse_than_by_constant_velocity(name, tmp_path):
    flags = ("--chunks", "120", "--trace", name, "--chunk-ms", "1200")
    ours, paper = (
        bench(tmp_path, *flags, "--extrapolator", each)["fetched_in_time_share"]
        for each in ("ours", "constant-velocity")
    )
    assert ours >= 0.95
    assert ours >= paper - 0.01
