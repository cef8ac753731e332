"""Worlds on their way: links lead nowhere, imports do not meet, a long log costs no RAM, a full disk leaves nothing."""

import errno
import json
import os
import shutil
import threading
import tracemalloc
from pathlib import Path

import pytest

from bench.drive import start
from models.plain import PlainModel
from server.archive import ArchiveWriter, read_archive
from server.arrived_log import check_arrived
from server.export_world import export_world
from server.faults import Refused, WorldFault
from server.folder_lock import FolderLock
from server.import_world import import_world
from server.listing import Listing
from server.record_log import RecordLog
from server.worlds import Worlds
from shared.controls import Controls, Key
from tests.e2e.whole_server import small_budgets
from tests.e2e.worlds_cli import folder_of, worlds

WALK = [Controls(Key.FORWARD, 8.0, 0.0)] * 24


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    root = tmp_path_factory.mktemp("walked") / "worlds"
    model = PlainModel()
    with start(model, small_budgets(model), root, seed=5, world="attic") as drive:
        drive.walk(WALK)
        assert drive.session.snapshot("door").durable.result(60.0)
        drive.walk(WALK)
    return root


@pytest.fixture
def attic(walked, tmp_path):
    """The folder of worlds with one that was walked in."""
    return shutil.copytree(walked, tmp_path / "worlds")


def tree_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def num_open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


# ---- links ----


@pytest.fixture
def linked(attic, tmp_path):
    """A folder of worlds with nothing but a link to a world elsewhere."""
    root = tmp_path / "linked"
    root.mkdir()
    (root / folder_of(attic).name).symlink_to(folder_of(attic), target_is_directory=True)
    return root


@pytest.mark.parametrize("command", [["show"], ["log"], ["verify"], ["delete", "--yes"], ["export"], ["fork"]])
def test_a_link_among_the_worlds_is_left_alone_and_so_is_what_it_leads_to(command, attic, linked, tmp_path):
    before = tree_of(attic)
    name = folder_of(attic).name
    more = {"export": [tmp_path / "a.worldpager"], "fork": ["door 2"]}.get(command[0], [])
    assert "link to another place" in worlds(*command, name, *more, root=linked, status=1)
    assert "no world 'attic'" in worlds(*command, "attic", *more, root=linked, status=2)
    assert "no worlds" in worlds("list", root=linked)
    assert tree_of(attic) == before
    assert (linked / name).is_symlink()


def test_a_link_is_not_walked_in_and_not_listed(attic, linked):
    model = PlainModel()
    with (
        pytest.raises(Refused, match="link to another place"),
        start(model, small_budgets(model), linked, seed=0, world=folder_of(attic).name),
    ):
        pytest.fail("it was opened")
    listing = Listing(linked)
    assert (listing.worlds(), listing.picture(folder_of(attic).name)) == ([], None)


@pytest.mark.parametrize("what", ["states", "thumbnails"])
def test_a_link_inside_a_world_is_not_exported_and_what_it_leads_to_is_not_deleted(what, attic, tmp_path):
    folder, outside = folder_of(attic), tmp_path / "outside"
    shutil.move(folder / what, outside)
    (folder / what).symlink_to(outside, target_is_directory=True)
    text = worlds("export", "attic", tmp_path / "a", root=attic, status=1)
    assert f"left out: {what}/" in text
    assert "link to another place" in text
    with (tmp_path / "a").open("rb") as file:
        names = [entry.name for entry in read_archive(file, lambda name: 1 << 30) if entry.whole()]
    assert not [name for name in names if name.startswith(what)]
    assert list(outside.iterdir())
    worlds("delete", "attic", "--yes", root=attic)
    assert list(outside.iterdir())
    assert list(attic.iterdir()) == []


def test_a_folder_that_bears_another_worlds_card_is_not_taken_for_that_world(attic):
    """Whoever copied a folder and renamed it must not delete the original by the copy's name."""
    original = folder_of(attic)
    copy = shutil.copytree(original, original.with_name("c" * 26))
    assert [card.id for card in Worlds(attic).cards()] == [original.name]
    assert "a copy is made by export and import" in worlds("delete", "c" * 26, "--yes", root=attic, status=1)
    assert copy.is_dir()


# ---- two at once ----


def test_two_imports_of_one_file_at_the_same_time_make_one_world_and_one_refusal(attic, tmp_path, monkeypatch):
    file, there = tmp_path / "a", Worlds(tmp_path / "there")
    worlds("export", "attic", file, root=attic)
    both_unpack = threading.Barrier(2)
    check = check_arrived

    def together(folder):
        check(folder)
        both_unpack.wait(60.0)

    monkeypatch.setattr("server.import_world.check_arrived", together)
    outcomes = []

    def run():
        try:
            outcomes.append(import_world(file, there).name)
        except WorldFault as fault:
            outcomes.append(str(fault))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    made, refused = sorted(outcomes)
    assert made == "attic"
    assert "here already" in refused
    assert [path.name for path in there.root.iterdir()] == [folder_of(attic).name]
    assert "whole" in worlds("verify", root=there.root)


