"""How much of a view is shown by what is remembered: shares of detail, patch by patch. Pure; any thread.

Before a view is drawn, nothing but the points of what is remembered can say; they lie apart in a nearer view. Of what
is drawn each point is looked for in what is remembered.

C frames, N patches of a frame.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from models.base import Recall
from models.rooms import retrieval
from models.rooms.remembered import WindowChunk, pose_rows
from models.rooms.sizes import COLUMNS, ROWS, TOKENS
from shared.pose import Pose

Cover = NDArray[np.float32]  # [C, N], 0 to 1

_COLUMN = (1, 4, 7)  # of a patch and those beside it: those of its own column
_SLACK = 0.2  # of the depth that a frame saw there: nearer or farther by more is another place


def cover_of(poses: Sequence[Pose], window: Sequence[WindowChunk], recall: Recall) -> Cover:
    """Return the share of the detail of each patch of the views from `poses` that these chunks and blocks show."""
    footprints = [chunk.points.flatten(0, 1).numpy() for chunk in window] + [block.footprint for block in recall]
    if not footprints:
        return np.zeros((len(poses), TOKENS), np.float32)
    seen_from = np.stack([pose_rows(part.poses) for part in (*window, *recall)])
    points = np.stack(footprints)
    return np.stack([retrieval.coverage(pose, seen_from, points).max(0) for pose in poses])


def drawn_cover(
    points: NDArray[np.float32], poses: Sequence[Pose], window: Sequence[WindowChunk], recall: Recall
) -> Cover:
    """Return the share of the detail of each point [C, N, 3] of frames drawn at `poses` that these show already."""
    cover = np.zeros(points.shape[:2], np.float32)
    for pose, remembered in _frames(window, recall):
        patch, ahead_m, is_inside = retrieval.project(pose, points)
        beside_m = _beside(retrieval.project(pose, remembered)[1])[patch]  # [C, N, 9]
        is_there = (np.abs(beside_m - ahead_m[..., None]) < _SLACK * ahead_m[..., None]).any(-1)
        # floor and ceiling are seen so aslant that from one row to the next lie metres
        is_between = (beside_m[..., _COLUMN].min(-1) < ahead_m) & (ahead_m < beside_m[..., _COLUMN].max(-1))
        is_same = is_inside & (is_there | (is_between & retrieval.is_level(points)))
        there = np.array(pose.as_tuple())
        shown = np.stack([retrieval.detail(at, there, frame) for at, frame in zip(poses, points, strict=True)])
        cover = np.maximum(cover, shown * is_same)
    return cover


def _beside(depth_m: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the depths [N, 9] of each patch and those beside it, row by row."""
    grid = np.pad(depth_m.reshape(ROWS, COLUMNS), 1, mode="edge")
    return sliding_window_view(grid, (3, 3)).reshape(TOKENS, 9)


def _frames(window: Sequence[WindowChunk], recall: Recall) -> Iterator[tuple[Pose, NDArray[np.float32]]]:
    """Yield the pose and the points [N, 3] of every frame of chunks and blocks."""
    for chunk in window:
        yield from zip(chunk.poses, chunk.points.numpy(), strict=True)
    for block in recall:
        yield from zip(block.poses, np.asarray(block.footprint, np.float32).reshape(-1, TOKENS, 3), strict=True)


def without_holes(cover: Cover) -> Cover:
    """Return cover in which patches between shown ones are shown too: they need not be invented."""
    return np.stack([retrieval.without_holes(frame) for frame in cover])


def shown_share(cover: Cover, least_detail: float) -> float:
    """Return the share of patches of which more than this detail is shown, in the least known of the frames: 0 to 1."""
    return float((cover > least_detail).mean(1).min())
