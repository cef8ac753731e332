"""The state of a walk: what the next chunk needs. Immutable values; saved and loaded bit for bit. Engine thread."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from models.base import Pixels, SavedState
from models.matrix_game_2.actions import ActionRows
from models.matrix_game_2.conditioning import CondTail
from models.matrix_game_2.config import Config
from models.matrix_game_2.vae_layers import SlotTensors
from models.matrix_game_2.weights import steady_decoder, vae_dtypes
from models.matrix_game_2.window import ChunkKV, Window
from shared.pose import Pose


@dataclass(frozen=True, slots=True)
class Scene:
    """What a whole session shares: the picture's latents, and the context's keys and values `[L, 2, Tc, D]`."""

    cond: CondTail
    cross: torch.Tensor


@dataclass(frozen=True, slots=True)
class MatrixState:
    """Where a walk stands. `start` counts drawn latents; `chunk_index` also counts the chunks of a held frame."""

    seed: int
    chunk_index: int
    start: int
    pose: Pose
    scene: Scene
    window: Window
    decoder: SlotTensors
    rows: ActionRows  # the last rows before the coming chunk's own
    last_frame: Pixels  # read-only
    idle_chunks: int = 0

    @property
    def window_start(self) -> int:
        """Index of the first chunk that the window may hold: chunks of a held frame leave the window as it is."""
        return max(0, self.chunk_index - self.idle_chunks - len(self.window))

    @property
    def num_bytes(self) -> int:
        """Bytes of window, decoder and last frame; the scene is shared by all states of a session."""
        window = sum(chunk.num_bytes for chunk in self.window)
        return window + sum(slot.nbytes for slot in self.decoder) + self.last_frame.nbytes


def dump(state: MatrixState) -> SavedState:
    """The state as JSON values and tensors by name."""
    tensors = {
        "scene.cond": state.scene.cond.latents,
        "scene.cross": state.scene.cross,
        "rows.keyboard": state.rows.keyboard,
        "last_frame": torch.from_numpy(state.last_frame.copy()),
    }
    if state.rows.mouse is not None:
        tensors["rows.mouse"] = state.rows.mouse
    for index, chunk in enumerate(state.window):
        tensors[f"window.{index}.self"] = chunk.self_kv
        tensors[f"window.{index}.keyboard"] = chunk.keyboard_kv
        if chunk.mouse_kv is not None:
            tensors[f"window.{index}.mouse"] = chunk.mouse_kv
    tensors |= {f"decoder.{index}": slot for index, slot in enumerate(state.decoder)}
    facts = {
        "seed": state.seed,
        "chunk_index": state.chunk_index,
        "start": state.start,
        "pose": list(state.pose.as_tuple()),
        "idle_chunks": state.idle_chunks,
        "window": [chunk.start for chunk in state.window],
        "decoder_slots": len(state.decoder),
    }
    return SavedState(facts, tensors)


def load(saved: SavedState, config: Config, dtype: torch.dtype, device: torch.device) -> MatrixState:
    """The state that `dump` saved. Raises ValueError, naming the field, when a part does not fit the config."""
    reader = _Reader(saved, config, dtype, device)
    facts = saved.facts
    starts = _fact(facts, "window", list)
    if not starts or starts[-1] != _fact(facts, "start", int) - config.num_frame_per_block:
        raise ValueError(f"window: chunks at latents {starts} do not lead to {facts['start']}")
    frame = reader.tensor("last_frame", (*config.frame_hw_px, 3), torch.uint8).cpu().numpy().copy()
    frame.setflags(write=False)
    return MatrixState(
        seed=_fact(facts, "seed", int),
        chunk_index=_fact(facts, "chunk_index", int),
        start=_fact(facts, "start", int),
        pose=_pose(facts),
        scene=reader.scene(),
        window=tuple(reader.chunk(index, int(start)) for index, start in enumerate(starts)),
        decoder=reader.decoder(),
        rows=reader.rows(),
        last_frame=frame,
        idle_chunks=_fact(facts, "idle_chunks", int),
    )


def _fact(facts: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = facts.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name}: {value!r} is no {kind.__name__}")  # noqa: TRY004  the contract of load
    return value


def _pose(facts: Mapping[str, Any]) -> Pose:
    values = _fact(facts, "pose", list)
    if len(values) != 5:
        raise ValueError(f"pose: {len(values)} numbers instead of 5")
    return Pose(*map(float, values))


def _any_time(slot: torch.Tensor) -> tuple[int, ...]:
    """The shape of a slot; early in a stream it holds fewer frames."""
    return (*slot.shape[:2], -1, *slot.shape[3:])


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes checked tensors out of a saved state."""

    saved: SavedState
    config: Config
    dtype: torch.dtype
    device: torch.device

    def any_tensor(self, name: str) -> torch.Tensor:
        if name not in self.saved.tensors:
            raise ValueError(f"{name}: missing")
        return self.saved.tensors[name].to(self.device)

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """The tensor of this name; -1 in `shape` stands for any size."""
        tensor = self.any_tensor(name)
        fits = tensor.ndim == len(shape) and all(b in (-1, a) for a, b in zip(tensor.shape, shape, strict=True))
        if not fits or tensor.dtype != dtype:
            raise ValueError(f"{name}: {tuple(tensor.shape)} {tensor.dtype} instead of {shape} {dtype}")
        return tensor

    def scene(self) -> Scene:
        network, height, width = self.config.network, *self.config.latent_hw
        cond = self.tensor("scene.cond", (network.out_dim, -1, height, width), self.dtype)
        return Scene(CondTail(cond), self.tensor("scene.cross", (network.num_layers, 2, -1, network.dim), self.dtype))

    def decoder(self) -> SlotTensors:
        slots = steady_decoder(self.config)
        if _fact(self.saved.facts, "decoder_slots", int) != len(slots):
            raise ValueError(f"decoder_slots: {self.saved.facts['decoder_slots']} instead of {len(slots)}")
        kind = vae_dtypes(self.device).get("decoder", torch.float32)
        return tuple(self.tensor(f"decoder.{i}", _any_time(slot), kind) for i, slot in enumerate(slots))

    def rows(self) -> ActionRows:
        action = self.config.network.action
        assert action is not None
        known = action.vae_time_compression_ratio * (_fact(self.saved.facts, "start", int) - 1)
        count = min(action.window_rows, known)
        keyboard = self.tensor("rows.keyboard", (count, action.keyboard_dim_in), torch.float32)
        mouse = self.tensor("rows.mouse", (count, action.mouse_dim_in), torch.float32) if action.enable_mouse else None
        return ActionRows(keyboard.cpu(), None if mouse is None else mouse.cpu())

    def chunk(self, index: int, start: int) -> ChunkKV:
        config, action = self.config, self.config.network.action
        assert action is not None
        blocks, frames, name = len(action.blocks), config.num_frame_per_block, f"window.{index}"
        shape = (config.network.num_layers, 2, config.chunk_tokens, config.network.dim)
        mouse = None
        if action.enable_mouse:
            mouse_shape = (blocks, 2, config.frame_tokens, frames, action.mouse_hidden_dim)
            mouse = self.tensor(f"{name}.mouse", mouse_shape, self.dtype)
        keyboard = self.tensor(f"{name}.keyboard", (blocks, 2, frames, action.keyboard_hidden_dim), self.dtype)
        return ChunkKV(start, self.tensor(f"{name}.self", shape, self.dtype), keyboard, mouse)