def test_what_a_killed_import_or_delete_left_is_swept_and_one_under_way_is_not(attic, tmp_path):
    file, there = tmp_path / "a", tmp_path / "there"
    worlds("export", "attic", file, root=attic)
    for name in (".import-dead", ".deleted-dead", ".import-alive", ".mine"):
        (there / name).mkdir(parents=True)
        (there / name / "moments.log").write_bytes(b"x")
    with FolderLock(there / ".import-alive", "imported"):
        worlds("import", file, root=there)
    assert {path.name for path in there.iterdir()} == {".import-alive", ".mine", folder_of(attic).name}


def test_two_exports_to_one_place_do_not_write_into_one_another(attic, tmp_path, monkeypatch):
    file = tmp_path / "a"
    worlds("export", "attic", file, root=attic)
    whole = file.read_bytes()
    folder, card = folder_of(attic), Worlds(attic).card(folder_of(attic).name)
    export_world(folder, card, file)
    real, seen = ArchiveWriter.end, []

    def end(writer):
        if not seen:
            seen.append(1)
            export_world(folder, card, file)
        real(writer)

    monkeypatch.setattr(ArchiveWriter, "end", end)
    export_world(folder, card, file)
    assert len(file.read_bytes()) == len(whole)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a"]


# ---- what does not fit ----


def test_a_damaged_state_is_left_out_of_an_export_and_the_rest_can_be_imported(attic, tmp_path):
    folder = folder_of(attic)
    (fact,) = json.loads(worlds("list", "--json", root=attic))
    state = folder / "states" / f"{fact['snapshots'][0]['moment']}.safetensors"
    state.write_bytes(state.read_bytes()[:-1] + b"\x55")
    assert f"left out: states/{state.name}: its bytes" in worlds(
        "export", "attic", tmp_path / "a", root=attic, status=1
    )
    worlds("import", tmp_path / "a", root=tmp_path / "there")
    (report,) = json.loads(worlds("verify", "--json", root=tmp_path / "there", status=1))
    gone = f"the state of moment {state.stem} is refused: its file is gone"
    assert report["damaged"] == [{"what": 'snapshot "door"', "why": gone}]


def test_a_log_is_looked_at_in_a_ram_that_does_not_grow_with_it(tmp_path):
    (tmp_path / "states").mkdir()
    log = RecordLog(tmp_path / "moments.log", 0)
    for _ in range(400):
        log.append({"kind": "exactness", "threads": 1, "padding": b"x" * 100_000})
    log.close()
    tracemalloc.start()
    try:
        check_arrived(tmp_path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "moments.log").stat().st_size > 40_000_000
    assert peak_bytes < 4_000_000


def test_more_files_than_a_world_can_have_are_refused(attic, tmp_path, monkeypatch):
    worlds("export", "attic", tmp_path / "a", root=attic)
    monkeypatch.setattr("server.import_world.MAX_FILES", 2)
    with pytest.raises(WorldFault, match="holds more"):
        import_world(tmp_path / "a", Worlds(tmp_path / "there"))
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_disk_that_runs_full_is_said_and_nothing_is_left_of_what_was_begun(command, attic, tmp_path, monkeypatch):
    file, there = tmp_path / "a", tmp_path / "there"
    there.mkdir()
    worlds("export", "attic", file, root=attic)
    before, exported = tree_of(attic), file.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("server.imported_slab.write_fully", full)
    monkeypatch.setattr("server.export_world.os.fsync", full)
    more = ["attic", file, "--force"] if command == "export" else [file]
    num_open = num_open_files()
    text = worlds(command, *more, root=attic if command == "export" else there, status=1)
    assert num_open_files() == num_open, "an open file keeps its space"
    assert "the disk is full" in text
    assert "Free some space" in text
    monkeypatch.undo()
    assert file.read_bytes() == exported
    assert {path.name for path in tmp_path.iterdir()} == {"a", "there", "worlds"}
    assert list(there.iterdir()) == []
    assert tree_of(attic) == before
    worlds("import", file, root=there)


def test_a_world_that_is_larger_than_the_disks_room_is_not_begun(attic, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000)
    monkeypatch.setattr("server.export_world.shutil.disk_usage", lambda _: usage)
    text = worlds("export", "attic", tmp_path / "a", root=attic, status=1)
    assert "has 1,000 free" in text
    assert not (tmp_path / "a").exists()


def test_a_place_that_cannot_be_a_file_is_a_wrong_question(attic, tmp_path):
    assert "it is a folder" in worlds("export", "attic", tmp_path, root=attic, status=2)
    assert "its folder is not there" in worlds("export", "attic", tmp_path / "no" / "a", root=attic, status=2)
