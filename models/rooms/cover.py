"""How much of a view is shown by what is remembered: shares of detail, patch by patch. Pure; any thread.

C frames, N patches of a frame.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.base import Recall
from models.rooms import retrieval
from models.rooms.remembered import WindowChunk, pose_rows
from models.rooms.sizes import TOKENS
from shared.pose import Pose

Cover = NDArray[np.float32]  # [C, N], 0 to 1


def cover_of(poses: Sequence[Pose], originals: Sequence[WindowChunk], recall: Recall) -> Cover:
    """Return the share of the detail of each patch of the views from `poses` that these chunks and blocks show.

    Patches between shown ones are shown too: they need not be invented or stored again.
    """
    footprints = [chunk.points.flatten(0, 1).numpy() for chunk in originals] + [block.footprint for block in recall]
    if not footprints:
        return np.zeros((len(poses), TOKENS), np.float32)
    seen_from = np.stack([pose_rows(part.poses) for part in (*originals, *recall)])
    points = np.stack(footprints)
    shown = (retrieval.coverage(pose, seen_from, points).max(0) for pose in poses)
    return np.stack([retrieval.without_holes(frame) for frame in shown])


def shown_share(cover: Cover, least_detail: float) -> float:
    """Return the share of patches of which more than this detail is shown, in the least known of the frames: 0 to 1."""
    return float((cover > least_detail).mean(1).min())
