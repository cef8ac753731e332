"""`bench identity` on the plain model, whose frames show which recalled bytes they were drawn with."""

import json

import pytest

from bench import identity
from bench.identity import KINDS, budgets_by_tier, run
from bench.identity_cases import Trial, control_differs, run_case
from models.plain import PlainModel
from server.pager.lease import Lease
from server.pager.recall_buffer import DecodedBlock, RecallBuffer

NUM_BYTES = 500_000  # 27 chunks of the plain model


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return Trial("plain", PlainModel(), NUM_BYTES, lead_chunks=20, scratch=tmp_path_factory.mktemp("identity"))


# a process that imports torch takes seconds
SLOW = ("restart", "export")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in KINDS]
)
def test_nothing_differs_in_any_case_and_bytes_moved(kind, trial):
    case = run_case(trial, kind)
    assert case["name"] == f"plain/{kind}"
    assert case["differing_bytes"] == 0
    assert case["compared_bytes"] >= NUM_BYTES
    assert case["moved_bytes"] > 0
    assert case.get("state_was_on_disk", True)
    assert case.get("differs_after", True)


def test_a_wrong_seed_differs(trial):
    assert control_differs(trial)


def test_a_wrong_recalled_byte_would_be_seen(trial, monkeypatch):
    """What the bench compares depends on memory: blocks that come back negated change the frames."""

    def negated(self: RecallBuffer, lease: Lease) -> tuple[DecodedBlock, ...]:
        return tuple(block._replace(kv=block.kv.neg()) for block in real(self, lease))

    _, onward, _ = trial.never_left
    real = RecallBuffer.fill
    monkeypatch.setattr(RecallBuffer, "fill", negated)
    wrong = Trial("plain", trial.model, NUM_BYTES, lead_chunks=20, scratch=trial.scratch).never_left[1]
    assert identity.differing_bytes(onward, wrong) > 0


def test_the_report_has_its_keys_and_a_second_run_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "identity.json"
    assert run(["plain/tiers"], NUM_BYTES, str(path)) == 0
    report = json.loads(path.read_text())
    assert {"command", "commit", "hardware", "seconds", "differing_bytes", "compared_bytes", "moved_bytes"} <= set(
        report
    )
    assert report["control_differs"] is True
    assert [case["name"] for case in report["cases"]] == ["plain/tiers"]
    if report["commit"] != "unknown":
        assert run(["plain/tiers"], NUM_BYTES, str(path), can_resume=True) == 0
        assert "done before" in capsys.readouterr().out


def test_budgets_say_where_blocks_live():
    budgets = budgets_by_tier(PlainModel(), 50)
    assert budgets["gpu"].gpu_bytes > budgets["nvme"].gpu_bytes
    assert budgets["dram"].dram_bytes > budgets["nvme"].dram_bytes
