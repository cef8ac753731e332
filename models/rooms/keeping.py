"""Which block a step leaves: a key view, or the last frames of two chunks that show something new. Pure; any thread.

The frames of one chunk show nearly the same. So a chunk that shows something new waits for the next one that does, and
one block holds the last frame of each. Until then it is drawn from; if no other comes soon, it is a block by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from models.rooms.remembered import WindowChunk
from models.rooms.sizes import CHUNK_FRAMES, TOKENS
from shared.pose import Pose, wrap_rad

_LONGEST_WAIT_CHUNKS = 4  # beside those that draw key views or stand still
_ALIKE_M, _ALIKE_RAD = 0.3, math.radians(12.0)  # frames farther apart than this are a block of their own


def left_by(
    chunk: WindowChunk, waiting: WindowChunk | None, *, is_new: bool
) -> tuple[WindowChunk | None, WindowChunk | None]:
    """Return what a step without a key view leaves as a block, if anything, and the chunk that waits from now on.

    `is_new`: no block shows what `chunk` does. What is left bears the chunk's index, so that it is recalled only when
    the chunk has left the window.
    """
    if is_new and not _are_alike(chunk.poses):
        return replace(chunk, is_kept=True), waiting
    if waiting is None:
        return None, chunk if is_new else None
    if chunk.chunk_index - waiting.chunk_index >= _LONGEST_WAIT_CHUNKS:
        return replace(waiting, chunk_index=chunk.chunk_index, is_kept=True), chunk if is_new else None
    return (_last_frames(waiting, chunk), None) if is_new else (None, waiting)


def _are_alike(poses: Sequence[Pose]) -> bool:
    first, last = poses[0], poses[-1]
    is_near = math.hypot(last.x_m - first.x_m, last.z_m - first.z_m) <= _ALIKE_M
    return is_near and abs(wrap_rad(last.yaw_rad - first.yaw_rad)) <= _ALIKE_RAD


def _last_frames(first: WindowChunk, second: WindowChunk) -> WindowChunk:
    """Return the later half of the frames of each, as one chunk."""
    num = CHUNK_FRAMES // 2
    return WindowChunk(
        second.chunk_index,
        (*first.poses[-num:], *second.poses[-num:]),
        torch.cat([first.latents[-num:], second.latents[-num:]]),
        torch.cat([chunk.kv[:, :, -num * TOKENS :] for chunk in (first, second)], dim=2),
        is_kept=True,
    )
