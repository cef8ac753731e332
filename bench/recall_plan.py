"""How soon an input has changed the plan: the product's foresight, mailbox and pager, in a world of rooms.

From the arrival of the input to the end of the plan that it led to, on the pager thread, with the retrieval rule asked
for every likely pose. The engine's compute is a sleep.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.pager_measure import percentile
from models.base import Catalog, FreshBlock
from models.rooms.model import RoomsModel
from server.foresight import Foresight
from server.load import make_pager
from server.mailbox import ControlsMailbox
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets
from server.pager.decide.place import Plan
from server.pager.pager import Pager
from shared.controls import Controls, Key
from shared.pose import Pose, advance
from shared.protocol import Input

WORLD = "plan"
SEED = 800_001
BLOCKS = 300
STEP_M = 1.0  # by which each look-around is moved on, so that the catalog is as long as a walk's
INPUT_HZ = 60.0
COUNTS_PER_INPUT = 8.0  # of mouse travel while the player turns
BUDGETS = Budgets(64_000_000, 32_000_000, 512_000_000)


def input_to_plan_ms(num_inputs: int) -> dict[str, float]:
    """Milliseconds from an input to its plan, over `num_inputs` of them."""
    model = RoomsModel()
    blocks = _blocks(model)
    pager, _ = make_pager(model, BUDGETS)
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        try:
            pager.open_world(WORLD, Path(folder))
            for block_id, block in enumerate(blocks):
                pager.commit(BlockKey(WORLD, block_id), block)
                time.sleep(0.005)
            pager.flush(30.0)
            times_ms = _Player(model, pager, _catalog(blocks, model.window_chunks)).play(num_inputs)
        finally:
            pager.close()
    return {
        "inputs": num_inputs,
        "plans": len(times_ms),
        "p50": round(percentile(times_ms, 50), 3),
        "p99": round(percentile(times_ms, 99), 3),
        "longest": round(max(times_ms, default=0.0), 3),
    }


def _blocks(model: RoomsModel) -> list[FreshBlock]:
    """The look-around that a world begins with, again and again a little farther on."""
    seeded = [chunk.block for chunk in model.begin(SEED).chunks if chunk.block is not None]
    blocks: list[FreshBlock] = []
    for at in range(BLOCKS):
        block, away_m = seeded[at % len(seeded)], STEP_M * (at // len(seeded))
        poses = tuple(replace(pose, z_m=pose.z_m + away_m) for pose in block.poses)
        footprint = block.footprint + np.array([0.0, 0.0, away_m], block.footprint.dtype)
        blocks.append(replace(block, poses=poses, footprint=footprint))
    return blocks


def _catalog(blocks: Sequence[FreshBlock], window_chunks: int) -> Catalog:
    ids = np.arange(len(blocks))
    poses = np.array([[pose.as_tuple() for pose in block.poses] for block in blocks])
    footprints = np.array([block.footprint for block in blocks])
    return Catalog(ids, ids, poses, footprints, len(blocks) - window_chunks)


class _Player:
    """Somebody who walks and turns in strokes, and sends an input sixty times a second."""

    def __init__(self, model: RoomsModel, pager: Pager, catalog: Catalog) -> None:
        self._model = model
        self._pager = pager
        self._catalog = catalog
        self._mailbox = ControlsMailbox()
        self._foresight = Foresight(model, WORLD, self._mailbox)
        self._times_ms: list[float] = []

    def play(self, num_inputs: int) -> list[float]:
        pose, mouse = Pose(*map(float, self._catalog.poses[BLOCKS // 2, -1])), 0.0
        per_chunk = round(INPUT_HZ * self._model.frames_per_chunk / self._model.fps)
        begin_s = time.perf_counter()
        for at in range(num_inputs):
            time.sleep(max(0.0, begin_s + at / INPUT_HZ - time.perf_counter()))
            is_turning = math.sin(at / 20.0) > 0.3
            mouse += COUNTS_PER_INPUT * is_turning
            if at % per_chunk == 0:
                taken = self._mailbox.take(self._model.frames_per_chunk)
                for controls in taken.controls:
                    pose = self._walked(pose, controls)
                self._foresight.stand(pose, self._catalog.moved_on(1))
            t_ms = at * 1e3 / INPUT_HZ
            self._send(Input(seq=at, t_ms=t_ms, keys=int(Key.FORWARD), mouse_x=mouse, mouse_y=0.0, ack=-1))
        self._pager.flush(10.0)
        return self._times_ms

    def _walked(self, pose: Pose, controls: Controls) -> Pose:
        return advance(pose, controls, self._model.motion, 1.0 / self._model.fps)

    def _send(self, message: Input) -> None:
        begin_s = time.perf_counter()
        self._mailbox.put(message, time.monotonic())
        self._foresight.feel_mouse(message.mouse_x, message.mouse_y)
        if (plan := self._foresight.look_ahead()) is not None:
            self._pager.foresee(WORLD, self._timed(plan, begin_s), self._foresight.trail)

    def _timed(self, plan: Callable[[], Plan], begin_s: float) -> Callable[[], Plan]:
        def work_out() -> Plan:
            worked_out = plan()
            self._times_ms.append((time.perf_counter() - begin_s) * 1e3)
            return worked_out

        return work_out
