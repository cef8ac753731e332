"""Which remembered blocks a view wants, by where they were drawn from. Pure numpy; any thread.

Poses are dead-reckoned, so they drift: the older a block, the less its place says. The rule forgives an error that
grows with age, and prefers the older of two blocks that are as good: it is the nearer to what was drawn first.
B blocks of T poses each.
"""

import math

import numpy as np

from models.base import Array, Catalog
from shared.pose import Pose

HFOV_RAD = math.pi / 2  # what a frame is taken to show; no published figure
REACH_M = 4.0
DRIFT_M_PER_CHUNK, MAX_DRIFT_M = 0.02, 1.0
DRIFT_RAD_PER_CHUNK, MAX_DRIFT_RAD = 0.004, 0.25
LEAST_OVERLAP = 0.15  # below it a block would only distract
EQUAL_OVERLAP = 0.03  # closer than this, two blocks are as good as each other
SAME_VIEW_SHARE = 0.8  # of a chosen block's overlap with another is taken off that other's worth
SHORT_LIST = 64


def wanted(pose: Pose, catalog: Catalog, max_recall: int) -> tuple[int, ...]:
    """Ids of at most `max_recall` blocks for a view from `pose`, best first."""
    rows = np.flatnonzero(catalog.recallable)
    if not len(rows) or max_recall == 0:
        return ()
    eye = np.array(pose.as_tuple())
    ages = catalog.chunks[-1] + 1 - catalog.chunks[rows]  # [B'] chunks
    worth = overlap(eye, catalog.poses[rows], ages)  # [B']
    order = np.argsort(-worth, kind="stable")[:SHORT_LIST]
    rows, worth = rows[order], worth[order]
    chosen: list[int] = []
    while len(chosen) < max_recall and worth.max() >= LEAST_OVERLAP:
        near_best = np.flatnonzero(worth >= worth.max() - EQUAL_OVERLAP)
        pick = int(near_best[np.argmin(catalog.chunks[rows[near_best]])])
        chosen.append(int(catalog.ids[rows[pick]]))
        same = overlap(catalog.poses[rows[pick], -1], catalog.poses[rows], np.zeros(len(rows)))
        worth = worth * (1.0 - SAME_VIEW_SHARE * same)
        worth[pick] = 0.0
    return tuple(chosen)


def overlap(eye: Array, poses: Array, ages: Array) -> Array:
    """How much of the view from `eye [5]` each block `poses [B, T, 5]` saw, 0 to 1: heading times nearness, `[B]`."""
    slack_m = np.minimum(MAX_DRIFT_M, DRIFT_M_PER_CHUNK * ages)[:, None]  # [B, 1]
    slack_rad = np.minimum(MAX_DRIFT_RAD, DRIFT_RAD_PER_CHUNK * ages)[:, None]
    away_m = np.linalg.norm(poses[..., :3] - eye[:3], axis=-1)  # [B, T]
    turn_rad = np.abs((poses[..., 3] - eye[3] + math.pi) % (2 * math.pi) - math.pi)  # [B, T]
    heading = np.maximum(0.0, 1.0 - np.maximum(0.0, turn_rad - slack_rad) / HFOV_RAD)
    return (heading * np.exp(-np.maximum(0.0, away_m - slack_m) / REACH_M)).max(axis=1)
