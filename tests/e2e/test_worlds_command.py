"""`python -m server worlds …` and `replay` on real worlds of the plain model."""

import io
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.drive import start
from models.plain import PlainModel
from server.archive import ArchiveWriter, read_archive
from server.faults import WorldFault
from server.import_world import import_world
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.layout import SlotLayout
from server.replay import main as replay
from server.stored_blocks import StoredBlocks
from server.worlds import Worlds
from server.worlds_command import app
from shared.controls import Controls, Key
from tests.e2e.worlds_cli import folder_of, worlds

TURN = [Controls(mouse_dx=31.4)] * 160  # two turns
WALK = [Controls(Key.FORWARD)] * 40


@pytest.fixture(scope="module")
def model():
    return PlainModel()


def budgets(model, nvme_slots=240):
    layout = SlotLayout(model.kv_spec)
    buffer = buffer_bytes(layout, model.max_recall, model.dtype)
    slot = layout.slot_bytes
    return Budgets(2 * model.max_recall * slot + buffer + 2 * slot, 12 * slot, nvme_slots * slot)


@pytest.fixture(scope="module")
def walked(model, tmp_path_factory):
    root = tmp_path_factory.mktemp("walked") / "worlds"
    with start(model, budgets(model), root, seed=5, world="attic") as drive:
        drive.walk(TURN, lambda: drive.pager.flush(60.0))
        assert drive.stats.disk_read_bytes > 0
    return root


@pytest.fixture
def attic(walked, tmp_path):
    """The folder of worlds with one that was walked in."""
    return shutil.copytree(walked, tmp_path / "worlds")


def without_torch(script, *arguments):
    """What Python prints that cannot import torch."""
    script = f"import sys; sys.modules['torch'] = None\n{script}"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_line(capsys):
    return capsys.readouterr().out.splitlines()[-1]


def test_list_and_show_say_what_a_world_is(attic):
    (fact,) = json.loads(worlds("list", "--json", root=attic))
    assert (fact["name"], fact["model"], fact["seed"], fact["chunks"]) == ("attic", "plain", 5, 80)
    assert fact["blocks"] == {"left": 81, "kept": 81, "fault": ""}
    assert "80 chunks" in worlds("list", root=attic)
    assert "81 of 81 blocks" in worlds("show", "attic", root=attic)
    assert "head of main" in worlds("log", "attic", root=attic)


def test_a_world_that_is_not_there_is_a_wrong_question(attic):
    assert "no world 'cellar'" in worlds("show", "cellar", root=attic, status=2)


def test_verify_finds_nothing_in_a_whole_world(attic):
    assert "whole" in worlds("verify", "attic", root=attic)


def test_verify_names_each_thing_that_is_damaged(attic, model):
    folder = folder_of(attic)
    with StoredBlocks(folder) as blocks:
        slot = blocks.slots[7]
    layout = SlotLayout(model.kv_spec)
    flip(folder / "blocks.slab", 8192 + slot * layout.slot_bytes + layout.scales_at)
    state = max((folder / "states").iterdir(), key=lambda path: path.stat().st_mtime)
    flip(state, -1)
    with (folder / "moments.log").open("ab") as file:
        file.write(b"torn")
    (report,) = json.loads(worlds("verify", "attic", "--json", root=attic, status=1))
    damaged = {damage["what"].split(" at ")[0]: damage["why"] for damage in report["damaged"]}
    assert set(damaged) == {"block 7", "saved head of main", "moments.log"}
    assert damaged["block 7"] == "its scales is damaged"


def test_verify_does_not_call_a_forgotten_block_damage(model, tmp_path):
    with start(model, budgets(model, nvme_slots=40), tmp_path, seed=5, world="attic") as drive:
        drive.walk(TURN, lambda: drive.pager.flush(60.0))
    (report,) = json.loads(worlds("verify", "--json", root=tmp_path))
    assert report["damaged"] == []
    assert report["forgotten_blocks"] > 30


def test_delete_asks_and_yes_does_not(attic):
    result = CliRunner().invoke(app, ["delete", "attic", "--worlds", str(attic)], input="n\n")
    assert result.exit_code == 1
    assert folder_of(attic).is_dir()
    worlds("delete", "attic", "--yes", root=attic)
    assert list(attic.iterdir()) == []


@pytest.mark.parametrize("command", [["verify"], ["delete", "--yes"], ["export"], ["fork"]])
def test_a_world_that_is_open_is_left_alone(command, model, tmp_path):
    more = {"export": [tmp_path / "a.worldpager"], "fork": ["door"]}.get(command[0], [])
    with start(model, budgets(model), tmp_path / "worlds", seed=5, world="attic") as drive:
        drive.walk(WALK)
        assert "open in a server" in worlds(*command, "attic", *more, root=tmp_path / "worlds", status=1)


