"""What the refiner learns from: frames that the networks draw from memory, beside what the renderer shows there.

A group of pairs is a pure function of (seed, number) and of the networks; a batch of (seed, step) and of the networks.
Groups are made ahead on one thread and kept in a folder, so that a resumed run need not draw them again.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.checkpoint import load_tensors, save_tensors
from models.rooms.dataset import Batch, MemoryShares, make_batch
from models.rooms.geometry import distances, world_points
from models.rooms.grid import fine_facts
from models.rooms.layout_sampling import Inventor, drawn_again, recoded
from models.rooms.network import RoomsNetwork
from models.rooms.patches import PatchBasis, log_depth
from models.rooms.remembered import Remembered
from models.rooms.renderer import render
from models.rooms.sampling import TIMES_COVERED, TIMES_NEW, draw, encoded
from models.rooms.scene import make_scene
from models.rooms.sizes import CHUNK_FRAMES, FIRST_HELD_OUT_SEED

FRAMES = 16  # of a batch
STEPS_PER_GROUP = 24  # the pool grows by one group in so many steps
_MOST_GROUPS = 320
WORLDS = 8  # of a group; each gives two chunks
_MEMORY_SIZES = (2, 4, 6, 8)
_RECENT_SHARE = 0.5
_TIMES = ((1.0,), TIMES_COVERED, TIMES_NEW)
_TIMES_SHARES = (0.1, 0.5, 0.4)
_FINISHED_SHARE = 0.5  # of samples that the layout network draws are of the true codes; the others of what memory shows
_GIVEN_SHARE = 0.1  # of frames are not drawn, only encoded, as seed views are
_AHEAD = 3

Paint = Callable[[int, list[Remembered]], torch.Tensor]  # number of a chunk, memory -> latents [C, N, CHANNELS]


@dataclass(frozen=True, slots=True)
class Painters:
    """What draws the frames; only read. Without an inventor the drawing network draws all of them."""

    network: RoomsNetwork
    basis: PatchBasis
    inventor: Inventor | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Frames of a few worlds: as drawn, as encoded, and as rendered; and where they were seen from."""

    drawn: torch.Tensor  # [F, N, CHANNELS] float16
    given: torch.Tensor  # [F, N, CHANNELS] float16
    rendered: torch.Tensor  # [F, H, W, 3] uint8
    poses: torch.Tensor  # [F, 3] float32


@dataclass(frozen=True, slots=True)
class Pairs:
    """A batch: decoded and rendered pictures [F, H, W, 3] in -1..1, and the fine facts [F, NUM_FINE, V, U] of both."""

    pictures: torch.Tensor
    fine: torch.Tensor
    rendered: torch.Tensor


def training_group(painters: Painters, seed: int, number: int, num_worlds: int = WORLDS) -> Group:
    """Return the group of a number; its worlds are never held-out ones."""
    rng = np.random.default_rng((seed, 4, number))
    worlds = rng.integers(FIRST_HELD_OUT_SEED, size=num_worlds)
    assert worlds.max() < FIRST_HELD_OUT_SEED
    return make_group(painters, worlds, rng)


@torch.no_grad()
def make_group(painters: Painters, worlds: NDArray[np.int64], rng: np.random.Generator) -> Group:
    """Draw two chunks in each world; the second remembers the first as it was drawn."""
    batch = make_batch(painters.basis, worlds, int(rng.choice(_MEMORY_SIZES)), rng, MemoryShares(_RECENT_SHARE))
    drawn: list[torch.Tensor] = []
    rendered: list[torch.Tensor] = []
    for index, world in enumerate(worlds):
        drawn.append(_draw_sample(_painter(painters, batch, index, rng), painters.network, batch, index))
        poses = batch.target_poses[index].flatten(0, 1)
        rendered.append(torch.from_numpy(render(make_scene(int(world)), poses.double().numpy())[0]))
    poses = batch.target_poses.flatten(0, 2)
    return Group(torch.cat(drawn).half(), batch.targets.flatten(0, 2).half(), torch.cat(rendered), poses)


