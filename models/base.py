"""The contract of a world model: what it returns, what it is given, what it must never do.

Shape legend, used in every file below `models/` and in the pager's codec:
T frames of a chunk, H and W pixels, L layers, N tokens that one block keeps per layer,
D token width (heads times head size), B blocks of a catalog.

A model is driven by one thread, the engine, except `wanted`, which is pure numpy and may run on any thread at the
same time. A returned state is never written to: no tensor reachable from it is changed by a later step (promise 9).
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch

from shared.controls import Controls
from shared.pose import Motion, Pose

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # [H, W, 3] RGB
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class SidePlane:
    """A plane that the codec stores verbatim beside K and V, for example depth."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class KVSpec:
    """The layout of one block: K,V planes `[L, 2, N, D]` in bfloat16, which the codec encodes, and side planes."""

    layers: int
    tokens: int
    width: int
    head_width: int
    side: tuple[SidePlane, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.layers, 2, self.tokens, self.width)  # [L, 2, N, D]

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V in bfloat16."""
        return math.prod(self.shape) * 2

    @property
    def side_bytes(self) -> int:
        return sum(plane.num_bytes for plane in self.side)


@dataclass(frozen=True, slots=True)
class FreshBlock:
    """The KV that a step left behind, before it is encoded. Keys are stored before rotation."""

    kv: torch.Tensor  # [L, 2, N, D] bfloat16
    side: Mapping[str, torch.Tensor]
    footprint: Array  # what retrieval looks at; kept in RAM
    poses: tuple[Pose, ...]  # one per frame that is kept


@dataclass(frozen=True, slots=True)
class RecalledBlock:
    """One block of a recall, decoded. `kv` is a view of the recall buffer: valid until the step returns."""

    block_id: int
    chunk_index: int
    kv: torch.Tensor  # [L, 2, N, D] in the model's own dtype
    side: Mapping[str, torch.Tensor]
    footprint: Array
    poses: tuple[Pose, ...]


Recall = Sequence[RecalledBlock]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The blocks of a head's own ancestors, oldest first, as read-only arrays.

    Blocks whose chunk is `window_start` or later are still in the attention window: they cover a view, but they may
    not be recalled.
    """

    ids: Array  # [B] int64, ascending
    chunks: Array  # [B] int64, ascending
    poses: Array  # [B, T, 5] float64: x, y, z, yaw, pitch of each kept frame
    footprints: Array  # [B, ...] as the model returned them
    window_start: int
    alive: Array | None = None  # [B] bool: False once a block is forgotten or lost; None: all are alive

    @property
    def recallable(self) -> Array:
        """[B] bool: which blocks may be recalled now."""
        outside = self.chunks < self.window_start
        return outside if self.alive is None else outside & self.alive

    def moved_on(self, num_chunks: int) -> "Catalog":
        """Return the same blocks as they will be so many chunks later: those that have left the window by then too."""
        return replace(self, window_start=self.window_start + num_chunks)


@dataclass(frozen=True, slots=True)
class DrawnFrame:
    """One frame of a chunk, and the pose from which it was drawn."""

    pixels: Pixels
    pose: Pose


class ModelState(Protocol):
    """Everything that the next chunk needs and that cannot be recomputed. Immutable."""

    @property
    def chunk_index(self) -> int:
        """Index of the chunk that a step from this state would draw."""
        ...

    @property
    def window_start(self) -> int:
        """Index of the first chunk whose frames are in the attention window; `chunk_index` when it is empty."""
        ...

    @property
    def pose(self) -> Pose:
        """Where the last drawn frame stood."""
        ...

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors that only this state and its neighbours in the window hold."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What a step left: the next state, and at most one block (none: the view is kept or will be, or nobody moved)."""

    state: ModelState
    block: FreshBlock | None
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    is_held: bool = False  # nothing was drawn: its frames are the last one again


@dataclass(frozen=True, slots=True)
class SeededChunk:
    """One chunk that a world begins with: given, not invented."""

    frames: tuple[DrawnFrame, ...]
    block: FreshBlock | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """A new world: its seeded chunks, numbered from 0, and the state from which the first invented chunk is drawn."""

    chunks: tuple[SeededChunk, ...]
    state: ModelState


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state at rest: JSON values, and tensors by name."""

    facts: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]


class WorldModel(Protocol):
    """A model that draws a world chunk by chunk."""

    name: str
    kv_spec: KVSpec
    dtype: torch.dtype  # of decoded K and V
    device: torch.device
    fps: float
    frames_per_chunk: int
    frame_size: tuple[int, int]  # (W, H) pixels
    window_chunks: int  # a block is recallable once its chunk is this many chunks old
    max_recall: int  # k, blocks
    motion: Motion
    fingerprint: str  # of weights and KV layout, hexadecimal

    def begin(self, seed: int, image: Pixels | None = None) -> Beginning:
        """Start a world from a seed, and a first view where the model takes one."""
        ...

    def steer(self, state: ModelState, controls: Sequence[Controls]) -> tuple[Pose, ...]:
        """The poses of the coming chunk's frames under these controls, one each. Cheap; changes nothing."""
        ...

    def wanted(self, pose: Pose, catalog: Catalog) -> tuple[int, ...]:
        """Ids of at most `max_recall` recallable blocks for a chunk seen from `pose`, best first."""
        ...

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        """Draw one chunk: yield each frame as it is decoded, return the Step last. Abandoned, it commits nothing."""
        ...

    def dump(self, state: ModelState) -> SavedState:
        """The state as plain facts and tensors, for saving it. `load` is its inverse, bit for bit."""
        ...

    def load(self, saved: SavedState) -> ModelState:
        """The state that was dumped. Raises ValueError, naming the field, when facts and tensors do not fit."""
        ...


def has_random_weights(model: WorldModel) -> bool:
    """Whether what the model draws is noise: it has no trained weights, and serves measurements only."""
    return bool(getattr(model, "is_random", False))
