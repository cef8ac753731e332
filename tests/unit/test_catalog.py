"""The growing catalog: published views never change, and the dead are never wanted."""

import numpy as np
import pytest

from server.catalog import GrowingCatalog
from server.rows import empty_line
from shared.pose import Pose


def filled(num_blocks):
    catalog = GrowingCatalog(empty_line(2, (3,), "float32"))
    for block_id in range(num_blocks):
        poses = [Pose(x_m=float(block_id)), Pose(x_m=block_id + 0.5)]
        catalog.append(block_id * 3, block_id, poses, np.full(3, block_id, np.float32))
    return catalog


def test_rows_survive_growth():
    catalog = filled(500)
    chunk_index, poses, footprint = catalog.place(300)
    assert (chunk_index, poses[1].x_m, footprint.tolist()) == (100, 100.5, [100.0] * 3)


def test_a_published_view_does_not_change_when_blocks_are_added_or_die():
    catalog = filled(10)
    view = catalog.view(window_start=8)
    before = view.recallable.copy()
    catalog.append(99, 10, [Pose(), Pose()], np.zeros(3, np.float32))
    catalog.bury([0, 3])
    assert len(view.ids) == 10
    assert (view.recallable == before).all()


def test_blocks_in_the_window_and_dead_blocks_are_not_recallable():
    catalog = filled(10)
    catalog.bury([0, 3])
    assert np.flatnonzero(catalog.view(window_start=8).recallable).tolist() == [2, 3, 4, 5, 6, 7]


def test_an_unknown_block_has_no_place():
    with pytest.raises(KeyError):
        filled(10).place(1)
