"""A head at rest: everything comes back, lossless, and the same head has the same bytes."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from models.base import DrawnFrame, SavedState
from server.states import head_from_bytes, state_bytes
from shared.pose import Pose

SAVED = SavedState({"seed": 3, "pose": [0.1, 0.2]}, {"kv": torch.randn(3, 4).bfloat16(), "walls": torch.arange(6)})
FRAME = DrawnFrame(np.random.default_rng(0).integers(0, 255, (4, 6, 3), np.uint8), Pose(1.0, 2.0, 3.0, 0.4, 0.5))


def test_state_frame_and_recall_come_back_bit_for_bit():
    back = head_from_bytes(state_bytes(SAVED, FRAME, (4, 7)))
    assert back.saved.facts == SAVED.facts
    assert set(back.saved.tensors) == {"kv", "walls"}
    assert all(torch.equal(back.saved.tensors[name], SAVED.tensors[name]) for name in SAVED.tensors)
    assert (back.frame.pixels == FRAME.pixels).all()
    assert (back.frame.pose, back.recalled) == (FRAME.pose, (4, 7))


def test_the_same_head_has_the_same_bytes():
    assert len({state_bytes(SAVED, FRAME, (4, 7)) for _ in range(8)}) == 1


def test_a_file_of_an_older_version_has_no_frame():
    old = save(dict(SAVED.tensors), {"facts": json.dumps(dict(SAVED.facts))})
    back = head_from_bytes(old)
    assert back.saved.facts == SAVED.facts
    assert (back.frame, back.recalled) == (None, ())


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, save({"a": torch.zeros(1)}, {"other": "{}"})])
def test_a_file_that_is_no_head_is_refused(data):
    with pytest.raises(Exception):  # noqa: B017 - world_log.load_head puts it into words
        head_from_bytes(data)
