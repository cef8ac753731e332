"""Rows and lines: branching copies nothing, and no line ever sees what another one appends."""

import numpy as np
import pytest

from server.catalog import Gone, GrowingCatalog
from server.rows import blocks_of, empty_line
from shared.pose import Pose


def longer(line, *block_ids):
    for block_id in block_ids:
        line = line.append(block_id, block_id, (Pose(x_m=float(block_id)),), np.full(3, block_id, np.float32))
    return line


@pytest.fixture
def trunk():
    return longer(empty_line(1, (3,), "float32"), *range(100))


def test_a_line_goes_on_in_place_and_a_second_one_from_the_same_end_begins_its_own_rows(trunk):
    first = longer(trunk, 100, 101)
    second = longer(trunk, 200, 201)
    assert first.stretch is trunk.stretch
    assert second.stretch is not trunk.stretch
    assert second.stretch.rows.num_rows == 2, "the trunk was not copied"
    assert first.ids().tolist() == [*range(100), 100, 101]
    assert second.ids().tolist() == [*range(100), 200, 201]
    assert trunk.ids().tolist() == list(range(100))


def test_branches_of_branches_see_their_own_ancestors(trunk):
    early = trunk.upto(40)
    side = longer(early, 300)
    deep = longer(side.upto(41), 400)
    twig = longer(side.upto(30), 500)
    assert deep.ids().tolist() == [*range(40), 300, 400]
    assert twig.ids().tolist() == [*range(30), 500]
    assert twig.flat(1).ids[:31].tolist() == [*range(30), 500]
    assert blocks_of([deep, twig]) == {*range(40), 300, 400, 500}


def test_a_published_view_survives_going_elsewhere_and_appending_there(trunk):
    catalog = GrowingCatalog(trunk)
    view = catalog.view(0)
    before = view.footprints.copy()
    catalog.line = trunk.upto(50)
    for number in range(600, 700):
        catalog.append(number, number, (Pose(),), np.full(3, -1.0, np.float32))
    assert (view.footprints == before).all()
    assert catalog.view(0).ids.tolist() == [*range(50), *range(600, 700)]
    catalog.line = trunk
    assert catalog.view(0).ids.tolist() == list(range(100))
    assert catalog.place(99)[1][0].x_m == 99.0


def test_what_is_gone_is_gone_on_every_line(trunk):
    gone = Gone()
    first, second = GrowingCatalog(trunk, gone), GrowingCatalog(longer(trunk.upto(50), 300), gone)
    second.view(0)
    first.bury([3, 70])
    assert np.flatnonzero(~first.view(0).alive).tolist() == [3, 70]
    assert np.flatnonzero(~second.view(0).alive).tolist() == [3]
    second.line = trunk
    assert np.flatnonzero(~second.view(0).alive).tolist() == [3, 70]
    assert gone.among(trunk.ids()).sum() == 2
