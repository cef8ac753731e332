"""Which views may come, and how soon: all around, on as the walk went before, and back. Pure numpy.

Views are poses [..., 5]; `path [n, 5]` is every pose of a walk, one a chunk, the last where it stands.
"""

import math
from typing import NamedTuple

import numpy as np

from server.pager.decide.follow import Flags, Floats, Indices, followed, ways, wrapped

__all__ = ["Flags", "Floats", "Indices", "Views", "forgiving_overlap", "likely_views", "overlap", "within"]

HFOV_RAD = math.pi / 2
REACH_M = 4.0
FORGIVEN_M, FORGIVEN_RAD = 0.02, 0.004  # a chunk of a block's age: poses are dead-reckoned, so the older the less exact
MOST_FORGIVEN_M, MOST_FORGIVEN_RAD = 1.0, 0.25
STEP_M, STEP_RAD = 1.4, 0.31  # what a player walks and turns in a chunk, at most
TURNS_RAD = (0.0, 0.3, 0.6, 0.95, 1.35, 1.8, 2.4, math.pi)  # to either side
STEPS = ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (1.0, math.pi), (1.0, 0.5 * math.pi), (1.0, -0.5 * math.pi))
FARTHEST_WALK_RAD = 2.0  # who turns farther than this does so on the spot
SURELY_M = 1.0  # a way whose last poses are no farther off than this is the one that it goes
LEAVING_WORTH = 0.1  # of any other view meanwhile
AROUND_CHUNKS, AGAIN_CHUNKS, BACK_CHUNKS = 2.5, 40.0, 20.0  # after which such a view is worth 1/e
RETRACED = np.arange(1, 61, 3)
BACK_WORTH = 0.03  # of turning back where nothing speaks for it


class Views(NamedTuple):
    """Views that may come: one after the other (`is_walk`), each leaving a block for the later ones; or any."""

    poses: Floats  # [F, 5]
    chunks: Floats  # [F] after which each comes
    worth: Floats  # [F] 1 when it comes at once, less the later and the less likely
    is_walk: bool


def overlap(view: Floats, seen: Floats) -> Floats:
    """How much of `view [..., 5]` was seen from `seen [..., 5]`: shared heading times nearness."""
    return forgiving_overlap(view, seen, np.zeros(1))


def forgiving_overlap(view: Floats, seen: Floats, ages: Floats) -> Floats:
    """How much of `view [..., 5]` a block drawn from `seen [..., 5]` is taken to show, `ages [...]` chunks later."""
    turn = np.abs(wrapped(view[..., 3] - seen[..., 3])) - np.minimum(MOST_FORGIVEN_RAD, FORGIVEN_RAD * ages)
    x, y, z = (view[..., axis] - seen[..., axis] for axis in range(3))  # a sum over the last axis is slower
    away = np.sqrt(x * x + y * y + z * z) - np.minimum(MOST_FORGIVEN_M, FORGIVEN_M * ages)
    return np.maximum(0.0, 1.0 - np.maximum(0.0, turn) / HFOV_RAD) * np.exp(-np.maximum(0.0, away) / REACH_M)


def within(poses: Floats, views: Floats, reach_m: float) -> Indices:
    """Rows of `poses [B, 5]` that are no farther than `reach_m` outside the box around `views [F, 5]`."""
    low, high = views[:, :3].min(axis=0) - reach_m, views[:, :3].max(axis=0) + reach_m
    return np.flatnonzero(((poses[:, :3] >= low) & (poses[:, :3] <= high)).all(axis=1))


def likely_views(path: Floats) -> list[Views]:
    """Views that may come. A walk that goes a way of before is taken to stay on it."""
    again = [(way, followed(path, way)) for way in ways(path)]
    if again and again[0][0].apart_m < SURELY_M:
        near = around(path[-1])
        likely = [near._replace(worth=LEAVING_WORTH * near.worth), _walk(again[0][1], 1.0, AGAIN_CHUNKS)]
    else:
        likely = [around(path[-1]), back(path)]
        likely += [_walk(views, math.exp(-way.apart_m), AGAIN_CHUNKS) for way, views in again]
    return [views for views in likely if len(views.poses)]


def around(here: Floats) -> Views:
    """Views from here and from a step or two away, in all directions: a player may turn to any."""
    poses: list[Floats] = []
    chunks: list[float] = []
    for turn_rad in (side * turn for turn in TURNS_RAD for side in (1.0, -1.0) if turn or side > 0.0):
        for steps, aside_rad in STEPS if abs(turn_rad) <= FARTHEST_WALK_RAD else STEPS[:1]:
            way_rad = here[3] + (aside_rad or turn_rad)
            away_m = STEP_M * steps
            ahead = np.array([away_m * math.sin(way_rad), 0.0, away_m * math.cos(way_rad), turn_rad, 0.0])
            poses.append(here + ahead)
            chunks.append(max(1.0, steps + abs(turn_rad) / STEP_RAD))
    return Views(np.array(poses), np.array(chunks), np.exp(-np.array(chunks) / AROUND_CHUNKS), is_walk=False)


def back(path: Floats) -> Views:
    """The way it came, looking as it looked then."""
    chunks = RETRACED[len(path) > RETRACED]
    worth = BACK_WORTH * np.exp(-chunks / BACK_CHUNKS)
    return Views(path[len(path) - 1 - chunks], chunks.astype(np.float64), worth, is_walk=False)


def _walk(poses: Floats, worth: float, chunks_long: float) -> Views:
    chunks = np.arange(1.0, len(poses) + 1)
    return Views(poses, chunks, worth * np.exp(-chunks / chunks_long), is_walk=True)
