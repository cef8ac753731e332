"""Training batches: frames to draw and the remembered frames to draw them from. A batch is a pure function of
(seed, step). Owns what training sees; computes no loss. Runs on the training process's data thread.

B samples, M remembered frames, G chunks a sample, C frames a chunk. A sample's first chunk is two neighbouring frames,
its second has a wide baseline; remembered frames come as blocks do, in pairs of neighbours.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.compiled import HAS_NUMBA
from models.rooms.patches import PatchBasis
from models.rooms.renderer import render
from models.rooms.scene import Scene, make_scene
from models.rooms.sizes import CHUNK_FRAMES, COLUMNS, FIRST_HELD_OUT_SEED, TOKENS
from models.rooms.walk import random_walk

if HAS_NUMBA:
    from models.rooms.renderer import wall_depths
else:
    from models.rooms.rays_torch import wall_depths

CHUNKS = 2  # G
_WALK_FRAMES = 360
_MEMORY_SIZES = (0, 1, 2, 4, 6, 8, 12)  # M; 1 is the start from a single view
_MEMORY_SHARES = (0.05, 0.05, 0.12, 0.33, 0.25, 0.12, 0.08)
_RECENT_SHARE = 0.6
_NEAR_WALL_M = 0.75
_NEAR_WALL_SHARE = 0.7  # frames with more wall than this so near are rejected
_APART_FRAMES = 9  # remembered pairs are at least this far from the chunk in time
_RIGHT = (np.arange(COLUMNS) + 0.5) * 2.0 / COLUMNS - 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's frames, as latents and planar poses."""

    memory: torch.Tensor  # [B, M, N, CHANNELS]
    memory_poses: torch.Tensor  # [B, M, 3]
    targets: torch.Tensor  # [B, G, C, N, CHANNELS]
    target_poses: torch.Tensor  # [B, G, C, 3]
    noise_seed: int


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """What samples remember: `recent` of them the frames just before the first chunk.

    Of the others `afar` remember only frames that saw a chunk from far away, as when a player comes up to what was seen
    through a door, and `aside` only frames from nearby that show hardly any of what is to be drawn, as when one turns
    round in a room. The rest remember what shows it best, and what is near. A single frame is always the one before.
    """

    recent: float
    afar: float = 0.0
    aside: float = 0.0


@dataclass(frozen=True, slots=True)
class Views:
    """What a step looks at, before anything is rendered."""

    worlds: NDArray[np.int64]  # [B]
    poses: NDArray[np.float64]  # [B, M + G*C, 3]
    noise_seed: int


def training_batch(basis: PatchBasis, seed: int, step: int, samples: int) -> Batch:
    """Return the batch of a training step; its worlds are never held-out ones."""
    return _rendered(basis, training_views(seed, step, samples))


def training_views(seed: int, step: int, samples: int) -> Views:
    """Return the views of a training step; its worlds are never held-out ones."""
    rng = np.random.default_rng((seed, step))
    memory_size = int(rng.choice(_MEMORY_SIZES, p=_MEMORY_SHARES))
    worlds = rng.integers(FIRST_HELD_OUT_SEED, size=samples)
    assert worlds.max() < FIRST_HELD_OUT_SEED
    return _views(worlds, memory_size, rng, MemoryShares(_RECENT_SHARE))


def make_batch(
    basis: PatchBasis,
    worlds: NDArray[np.int64],
    memory_size: int,
    rng: np.random.Generator,
    shares: MemoryShares,
) -> Batch:
    """Return one sample of each world with `memory_size` remembered frames."""
    return _rendered(basis, _views(worlds, memory_size, rng, shares))


def batch_of(views: Views, frames: torch.Tensor, places: torch.Tensor) -> Batch:
    """Return the batch of views whose frames [B, M + G*C, N, CHANNELS] are drawn; places are their poses, float32."""
    shape = (len(views.worlds), CHUNKS, CHUNK_FRAMES)
    memory_size = views.poses.shape[1] - CHUNKS * CHUNK_FRAMES
    return Batch(
        memory=frames[:, :memory_size],
        memory_poses=places[:, :memory_size],
        targets=frames[:, memory_size:].reshape(*shape, TOKENS, -1),
        target_poses=places[:, memory_size:].reshape(*shape, 3),
        noise_seed=views.noise_seed,
    )


