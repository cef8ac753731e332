"""What recalled blocks cost a chunk of Matrix-Game 2.0: one row for each number of them. Needs torch and no server.

Each row draws the same chunk from the same state, whose values no step changes. What stands in `background_ms` runs
beside the drawing in the product (encoding and uploads have threads and streams of their own); all else is waited for.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import cast

import numpy as np
import torch

from models.base import FreshBlock, RecalledBlock
from models.matrix_game_2.model import MatrixGame2Model
from models.matrix_game_2.state import MatrixState
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from shared.controls import Controls, Key

MAX_ROWS = 6  # 0 to 5 recalled blocks
WALK = Controls(Key.FORWARD, mouse_dx=3.0)
STAGES = ("decode", "rotate", "denoise", "frames", "context")
Row = dict[str, object]


@dataclass(slots=True)
class Bench:
    """A model, the state that every row starts from, and one of its blocks: encoded on the host and on the device."""

    model: MatrixGame2Model
    state: MatrixState
    block: FreshBlock
    codec: Codec
    on_host: torch.Tensor
    on_device: torch.Tensor
    buffer: torch.Tensor  # [k, L, 2, N, D] in the model's dtype

    @property
    def is_cuda(self) -> bool:
        return self.model.device.type == "cuda"

    def ms_since(self, began_s: float) -> float:
        if self.is_cuda:
            torch.cuda.synchronize(self.model.device)  # else the time would be that of launching
        return 1e3 * (time.perf_counter() - began_s)


def prepared(model: MatrixGame2Model, num_blocks: int = MAX_ROWS - 1) -> Bench:
    """Draw until the window is full, and encode the first block."""
    beginning = model.begin(900_300)
    state, block = cast(MatrixState, beginning.state), beginning.chunks[0].block
    for _ in range(min(2, model.window_chunks)):
        state, _ = drawn(model, state, ())
    assert block is not None
    layout = SlotLayout(model.kv_spec)
    on_host = torch.zeros(layout.slot_bytes, dtype=torch.uint8)
    on_host = on_host.pin_memory() if model.device.type == "cuda" else on_host
    on_device = torch.zeros(layout.slot_bytes, dtype=torch.uint8, device=model.device)
    codec = Codec(layout)
    codec.encode(block.kv, on_device)
    on_host.copy_(on_device)
    shape = (num_blocks, *model.kv_spec.shape)
    buffer = torch.zeros(shape, dtype=model.dtype, device=model.device)
    return Bench(model, state, block, codec, on_host, on_device, buffer)


def drawn(
    model: MatrixGame2Model, state: MatrixState, recall: Sequence[RecalledBlock]
) -> tuple[MatrixState, Mapping[str, float]]:
    """The next state and the model's own times; the frames are thrown away."""
    drawing = model.step(state, [WALK] * model.frames_per_chunk, recall)
    while True:
        try:
            next(drawing)
        except StopIteration as end:
            return end.value.state, end.value.timings_ms


def rows(bench: Bench, repeats: int) -> list[Row]:
    """A row for each number of recalled blocks, medians over the repeats; one more chunk before each is warm-up."""
    measured = [[_chunk(bench, num) for _ in range(repeats + 1)][1:] for num in range(len(bench.buffer) + 1)]
    stages = [{name: median(chunk[name] for chunk in chunks) for name in chunks[0]} for chunks in measured]
    return [_row(bench.model, num, ms, stages[0]) for num, ms in enumerate(stages)]


def _chunk(bench: Bench, num_recalled: int) -> dict[str, float]:
    """Milliseconds by stage of one chunk with so many recalled blocks."""
    ms: dict[str, float] = {}
    if bench.is_cuda:  # without a GPU its tier lies in RAM, and nothing is uploaded
        began_s = time.perf_counter()
        for _ in range(num_recalled):
            bench.on_device.copy_(bench.on_host, non_blocking=True)
        ms["upload"] = bench.ms_since(began_s)
    began_s = time.perf_counter()
    for place in range(num_recalled):
        bench.codec.decode(bench.on_device, bench.buffer[place])
    ms["decode"] = bench.ms_since(began_s)
    frames = bench.model.config.num_frame_per_block
    recall = [
        RecalledBlock(place, place, kv, {}, np.array([-frames * (num_recalled - place)]), bench.block.poses)
        for place, kv in enumerate(bench.buffer[:num_recalled])  # older than all that was drawn
    ]
    _, timings = drawn(bench.model, bench.state, recall)
    began_s = time.perf_counter()
    bench.codec.encode(bench.block.kv, bench.on_device)
    ms["encode"] = bench.ms_since(began_s)
    return {**ms, **timings}


def _row(model: MatrixGame2Model, num_recalled: int, ms: Mapping[str, float], without: Mapping[str, float]) -> Row:
    """The share of memory is what a recall adds to a chunk, attention over its keys apart."""
    chunk_ms = sum(ms[name] for name in STAGES)
    passes = len(model.config.denoising_step_list)
    memory_ms = ms["decode"] + max(0.0, ms["rotate"] - without["rotate"])
    attention_ms = sum(ms[name] - without[name] for name in ("denoise", "context"))
    return {
        "recalled": num_recalled,
        "fps": round(1e3 * model.frames_per_chunk / chunk_ms, 3),
        "chunk_ms": round(chunk_ms, 3),
        "ms": {name: round(ms[name], 3) for name in STAGES} | {"pass": round(ms["denoise"] / passes, 3)},
        "background_ms": {name: round(ms[name], 3) for name in ("upload", "encode") if name in ms},
        "memory_ms": round(memory_ms, 3),
        "memory_share": round(memory_ms / chunk_ms, 4),
        "attention_ms": round(attention_ms, 3),
        "attention_share": round(attention_ms / chunk_ms, 4),
    }
