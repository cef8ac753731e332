"""`python -m bench paper`: the set, the cache of finished runs, and the document as a pure function of them."""

import json
import shutil

import pytest

from bench import paper_cache
from bench.pager import _parser as pager_parser
from bench.paper import CACHE, main, run_missing
from bench.paper_cache import Busy, Cache, RunFailed
from bench.paper_doc import as_markdown, as_scaled, as_values
from bench.paper_set import ENTRIES, RATES_GBPS, SWEEP_POLICIES, Entry, chosen, sweep_name
from server.trace import read_trace

PAGER = {
    "hardware": {"cpu": "a CPU", "cores": 2, "ram_bytes": 24 << 30, "gpu": "none", "disk": "ext4 on /dev/x"},
    "commit": "abc",
    "trace_chunks": 60,
    "given_chunk_ms": 1200.0,
    "stalls": 0,
    "preempted": 1,
    "median_wait_ms": 0.01,
    "p99_wait_ms": 0.02,
    "longest_wait_ms": 0.03,
    "stale_share": 0.05,
    "fetched_in_time_share": 0.96,
    "lost": 0,
    "forgotten": 7,
    "hits": {"gpu": 100, "dram": 50, "nvme": 30},
    "wanted": 180,
    "longest_return_chunks": 55,
    "new_per_chunk": 1.5,
    "bytes_read": 3_877_847_040,
    "bytes_written": 7_755_694_080,
    "rss_slope_bytes_per_chunk": 12.0,
    "page_cache_slope_bytes_per_chunk": 0.0,
    "rss_peak_bytes": 6_500_000_000,
    "chunk_ms": {"p50": 1200.1, "p99": 1203.0},
    "decode_ms": {"p50": 240.0},
}


def ran(**figures):
    load = {"load_before": 3.0, "load_after": 4.0, "others_cores": 1.5}
    return {"arguments": [], "seconds": 72.0, **load, "report": {**PAGER, **figures}}


def echo(tmp_path, report, name="echo"):
    path = tmp_path / f"{name}-said.json"
    path.write_text(json.dumps(report))
    return Entry(name, ("json.tool", str(path)), 1.0, prints_json=True)


# ---- the set ----


def test_every_run_of_the_set_is_a_command_that_the_pager_takes():
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        if entry.arguments[:2] == ("bench", "pager"):
            options = pager_parser().parse_args(entry.arguments[2:])
            assert options.fast == (entry.name in {"long-fast", "round-trip"})
            assert options.fast or entry.disk_bytes > options.nvme


def test_the_set_has_what_the_issue_asks_for():
    flags = {entry.name: entry.command for entry in ENTRIES}
    assert "--chunks 300" in flags["long-real"]
    assert "--nvme 25GB" in flags["long-real"]
    for policy in ("live", "wait", "on-demand", "recompute"):
        for rate in (1.0, 0.5, 0.25, 0.15, 0.1):
            assert "--chunks 60 " in flags[sweep_name("a_yaw", policy, rate)]
    assert "--recall-from nvme" in flags["forced-wait"]
    assert "--recall-from nvme" in flags["forced-on-demand"]


def test_a_name_chooses_the_runs_that_begin_so():
    assert [entry.name for entry in chosen(["throttle-a_yaw-live"])] == [
        sweep_name("a_yaw", "live", rate) for rate in RATES_GBPS
    ]
    assert [entry.name for entry in chosen([sweep_name("a_yaw", "wait", 0.1)])] == [sweep_name("a_yaw", "wait", 0.1)]
    assert chosen([]) == ENTRIES
    with pytest.raises(ValueError, match="no run 'nothing'"):
        chosen(["plan", "nothing"])


# ---- the cache ----


def test_a_run_is_kept_and_not_repeated_while_its_command_is_the_same(tmp_path):
    cache, entry = Cache(tmp_path / "cache"), echo(tmp_path, {"figure": 3})
    assert run_missing([entry], cache, None) == 0
    assert cache.read(entry)["report"]["figure"] == 3
    assert cache.read(entry)["report"]["command"].startswith("python -m json.tool")
    assert not cache.scratch.exists()
    (tmp_path / "echo-said.json").unlink()  # a second run would fail
    assert run_missing([entry], cache, None) == 0
    assert cache.read(Entry("echo", ("json.tool", "another"), 1.0)) is None


def test_a_run_that_fails_is_counted_and_the_next_one_goes_on(tmp_path, capsys):
    cache, good = Cache(tmp_path / "cache"), echo(tmp_path, {"figure": 3})
    bad = Entry("bad", ("json.tool", str(tmp_path / "nowhere")), 1.0, prints_json=True)
    assert run_missing([bad, good], cache, None) == 1
    assert cache.read(bad) is None
    assert cache.read(good) is not None
    assert "nowhere" in capsys.readouterr().err


def test_no_run_begins_that_would_last_longer_than_was_given(tmp_path, capsys):
    cache, entry = Cache(tmp_path / "cache"), echo(tmp_path, {"figure": 3})
    assert run_missing([entry], cache, 0.0) == 0
    assert cache.read(entry) is None
    assert "left for another time; the next one: echo" in capsys.readouterr().out


