"""The embedded world as a WorldModel: one chunk from poses and memory to frames, read top to bottom in `step`.

Owns no pixels of the past: what a block leaves is K,V, depth and points. Engine thread, except `wanted`.
"""

import hashlib
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from models.base import (
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
from models.rooms import retrieval, steering
from models.rooms.checkpoint import WEIGHTS, load_refiner_weights, load_weights
from models.rooms.cover import Cover, cover_of, shown_share
from models.rooms.grid import fine_facts
from models.rooms.keeping import left_by
from models.rooms.key_views import key_poses
from models.rooms.layout_sampling import drawn_again, invent, load_inventor
from models.rooms.network import LAYERS, WIDTH, RoomsNetwork
from models.rooms.precision import preferred_dtype
from models.rooms.refiner import Refiner
from models.rooms.remembered import Remembered, WindowChunk, from_block, from_window, planar
from models.rooms.rotation import HEAD
from models.rooms.sampling import TIMES_COVERED, TIMES_NEW, draw, encoded
from models.rooms.seed_views import look_around
from models.rooms.sizes import (
    CHUNK_FRAMES,
    COLUMNS,
    HEIGHT_PX,
    MAX_RECALL,
    ROWS,
    STEP_M,
    TOKENS,
    TURN_RAD,
    WIDTH_PX,
    WINDOW_CHUNKS,
)
from models.rooms.state import RoomsState, dump, load
from shared.controls import Controls
from shared.pose import Motion, Pose

FPS = 12.0
_LAYOUT = "rooms-1"  # raised when K,V of the same weights change their meaning
_KEPT_SHARE = 0.9  # of a chunk's patches that blocks show; from here on it leaves none of its own
_KEY_SHARE = 0.75  # of a key view's patches that blocks show; from here on it is not drawn
_KNOWN_SHARE = 0.95  # of a chunk's patches that blocks show; from here on it is drawn from memory alone
_COVERED_DETAIL = 0.6  # of a patch's detail, to count as shown


class RoomsModel:
    """Weights and constants; every walk lives in its RoomsState."""

    name = "rooms"
    frame_size: tuple[int, int] = (WIDTH_PX, HEIGHT_PX)
    frames_per_chunk = CHUNK_FRAMES
    window_chunks = WINDOW_CHUNKS
    max_recall = MAX_RECALL
    fps = FPS
    motion = Motion(walk_m_s=STEP_M * FPS, turn_rad_s=TURN_RAD * FPS)
    kv_spec = KVSpec(
        layers=LAYERS,
        tokens=CHUNK_FRAMES * TOKENS,
        width=WIDTH,
        head_width=HEAD,
        side=(SidePlane("depth", (CHUNK_FRAMES, TOKENS), torch.float32),),
    )

    def __init__(
        self,
        weights: Path = WEIGHTS,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.device = device or torch.device("cpu")
        self.dtype = dtype or preferred_dtype(self.device)
        tensors, basis = load_weights(weights)
        self.basis = basis
        network = RoomsNetwork()
        network.load_state_dict(tensors)
        self.network = network.requires_grad_(False).to(self.device, self.dtype).eval()
        self.refiner = _loaded_refiner(load_refiner_weights(weights), self.device, self.dtype)
        self.inventor = load_inventor(weights, self.device, self.dtype)
        self.fingerprint = hashlib.blake2b(weights.read_bytes() + _LAYOUT.encode(), digest_size=16).hexdigest()

    def begin(self, seed: int, image: Pixels | None = None) -> Beginning:
        """Start in the middle of the seed's first room, which is looked around once and remembered."""
        if image is not None:
            raise ValueError("rooms begins from a seed; it takes no picture")
        poses, latents = look_around(seed, self.basis)
        state = RoomsState.start(seed, poses[0][0])
        chunks: list[SeededChunk] = []
        for chunk_poses, chunk_latents in zip(poses, latents, strict=True):
            step = self.given_at(state, chunk_poses, chunk_latents, ())
            state = cast(RoomsState, step.state)
            chunks.append(SeededChunk(tuple(self._frames(state.window[-1])), step.block))
        return Beginning(tuple(chunks), state)

    def steer(self, state: ModelState, controls: Sequence[Controls]) -> tuple[Pose, ...]:
        """Return the poses of the coming frames; walls that the model has drawn stop the camera."""
        rooms = cast(RoomsState, state)
        return steering.steered(rooms.pose, controls, self.motion, 1.0 / self.fps, rooms.walls)

    def wanted(self, pose: Pose, catalog: Catalog) -> tuple[int, ...]:
        """Return the blocks that cover the view from `pose` best. Pure; any thread."""
        return retrieval.wanted(pose, catalog)

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        """Draw one chunk. A player who stands still, with nothing new recalled, sees the last frame again."""
        rooms = cast(RoomsState, state)
        poses = self.steer(rooms, controls)
        in_window = {chunk.chunk_index for chunk in rooms.window}
        fresh = [block for block in recall if block.chunk_index not in in_window]
        drawn_with = tuple(block.block_id for block in fresh)
        if drawn_with == rooms.drawn_with and all(pose == rooms.pose for pose in poses):
            last = list(self._frames(rooms.window[-1]))[-1]
            for _ in poses:
                yield last
            return Step(replace(rooms, chunk_index=rooms.chunk_index + 1), None)
        return (yield from self.step_at(rooms, poses, fresh))

    def step_at(self, rooms: RoomsState, poses: tuple[Pose, ...], recall: Recall) -> Generator[DrawnFrame, None, Step]:
        """Draw one chunk at given poses, walls or not."""
        began_s = time.perf_counter()
        shown = rooms if recall else replace(rooms, waiting=None)  # without recall, the window alone is drawn from
        memory = [from_window(chunk) for chunk in shown.seen] + [from_block(b, self.dtype) for b in recall]
        cover = cover_of(poses, shown.originals, recall)
        key = self._key_view(shown, poses, memory, recall, cover)
        if key is not None:
            memory.append(from_window(key))
        is_known = shown_share(cover, _COVERED_DETAIL) >= _KNOWN_SHARE
        latents = self._drawn(rooms, planar(poses), memory, is_known=is_known).cpu()
        drawn_s = time.perf_counter()
        chunk = self._chunk(rooms, poses, latents)
        encoded_s = time.perf_counter()
        yield from self._frames(chunk)
        timings_ms = {"draw": (drawn_s - began_s) * 1e3, "encode": (encoded_s - drawn_s) * 1e3}
        return self._committed(rooms, chunk, recall, cover, timings_ms, key)

    def given_at(self, rooms: RoomsState, poses: tuple[Pose, ...], latents: torch.Tensor, recall: Recall) -> Step:
        """Commit one chunk of given frames [C, N, CHANNELS], as if they had been drawn with this recall."""
        cover = cover_of(poses, rooms.originals, recall)
        return self._committed(rooms, self._chunk(rooms, poses, latents), recall, cover, {})

    def dump(self, state: ModelState) -> SavedState:
        """Return the state as facts and tensors."""
        return dump(cast(RoomsState, state))

    def load(self, saved: SavedState) -> ModelState:
        """Return the state that was dumped."""
        return load(saved, self.kv_spec, self.dtype, self.device)

    def _drawn(
        self, rooms: RoomsState, cameras: torch.Tensor, memory: Sequence[Remembered], *, is_known: bool
    ) -> torch.Tensor:
        """Return latents [C, N, CHANNELS] of the coming chunk: drawn again or invented, where the weights can."""
        if self.inventor is not None:
            if is_known:
                return drawn_again(self.inventor, cameras, memory)
            return invent(self.inventor, cameras, memory, rooms.seed, rooms.chunk_index)
        times = TIMES_COVERED if is_known else TIMES_NEW
        return draw(self.network, cameras, memory, rooms.seed, rooms.chunk_index, times)

    def _key_view(
        self, rooms: RoomsState, poses: tuple[Pose, ...], memory: Sequence[Remembered], recall: Recall, cover: Cover
    ) -> WindowChunk | None:
        """Return a key view ahead of the camera, where the coming view needs one and the weights can invent."""
        if self.inventor is None:
            return None
        is_shown = cover[-1] > _COVERED_DETAIL
        ahead = key_poses(rooms.pose, poses, is_shown, _free_m(rooms.window))
        if not ahead or (cover_of(ahead, rooms.originals, recall) > _COVERED_DETAIL).mean() >= _KEY_SHARE:
            return None
        latents = invent(self.inventor, planar(ahead), memory, rooms.seed, rooms.chunk_index, is_key=True)
        kv = encoded(self.network, latents)
        return WindowChunk(rooms.chunk_index, ahead, latents.cpu(), kv, is_kept=True)

    def _chunk(self, rooms: RoomsState, poses: tuple[Pose, ...], latents: torch.Tensor) -> WindowChunk:
        return WindowChunk(
            rooms.chunk_index, poses, latents, encoded(self.network, latents.to(self.device)), is_kept=False
        )

    def _committed(
        self,
        rooms: RoomsState,
        chunk: WindowChunk,
        recall: Recall,
        cover: Cover,
        timings_ms: dict[str, float],
        key: WindowChunk | None = None,
    ) -> Step:
        left, waiting = _left(rooms, chunk, recall, cover, key)
        is_whole = left is not None and left.poses == chunk.poses
        newest = (left,) if is_whole else (left, chunk)
        oldest = rooms.chunk_index + 1 - WINDOW_CHUNKS
        in_window = (each for each in rooms.window if each.chunk_index >= oldest)
        after = replace(
            rooms,
            chunk_index=rooms.chunk_index + 1,
            pose=chunk.poses[-1],
            window=(*in_window, *(each for each in newest if each is not None)),
            walls=steering.with_drawn(rooms.walls, chunk.poses, chunk.points.numpy()),
            drawn_with=tuple(block.block_id for block in recall),
            waiting=waiting,
        )
        return Step(after, self._block(left) if left else None, timings_ms)

    def _frames(self, chunk: WindowChunk) -> Generator[DrawnFrame, None, None]:
        pictures = ((self._decoded(chunk.latents, chunk.poses) + 1.0) * 127.5).round().to(torch.uint8).numpy()
        for pose, picture in zip(chunk.poses, pictures, strict=True):
            yield DrawnFrame(picture, pose)

    @torch.no_grad()
    def _decoded(self, latents: torch.Tensor, poses: tuple[Pose, ...]) -> torch.Tensor:
        """Return what is shown of latents [C, N, CHANNELS]: RGB [C, H, W, 3] in -1..1, refined where weights allow."""
        pictures = self.basis.decode(latents)
        if self.refiner is None:
            return pictures
        return self.refiner(pictures.to(self.device), fine_facts(planar(poses)).to(self.device)).cpu().clamp(-1.0, 1.0)

    def _block(self, chunk: WindowChunk) -> FreshBlock:
        points = chunk.points.flatten(0, 1).numpy()
        return FreshBlock(chunk.kv.bfloat16(), {"depth": chunk.depth}, points, chunk.poses)


def _loaded_refiner(
    tensors: dict[str, torch.Tensor] | None, device: torch.device, dtype: torch.dtype
) -> Refiner | None:
    if tensors is None:
        return None
    refiner = Refiner()
    refiner.load_state_dict(tensors)
    return refiner.requires_grad_(False).to(device, dtype).eval()


def _left(
    rooms: RoomsState, chunk: WindowChunk, recall: Recall, cover: Cover, key: WindowChunk | None
) -> tuple[WindowChunk | None, WindowChunk | None]:
    """Return what a step leaves as a block, if anything, and the chunk that waits from now on.

    A chunk leaves none that stands still, that blocks show, or whose key view does. Without recall none waits: what
    waits is seen longer than the window.
    """
    has_moved = any(pose != rooms.pose for pose in chunk.poses)
    is_new = key is None and has_moved and shown_share(cover, _COVERED_DETAIL) < _KEPT_SHARE
    if key is not None:
        return key, rooms.waiting
    if not recall:
        return (replace(chunk, is_kept=True) if is_new else None), rooms.waiting
    return left_by(chunk, rooms.waiting, is_new=is_new)


def _free_m(window: Sequence[WindowChunk]) -> float:
    """Return how far away the nearest thing straight ahead of the last frame is."""
    depth = window[-1].depth[-1].view(ROWS, COLUMNS) if window else torch.zeros(ROWS, COLUMNS)
    middle = depth[ROWS // 2 - 1 : ROWS // 2 + 1, COLUMNS // 2 - 2 : COLUMNS // 2 + 2]
    return float(middle.exp().min())
