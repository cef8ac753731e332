"""The commands on a world with branches and snapshots: fork, log, show, verify, export and replay see all of them."""

import json
import shutil

import pytest

from bench.drive import start
from bench.identity import differing_bytes
from models.plain import PlainModel
from server.record_log import read_records
from server.replay import main as replay
from server.worlds import token_hash
from shared.controls import Controls, Key
from tests.e2e.whole_server import small_budgets
from tests.e2e.worlds_cli import folder_of, worlds

WALK = [Controls(Key.FORWARD, 8.0, 0.0)] * 24
AWAY = [Controls(Key.BACK, -31.4, 0.0)] * 40
BACK = [Controls(mouse_dx=20.0)] * 20


@pytest.fixture(scope="module")
def model():
    return PlainModel()


@pytest.fixture(scope="module")
def walked(model, tmp_path_factory):
    root = tmp_path_factory.mktemp("walked") / "worlds"
    with start(model, small_budgets(model), root, seed=9, world="attic") as drive:
        drive.session.branch.resume_hash = token_hash("secret")
        drive.walk(WALK, lambda: drive.pager.flush(60.0))
        assert drive.session.snapshot("door").durable.result(10)
        drive.walk(AWAY, lambda: drive.pager.flush(60.0))
        drive.session.restore("door")
        drive.session.switch(drive.session.fork("cellar"))
        drive.walk(BACK, lambda: drive.pager.flush(60.0))
    return root


@pytest.fixture
def attic(walked, tmp_path):
    return shutil.copytree(walked, tmp_path / "worlds")


def onward(model, root, at):
    with start(model, small_budgets(model), root, seed=0, world="attic", at=at) as drive:
        drive.walk(BACK)
        return drive.frames


def test_a_branch_that_was_forked_here_goes_on_from_the_snapshot(attic, model, tmp_path):
    assert "begins at moment 12" in worlds("fork", "attic", "window", "--at", "door", root=attic)
    other = shutil.copytree(attic, tmp_path / "other")
    assert differing_bytes(onward(model, attic, "window"), onward(model, other, "door")) == 0
    assert "whole" in worlds("verify", "attic", root=attic)


REFUSED = [
    ("cellar", "main", "already"),
    ("door", "main", "already"),
    ("x", "roof", "keeps no state"),
    ("../x", "main", "name"),
]


@pytest.mark.parametrize(("branch", "at", "why"), REFUSED)
def test_a_fork_that_cannot_be_is_refused_in_words_and_changes_nothing(branch, at, why, attic):
    log = (folder_of(attic) / "moments.log").read_bytes()
    assert why in worlds("fork", "attic", branch, "--at", at, root=attic, status=1)
    assert (folder_of(attic) / "moments.log").read_bytes() == log


def test_the_tree_shows_branches_and_snapshots(attic):
    text = worlds("log", "attic", root=attic)
    (door,) = [line for line in text.splitlines() if 'snapshot "door"' in line]
    assert "moment 12 " in door
    assert "head of main" in door
    assert "2 ways on" in door
    assert "head of cellar" in text
    (facts,) = json.loads(worlds("list", "--json", root=attic))
    assert [snapshot["name"] for snapshot in facts["snapshots"]] == ["door"]
    assert {branch["name"] for branch in facts["branches"]} == {"main", "cellar"}
    assert "door" in worlds("show", "attic", root=attic)


def test_a_damaged_snapshot_is_named(attic):
    folder = folder_of(attic)
    (state,) = folder.glob("states/12.safetensors")
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(data)
    (folder / "thumbnails" / "12.jpg").unlink()
    (report,) = json.loads(worlds("verify", "--json", root=attic, status=1))
    named = {damage["what"] for damage in report["damaged"]}
    assert {'snapshot "door"', 'thumbnail of snapshot "door"'} <= named
    assert "REFUSED" in worlds("show", "attic", root=attic)


def test_all_branches_replay(attic, tmp_path):
    path = tmp_path / "replay.json"
    assert replay(["--world", "attic", "--worlds", str(attic), "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["chunks_equal"] == 1 + (len(WALK) + len(AWAY) + len(BACK)) // 2
    assert report["states_equal"] >= 2


def test_a_replay_from_the_fork_takes_both_ways_on(attic, tmp_path):
    path = tmp_path / "replay.json"
    assert replay(["--world", "attic", "--worlds", str(attic), "--from", "12", "--json", str(path)]) == 0
    assert json.loads(path.read_text())["chunks_equal"] == (len(AWAY) + len(BACK)) // 2


def test_an_exported_world_has_its_branches_and_snapshots_and_no_tokens(attic, model, tmp_path):
    worlds("export", "attic", tmp_path / "file", root=attic)
    worlds("import", tmp_path / "file", root=tmp_path / "there")
    kinds = [record for record, _ in read_records(folder_of(tmp_path / "there") / "moments.log")]
    assert not any("resume" in record for record in kinds)
    assert any("resume" in record for record, _ in read_records(folder_of(attic) / "moments.log"))
    assert "whole" in worlds("verify", root=tmp_path / "there")
    assert (folder_of(tmp_path / "there") / "thumbnails" / "12.jpg").exists()
    for at in ("door", "cellar"):
        assert differing_bytes(onward(model, attic, at), onward(model, tmp_path / "there", at)) == 0
