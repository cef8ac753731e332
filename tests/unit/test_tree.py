"""A timeline thinned to what a player can name or go to."""

import numpy as np

from server.tree import thinned


def thin(parents: list[int], named: list[int], here: int, limit: int = 1_024) -> dict[int, int]:
    """Moment to parent; an id whose parent is -2 was never used."""
    ids = np.array(parents, np.int64)
    moments, above = thinned(np.maximum(ids, -1), ids >= -1, np.array(named, np.int64), here, limit)
    return dict(zip(moments.tolist(), above.tolist(), strict=True))


def test_first_moments_forks_names_and_ends_stay_and_parents_skip_the_rest() -> None:
    #  0 - 1 - 2 - 3 - 4 (here), 2 - 5 - 6 (named) - 7 (end)
    assert thin([-1, 0, 1, 2, 3, 2, 5, 6], [4, 6], 4) == {0: -1, 2: 0, 4: 2, 6: 2, 7: 6}


def test_ids_that_were_never_used_are_no_moments() -> None:
    assert thin([-1, -2, 0, -2, 2], [4], 4) == {0: -1, 4: 0}


def test_beyond_the_limit_unnamed_ends_go_first_and_the_first_moment_and_here_never() -> None:
    #  0 - 1 - 2 - 3, and an end at each of them: 4 on 0, 5 on 1, 6 on 2
    parents = [-1, 0, 1, 2, 0, 1, 2]
    assert set(thin(parents, [3], 3)) == {0, 1, 2, 3, 4, 5, 6}
    assert set(thin(parents, [3], 3, limit=5)) == {0, 1, 2, 3, 6}
    assert set(thin(parents, [3], 3, limit=2)) == {0, 3}
    assert thin(parents, [3], 3, limit=2)[3] == 0


def test_a_long_walk_is_two_nodes() -> None:
    assert thin(list(range(-1, 20_000)), [20_000], 20_000) == {0: -1, 20_000: 0}
