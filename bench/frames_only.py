"""Rooms with nothing carried over but the last frames and the noise's seed and counter: the third kind of model.

Its keys and values are computed anew from the frames before every chunk, and it recalls nothing. It is to `bench state`
what an observation-and-RNG world model is to the paper. Engine thread.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from models.base import (
    Beginning,
    Catalog,
    DrawnFrame,
    ModelState,
    Pixels,
    Recall,
    SavedState,
    SeededChunk,
    Step,
)
from models.rooms.model import RoomsModel
from models.rooms.remembered import WindowChunk
from models.rooms.sampling import encoded
from models.rooms.state import RoomsState
from models.rooms.steering import NO_CELLS, with_drawn
from shared.controls import Controls
from shared.pose import Pose


@dataclass(frozen=True, slots=True)
class FramesState:
    """The last chunk's frames and poses, and where the noise stands."""

    seed: int
    chunk_index: int
    poses: tuple[Pose, ...]
    latents: torch.Tensor  # [C, N, CHANNELS] float32: the frames as the model sees them

    @property
    def window_start(self) -> int:
        return self.chunk_index - 1

    @property
    def pose(self) -> Pose:
        return self.poses[-1]

    @property
    def num_bytes(self) -> int:
        return self.latents.nbytes


class FramesOnlyModel:
    """A WorldModel whose state is an observation and a random number generator's."""

    name = "rooms, last frames only"

    def __init__(self, rooms: RoomsModel) -> None:
        self._rooms = rooms
        self.kv_spec, self.dtype, self.device = rooms.kv_spec, rooms.dtype, rooms.device
        self.fps, self.frames_per_chunk, self.frame_size = rooms.fps, rooms.frames_per_chunk, rooms.frame_size
        self.window_chunks, self.max_recall, self.motion = 1, rooms.max_recall, rooms.motion
        self.fingerprint = rooms.fingerprint

    def begin(self, seed: int, image: Pixels | None = None) -> Beginning:
        beginning = self._rooms.begin(seed, image)
        chunks = tuple(SeededChunk(chunk.frames, None) for chunk in beginning.chunks)
        return Beginning(chunks, _observed(cast(RoomsState, beginning.state)))

    def steer(self, state: ModelState, controls: Sequence[Controls]) -> tuple[Pose, ...]:
        return self._rooms.steer(self._looked_at(cast(FramesState, state)), controls)

    def wanted(self, pose: Pose, catalog: Catalog) -> tuple[int, ...]:
        return ()

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        step = yield from self._rooms.step(self._looked_at(cast(FramesState, state)), controls, ())
        return Step(_observed(cast(RoomsState, step.state)), None)

    def _looked_at(self, state: FramesState) -> RoomsState:
        """What the model makes of the frames: keys, values and walls."""
        kv = encoded(self._rooms.network, state.latents.to(self.device))
        chunk = WindowChunk(state.chunk_index - 1, state.poses, state.latents, kv, is_kept=False)
        walls = with_drawn(NO_CELLS, state.poses, chunk.points.numpy())
        return RoomsState(state.seed, state.chunk_index, state.pose, (chunk,), walls)

    def dump(self, state: ModelState) -> SavedState:
        frames = cast(FramesState, state)
        facts: dict[str, Any] = {"seed": frames.seed, "chunk_index": frames.chunk_index}
        facts["poses"] = [list(pose.as_tuple()) for pose in frames.poses]
        return SavedState(facts, {"frames": frames.latents})

    def load(self, saved: SavedState) -> ModelState:
        facts: dict[str, Any] = dict(saved.facts)
        poses = tuple(Pose(*pose) for pose in facts["poses"])
        return FramesState(int(facts["seed"]), int(facts["chunk_index"]), poses, saved.tensors["frames"])


def _observed(state: RoomsState) -> FramesState:
    last = state.window[-1]
    return FramesState(state.seed, state.chunk_index, last.poses, last.latents)
