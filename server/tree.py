"""A world's timeline as the wire tells it: thinned to what a player can name or go to. Engine thread; pure but for it.

Kept are the first moments, forks, snapshots, heads of branches, ends, and where the session stands. A node's parent is
its nearest ancestor that is kept.
"""

import numpy as np
from numpy.typing import NDArray

from server.timeline import Timeline
from shared.timeline import MAX_TREE_NODES, Tree, TreeNode

NONE = -1
Ids = NDArray[np.int64]


def tree_of(timeline: Timeline, here: int, branch: str) -> Tree:
    """The tree of a world for a session that stands at the moment `here` on `branch`."""
    # a picture of the timeline's own arrays, taken between two chunks
    parents = np.array(timeline.tree.parents, np.int64)
    chunks = np.array(timeline.tree.chunks, np.int64)
    names: dict[int, list[str]] = {}
    for snapshot in timeline.snapshots.values():
        names.setdefault(snapshot.moment, []).append(f"*{snapshot.name}")
    for one in timeline.branches.values():
        names.setdefault(one.moment, []).append(one.name)
    kept = thinned(parents, chunks >= 0, np.array(sorted({*names, here}), np.int64), here)
    nodes: list[TreeNode] = [
        (moment, parent, int(chunks[moment]), ", ".join(names.get(moment, ())))
        for moment, parent in zip(*(ids.tolist() for ids in kept), strict=True)
    ]
    return Tree(nodes=nodes, here=here, branch=branch)


def thinned(
    parents: Ids, exists: NDArray[np.bool_], named: Ids, here: int, limit: int = MAX_TREE_NODES
) -> tuple[Ids, Ids]:
    """(moments, parents) that are kept, ascending; a parent is NONE or among the moments.

    `parents` and `exists` are by moment id, and a parent's id is below its child's. Beyond `limit`, ends that nobody
    named go first, the oldest before the newer ones, then whatever is oldest; the first moments and `here` stay.
    """
    ids = np.flatnonzero(exists)
    has_parent = ids[parents[ids] >= 0]
    num_children = np.bincount(parents[has_parent], minlength=len(parents))
    is_named = np.zeros(len(parents), np.bool_)
    is_named[named] = True
    is_first = exists & (parents < 0)
    is_kept = exists & (is_named | is_first | (num_children != 1))
    surplus = int(is_kept.sum()) - limit
    if surplus > 0:
        is_end = is_kept & ~is_named & (num_children == 0)
        goes_first = np.concatenate([np.flatnonzero(is_end), np.flatnonzero(is_kept & ~is_end)])
        goes = [moment for moment in goes_first.tolist() if not is_first[moment] and moment != here]
        is_kept[goes[:surplus]] = False
    moments = np.flatnonzero(is_kept)
    above = _nearest(parents, exists, is_kept)
    return moments, np.where(parents[moments] >= 0, above[np.maximum(parents[moments], 0)], NONE)


def _nearest(parents: Ids, exists: NDArray[np.bool_], is_kept: NDArray[np.bool_]) -> Ids:
    """By moment: itself when it is kept, else its nearest ancestor that is; NONE where there is none. O(n log n)."""
    own = np.arange(len(parents))
    # one place more, for NONE, which points at itself
    step = np.append(np.where(is_kept | ~exists, own, parents), len(parents))
    step[step < 0] = len(parents)
    while True:
        further = step[step]
        if np.array_equal(further, step):
            break
        step = further
    found = step[:-1]
    return np.where(found == len(parents), NONE, found)