def test_a_run_whose_slab_does_not_fit_is_refused_before_it_begins(tmp_path, monkeypatch):
    cache, entry = Cache(tmp_path / "cache"), Entry("big", ("json.tool",), 1.0, disk_bytes=27_000_000_000)
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000_000)
    monkeypatch.setattr(paper_cache.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(RunFailed, match="needs 27 GB of disk and 5 GB are free"):
        cache.run(entry)


def test_what_a_killed_run_left_is_cleaned_up(tmp_path):
    cache, entry = Cache(tmp_path / "cache"), echo(tmp_path, {"figure": 3})
    (cache.scratch / "pager-x").mkdir(parents=True)
    (cache.scratch / "pager-x" / "blocks.slab").write_bytes(b"old")
    cache.run(entry)
    assert not cache.scratch.exists()


def test_our_own_work_is_not_counted_as_that_of_others():
    busy = Busy()
    sum(range(3_000_000))
    figures = busy.figures()
    assert set(figures) == {"load_before", "load_after", "others_cores"}
    assert figures["others_cores"] >= 0.0


# ---- the document ----


def test_without_runs_every_cell_says_so():
    text = as_markdown({})
    assert "Nothing was run yet." in text
    assert f"| 0.25 | wait |{' not run |' * 6}" in text
    assert as_values({})["not_run"] == [entry.name for entry in ENTRIES]


def test_figures_stand_beside_the_papers_and_fast_ones_are_marked():
    found = {"long-real": ran(trace_chunks=300), "long-fast": ran(trace_chunks=3000, scaled={"byte_ratio": 986.2})}
    text = as_markdown(found, "At night.")
    assert "run by run at the end. At night." in text
    assert "| chunks | 3,000 | 300 | 3,000 † | not run |" in text
    assert "| wait: median / p99 / longest | longest 0.12 ms | 0.01 / 0.02 / 0.03 ms |" in text
    assert "| waits of more than 0.5 ms (thread kept off its core) | 0 | 1 (1) | 1 (1) † | not run |" in text
    assert "other work used 1.5 to 1.5 cores" in text
    assert as_scaled(found) == {"long-fast": {"byte_ratio": 986.2}}


def test_a_worse_tail_is_said():
    def pair(wait_ms, demand_ms):
        return ran(p99_wait_ms=wait_ms, longest_wait_ms=wait_ms), ran(p99_wait_ms=demand_ms, longest_wait_ms=demand_ms)

    found = {}
    for rate, (wait_ms, demand_ms) in {0.25: (5.0, 80.0), 0.1: (3000.0, 1300.0)}.items():
        found[sweep_name("b1_ws", "wait", rate)], found[sweep_name("b1_ws", "on-demand", rate)] = pair(
            wait_ms, demand_ms
        )
    text = as_markdown(found)
    assert "In 1 of 2 points on both walks" in text
    assert "not so on b1_ws at 0.1 GB/s" in text


def test_the_whole_set_makes_a_document_without_holes(tmp_path):
    """With a report for every run, no cell says "not run"."""
    model_runs = {
        "plan": {
            "block_bytes": {"bf16": 486_604_800, "int4": 129_254_400},
            "spill_chunk": {"gpu_bf16": 21, "dram_bf16": 60, "dram_int4": 226},
            "position_limit_chunk": 341,
        },
        "codec": {
            "bf16_bytes": 486_604_800,
            "encode_gbps": 1.35,
            "decode_gbps": 1.86,
            "bits_per_value": 4.25,
            "key_rel_rmse": 0.095,
            "value_rel_rmse": 0.1,
        },
        "rotation": {"rotate_ms": 900.0, "device": "cpu", "ratio": 12.0},
        "grid": {"right": 50, "configurations": 50, "scaled": {"byte_ratio": 986.2}},
    }
    found = {entry.name: ran(**model_runs.get(entry.name, {})) for entry in ENTRIES}
    text = as_markdown(found)
    assert "not run" not in text
    assert "129.3 MB, 26.6%" in text
    assert "right in 50 of 50 †" in text
    assert as_values(found)["not_run"] == []
    assert len(as_values(found)["runs"]) == len(ENTRIES) >= len(SWEEP_POLICIES) * len(RATES_GBPS)


def test_the_command_runs_one_entry_and_writes_both_documents(tmp_path):
    flags = ["--only", "plan", "--cache", str(tmp_path / "cache"), "--out", str(tmp_path)]
    assert main(flags) == 0
    written = json.loads((tmp_path / "paper.json").read_text())
    assert written["runs"]["plan"]["report"]["spill_chunk"]["gpu_bf16"] == 21
    assert {"command", "commit", "hardware", "seconds"} <= set(written)
    assert "| host memory full of int4 at chunk | 226 | 226 |" in (tmp_path / "paper.md").read_text()
    assert ".bench" in CACHE.parts


def test_rooms_traces_are_of_real_sessions_and_want_only_what_was_left():
    for entry in ENTRIES:
        if entry.name.startswith("rooms-"):
            chunks = read_trace(entry.name)
            wanted = [block for chunk in chunks for block in chunk.wanted or ()]
            assert len(chunks) >= 300
            assert len(wanted) > len(chunks)
            assert all(chunks[block].leaves_block for block in wanted)
