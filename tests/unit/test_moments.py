"""Moments: a record carries everything, and a line of ancestors is its head's own."""

import numpy as np
import pytest

from server.moments import NO_MOMENT, Moment, ancestors, moment_from_record, moment_to_record
from shared.controls import Controls, Key
from shared.pose import Pose


def moment(moment_id, parent, **changes):
    values = {
        "id": moment_id,
        "parent": parent,
        "chunk_index": moment_id,
        "seed": 2**40 + 1,
        "controls": (Controls(Key.FORWARD | Key.LEFT, 1.5, -2.0),) * 2,
        "poses": (Pose(1.0, 0.5, 2.0, 0.3), Pose(1.1, 0.5, 2.0, 0.31)),
        "recalled": (1, 2, 3),
        "stale": True,
        "seeded": False,
        "frame_hashes": (b"a" * 16, b"b" * 16),
        "has_block": True,
        "block_poses": (Pose(), Pose()),
        "footprint": np.arange(12, dtype=np.float32).reshape(4, 3),
    }
    return Moment(**(values | changes))


def test_a_moment_comes_back_from_its_record():
    original = moment(9, 8)
    back = moment_from_record(moment_to_record(original))
    assert np.array_equal(back.footprint, original.footprint)
    for name in Moment.__dataclass_fields__:
        if name != "footprint":
            assert getattr(back, name) == getattr(original, name), name


def test_a_record_without_a_field_is_refused_by_name():
    record = moment_to_record(moment(9, 8))
    del record["poses"]
    with pytest.raises(ValueError, match="poses"):
        moment_from_record(record)


@pytest.mark.parametrize("change", [{"parent": 9}, {"parent": 12}, {"id": 1 << 33}, {"id": -7}, {"chunk": 1 << 63}])
def test_a_moment_that_would_close_a_ring_or_fill_the_memory_is_refused(change):
    record = moment_to_record(moment(9, 8)) | change
    with pytest.raises(ValueError, match="cannot follow"):
        moment_from_record(record)


def test_a_footprint_larger_than_any_model_leaves_is_refused():
    record = moment_to_record(moment(9, 8))
    record["footprint"] = ["float32", [1 << 30], b""]
    with pytest.raises(ValueError, match="footprint"):
        moment_from_record(record)


def test_ancestors_are_the_head_s_own_line():
    moments = {number: moment(number, number - 1) for number in range(5)} | {7: moment(7, 2)}
    assert [found.id for found in ancestors(moments, 7)] == [0, 1, 2, 7]
    assert [found.id for found in ancestors(moments, 4)] == [0, 1, 2, 3, 4]
    assert ancestors(moments, NO_MOMENT) == []
