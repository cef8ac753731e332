"""What to forget first: how soon a block will be wanted again, beside the textbook's policies. Pure; numpy at most.

A block that was left behind one chunk after the other is named by its chunk. `Past` is what a policy may look at; each
policy gives a number per candidate, and the lowest goes.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

M_PER_RAD = 2.0  # a radian of turning is as far as so many metres
NEAR_M = 1.5  # a place is the same place within this
RECENT = 4  # chunks that are too young to be a return
NUM_PLACES = 4  # earlier visits whose continuation is taken for likely
REPLAYED = 80  # chunks of a continuation
OTHER_WAY = 200.0  # chunks that it costs to have guessed the direction wrong
HFOV_RAD = math.pi / 2
REACH_M = 4.0
LEAST_OVERLAP = 0.3  # from here on a view wants a block
COVERED = 0.85  # of a view, from which on an older block is taken in its place
COVERED_WORTH = 0.1
RECENCY_WORTH = 0.05
HORIZON = 20.0  # chunks after which a block that will be wanted is worth 1/e


@dataclass(frozen=True, slots=True)
class Past:
    """A walk so far and the copies of a tier."""

    poses: Floats  # [n, 5] of every chunk drawn
    candidates: Indices  # [R] chunks whose blocks the tier holds
    last_wanted: Indices  # [R] the chunk that wanted each last
    is_covered: NDArray[np.bool_]  # [n] whether an older block shows the same
    next_wanted: Floats  # [R] the oracle's: infinite when never


Policy = Callable[[Past], NDArray[Any]]


def lru(past: Past) -> NDArray[Any]:
    """Least recently wanted first."""
    return past.last_wanted


def fifo(past: Past) -> NDArray[Any]:
    """Oldest first."""
    return past.candidates


def belady(past: Past) -> NDArray[Any]:
    """Wanted last first: needs the future, and stands here as the bound."""
    return -past.next_wanted


def ours(past: Past) -> NDArray[Any]:
    """Worth by how soon some likely pose wants the block; a view that an older block covers is worth a tenth."""
    views, after = likely_views(past.poses)
    seen = overlap(views[:, None], past.poses[past.candidates][None])  # [F, R]
    soonest = np.where(seen >= LEAST_OVERLAP, after[:, None], np.inf).min(axis=0, initial=np.inf)
    worth = np.exp(-soonest / HORIZON) * np.where(past.is_covered[past.candidates], COVERED_WORTH, 1.0)
    idle = len(past.poses) - past.last_wanted
    return worth + RECENCY_WORTH * np.exp(-idle / HORIZON)


POLICIES: Mapping[str, Policy] = {"ours": ours, "lru": lru, "fifo": fifo, "belady": belady}


def likely_views(poses: Floats) -> tuple[Floats, Floats]:
    """Poses that may come [F, 5], and after how many chunks each [F].

    Where the walk has been here before it may go on as it did then, or the way it came; anywhere it may turn back.
    """
    here, step = poses[-1], _step(poses, len(poses) - 1)
    away = distance(poses[:-RECENT], here)
    places = np.argsort(away, kind="stable")[:NUM_PLACES]
    places = places[away[places] < NEAR_M]
    views, after = [poses[-1:]], [np.zeros(1)]
    for place in (*places, len(poses) - 1):
        ahead, back = poses[place + 1 : place + 1 + REPLAYED], poses[max(0, place - REPLAYED) : place][::-1]
        agrees = float(np.dot(_step(poses, int(place)), step)) >= 0.0
        for path, is_likely in ((ahead, agrees), (back, not agrees)):
            views.append(path)
            after.append(np.arange(1.0, len(path) + 1.0) + (0.0 if is_likely else OTHER_WAY))
    return np.concatenate(views), np.concatenate(after)


def covered_by_older(poses: Floats, chunk: int) -> bool:
    """Whether some older block shows nearly all of what this one shows."""
    return bool((overlap(poses[chunk], poses[:chunk]) >= COVERED).any())


def overlap(view: Floats, seen: Floats) -> Floats:
    """How much of `view [..., 5]` was seen from `seen [..., 5]`: shared heading times nearness."""
    turn = np.abs((view[..., 3] - seen[..., 3] + math.pi) % (2 * math.pi) - math.pi)
    away = np.linalg.norm(view[..., :3] - seen[..., :3], axis=-1)
    return np.maximum(0.0, 1.0 - turn / HFOV_RAD) * np.exp(-away / REACH_M)


def distance(poses: Floats, here: Floats) -> Floats:
    """Metres between poses, turning counted."""
    turn = np.abs((poses[..., 3] - here[3] + math.pi) % (2 * math.pi) - math.pi)
    return np.linalg.norm(poses[..., :3] - here[:3], axis=-1) + M_PER_RAD * turn


def _step(poses: Floats, chunk: int) -> Floats:
    """How the pose changed into this chunk: metres, and turning as metres [4]."""
    if chunk == 0:
        return np.zeros(4)
    change = poses[chunk] - poses[chunk - 1]
    turn = (change[3] + math.pi) % (2 * math.pi) - math.pi
    return np.array([*change[:3], M_PER_RAD * turn])
