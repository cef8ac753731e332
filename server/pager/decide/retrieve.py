"""The view-overlap rule: which blocks a view should be drawn with, for models without a rule of their own. Pure."""

import numpy as np

from models.base import Catalog
from shared.pose import Pose, view_overlap


def by_view_overlap(pose: Pose, catalog: Catalog, count: int) -> tuple[int, ...]:
    """Ids of at most `count` recallable blocks whose frames saw most of what `pose` sees, best first.

    A block's view is its middle frame's. Among equals the newer block comes first; blocks that saw nothing of it are
    left out.
    """
    rows = np.flatnonzero(catalog.recallable)
    middle = catalog.poses.shape[1] // 2
    seen = [view_overlap(pose, Pose(*map(float, catalog.poses[row, middle]))) for row in rows]
    order = sorted(range(len(rows)), key=lambda index: (-seen[index], -int(rows[index])))
    return tuple(int(catalog.ids[rows[index]]) for index in order[:count] if seen[index] > 0.0)