def _views(worlds: NDArray[np.int64], memory_size: int, rng: np.random.Generator, shares: MemoryShares) -> Views:
    poses = [_choose_poses(make_scene(int(world)), memory_size, rng, shares) for world in worlds]
    return Views(worlds, np.stack(poses), int(rng.integers(2**62)))


def _rendered(basis: PatchBasis, views: Views) -> Batch:
    pairs = zip(views.worlds, views.poses, strict=True)
    latents = [basis.encode(*render(make_scene(int(world)), poses)) for world, poses in pairs]
    return batch_of(views, torch.stack(latents), torch.from_numpy(views.poses).float())


class Prefetch:
    """Batches of consecutive steps, made a few steps ahead on one background thread."""

    def __init__(self, make: Callable[[int], Batch], first_step: int, ahead: int = 3) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="dataset")
        self._make = make
        self._pending: dict[int, Future[Batch]] = {}
        self._ahead = ahead
        self._request(first_step)

    def take(self, step: int) -> Batch:
        """Return the batch of a step; waits until it is made."""
        self._request(step)
        return self._pending.pop(step).result()

    def close(self) -> None:
        """Stop the thread after the batch it is making."""
        self._pool.shutdown(cancel_futures=True)

    def _request(self, step: int) -> None:
        for index in range(step, step + self._ahead):
            if index not in self._pending:
                self._pending[index] = self._pool.submit(self._make, index)


def _choose_poses(
    scene: Scene, memory_size: int, rng: np.random.Generator, shares: MemoryShares
) -> NDArray[np.float64]:
    """Return poses [M + G*C, 3] of one walk: remembered frames, then the chunks' frames."""
    while True:
        walk = random_walk(scene, rng, _WALK_FRAMES)
        depths = wall_depths(scene, walk, COLUMNS)
        open_view = (depths < _NEAR_WALL_M).mean(1) <= _NEAR_WALL_SHARE
        starts = np.flatnonzero(open_view[4:-1] & open_view[5:]) + 4
        if len(starts) > 100:
            break
    first = int(rng.choice(starts))
    near = _nearness(walk, first, starts)
    other = int(rng.choice(starts, p=near / near.sum()))
    wide = _wide_baseline(walk, other, np.flatnonzero(open_view))
    partner = int(rng.choice(np.flatnonzero(open_view), p=wide / wide.sum()))
    targets = [first, first + 1, other, partner]
    memory = _choose_memory(walk, depths, starts, targets, memory_size, rng, shares)
    return walk[memory + targets]