class Pool:
    """Groups of pairs, made in order on a background thread; batches draw from those that their step may know."""

    def __init__(
        self,
        painters: Painters,
        seed: int,
        folder: Path,
        num_worlds: int = WORLDS,
        num_frames: int = FRAMES,
    ) -> None:
        self._make = lambda number: training_group(painters, seed, number, num_worlds)
        self._basis, self._seed, self._folder, self._num_frames = painters.basis, seed, folder, num_frames
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="pairs")
        self._groups: list[Future[Group]] = []

    def batch(self, step: int) -> Pairs:
        """Return the pairs of a step; waits until they are made."""
        known = min(_MOST_GROUPS, 1 + step // STEPS_PER_GROUP)
        while len(self._groups) < min(_MOST_GROUPS, known + _AHEAD):
            self._groups.append(self._threads.submit(self._group, len(self._groups)))
        rng = np.random.default_rng((self._seed, 5, step))
        latents: list[torch.Tensor] = []
        rendered: list[torch.Tensor] = []
        poses: list[torch.Tensor] = []
        for number in rng.integers(known, size=self._num_frames):
            group = self._groups[number].result()
            frame = int(rng.integers(len(group.drawn)))
            source = group.given if rng.random() < _GIVEN_SHARE else group.drawn
            latents.append(source[frame])
            rendered.append(group.rendered[frame])
            poses.append(group.poses[frame])
        pictures = self._basis.decode(torch.stack(latents).float())
        return Pairs(pictures, fine_facts(torch.stack(poses)), torch.stack(rendered).float() / 127.5 - 1.0)

    def close(self) -> None:
        """Stop the thread after the group it is making."""
        self._threads.shutdown(cancel_futures=True)

    def _group(self, number: int) -> Group:
        path = self._folder / f"{number:05d}.safetensors"
        if not path.exists():
            made = self._make(number)
            save_tensors(path, {field.name: getattr(made, field.name) for field in fields(made)})
        return Group(**load_tensors(path)[0])


def _painter(painters: Painters, batch: Batch, index: int, rng: np.random.Generator) -> Paint:
    """Return what draws the chunks of one sample: the layout network where there is one."""
    times = _TIMES[int(rng.choice(len(_TIMES), p=_TIMES_SHARES))]
    is_finished = rng.random() < _FINISHED_SHARE
    inventor, poses = painters.inventor, batch.target_poses[index]

    def paint(number: int, memory: list[Remembered]) -> torch.Tensor:
        if inventor is None:
            return draw(painters.network, poses[number], memory, batch.noise_seed, 2 * index + number, times)
        if is_finished:
            return recoded(inventor, poses[number], memory, batch.targets[index, number])
        return drawn_again(inventor, poses[number], memory)

    return paint


def _draw_sample(paint: Paint, network: RoomsNetwork, batch: Batch, index: int) -> torch.Tensor:
    """Return latents [G*C, N, CHANNELS] of a sample's chunks, drawn one after the other as in play."""
    memory = [
        _remember(network, frames, poses)
        for frames, poses in zip(
            batch.memory[index].split(CHUNK_FRAMES), batch.memory_poses[index].split(CHUNK_FRAMES), strict=True
        )
    ]
    drawn: list[torch.Tensor] = []
    for number, poses in enumerate(batch.target_poses[index]):
        drawn.append(paint(number, memory))
        memory.append(_remember(network, drawn[-1], poses))
    return torch.cat(drawn)


def _remember(network: RoomsNetwork, latents: torch.Tensor, poses: torch.Tensor) -> Remembered:
    depth = log_depth(latents)
    return Remembered(encoded(network, latents), world_points(poses, depth).flatten(0, 1), distances(depth).flatten())
