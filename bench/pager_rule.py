"""What a pose wants: by the rule over the blocks that live, or by the table of a trace that says so itself. Pure."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from models.base import Array, Catalog
from models.matrix_game_2 import retrieval
from server.trace import WINDOW_CHUNKS, TraceChunk, pose_rows
from shared.pose import Pose

TURN_M_PER_RAD = 2.0  # a radian of turning counts like so many metres when the nearest line of a trace is looked for


class Rule(Protocol):
    """Which blocks a view wants."""

    def wanted(self, pose: Pose, chunk_index: int, ahead: int = 0) -> tuple[int, ...]:
        """Blocks for a view from `pose`, `ahead` chunks after the one that `chunk_index` would draw next."""
        ...


class PoseRule:
    """Matrix-Game 2.0's own rule. `alive` is the walk's, and changes as blocks are forgotten."""

    def __init__(self, chunks: Sequence[TraceChunk], alive: Array, k: int) -> None:
        self._poses = pose_rows(chunks)
        self._indices = np.arange(len(chunks))
        self._alive = alive
        self._k = k

    def wanted(self, pose: Pose, chunk_index: int, ahead: int = 0) -> tuple[int, ...]:
        if chunk_index <= WINDOW_CHUNKS:
            return ()
        rows = self._indices[:chunk_index]
        alive = self._alive[:chunk_index]
        catalog = Catalog(rows, rows, self._poses[:chunk_index], rows, chunk_index - WINDOW_CHUNKS, alive)
        return retrieval.wanted(pose, catalog, self._k)


class TableRule:
    """A trace with `wanted` as a table from pose to blocks: a view wants what the line drawn nearest to it wants.

    Among lines that are as near, the one whose turn it is.
    """

    def __init__(self, chunks: Sequence[TraceChunk], alive: Array, k: int) -> None:
        self._lines = [() if chunk.wanted is None else chunk.wanted[:k] for chunk in chunks]
        self._poses = pose_rows(chunks)[:, 0]  # [B, 5]
        self._alive = alive

    def wanted(self, pose: Pose, chunk_index: int, ahead: int = 0) -> tuple[int, ...]:
        due = min(chunk_index + ahead, len(self._lines) - 1)
        away = self._poses - np.array(pose.as_tuple())
        turn = np.abs((away[:, 3] + np.pi) % (2 * np.pi) - np.pi)
        cost = np.linalg.norm(away[:, :3], axis=1) + TURN_M_PER_RAD * turn
        near = np.flatnonzero(cost <= cost.min() + 1e-3)
        line = int(near[np.argmin(np.abs(near - due))])
        last = chunk_index - WINDOW_CHUNKS
        return tuple(block for block in self._lines[line] if block < last and self._alive[block])


def rule_of(chunks: Sequence[TraceChunk], alive: Array, k: int) -> Rule:
    """The trace's own table when it has one, else the rule by poses."""
    has_table = any(chunk.wanted is not None for chunk in chunks)
    return TableRule(chunks, alive, k) if has_table else PoseRule(chunks, alive, k)