def test_whoever_looks_at_worlds_waits_for_no_torch(attic):
    """It takes seconds to import; the server's door opens before it is there."""
    command = "from server.worlds_command import app; app(sys.argv[1:])"
    for looks in (("list",), ("show", "attic"), ("log", "attic")):
        assert "attic" in without_torch(command, *looks, "--worlds", str(attic)), looks
    without_torch("import server.app")


# ---- replay ----


def test_a_walk_replays_to_the_same_bytes(attic, tmp_path, capsys):
    assert replay(["--world", "attic", "--worlds", str(attic), "--json", str(tmp_path / "r.json")]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["chunks_equal"], report["frames_equal"], report["blocks_equal"]) == (81, 161, 81)
    assert report["states_equal"] >= 1
    assert (report["chunks_compared"], report["chunks_differing"]) == (81, 0)
    assert last_line(capsys).startswith("total: 81 of 81 recorded chunks compared, 0 differing, ")


def test_a_live_walk_with_stale_recalls_replays_to_the_same_bytes(model, tmp_path, capsys):
    with start(model, budgets(model), tmp_path, seed=5, world="attic", mode="live") as drive:
        drive.walk(TURN)
        assert drive.stats.stale_chunks > 0
    assert replay(["--world", "attic", "--worlds", str(tmp_path)]) == 0
    assert "drawn with a stale recall" in capsys.readouterr().out


def test_a_replay_may_begin_at_a_kept_state(attic, model, capsys):
    with start(model, budgets(model), attic, seed=0, world="attic") as drive:
        drive.walk(WALK)
        at = drive.session.head.moment
    assert replay(["--world", "attic", "--worlds", str(attic), "--from", "80"]) == 0
    assert "20 chunks" in capsys.readouterr().out
    assert replay(["--world", "attic", "--worlds", str(attic), "--from", "82"]) == 0
    assert "20 chunks" in capsys.readouterr().out
    assert replay(["--world", "attic", "--worlds", str(attic), "--from", str(at + 1)]) == 2


def test_the_first_difference_is_named_by_its_chunk(attic, model, capsys):
    rewrite(folder_of(attic), lambda record: record | {"hashes": [b"x" * 16] * 2} if record.get("id") == 40 else record)
    assert replay(["--world", "attic", "--worlds", str(attic)]) == 1
    out = capsys.readouterr().out
    assert "chunk 40 (moment 40): 2 of 2 frames differ" in out
    assert out.splitlines()[-1].startswith("total: 41 of 81 recorded chunks compared, 1 differing, ")


def test_another_recall_than_the_recorded_one_differs(attic, capsys):
    def forget_one(record):
        return record | {"recalled": record["recalled"][:1]} if record.get("id") == 60 else record

    rewrite(folder_of(attic), forget_one)
    assert replay(["--world", "attic", "--worlds", str(attic)]) == 1
    assert "moment 60" in capsys.readouterr().out


def test_a_log_that_names_a_forgotten_block_stops_there(model, tmp_path, capsys):
    with start(model, budgets(model, nvme_slots=40), tmp_path, seed=5, world="attic") as drive:
        drive.walk(TURN + WALK * 3, lambda: drive.pager.flush(60.0))
    report = tmp_path / "r.json"
    assert replay(["--world", "attic", "--worlds", str(tmp_path), "--json", str(report)]) == 3
    figures = json.loads(report.read_text())
    assert figures["forgotten_block"] is not None
    assert figures["chunks_equal"] == figures["stopped_at_moment"]
    assert f"block {figures['forgotten_block']}, which is forgotten" in capsys.readouterr().out


def test_a_damaged_block_is_not_drawn_with(attic, model, capsys):
    folder = folder_of(attic)
    layout = SlotLayout(model.kv_spec)
    with StoredBlocks(folder) as blocks:
        flip(folder / "blocks.slab", 8192 + blocks.slots[7] * layout.slot_bytes + layout.planes_at)
    assert replay(["--world", "attic", "--worlds", str(attic)]) == 1  # moment 7 is encoded to other bytes
    assert "the block that it left is not" in capsys.readouterr().out


# ---- export, import ----


def walk_on(root, model, name="attic"):
    with start(model, budgets(model), root, seed=0, world=name) as drive:
        drive.walk(TURN + WALK, lambda: drive.pager.flush(60.0))
        return drive.frames


def test_an_imported_world_goes_on_with_the_same_bytes(attic, model, tmp_path):
    file, other = tmp_path / "attic.worldpager", tmp_path / "other machine"
    worlds("export", "attic", file, root=attic)
    worlds("import", file, root=other)
    assert "whole" in worlds("verify", root=other)
    here, there = walk_on(attic, model), walk_on(other, model)
    assert len(here) == len(there) == 200
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))
    assert replay(["--world", "attic", "--worlds", str(other)]) == 0


def test_a_world_that_is_here_already_is_imported_under_another_name_only(attic, tmp_path):
    file = tmp_path / "attic.worldpager"
    worlds("export", "attic", file, root=attic)
    assert "another one: --name" in worlds("import", file, root=attic, status=1)
    worlds("import", file, "--name", "copy", root=attic)
    names = {fact["name"]: fact["id"] for fact in json.loads(worlds("list", "--json", root=attic))}
    assert set(names) == {"attic", "copy"}
    assert names["attic"] != names["copy"]
    assert "whole" in worlds("verify", root=attic)


