"""Matrix-Game 2.0 as a WorldModel: one chunk from controls and memory to frames, read top to bottom in `step`.

Owns the networks; every walk lives in its MatrixState. Engine thread, except `wanted`.
"""

import hashlib
import json
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, replace
from typing import cast

import numpy as np
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
    Step,
)
from models.matrix_game_2 import retrieval, steering
from models.matrix_game_2.actions import ActionRows, windows
from models.matrix_game_2.clip import clip_pixels
from models.matrix_game_2.conditioning import CondTail, cropped, first_view, image_latents, to_frame, to_pixels
from models.matrix_game_2.config import Config
from models.matrix_game_2.noise import FIRST_STEP, chunk_noise
from models.matrix_game_2.positions import past_frames
from models.matrix_game_2.sampler import context_pass, denoise
from models.matrix_game_2.state import MatrixState, Scene, dump, load
from models.matrix_game_2.transformer import ChunkInput
from models.matrix_game_2.vae_layers import SlotTensors
from models.matrix_game_2.weights import Parts
from models.matrix_game_2.window import ChunkKV, Recalled, build_reach, empty_kv, slid
from shared.controls import IDLE, Controls
from shared.pose import Pose

_LAYOUT = "matrix-game-2/1"  # raised when K,V of the same weights change their meaning
START = Pose(y_m=1.6)


