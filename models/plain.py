"""The plain model: no network, no noise. Its pixels say which state made them, so that a test can read a frame.

A real, small WorldModel: it walks, keeps a window, leaves blocks, wants the nearest ones and draws differently when
other bytes are recalled. Tests and `--model plain` use it where a network would only cost time. Engine thread, except
`wanted`.
"""

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from models.base import (
    Array,
    Beginning,
    Catalog,
    DrawnFrame,
    FreshBlock,
    KVSpec,
    ModelState,
    Pixels,
    Recall,
    SavedState,
    SeededChunk,
    SidePlane,
    Step,
)
from shared.controls import Controls
from shared.pose import Motion, Pose, advance

CELL_PX = 4  # one bit is a 4x4 cell, so that JPEG does not blur it
FIELDS = (("seed", 32), ("chunk", 32), ("index", 8), ("keys", 8), ("recalled", 8), ("digest", 64))
START = Pose(y_m=0.5)


@dataclass(frozen=True, slots=True)
class PlainState:
    """What the next chunk needs: seed, position, and the K,V of the chunks in the window."""

    seed: int
    chunk_index: int
    pose: Pose
    window: tuple[torch.Tensor, ...] = ()  # each [L, 2, N, D]
    window_start: int = 1

    @property
    def num_bytes(self) -> int:
        return sum(kv.nbytes for kv in self.window)


def label(frame_size: tuple[int, int], values: dict[str, int]) -> Pixels:
    """The picture `[H, W, 3]` that carries `values` as black and white cells."""
    width, height = frame_size
    bits = [(values[name] >> bit) & 1 for name, num_bits in FIELDS for bit in range(num_bits)]
    cells = np.zeros((height // CELL_PX) * (width // CELL_PX), np.uint8)
    cells[: len(bits)] = bits
    picture = cells.reshape(height // CELL_PX, -1).repeat(CELL_PX, 0).repeat(CELL_PX, 1) * np.uint8(255)
    return np.repeat(picture[..., None], 3, axis=2)


def read_label(pixels: Pixels) -> dict[str, int]:
    """The values that `label` put into a picture, also after JPEG."""
    cells = pixels[CELL_PX // 2 :: CELL_PX, CELL_PX // 2 :: CELL_PX, 1].reshape(-1) > 127
    values: dict[str, int] = {}
    at = 0
    for name, num_bits in FIELDS:
        values[name] = sum(int(cells[at + bit]) << bit for bit in range(num_bits))
        at += num_bits
    return values


def _digest(recall: Recall) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for block in recall:
        digest.update(block.kv.contiguous().view(torch.uint8).numpy().tobytes())
        digest.update(block.side["depth"].numpy().tobytes())
    return int.from_bytes(digest.digest(), "little")


class PlainModel:
    """A WorldModel whose frames are labels. Its block is noise drawn from (seed, chunk)."""

    name = "plain"
    dtype = torch.bfloat16
    device = torch.device("cpu")
    frame_size: tuple[int, int] = (64, 48)
    frames_per_chunk = 2
    window_chunks = 2
    fingerprint = "706c61696e31"

    def __init__(
        self, fps: float = 20.0, max_recall: int = 2, layers: int = 2, tokens: int = 32, width: int = 128
    ) -> None:
        self.fps = fps
        self.max_recall = max_recall
        side = SidePlane("depth", (tokens,), torch.float32)
        self.kv_spec = KVSpec(layers=layers, tokens=tokens, width=width, head_width=64, side=(side,))
        self.motion = Motion(walk_m_s=1.2, turn_rad_s=2.0)

    def begin(self, seed: int, image: Pixels | None = None) -> Beginning:
        state = PlainState(seed, 1, START)
        values = {"seed": seed & 0xFFFFFFFF, "chunk": 0, "index": 0, "keys": 0, "recalled": 0, "digest": 0}
        frame = DrawnFrame(label(self.frame_size, values), START)
        return Beginning((SeededChunk((frame,), self._block(seed, 0, (START, START))),), state)

    def steer(self, state: ModelState, controls: Sequence[Controls]) -> tuple[Pose, ...]:
        poses = [state.pose]
        for frame_controls in controls:
            poses.append(advance(poses[-1], frame_controls, self.motion, 1.0 / self.fps))
        return tuple(poses[1:])

    def wanted(self, pose: Pose, catalog: Catalog) -> tuple[int, ...]:
        allowed = np.flatnonzero(catalog.recallable)
        if not len(allowed):
            return ()
        seen = catalog.poses[allowed, 0]  # [B, 5]
        away = np.hypot(seen[:, 0] - pose.x_m, seen[:, 2] - pose.z_m)
        turn = np.abs(np.angle(np.exp(1j * (seen[:, 3] - pose.yaw_rad))))
        best = np.argsort(away + turn, kind="stable")[: self.max_recall]
        return tuple(int(catalog.ids[allowed[i]]) for i in best)

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        plain = cast(PlainState, state)
        poses = self.steer(state, controls)
        digest = _digest(recall)
        for index, (pose, held) in enumerate(zip(poses, controls, strict=True)):
            values = {"seed": plain.seed & 0xFFFFFFFF, "chunk": plain.chunk_index, "index": index}
            values |= {"keys": int(held.keys), "recalled": len(recall), "digest": digest}
            yield DrawnFrame(label(self.frame_size, values), pose)
        idle = all(held.is_idle for held in controls)
        block = None if idle else self._block(plain.seed, plain.chunk_index, poses)
        after = replace(plain, chunk_index=plain.chunk_index + 1, pose=poses[-1])
        if block is not None:  # the window of a player who stands still stays as it is
            window = (*plain.window, block.kv)[-self.window_chunks :]
            after = replace(after, window=window, window_start=max(1, after.chunk_index - self.window_chunks))
        return Step(after, block)

    def _block(self, seed: int, chunk_index: int, poses: Sequence[Pose]) -> FreshBlock:
        noise = torch.Generator().manual_seed((seed * 1_000_003 + chunk_index) % 2**63)
        spec = self.kv_spec
        kv = torch.randn(spec.shape, generator=noise).to(torch.bfloat16)
        depth = torch.rand(spec.tokens, generator=noise)
        footprint: Array = np.array([[pose.x_m, pose.y_m, pose.z_m] for pose in poses], np.float32)
        return FreshBlock(kv, {"depth": depth}, footprint, tuple(poses))

    def dump(self, state: ModelState) -> SavedState:
        plain = cast(PlainState, state)
        facts: dict[str, Any] = {
            "seed": plain.seed,
            "chunk_index": plain.chunk_index,
            "pose": list(plain.pose.as_tuple()),
        }
        facts["window_start"] = plain.window_start
        return SavedState(facts, {f"window.{index}": kv for index, kv in enumerate(plain.window)})

    def load(self, saved: SavedState) -> ModelState:
        facts: dict[str, Any] = dict(saved.facts)
        window = tuple(saved.tensors[f"window.{index}"] for index in range(len(saved.tensors)))
        if any(tuple(kv.shape) != self.kv_spec.shape for kv in window):
            raise ValueError(f"window: a tensor is not {self.kv_spec.shape}")
        start = int(facts["window_start"])
        return PlainState(int(facts["seed"]), int(facts["chunk_index"]), Pose(*facts["pose"]), window, start)