def _choose_memory(
    walk: NDArray[np.float64],
    depths: NDArray[np.float32],
    starts: NDArray[np.int64],
    targets: list[int],
    size: int,
    rng: np.random.Generator,
    shares: MemoryShares,
) -> list[int]:
    """Return the frames to remember: the chunks just before, views from afar or aside, pairs seen elsewhere."""
    first = targets[0]
    if size == 1:
        return [first - 1]
    recent = min(size, 2 if rng.random() < 0.2 else 4) if rng.random() < shares.recent else 0
    memory = list(range(first - recent, first))
    kind = "any"
    if not recent and shares.afar + shares.aside > 0.0:
        kind = str(rng.choice(["afar", "aside", "any"], p=[shares.afar, shares.aside, 1 - shares.afar - shares.aside]))
    apart = starts[np.abs(starts - first) > _APART_FRAMES]
    apart = rng.choice(apart, max(size, len(apart) // 2), replace=False)
    aims = np.array([first, first, targets[2], targets[3]])
    covered = _coverage(walk, depths, memory, first) if memory else np.zeros(COLUMNS)
    while len(memory) < size:
        aim = int(rng.choice(aims))
        if kind == "aside":
            aside = _asideness(walk, depths, apart, targets)
            pick = int(rng.choice(apart, p=aside / aside.sum()))
        elif kind == "afar":
            far = _afarness(_coverage_each(walk, depths, apart, aim))
            pick = int(rng.choice(apart, p=far / far.sum()))
        elif rng.random() < 0.5:
            gain = np.maximum(_coverage_each(walk, depths, apart, aim) - covered * (aim == first), 0.0).sum(1)
            pick = int(apart[gain.argmax()])
        else:
            near = _nearness(walk, aim, apart)
            pick = int(rng.choice(apart, p=near / near.sum()))
        memory += [pick, pick + 1]
        covered = np.maximum(covered, _coverage(walk, depths, [pick], first))
        apart = apart[apart != pick]
    return memory


def _nearness(walk: NDArray[np.float64], frame: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return weights [len(others)] that prefer frames near `frame` that look the same way."""
    gap = np.hypot(*(walk[others, :2] - walk[frame, :2]).T)
    alike = np.cos(walk[others, 2] - walk[frame, 2])
    return np.exp(-gap / 1.5) * (0.05 + np.clip(alike, 0.0, 1.0) ** 2) + 1e-4


def _afarness(covers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights [A] that prefer frames which saw much of a view at a third of its detail; covers [A, COLUMNS]."""
    num_seen = (covers > 0.0).sum(1)
    detail = covers.sum(1) / np.maximum(num_seen, 1)
    return (num_seen * np.exp(-(((detail - 0.35) / 0.2) ** 2))) ** 2 + 1e-6


def _asideness(
    walk: NDArray[np.float64], depths: NDArray[np.float32], frames: NDArray[np.int64], targets: list[int]
) -> NDArray[np.float64]:
    """Return weights [len(frames)] that prefer frames near the first target that show hardly any of the targets."""
    shown = np.max([_coverage_each(walk, depths, frames, aim).mean(1) for aim in targets[1:]], axis=0)
    gap = np.hypot(*(walk[frames, :2] - walk[targets[0], :2]).T)
    return np.exp(-gap / 1.5 - 15.0 * shown) + 1e-9


def _wide_baseline(walk: NDArray[np.float64], frame: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return weights that prefer frames about 45 degrees and up to a metre or two away."""
    gap = np.hypot(*(walk[others, :2] - walk[frame, :2]).T)
    alike = np.cos(walk[others, 2] - walk[frame, 2])
    return np.exp(-gap / 1.2) * np.exp(-(((alike - 0.7) / 0.25) ** 2)) * (others != frame) + 1e-9


def _coverage(
    walk: NDArray[np.float64], depths: NDArray[np.float32], frames: list[int], aim: int
) -> NDArray[np.float64]:
    """Return how well each of the view's columns at `aim` was seen by any of the frames [COLUMNS]."""
    return _coverage_each(walk, depths, np.array(frames), aim).max(0)


def _coverage_each(
    walk: NDArray[np.float64], depths: NDArray[np.float32], frames: NDArray[np.int64], aim: int
) -> NDArray[np.float64]:
    """Return how well each column of the view at `aim` was seen by each frame [len(frames), COLUMNS], 0 to 1."""
    x, z, yaw = (walk[frames, i, None] for i in range(3))
    depth = depths[frames]
    east = x + depth * (np.sin(yaw) + _RIGHT * np.cos(yaw)) - walk[aim, 0]
    north = z + depth * (np.cos(yaw) - _RIGHT * np.sin(yaw)) - walk[aim, 1]
    sin, cos = np.sin(walk[aim, 2]), np.cos(walk[aim, 2])
    right, ahead = east * cos - north * sin, east * sin + north * cos
    column = np.floor((right / np.maximum(ahead, 0.05) + 1.0) * COLUMNS / 2).astype(np.int64)
    seen = (ahead > 0.1) & (column >= 0) & (column < COLUMNS)
    column = np.clip(column, 0, COLUMNS - 1)
    seen &= ahead < depths[aim][column] * 1.15 + 0.2  # not behind a wall
    weight = np.minimum(1.0, np.hypot(right, ahead) / (depth * np.hypot(1.0, _RIGHT))) * seen
    covered = np.zeros((len(frames), COLUMNS))
    np.maximum.at(covered, (np.arange(len(frames))[:, None], column), weight)
    return covered
