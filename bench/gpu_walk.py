"""Matrix-Game 2.0 drawn with real memory traffic: every chunk recalls k other blocks from disk. For bench/gpu.sh.

First paced to a chunk time, then as fast as it draws. Blocks are wanted by chance among those that no tier but NVME can
hold, and foreseen one chunk ahead, as a player's path is. Needs torch, numpy, xxhash, safetensors and the repository.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import torch

from bench.pager_measure import percentile
from bench.report import command_line, write_report
from models.base import Array, FreshBlock, ModelState, RecalledBlock
from models.matrix_game_2.load import load_model
from models.matrix_game_2.model import MatrixGame2Model
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.pager import Pager
from server.pager.recall_buffer import RecallBuffer
from shared.controls import Controls, Key
from shared.tiers import Tier

WORLD = "gpu"
LAID_BLOCKS = 64  # on disk before the walk
REST_CHUNKS = 16  # for which a recalled block is not wanted again: by then neither GPU nor DRAM holds it
YOUNGEST_CHUNKS = 24
GPU_SLOTS, DRAM_SLOTS = 4, 16  # GPU: beside two recalls
FLUSH_S = 120.0
FIRST_S = 10.0
WALK = Controls(Key.FORWARD, mouse_dx=3.0)


@dataclass(frozen=True, slots=True)
class Terms:
    """How many chunks at most, how long one takes at least, and when to stop anyway."""

    chunks: int
    chunk_s: float = 0.0
    limit_s: float = 600.0


@dataclass(slots=True)
class Taken:
    """Milliseconds of each chunk: in all, and in the parts of the memory that drawing waits for."""

    chunk_ms: list[float] = field(default_factory=list[float])
    work_ms: list[float] = field(default_factory=list[float])  # without waiting for the pace
    recall_ms: list[float] = field(default_factory=list[float])
    decode_ms: list[float] = field(default_factory=list[float])
    stages: list[dict[str, float]] = field(default_factory=list[dict[str, float]])


class Walk:
    """One walk in a new world. Its methods belong to the thread that drives the model."""

    def __init__(self, model: MatrixGame2Model, pager: Pager, buffer: RecallBuffer) -> None:
        self._model, self._pager, self._buffer = model, pager, buffer
        self._dice = Random(7)  # noqa: S311 - a choice of blocks
        self._resting: deque[tuple[int, ...]] = deque(maxlen=REST_CHUNKS)
        beginning = model.begin(900_400)
        self._state: ModelState = beginning.state
        block = beginning.chunks[0].block
        assert block is not None
        self._laid = block
        self._footprints: list[Array] = []
        self.taken = Taken()

    def lay(self) -> None:
        """Put copies of the first block on disk, older than all that will be drawn."""
        frames = self._model.config.num_frame_per_block
        for index in range(LAID_BLOCKS):
            start = np.array([frames * (index - LAID_BLOCKS)], np.int64)
            self._commit(FreshBlock(self._laid.kv, {}, start, self._laid.poses))
            if index % 4 == 3:
                self._pager.flush(FLUSH_S)

    def run(self, terms: Terms) -> None:
        """Draw, recall and remember until the chunks or the time are over."""
        wanted = self._choose()
        self._await([BlockKey(WORLD, block) for block in wanted])  # nobody could have foreseen the first recall
        began_s = time.perf_counter()
        for _ in range(terms.chunks):
            chunk_s = time.perf_counter()
            if chunk_s - began_s > terms.limit_s:
                return
            coming = self._choose()
            self._chunk(wanted, coming, terms.chunk_s)
            self.taken.work_ms.append(1e3 * (time.perf_counter() - chunk_s))
            time.sleep(max(0.0, chunk_s + terms.chunk_s - time.perf_counter()))
            self.taken.chunk_ms.append(1e3 * (time.perf_counter() - chunk_s))
            wanted = coming

    def _await(self, keys: Sequence[BlockKey]) -> None:
        self._pager.foresee(WORLD, lambda: [(time.monotonic(), keys)])
        until_s = time.monotonic() + FIRST_S
        while not all(Tier.GPU in tiers for tiers in self._pager.tiers_of(keys)) and time.monotonic() < until_s:
            time.sleep(0.005)

    def _choose(self) -> tuple[int, ...]:
        resting = {block for recall in self._resting for block in recall}
        old = range(max(LAID_BLOCKS, len(self._footprints) - YOUNGEST_CHUNKS))
        candidates = [block for block in old if block not in resting]
        chosen = tuple(sorted(self._dice.sample(candidates, self._model.max_recall)))
        self._resting.append(chosen)
        return chosen

    def _chunk(self, wanted: Sequence[int], coming: Sequence[int], chunk_s: float) -> None:
        """One chunk as a session draws it; the coming recall is foreseen while it is drawn."""
        due_s = time.monotonic() + (chunk_s or self._usual_s())
        began_s = time.perf_counter()
        with self._pager.recall(WORLD, [BlockKey(WORLD, block) for block in wanted]) as lease:
            self.taken.recall_ms.append(1e3 * (time.perf_counter() - began_s))
            self._pager.foresee(WORLD, lambda: [(due_s, [BlockKey(WORLD, block) for block in coming])])
            began_s = time.perf_counter()
            recall = [
                RecalledBlock(one.key.block, one.key.block, one.kv, {}, self._footprints[one.key.block], ())
                for one in self._buffer.fill(lease)
            ]
            if self._model.device.type == "cuda":
                torch.cuda.synchronize()  # to see how long decoding takes; the drawing waits for it in any case
            self.taken.decode_ms.append(1e3 * (time.perf_counter() - began_s))
            self._draw(recall)

    def _draw(self, recall: Sequence[RecalledBlock]) -> None:
        drawing = self._model.step(self._state, [WALK] * self._model.frames_per_chunk, recall)
        while True:
            try:
                next(drawing)
            except StopIteration as end:
                step = end.value
                break
        self._state = step.state
        self.taken.stages.append(dict(step.timings_ms))
        self._commit(step.block)

    def _commit(self, block: FreshBlock) -> None:
        self._pager.commit(BlockKey(WORLD, len(self._footprints)), block)
        self._footprints.append(block.footprint)

    def _usual_s(self) -> float:
        return 1e-3 * (self.taken.work_ms[-1] if self.taken.work_ms else 1000.0)


def walk(model: MatrixGame2Model, folder: Path, terms: Terms) -> dict[str, object]:
    """Walk in a new world below `folder`, which is removed at the end, and say what happened."""
    layout = SlotLayout(model.kv_spec)
    slot = layout.slot_bytes
    buffer = buffer_bytes(layout, model.max_recall, model.dtype)
    budgets = Budgets(
        buffer + (2 * model.max_recall + GPU_SLOTS) * slot, DRAM_SLOTS * slot, (LAID_BLOCKS + terms.chunks + 8) * slot
    )
    pager = Pager(
        model.kv_spec, "6b7", budgets, max_recall=model.max_recall, device=model.device, recall_dtype=model.dtype
    )
    with tempfile.TemporaryDirectory(prefix="gpu-walk-", dir=folder) as world:
        try:
            pager.open_world(WORLD, Path(world))
            walker = Walk(model, pager, pager.recall_buffer())
            walker.lay()
            walker.run(terms)
            pager.flush(FLUSH_S)
            return _figures(model, walker.taken, pager)
        finally:
            pager.close()


def _figures(model: MatrixGame2Model, taken: Taken, pager: Pager) -> dict[str, object]:
    stats = pager.stats(WORLD)
    stages = {name: round(percentile([one[name] for one in taken.stages], 50), 3) for name in taken.stages[0]}
    work_ms, decode_ms = percentile(taken.work_ms, 50), percentile(taken.decode_ms, 50)
    return {
        "chunks": len(taken.chunk_ms),
        "fps": round(1e3 * model.frames_per_chunk * len(taken.work_ms) / sum(taken.work_ms), 3),
        "chunk_ms": {"p50": round(percentile(taken.chunk_ms, 50), 2), "p99": round(percentile(taken.chunk_ms, 99), 2)},
        "work_ms": {"p50": round(work_ms, 2), "p99": round(percentile(taken.work_ms, 99), 2)},
        "ms": stages | {"decode": round(decode_ms, 3), "recall": round(percentile(taken.recall_ms, 50), 3)},
        "memory_share": round((decode_ms + percentile(taken.recall_ms, 50)) / work_ms, 4),
        "stalls": stats.stalls,
        "preempted": stats.preempted,
        "longest_wait_ms": stats.longest_wait_ms,
        "stale_share": round(stats.stale_chunks / max(1, stats.chunks), 4),
        "hits": dict(zip(("gpu", "dram", "nvme"), stats.hits, strict=True)),
        "lost": stats.lost,
        "missed": stats.missed,
        "bytes_read": stats.disk_read_bytes,
        "bytes_written": stats.disk_written_bytes,
        "direct_io": stats.direct_io,
        "notes": list(stats.notes),
    }


def parser() -> argparse.ArgumentParser:
    """The flags."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_walk", description=__doc__)
    parser.add_argument("--model-config", default="universal", metavar="NAME|FILE")
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--chunk-ms", type=float, default=1200.0, help="of the paced walk")
    parser.add_argument("--unpaced-s", type=float, default=80.0, help="how long the second walk may take")
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk that is measured")
    parser.add_argument("--json", dest="path", help="where the report goes")
    return parser


