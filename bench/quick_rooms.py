"""Rooms whose chunks may cost nothing: for filling a world with blocks and states of the real size. Engine thread.

With `is_quick` set, a step draws nothing: its chunk is noise of the real shapes, its frames are black. All around the
step is real. Whoever measures a step switches it off.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from models.base import DrawnFrame, FreshBlock, ModelState, Recall, Step
from models.rooms.model import RoomsModel
from models.rooms.patches import CHANNELS
from models.rooms.remembered import WindowChunk
from models.rooms.sizes import CHUNK_FRAMES, HEIGHT_PX, TOKENS, WIDTH_PX, WINDOW_CHUNKS
from models.rooms.state import RoomsState
from shared.controls import Controls

BLACK = np.zeros((HEIGHT_PX, WIDTH_PX, 3), np.uint8)


class QuickRooms(RoomsModel):
    """Rooms, and a way to leave out the network."""

    is_quick = False
    leaves_block = True  # a quick chunk; otherwise its view counts as kept already
    num_drawn = 0  # quick chunks so far: each has noise of its own

    def step(
        self, state: ModelState, controls: Sequence[Controls], recall: Recall
    ) -> Generator[DrawnFrame, None, Step]:
        if not self.is_quick:
            return (yield from super().step(state, controls, recall))
        rooms = cast(RoomsState, state)
        poses = self.steer(rooms, controls)
        for pose in poses:
            yield DrawnFrame(BLACK, pose)
        self.num_drawn += 1
        noise = torch.Generator().manual_seed(self.num_drawn)
        latents = torch.randn(CHUNK_FRAMES, TOKENS, CHANNELS, generator=noise)
        kv = torch.randn(self.kv_spec.shape, generator=noise).to(self.dtype).to(self.device)
        chunk = WindowChunk(rooms.chunk_index, poses, latents, kv, is_kept=True)
        window = (*rooms.window, chunk)[-WINDOW_CHUNKS:]
        after = replace(rooms, chunk_index=rooms.chunk_index + 1, pose=poses[-1], window=window, drawn_with=())
        if not self.leaves_block:
            return Step(after, None)
        points = chunk.points.flatten(0, 1).numpy()
        return Step(after, FreshBlock(kv.bfloat16(), {"depth": chunk.depth}, points, poses))