class MatrixGame2Model:
    """Weights and constants of one variant in one dtype on one device."""

    name = "matrix-game-2"

    def __init__(
        self, parts: Parts, config: Config, device: torch.device, dtype: torch.dtype, weights_fingerprint: str
    ) -> None:
        assert config.network.action is not None
        self.parts, self.config, self.device, self.dtype = parts, config, device, dtype
        self.is_random = parts.clip is None  # for the HUD and every report
        self.seed_image: Pixels | None = None  # new worlds begin with it; None: with a drawn one
        self.fps = config.fps
        self.frames_per_chunk = config.frames_per_chunk
        self.frame_size = (config.frame_hw_px[1], config.frame_hw_px[0])
        self.window_chunks = config.window_chunks
        self.max_recall = config.max_recall
        self.motion = steering.motion_of(config)
        network = config.network
        self.kv_spec = KVSpec(network.num_layers, config.chunk_tokens, network.dim, network.head_width)
        meaning = [asdict(network), config.latent_hw, config.num_frame_per_block, config.context_noise]
        described = json.dumps([_LAYOUT, weights_fingerprint, *meaning], sort_keys=True)
        self.fingerprint = hashlib.blake2b(described.encode(), digest_size=16).hexdigest()

    def begin(self, seed: int, image: Pixels | None = None) -> Beginning:
        """Start from a picture, or from a drawn one. The first chunk is what the model makes of it standing still."""
        given = self.seed_image if image is None else image
        picture = first_view(seed, self.config.frame_hw_px) if given is None else given
        frame = to_frame(cropped(picture, self.config.frame_hw_px))  # [3, H, W]
        before = self._before_first(seed, frame)
        num_frames = 1 + self.config.time_ratio * (self.config.num_frame_per_block - 1)
        idle = [IDLE] * (num_frames - 1)
        rows = steering.action_rows(START, idle, [START] * len(idle), self.config)
        frames, step = _exhausted(self._draw(before, rows, [START] * num_frames, ()))
        return Beginning((SeededChunk(frames, step.block),), step.state)

    def steer(self, state: ModelState, controls: Sequence[Controls]) -> tuple[Pose, ...]:
        """Dead-reckoned poses: nothing says what the model really drew."""
        return steering.steered(state.pose, controls, self.config)

    def wanted(self, pose: Pose, catalog: Catalog) -> tuple[int, ...]:
        """The blocks that were drawn from nearest to this view. Pure; any thread."""
        return retrieval.wanted(pose, catalog, self.max_recall)

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        """Draw one chunk. After `idle_chunks` chunks without any input the last frame is held: idling degrades it."""
        before = cast(MatrixState, state)
        poses = self.steer(before, controls)
        is_idle = all(item.is_idle for item in controls)
        idle_chunks = before.idle_chunks + 1 if is_idle else 0
        if self.is_held(before) and is_idle:
            for _ in controls:
                yield DrawnFrame(before.last_frame, before.pose)
            return Step(
                replace(before, chunk_index=before.chunk_index + 1, idle_chunks=idle_chunks), None, is_held=True
            )
        rows = steering.action_rows(before.pose, controls, poses, self.config)
        before = replace(before, idle_chunks=idle_chunks)
        return (yield from self._draw(before, rows, poses, recall))

    def is_held(self, state: ModelState) -> bool:
        """Whether another idle chunk would show the last frame again and leave nothing in memory."""
        limit = self.config.idle_chunks
        return 0 < limit <= cast(MatrixState, state).idle_chunks

    def dump(self, state: ModelState) -> SavedState:
        """The state as facts and tensors."""
        return dump(cast(MatrixState, state))

    def load(self, saved: SavedState) -> ModelState:
        """The state that was dumped."""
        return load(saved, self.config, self.dtype, self.device)

    def _draw(
        self, before: MatrixState, new_rows: ActionRows, poses: Sequence[Pose], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        """Denoise, decode frame by frame, then the clean pass that memory keeps."""
        clock = _Clock(self.device)
        rows = before.rows.followed_by(new_rows)
        chunk = self._chunk_input(before, rows, recall)
        clock.mark("rotate")
        latents = self._latents(before, chunk)  # [Z, F, h, w]
        clock.mark("denoise")
        decoder, shown, last_frame = before.decoder, 0, before.last_frame
        for latent in latents.float().unbind(1):
            frames, decoder = self.parts.vae.decode_next(latent, decoder)
            for last_frame in to_pixels(frames):
                last_frame.setflags(write=False)
                clock.mark("frames")
                yield DrawnFrame(last_frame, poses[shown])
                clock.skip()
                shown += 1
        _, newest = context_pass(self.parts.network, self.config, chunk, latents, before.start)
        clock.mark("context")
        after = self._committed(before, newest, decoder, rows, poses[-1], last_frame)
        return Step(after, self._block(newest, poses), clock.ms)

    def _latents(self, before: MatrixState, chunk: ChunkInput) -> torch.Tensor:
        config = self.config
        height, width = config.latent_hw
        channels, frames = config.network.out_dim, config.num_frame_per_block
        drawn = (before.seed, before.chunk_index)
        noise = chunk_noise(*drawn, FIRST_STEP, (channels, frames, height, width)).to(self.device, self.dtype)

        def renoise(step: int) -> torch.Tensor:
            fresh = chunk_noise(*drawn, FIRST_STEP + 1 + step, (frames, channels, height, width))
            return fresh.to(self.device, self.dtype)

        latents = noise
        for one in denoise(self.parts.network, config, chunk, noise, renoise):
            latents = one.latents
        return latents

    def _chunk_input(self, before: MatrixState, rows: ActionRows, recall: Recall) -> ChunkInput:
        config, action = self.config, self.config.network.action
        assert action is not None
        ratio, frames, start = action.vae_time_compression_ratio, config.num_frame_per_block, before.start
        first_row = ratio * (start + frames - 1) - len(rows.keyboard)
        cut = (start, frames, ratio, action.window_rows, first_row)
        mouse = None if rows.mouse is None else windows(rows.mouse, *cut).to(self.device, self.dtype)
        return ChunkInput(
            cond=before.scene.cond.chunk(start, frames, config.network.cond_dim),
            keyboard=windows(rows.keyboard, *cut).to(self.device, self.dtype),
            mouse=mouse,
            cross=before.scene.cross,
            reach=build_reach(config, before.window, start, self._recalled(start, recall)),
        )

    def _recalled(self, start: int, recall: Recall) -> list[Recalled]:
        """The blocks of a recall that do not lie in the window, as the window takes them."""
        network, frames = self.config.network, self.config.num_frame_per_block
        seen = set(past_frames(start, frames, network.local_attn_size, network.sink_size))
        blocks = [Recalled(int(block.footprint[0]), block.kv) for block in recall]
        return [block for block in blocks if seen.isdisjoint(range(block.start, block.start + frames))]

    def _committed(
        self,
        before: MatrixState,
        newest: ChunkKV,
        decoder: SlotTensors,
        rows: ActionRows,
        pose: Pose,
        last_frame: Pixels,
    ) -> MatrixState:
        action = self.config.network.action
        assert action is not None
        return replace(
            before,
            chunk_index=before.chunk_index + 1,
            start=before.start + self.config.num_frame_per_block,
            pose=pose,
            window=slid(self.config, before.window, newest),
            decoder=decoder,
            rows=rows.last(action.window_rows),
            last_frame=last_frame,
        )

    def _block(self, newest: ChunkKV, poses: Sequence[Pose]) -> FreshBlock:
        """What memory keeps: the clean pass's K,V, one pose a latent frame, and the chunk's own place in time."""
        ratio, frames = self.config.time_ratio, self.config.num_frame_per_block
        kept = tuple(poses[len(poses) - 1 - ratio * (frames - 1 - i)] for i in range(frames))
        return FreshBlock(newest.self_kv.bfloat16(), {}, np.array([newest.start], np.int64), kept)

    def _before_first(self, seed: int, frame: torch.Tensor) -> MatrixState:
        """The state in front of chunk 0: a scene, an empty window, no history."""
        action = self.config.network.action
        assert action is not None
        cond = image_latents(self.parts.vae, frame.to(self.device), self.config.cond_latents).to(self.dtype)
        cross = self.parts.network.cross_kv(self._visual_context(seed, frame).to(self.device, self.dtype))
        mouse = torch.zeros(0, action.mouse_dim_in) if action.enable_mouse else None
        return MatrixState(
            seed=seed,
            chunk_index=0,
            start=0,
            pose=START,
            scene=Scene(CondTail(cond), cross),
            window=(empty_kv(self.config, self.dtype, self.device),),
            decoder=(),
            rows=ActionRows(torch.zeros(0, action.keyboard_dim_in), mouse),
            last_frame=np.zeros((*self.config.frame_hw_px, 3), np.uint8),
        )

    def _visual_context(self, seed: int, frame: torch.Tensor) -> torch.Tensor:
        """CLIP's tokens of the picture `[Tc, clip_dim]`; random ones where the weights are random."""
        if self.parts.clip is None:
            return chunk_noise(seed, 0, 1 << 11, (self.config.clip_tokens, self.config.network.clip_dim))
        return self.parts.clip(clip_pixels(frame, self.config.clip_image_px))


class _Clock:
    """Milliseconds per stage of one chunk; time between `mark` and `skip` belongs to whoever takes the frames."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._since_s = time.perf_counter()
        self.ms: dict[str, float] = {}

    def mark(self, stage: str) -> None:
        """Add the time since the last mark to a stage."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # else the time would be that of launching, not of computing
        now_s = time.perf_counter()
        self.ms[stage] = self.ms.get(stage, 0.0) + 1000.0 * (now_s - self._since_s)
        self._since_s = now_s

    def skip(self) -> None:
        """Leave out the time since the last mark."""
        self._since_s = time.perf_counter()


def _exhausted(drawing: Generator[DrawnFrame, None, Step]) -> tuple[tuple[DrawnFrame, ...], Step]:
    """All frames of a chunk and its step."""
    result: list[Step] = []

    def frames() -> Iterator[DrawnFrame]:
        result.append((yield from drawing))

    return tuple(frames()), result[0]
