"""The benches of snapshots and of residency at a small size: their keys, and that nothing comes back wrong."""

import argparse
import json

import pytest

from bench import residency, snapshot
from bench.snapshot_engine import FilledEngine

pytestmark = pytest.mark.slow  # rooms, and a server of its own


def test_a_world_is_filled_with_blocks_and_walks_on(tmp_path):
    with FilledEngine(tmp_path, 30) as filled:
        filled.fill(20)
        assert filled.call(lambda session: session.head.line.num_rows) == 20
        assert snapshot._step_ms(filled) > 0.0
        assert filled.pager.stats(filled.engine.residents[0].session.head_id).lost == 0


def test_the_snapshot_bench_has_its_keys(tmp_path):
    path = tmp_path / "snapshot.json"
    snapshot.main(["--blocks", "8", "16", "--calls", "60", "--scratch", str(tmp_path), "--json", str(path)])
    report = json.loads(path.read_text())
    assert [row["blocks"] for row in report["rows"]] == [8, 16]
    for row in report["rows"]:
        assert all(row[call]["p99_us"] >= row[call]["p50_us"] > 0.0 for call in ("snapshot", "fork", "restore"))
        assert row["spilled"]["bytes"] > 1_000_000
    assert report["step_ms"] > 0.0
    assert report["seen_ms"]["p50"] > 0.0


def test_sessions_that_were_parked_on_disk_come_back_exactly(tmp_path):
    options = argparse.Namespace(resident=6, parked=24, called=8)
    with FilledEngine(tmp_path, residency.BLOCKS, kept_bytes=10_000_000) as filled:
        filled.fill(residency.BLOCKS)
        figures = filled.call(lambda session: residency._measure(filled, session, options))
    assert figures["exact"]
    assert figures["called_back"] == 8
    assert figures["parked_on_disk"] >= 12
    assert figures["device_bytes_bounded"]


def test_the_state_of_the_large_model_is_printed_without_it():
    figures = residency._matrix_game_2(10**9)
    assert figures["state_bytes"] > 100_000_000
    assert figures["fit_nvme_default"] == 64_000_000_000 // figures["state_bytes"]
