"""The embedded world keeps promise 9, and leaving for ten chunks and coming back draws the same bytes."""

import numpy as np
import pytest
import torch

from bench.drive import start
from bench.identity import differing_bytes
from models.rooms.model import RoomsModel
from server.pager.budgets import buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.pager import Budgets
from server.states import state_bytes
from shared.controls import Controls, Key

FORWARD = [Controls(Key.FORWARD, 3.0, 0.0)] * 4
AWAY = [Controls(Key.LEFT, -30.0, 0.0)] * 20
ON = [Controls(mouse_dx=25.0)] * 4


@pytest.fixture(scope="module")
def model():
    with torch.no_grad():
        yield RoomsModel()


def budgets(model):
    layout = SlotLayout(model.kv_spec)
    slot, buffer = layout.slot_bytes, buffer_bytes(layout, model.max_recall, model.dtype)
    return Budgets(2 * model.max_recall * slot + buffer + slot, 6 * slot, 200 * slot)


@torch.no_grad()
def test_leaving_and_coming_back_draws_the_same_bytes_and_changes_no_kept_state(model, tmp_path):
    with start(model, budgets(model), tmp_path / "whole", seed=900_001) as drive:
        drive.walk([*FORWARD, *ON])
        wanted = drive.frames[len(FORWARD) :]
    with start(model, budgets(model), tmp_path / "left", seed=900_001, world="left") as drive:
        drive.walk(FORWARD)
        door = drive.session.snapshot("door")
        kept = state_bytes(model.dump(door.head.state))
        drive.walk(AWAY, lambda: drive.pager.flush(60.0))
        drive.session.restore("door")
        drive.session.settle()
        drive._keep_frames()
        drive.frames.clear()
        drive.walk(ON)
        assert differing_bytes(wanted, drive.frames) == 0
        assert state_bytes(model.dump(door.head.state)) == kept, "a returned state is never written to"
        assert drive.stats.spilled_bytes > 0
        drive.session.restore("door")
        door.head, drive.session.timeline.shelf.budget_bytes = None, 0  # as if it had been spilled
        drive.session.restore(door)
        assert state_bytes(model.dump(door.head.state)) == kept
        frame = drive.session.head.frame
        assert frame is not None
        assert (np.asarray(frame.pixels) != wanted[-1]).any()
    with start(model, budgets(model), tmp_path / "left", seed=0, world="left", at="door") as drive:
        drive.walk(ON)
        assert differing_bytes(wanted, drive.frames) == 0