def main(argv: Sequence[str]) -> int:
    """Walk twice; exit 0 when the paced walk lost nothing and, on a GPU, never stalled."""
    options = parser().parse_args(argv)
    torch.set_grad_enabled(False)
    model = load_model(options.model_config, random_weights=True)
    needed = 1.1 * (LAID_BLOCKS + options.chunks + 8) * SlotLayout(model.kv_spec).slot_bytes
    if shutil.disk_usage(options.folder).free < needed:
        print(f"{options.folder.absolute()} has less than {needed / 1e9:.1f} GB free", file=sys.stderr)
        return 1
    walk(model, options.folder, Terms(2))  # what is compiled at first use is compiled here
    chunk_s = options.chunk_ms / 1e3
    paced = walk(model, options.folder, Terms(options.chunks, chunk_s, 1.1 * options.chunks * chunk_s))
    unpaced = walk(model, options.folder, Terms(options.chunks, 0.0, options.unpaced_s))
    is_judged = model.device.type == "cuda"  # on a CPU, drawing itself takes the cores that the pager needs
    is_good = paced["lost"] == 0 and not (is_judged and paced["stalls"])
    figures = {"ok": is_good, "random_weights": True, "model_config": model.config.name, "device": str(model.device)}
    figures |= {"dtype": str(model.dtype), "paced": paced, "unpaced": unpaced}
    report = write_report(options.path, command_line(), figures)
    print(json.dumps(report, indent=1))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
