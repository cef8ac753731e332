"""Does what is invented stay sharp? The quarters of a long walk, over the renderer's on the same route. One thread."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.revisit_metrics import sharpness
from bench.revisit_walk import Painter, beginning, explorer, generated, rendered, walk
from models.rooms.model import RoomsModel
from models.rooms.state import RoomsState

QUARTERS = 4
_STRETCH_CHUNKS = 50  # frames of so many chunks are held in memory at a time


def long_walk(model: RoomsModel, seed: int, num_frames: int) -> dict[str, Any]:
    """Walk as an explorer through a world begun as the product begins it, and through the true one.

    Returns the sharpness of every invented frame and of every rendered one, and how many chunks left a block.
    """
    num_chunks = num_frames // model.frames_per_chunk
    state, memory, scene = beginning(model, seed)
    num_seeded = len(memory)
    drawn = _sharpness(model, state, num_chunks, generated(model, memory))
    true = _sharpness(model, state, num_chunks, rendered(model, scene))
    return {
        "seed": seed,
        "sharpness": drawn.round(7).tolist(),
        "true_sharpness": true.round(7).tolist(),
        "kept_share": (len(memory) - num_seeded) / num_chunks,
    }


def by_quarter(walks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sharpness ratio of each quarter of the walks, over the renderer's on the whole route."""
    drawn = np.array([walked["sharpness"] for walked in walks])  # [walks, frames]
    true = float(np.mean([walked["true_sharpness"] for walked in walks]))
    quarters = [float(part.mean()) / true for part in np.array_split(drawn, QUARTERS, axis=1)]
    return {"sharpness_by_quarter": quarters, "walk_frames": drawn.shape[1], "walks": len(walks)}


def _sharpness(model: RoomsModel, state: RoomsState, num_chunks: int, painter: Painter) -> NDArray[np.float32]:
    guide = explorer(model.frames_per_chunk)
    found: list[NDArray[np.float32]] = []
    for at in range(0, num_chunks, _STRETCH_CHUNKS):
        part = walk(model, state, min(_STRETCH_CHUNKS, num_chunks - at), guide, painter)
        found.append(sharpness(part.frames))
        state = part.state
    return np.concatenate(found)
