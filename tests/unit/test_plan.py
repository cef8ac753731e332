"""`python -m server plan`: its flags, its keys, and what it says to a wrong value."""

import json

import pytest

from server.plan import main

BUDGETS = ["--gpu", "10.22GB", "--dram", "29.25GB", "--nvme", "100GB"]


def plan(tmp_path, *flags):
    path = tmp_path / "plan.json"
    assert main([*BUDGETS, *flags, "--json", str(path)]) == 0
    return json.loads(path.read_text())


def test_the_plan_has_the_keys_of_the_contract(tmp_path):
    figures = plan(tmp_path, "--geometry", "matrix-game-2")
    tiers = {"gpu_bf16", "dram_bf16", "gpu_int4", "dram_int4", "nvme_int4"}
    assert set(figures["spill_chunk"]) == set(figures["stored_chunks"]) == tiers
    assert figures["spill_chunk"] == {
        "gpu_bf16": 21,
        "dram_bf16": 60,
        "gpu_int4": 79,
        "dram_int4": 226,
        "nvme_int4": 773,
    }
    assert figures["position_limit_chunk"] == 341
    assert figures["critical_read_gbps"] == pytest.approx(0.323, abs=1e-3)
    assert figures["stall_class"] == "zero"
    assert figures["write_gb_per_hour"] == pytest.approx(387.8, abs=0.1)


def test_a_person_reads_sentences_and_a_table(capsys):
    assert main(BUDGETS) == 0
    text = capsys.readouterr().out
    assert "The model is matrix-game-2, by default (--geometry takes rooms or a JSON file)." in text
    assert [line.split() for line in text.splitlines() if line.strip().startswith(("GPU", "DRAM", "NVME "))][:3] == [
        ["GPU", "10.2", "GB", "21", "79", "21", "67"],
        ["DRAM", "29.2", "GB", "60", "226", "60", "224"],
        ["NVME", "100", "GB", "-", "773", "-", "769"],
    ]
    assert "it keeps up" in text
    assert "a walk here goes past it" in text
    assert not set("{}[]").intersection(text)


def test_a_slow_drive_is_said_and_a_named_geometry_is_no_default(capsys):
    assert main(["--geometry", "rooms", "--read-gbps", "0.001"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("The model is rooms. ")
    assert "it falls behind" in text
    assert "rotary" not in text


def test_new_blocks_are_read_from_a_trace(tmp_path):
    wanted = [[], [0], [0, 1], [1, 2], [2, 3]]
    lines = [json.dumps({"pose": [0, 0, i, 0, 0], "keys": "W", "wanted": w}) for i, w in enumerate(wanted)]
    (tmp_path / "walk.jsonl").write_text("\n".join(lines))
    figures = plan(tmp_path, "--new-per-chunk", str(tmp_path / "walk.jsonl"), "--read-gbps", "0.1")
    assert figures["new_per_chunk"] == 1.0
    assert figures["critical_read_gbps"] == pytest.approx(0.1077, abs=1e-4)
    assert figures["stall_class"] == "non-zero"


def test_a_shorter_chunk_needs_a_faster_drive(tmp_path):
    slow, fast = (plan(tmp_path, "--chunk-ms", ms, "--k", "1") for ms in ("1200", "600"))
    assert fast["critical_read_gbps"] == pytest.approx(2 * slow["critical_read_gbps"], rel=1e-4)


def test_a_geometry_comes_from_a_file(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"layers": 1, "tokens": 64, "width": 128, "head_width": 64, "chunk_ms": 100, "k": 2}))
    figures = plan(tmp_path, "--geometry", str(path))
    assert figures["block_bytes"]["bf16"] == 2 * 64 * 128 * 2
    assert figures["position_limit_chunk"] is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--geometry", "nowhere"], "matrix-game-2, rooms"),
        (["--new-per-chunk", "nowhere"], "there is no trace"),
        (["--new-per-chunk", "-1"], "0 or more"),
    ],
)
def test_a_wrong_value_is_named(flags, words, capsys):
    assert main([*BUDGETS, *flags]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"pose": [0,0,0,0,0], "wanted": [5]}', '{"pose": [1]}'])
def test_a_broken_trace_says_where(tmp_path, line, capsys):
    (tmp_path / "bad.jsonl").write_text(line)
    assert main([*BUDGETS, "--new-per-chunk", str(tmp_path / "bad.jsonl")]) == 2
    assert "line 1" in capsys.readouterr().err


def test_a_budget_that_is_no_number_is_refused(capsys):
    with pytest.raises(SystemExit) as refusal:
        main(["--gpu", "much"])
    assert refusal.value.code == 2
    assert "10.22GB" in capsys.readouterr().err
