"""The first chunks of a model, drawn where nobody sees them: what is slow once is then over before a player waits.

At its first use a kernel is chosen or compiled and memory is taken; a first chunk with a recall does both once more.
"""

import time
from collections.abc import Callable, Sequence

import torch

from models.base import FreshBlock, ModelState, RecalledBlock, WorldModel
from shared.controls import Controls, Key

SEED = 0
LONGEST_BEGINNING_S = 20.0  # a model this slow gains too little for what waiting would cost
WALK = Controls(Key.FORWARD, mouse_dx=3.0)


def warm_up(model: WorldModel, progress: Callable[[float], None], longest_s: float = LONGEST_BEGINNING_S) -> bool:
    """Draw chunks until the first block has left the window, then one that recalls it; all are thrown away.

    `progress` is told the share that is done. Returns False when the beginning alone took longer than `longest_s`, and
    nothing more was drawn. Engine thread.
    """
    began_s = time.monotonic()
    beginning = model.begin(SEED)
    if time.monotonic() - began_s > longest_s:
        return False
    kept = [(index, chunk.block) for index, chunk in enumerate(beginning.chunks) if chunk.block is not None]
    state, chunks = beginning.state, model.window_chunks + 2
    for drawn in range(chunks):
        progress((drawn + 1) / (chunks + 1))
        index, block = kept[0]
        is_last = drawn == chunks - 1
        state = _after_one_chunk(model, state, [_recalled(model, index, block)] * model.max_recall if is_last else [])
    return True


def _after_one_chunk(model: WorldModel, state: ModelState, recall: Sequence[RecalledBlock]) -> ModelState:
    drawing = model.step(state, [WALK] * model.frames_per_chunk, recall)
    while True:
        try:
            next(drawing)
        except StopIteration as end:
            return end.value.state


def _recalled(model: WorldModel, index: int, block: FreshBlock) -> RecalledBlock:
    kv = block.kv.to(device=model.device, dtype=model.dtype)
    side = {name: torch.as_tensor(plane, device=model.device) for name, plane in block.side.items()}
    return RecalledBlock(index, index, kv, side, block.footprint, block.poses)
