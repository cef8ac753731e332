"""The state of a walk through rooms: what the next chunk needs. Immutable values; saved and loaded bit for bit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from models.base import KVSpec, SavedState
from models.rooms.patches import CHANNELS
from models.rooms.remembered import WindowChunk
from models.rooms.sizes import CHUNK_FRAMES, TOKENS
from models.rooms.steering import NO_CELLS, Cells
from shared.pose import Pose


@dataclass(frozen=True, slots=True)
class RoomsState:
    """Where the walk stands. No array reachable from it is ever written to."""

    seed: int
    chunk_index: int
    pose: Pose
    window: tuple[WindowChunk, ...]
    walls: Cells  # [n, 2]
    drawn_with: tuple[int, ...] = ()  # block ids that the last chunk was drawn with
    waiting: WindowChunk | None = None  # a chunk that is to share a block with another (`keeping.py`)

    @classmethod
    def start(cls, seed: int, pose: Pose) -> "RoomsState":
        """Return the state before the first chunk of a world: nothing seen."""
        return cls(seed, 0, pose, (), NO_CELLS)

    @property
    def window_start(self) -> int:
        """Index of the first chunk in the attention window."""
        return self.window[0].chunk_index if self.window else self.chunk_index

    @property
    def seen(self) -> tuple[WindowChunk, ...]:
        """What the next chunk is drawn from besides its recall: the window, and a chunk that waits and has left it."""
        waiting = self.waiting
        if waiting is None or waiting.chunk_index >= self.window_start:
            return self.window
        return (waiting, *self.window)

    @property
    def originals(self) -> list[WindowChunk]:
        """What of these frames blocks hold, or are to hold."""
        return [chunk for chunk in self.seen if chunk.is_kept or chunk is self.waiting]

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors that this state holds."""
        return sum(chunk.num_bytes for chunk in self.seen) + self.walls.nbytes


def dump(state: RoomsState) -> SavedState:
    """Return the state as JSON values and tensors by name."""
    tensors = {"walls": torch.from_numpy(state.walls.copy())}
    for name, chunk in _named(state):
        tensors[f"{name}.latents"] = chunk.latents
        tensors[f"{name}.kv"] = chunk.kv
    facts = {
        "seed": state.seed,
        "chunk_index": state.chunk_index,
        "pose": list(state.pose.as_tuple()),
        "drawn_with": list(state.drawn_with),
        "window": [_facts_of(chunk) for chunk in state.window],
        "waiting": _facts_of_waiting(state),
    }
    return SavedState(facts, tensors)


def load(saved: SavedState, spec: KVSpec, dtype: torch.dtype, device: torch.device) -> RoomsState:
    """Return the state that `dump` saved. Raises ValueError, naming the field, when a part does not fit."""
    facts = saved.facts

    def chunk(name: str, fact: Any) -> WindowChunk:
        latents = _tensor(saved, f"{name}.latents", (CHUNK_FRAMES, TOKENS, CHANNELS), torch.float32)
        kv = _tensor(saved, f"{name}.kv", spec.shape, dtype).to(device)
        poses = tuple(Pose(*row) for row in _field(fact, "poses"))
        if len(poses) != CHUNK_FRAMES:
            raise ValueError(f"{name}.poses: {len(poses)} instead of {CHUNK_FRAMES}")
        return WindowChunk(int(_field(fact, "chunk_index")), poses, latents, kv, bool(_field(fact, "is_kept")))

    walls = _field(saved.tensors, "walls")
    if walls.dtype != torch.int32 or walls.ndim != 2 or walls.shape[1] != 2:
        raise ValueError(f"walls: {tuple(walls.shape)} {walls.dtype} instead of (n, 2) int32")
    window = tuple(chunk(f"window.{index}", fact) for index, fact in enumerate(_field(facts, "window")))
    waiting = facts.get("waiting")  # states of before any chunk waited have none
    stands_apart = isinstance(waiting, dict)
    return RoomsState(
        seed=int(_field(facts, "seed")),
        chunk_index=int(_field(facts, "chunk_index")),
        pose=Pose(*_field(facts, "pose")),
        window=window,
        walls=walls.cpu().numpy().astype(np.int32, copy=True),
        drawn_with=tuple(int(number) for number in _field(facts, "drawn_with")),
        waiting=chunk("waiting", waiting) if stands_apart else _in_window(waiting, window),
    )


def _named(state: RoomsState) -> list[tuple[str, WindowChunk]]:
    """Return the chunks that are saved, each once, by their tensors' first name."""
    named = [(f"window.{index}", chunk) for index, chunk in enumerate(state.window)]
    return [*named, *(("waiting", chunk) for chunk in state.seen[: len(state.seen) - len(state.window)])]


def _facts_of_waiting(state: RoomsState) -> Any:
    """Return the facts of the chunk that waits, or the place where it still stands in the window, or None."""
    if state.waiting is None:
        return None
    places = [index for index, chunk in enumerate(state.window) if chunk is state.waiting]
    return places[0] if places else _facts_of(state.waiting)


def _in_window(place: Any, window: tuple[WindowChunk, ...]) -> WindowChunk | None:
    if place is None:
        return None
    if not isinstance(place, int) or not 0 <= place < len(window):
        raise ValueError(f"waiting: {place!r} is no place in a window of {len(window)}")
    return window[place]


def _facts_of(chunk: WindowChunk) -> dict[str, Any]:
    poses = [list(pose.as_tuple()) for pose in chunk.poses]
    return {"chunk_index": chunk.chunk_index, "poses": poses, "is_kept": chunk.is_kept}


def _field(facts: Any, name: str) -> Any:
    if name not in facts:
        raise ValueError(f"{name}: missing")
    return facts[name]


def _tensor(saved: SavedState, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    tensor: torch.Tensor = _field(saved.tensors, name)
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ValueError(f"{name}: {tuple(tensor.shape)} {tensor.dtype} instead of {shape} {dtype}")
    return tensor
