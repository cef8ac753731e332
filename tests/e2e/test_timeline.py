"""Snapshots, forks, going back: on the plain model, whose frames say which recalled bytes they were drawn with."""

import pytest

from bench.drive import start
from bench.identity import differing_bytes
from models.plain import PlainModel, read_label
from server.faults import Refused, SnapshotFault
from server.foresight import Foresight
from server.head import Branch
from server.session import Session
from shared.controls import Controls, Key
from tests.e2e.whole_server import small_budgets

FRAMES = 2  # of a chunk
WALK = [Controls(Key.FORWARD, 8.0, 0.0)] * 24
AWAY = [Controls(Key.BACK, -31.4, 0.0)] * 120
BACK = [Controls(mouse_dx=20.0)] * 40


@pytest.fixture
def model():
    return PlainModel()


def go(drive, to=""):
    """Restore, and take the frame that is shown of that moment."""
    drive.session.restore(to)
    drive.session.settle()
    drive._keep_frames()
    return drive.frames.pop()


def walked(drive, controls):
    """The frames of a walk."""
    before = len(drive.frames)
    drive.walk(controls, lambda: drive.pager.flush(60.0))
    return drive.frames[before:]


@pytest.fixture
def drive(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        yield drive


def without_leaving(model, folder, *walks):
    with start(model, small_budgets(model), folder, seed=9) as drive:
        return [walked(drive, walk) for walk in walks]


def test_leaving_for_sixty_chunks_and_coming_back_is_as_if_never_left(model, drive, tmp_path):
    _, wanted = without_leaving(model, tmp_path / "whole", WALK, BACK)
    walked(drive, WALK)
    snapshot = drive.session.snapshot("door")
    walked(drive, AWAY)  # 60 blocks of another line, in view of the way back, that evict and spill
    moved = drive.stats.spilled_bytes
    others = drive.session._catalog.view(drive.session.head.state.window_start)
    aside = {block for block in others.ids.tolist() if block > snapshot.moment}
    assert len(aside) >= 50
    go(drive, snapshot)
    poses = model.steer(drive.session.head.state, BACK)
    assert any(aside.intersection(model.wanted(pose, others)) for pose in poses), "they would be wanted"
    came_back = walked(drive, BACK)
    assert differing_bytes(wanted, came_back) == 0
    assert len(came_back) == len(BACK)
    assert moved > 0
    assert max(read_label(frame)["recalled"] for frame in came_back) == model.max_recall


def test_what_is_recalled_after_going_back_are_ancestors_and_nothing_else(drive):
    walked(drive, WALK)
    snapshot = drive.session.snapshot()
    walked(drive, AWAY)
    go(drive, snapshot)
    line = set(drive.session.head.line.ids().tolist())
    drive.walk(BACK)
    own = {moment for moment in range(drive.session.head.moment + 1) if drive.session.timeline.tree.moment(moment)}
    for number in sorted(own)[-len(BACK) // FRAMES :]:
        moment = drive.session.timeline.tree.moment(number)
        assert set(moment.recalled) <= line
        line.add(moment.id)


def test_a_live_walk_that_jumps_falls_back_on_nothing_of_the_line_that_it_left(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, mode="live") as drive:
        drive.walk(WALK)
        for turn in range(12):
            drive.session.snapshot(f"at {turn}")
            drive.walk([Controls(mouse_dx=31.4 * (-1) ** turn)] * 12)
            drive.session.restore(f"at {turn // 2}")
            line = set(drive.session.head.line.ids().tolist())
            drive.session.step()
            moment = drive.session.timeline.tree.moment(drive.session.head.moment)
            assert set(moment.recalled) <= line


def test_siblings_are_equal_up_to_the_first_input_that_differs(model, drive):
    walked(drive, WALK)
    here = drive.session.head
    first = walked(drive, [*WALK[:8], Controls(mouse_dx=9.0), Controls(mouse_dx=9.0)])
    go(drive, here)
    second = walked(drive, [*WALK[:8], Controls(mouse_dx=-9.0), Controls(mouse_dx=-9.0)])
    assert differing_bytes(first[:8], second[:8]) == 0
    ids = [drive.session.timeline.tree.moment(number) for number in range(drive.session.head.moment + 1)]
    assert len({moment.id for moment in ids}) == len(ids)


def test_the_frame_of_the_moment_is_shown_at_once(drive):
    frames = walked(drive, WALK)
    drive.session.snapshot()
    walked(drive, AWAY[:20])
    assert differing_bytes([frames[-1]], [go(drive)]) == 0


def test_a_fork_leaves_the_session_on_its_own_branch(drive):
    walked(drive, WALK)
    branch = drive.session.fork("cellar")
    assert drive.session.branch.name == "main"
    assert branch.moment == drive.session.head.moment
    walked(drive, WALK)
    assert branch.moment < drive.session.head.moment
    drive.session.switch(branch)
    assert drive.session.branch is branch
    walked(drive, WALK[:4])
    assert branch.moment == drive.session.head.moment
    assert not drive.session.timeline.branches["main"].is_taken


def test_two_branches_live_at_once_and_neither_sees_the_other(model, drive, tmp_path):
    _, alone = without_leaving(model, tmp_path / "alone", WALK, AWAY)
    walked(drive, WALK)
    branch = drive.session.fork("cellar")
    other = Session(drive.session._setting, drive.session.timeline, branch, "live")
    frames = []
    for at in range(0, len(AWAY), FRAMES):
        other.step()
        frames += walked(drive, AWAY[at : at + FRAMES])
    assert differing_bytes(alone, frames) == 0
    mine, theirs = set(drive.session.head.line.ids().tolist()), set(other.head.line.ids().tolist())
    shared = set(branch.line.ids().tolist()) & mine
    assert mine & theirs == shared
    other.end()


def test_names_are_taken_once_and_unknown_ones_are_refused_in_words(drive):
    drive.session.snapshot("door")
    with pytest.raises(SnapshotFault, match="already"):
        drive.session.snapshot("door")
    with pytest.raises(SnapshotFault, match="no snapshot named 'window'"):
        drive.session.restore("window")
    with pytest.raises(SnapshotFault, match="letters, digits"):
        drive.session.snapshot("../door")
    with pytest.raises(SnapshotFault, match="no quick snapshot"):
        drive.session.restore()


def test_the_newest_quick_snapshot_is_what_is_loaded_and_only_some_are_kept(drive):
    for _ in range(12):
        drive.walk(WALK[:2])
        newest = drive.session.snapshot()
    assert newest.name == "quick 12"
    assert len(drive.session.timeline.snapshots) == 8
    go(drive)
    assert drive.session.head.moment == newest.moment


def test_rewind_reaches_recent_chunks_at_once_and_older_ones_by_drawing_them_again(drive):
    frames = walked(drive, [*WALK, *AWAY])
    moments = [moment.id for moment in map(drive.session.timeline.tree.moment, range(200)) if moment][1:]
    head = drive.session.head
    for back in (1, 5, 15, 21, 43, 60):
        drive.session.restore(head)
        redrawn = drive.session.rewind(back)
        assert drive.session.head.moment == moments[-1 - back]
        assert redrawn == 0 if back < 16 else redrawn < 16
        drive.session.settle()
        drive._keep_frames()
        assert differing_bytes([drive.frames.pop()], [frames[-1 - back * FRAMES]]) == 0


def test_a_walk_after_a_rewind_that_redrew_is_the_walk_of_before(drive):
    walked(drive, WALK)
    wanted = walked(drive, AWAY)
    assert drive.session.rewind(len(AWAY) // FRAMES - 5) > 0, "it came to a chunk that is not kept"
    again = walked(drive, AWAY[10:])
    assert differing_bytes(wanted[10:], again[1:]) == 0


def test_rewind_goes_no_further_than_the_beginning(drive):
    walked(drive, WALK)
    drive.session.rewind(500)
    assert drive.session.head.moment == 0
    with pytest.raises(SnapshotFault, match="the beginning"):
        drive.session.rewind(1)


def test_memory_can_be_switched_off_and_the_moments_say_so(drive):
    walked(drive, [*WALK, *AWAY])
    drive.session.recalls = False
    frames = walked(drive, BACK)
    assert {read_label(frame)["recalled"] for frame in frames} == {0}
    assert drive.session.timeline.tree.moment(drive.session.head.moment).recalled == ()
    drive.session.recalls = True
    assert read_label(walked(drive, BACK)[-1])["recalled"] > 0


def test_a_world_opens_with_its_branches_and_snapshots_and_goes_on_byte_for_byte(model, tmp_path):
    budgets = small_budgets(model)
    with start(model, budgets, tmp_path, seed=9, world="attic") as drive:
        walked(drive, WALK)
        drive.session.snapshot("door")
        cellar = drive.session.fork("cellar")
        from_door = walked(drive, BACK)
        drive.session.switch(cellar)
        walked(drive, AWAY)
        wanted = drive.session.head.moment
    with start(model, budgets, tmp_path, seed=0, world="attic") as drive:
        session = drive.session
        assert (session.branch.name, session.head.moment) == ("cellar", wanted)
        assert set(session.timeline.branches) == {"main", "cellar"}
        assert session.timeline.snapshots["door"].durable.result(0)
        go(drive, "door")
        assert differing_bytes(from_door, walked(drive, BACK)) == 0
        assert session.timeline.memory_gone(session.timeline.snapshots["door"])[0] == 0
    with start(model, budgets, tmp_path, seed=0, world="attic", at="main") as drive:
        assert drive.session.branch.name == "main"
    with start(model, budgets, tmp_path, seed=0, world="attic", at="door") as drive:
        assert drive.session.branch.name == "branch 3"
        assert differing_bytes(from_door, walked(drive, BACK)) == 0
    with (
        pytest.raises(Refused, match="no branch and no snapshot"),
        start(model, budgets, tmp_path, seed=0, world="attic", at="x"),
    ):
        pytest.fail("it was opened")


def test_a_branch_that_was_left_is_found_where_it_was_left(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        walked(drive, WALK[:8])
        left_at = drive.session.head.moment
        drive.session.switch(drive.session.fork("cellar"))
        walked(drive, WALK[:8])
    with start(model, small_budgets(model), tmp_path, seed=0, world="attic", at="main") as drive:
        assert (drive.session.branch.name, drive.session.head.moment) == ("main", left_at)


def test_a_name_of_quick_snapshots_cannot_be_given(drive):
    with pytest.raises(SnapshotFault, match="quick"):
        drive.session.snapshot("quick 1")  # the first quick snapshot would take its place
    assert drive.session.snapshot().name == "quick 1"


def test_a_world_with_a_name_that_only_looks_like_a_quick_one_opens(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        walked(drive, WALK[:2])
        assert drive.session.snapshot("quick ²").durable.result(10.0)
    with start(model, small_budgets(model), tmp_path, seed=0, world="attic") as drive:
        assert drive.session.snapshot().name == "quick 1"
        assert set(drive.session.timeline.snapshots) == {"quick ²", "quick 1"}


def test_a_world_has_so_many_branches_and_no_more_whoever_names_them(drive, monkeypatch):
    monkeypatch.setattr("server.timeline.MAX_BRANCHES", 2)
    drive.session.fork("cellar")
    for name in ("", "roof"):
        with pytest.raises(SnapshotFault, match="at most 2"):
            drive.session.fork(name)


def test_a_damaged_snapshot_is_refused_by_name_and_the_rest_opens(model, tmp_path):
    budgets = small_budgets(model)
    with start(model, budgets, tmp_path, seed=9, world="attic") as drive:
        walked(drive, WALK)
        door = drive.session.snapshot("door")
        walked(drive, WALK)
        drive.session.snapshot("window")
        walked(drive, WALK)
        path = tmp_path / drive.session.world / "states" / f"{door.moment}.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with start(model, budgets, tmp_path, seed=0, world="attic") as drive:
        stood = drive.session.head
        with pytest.raises(SnapshotFault, match="'door' is damaged"):
            drive.session.restore("door")
        assert drive.session.head is stood
        drive.session.restore("window")
    with (
        pytest.raises(Refused, match="'door' is damaged"),
        start(model, budgets, tmp_path, seed=0, world="attic", at="door"),
    ):
        pytest.fail("it was opened")


def test_a_dropped_snapshot_leaves_the_disk(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        walked(drive, WALK)
        door = drive.session.snapshot("door")
        assert door.durable.result(10.0)
        walked(drive, WALK)
        folder = tmp_path / drive.session.world
        assert (folder / "thumbnails" / f"{door.moment}.jpg").exists()
        drive.session.timeline.drop(door)
    assert not (folder / "states" / f"{door.moment}.safetensors").exists()
    assert not (folder / "thumbnails" / f"{door.moment}.jpg").exists()
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        assert not drive.session.timeline.snapshots


def test_kept_heads_spill_under_their_budget_and_come_back_exactly(model, tmp_path):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        session, shelf = drive.session, drive.session._shelf
        walked(drive, WALK)
        door = session.snapshot("door")
        wanted = walked(drive, BACK)
        state_bytes = session.head.state.num_bytes
        shelf.budget_bytes = 3 * state_bytes
        assert door.durable.result(10.0)
        for number in range(6):
            drive.walk(AWAY[: 2 * FRAMES])
            assert session.snapshot(f"at {number}").durable.result(10.0)
            session.settle()
            assert shelf.used_bytes <= shelf.budget_bytes + 2 * state_bytes
        session.settle()
        assert door.head is None
        assert shelf.num_spilled > 0
        go(drive, "door")
        assert differing_bytes(wanted, walked(drive, BACK)) == 0


def test_going_back_to_a_beginning_that_was_let_go_of_is_refused_in_words(drive):
    walked(drive, WALK[: 3 * FRAMES])
    session = drive.session
    session._shelf.budget_bytes = 0
    session.settle()
    session.timeline.shelf.settle()
    assert session.timeline.root.head is None
    assert session.timeline.root.moment not in session.timeline.kept_heads()
    with pytest.raises(SnapshotFault, match="nothing earlier on this walk is kept"):
        session.rewind(2)


def test_a_branch_of_a_planner_needs_no_name_and_leaves_nothing(drive):
    walked(drive, WALK)
    head = drive.session.head
    other = Session(drive.session._setting, drive.session.timeline, Branch("", head, head.moment), "live")
    other.step()
    assert other.end().result(0)
    drive.session.timeline.settle()
    assert set(drive.session.timeline.branches) == {"main"}


def test_named_snapshots_keep_their_blocks_from_being_forgotten_first_and_say_what_is_gone(model, tmp_path):
    turn = [Controls(Key.FORWARD, 31.4, 0.0)] * 40
    with start(model, small_budgets(model, nvme_slots=40), tmp_path, seed=9, world="attic") as drive:
        walked(drive, turn)
        timeline = drive.session.timeline
        door = drive.session.snapshot("door")
        _, total = timeline.memory_gone(door)
        walked(drive, turn)
        end = drive.session.snapshot()
        assert timeline.memory_gone(door) == (0, total)
        walked(drive, [*turn, *turn])
        assert drive.stats.forgotten > 0
        assert timeline.memory_gone(door) == (0, total), "others went first"
        timeline.drop(door)
        gone, total = timeline.memory_gone(end)
        walked(drive, [Controls(Key.FORWARD)] * 480)  # away from the round that it went so far, which shows nothing new
        assert gone < total // 2 < timeline.memory_gone(end)[0]


def test_a_world_drawn_under_other_conditions_opens_and_says_so(model, tmp_path, monkeypatch):
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        walked(drive, WALK)
    monkeypatch.setattr("torch.get_num_threads", lambda: 77)
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        assert any("77" in note for note in drive.seat.welcome.notes)
        walked(drive, WALK)
    with start(model, small_budgets(model), tmp_path, seed=9, world="attic") as drive:
        assert drive.seat.welcome.notes == []


def test_during_a_chunk_and_after_it_one_looks_ahead_with_the_window_of_the_next(model, tmp_path, monkeypatch):
    looked_with = []
    stand = Foresight.stand

    def heard(foresight, pose, catalog):
        looked_with.append(catalog.window_start)
        stand(foresight, pose, catalog)

    monkeypatch.setattr(Foresight, "stand", heard)
    with start(model, small_budgets(model), tmp_path, seed=9) as drive:
        drive.walk(WALK)
        looked_with.clear()
        drive.walk(WALK[:FRAMES])
        assert looked_with == [drive.session.head.state.window_start] * 2