def test_an_export_does_not_replace_a_file_unasked(attic, tmp_path):
    file = tmp_path / "attic.worldpager"
    file.write_bytes(b"mine")
    assert "--force" in worlds("export", "attic", file, root=attic, status=2)
    assert file.read_bytes() == b"mine"
    worlds("export", "attic", file, "--force", root=attic)


def test_a_damaged_block_is_left_out_of_an_export_and_named(attic, model, tmp_path):
    folder, layout = folder_of(attic), SlotLayout(model.kv_spec)
    with StoredBlocks(folder) as blocks:
        flip(folder / "blocks.slab", 8192 + blocks.slots[7] * layout.slot_bytes + layout.planes_at)
    assert "left out: block 7" in worlds("export", "attic", tmp_path / "a", root=attic, status=1)
    worlds("import", tmp_path / "a", root=tmp_path / "there")
    (report,) = json.loads(worlds("verify", "--json", root=tmp_path / "there"))
    assert (report["damaged"], report["forgotten_blocks"]) == ([], 1)


def test_a_damaged_file_leaves_no_world_behind(attic, tmp_path):
    file = tmp_path / "a"
    worlds("export", "attic", file, root=attic)
    whole = file.read_bytes()
    for at in (3, len(whole) // 3, len(whole) - 5):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "damaged" in worlds("import", file, root=tmp_path / "there", status=1) or at == 3
    file.write_bytes(whole[:-40])
    worlds("import", file, root=tmp_path / "there", status=1)
    assert list((tmp_path / "there").iterdir()) == []


def resealed(source, change):
    """The file's entries, changed by somebody who can compute seals."""
    out = io.BytesIO()
    writer = ArchiveWriter(out)
    with source.open("rb") as file:
        for entry in read_archive(file, lambda name: 1 << 30):
            name, data = entry.name, entry.whole()
            for new_name, new_data in change(name, data):
                writer.add(new_name, len(new_data), [new_data])
    writer.end()
    return out.getvalue()


HOSTILE = {
    "a path out of the folder": lambda name, data: [("../evil" if name == "moments.log" else name, data)],
    "an absolute path": lambda name, data: [("/tmp/evil" if name == "moments.log" else name, data)],
    "a path inside states": lambda name, data: [(name.replace("states/", "states/../"), data)],
    "a program": lambda name, data: [(name, data), *([("evil.py", b"import os")] if name == "moments.log" else [])],
    "another world's id": lambda name, data: [(name, data.replace(b'"id":"', b'"id":"../../'))],
    "a name that is a path": lambda name, data: [(name, data.replace(b'"name":"attic"', b'"name":"../x"'))],
    "a count that is huge": lambda name, data: [(name, data.replace(b'"count":81', b'"count":8100000'))],
    "more bytes than it says": lambda name, data: [(name, re.sub(rb'"bytes":\d+', b'"bytes":9000', data))],
    "another layout": lambda name, data: [(name, data.replace(b'"tokens":32', b'"tokens":64'))],
    "a block twice": lambda name, data: [(name, data)] * (2 if name == "blocks/3" else 1),
    "a block under another's name": lambda name, data: [("blocks/900" if name == "blocks/3" else name, data)],
    "a short block": lambda name, data: [(name, data[:-4096] if name == "blocks/3" else data)],
    "a log that is none": lambda name, data: [(name, b"\0" * 99 if name == "moments.log" else data)],
    "a state of other bytes": lambda name, data: [(name, data[:-1] + b"\x07" if name.startswith("states") else data)],
    "no log": lambda name, data: [] if name == "moments.log" else [(name, data)],
    "two logs": lambda name, data: [(name, data)] * (2 if name == "moments.log" else 1),
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_a_hostile_file_is_refused_and_writes_nothing(what, attic, tmp_path):
    file = tmp_path / "a"
    worlds("export", "attic", file, root=attic)
    file.write_bytes(resealed(file, HOSTILE[what]))
    there = tmp_path / "there"
    before = sorted(path for path in tmp_path.rglob("*") if there not in path.parents)
    with pytest.raises((WorldFault, OSError)):
        import_world(file, Worlds(there))
    assert list(there.iterdir()) == []
    assert sorted(path for path in tmp_path.rglob("*") if there not in path.parents) == sorted({*before, there})


def flip(path, at):
    with path.open("r+b") as file:
        file.seek(at, 2 if at < 0 else 0)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x10]))


def rewrite(folder, change):
    """The world's log with each record changed."""
    from server.record_log import RecordLog, read_records

    records = [record for record, _ in read_records(folder / "moments.log")]
    (folder / "moments.log").unlink()
    log = RecordLog(folder / "moments.log", 0)
    for record in records:
        log.append(change(record))
    log.close()
