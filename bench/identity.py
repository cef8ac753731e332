"""`python -m bench identity`: does where a block lives change what is drawn? Promise 1 of the design, byte for byte.

Case rooms/tiers: one route in exact mode with everything on the GPU tier, in DRAM, and on NVME. The differing bytes
must be 0, the moved bytes above 0, and a walk with one recalled byte flipped must differ (the negative control).
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.drive import start
from bench.report import command_line, write_report
from client.routes import route
from models.base import Pixels, WorldModel
from server.pager.budgets import buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.lease import Lease
from server.pager.pager import Budgets
from server.pager.recall_buffer import DecodedBlock, RecallBuffer

SEED = 900_100
ROUTE = "out-and-back"


@dataclass(frozen=True, slots=True)
class Walked:
    """The frames of one walk, and the bytes that moved between tiers for it."""

    frames: list[Pixels]
    moved_bytes: int
    hits: tuple[int, int, int]
    recalled: int


def budgets_by_tier(model: WorldModel, num_blocks: int) -> dict[str, Budgets]:
    """Budgets that keep `num_blocks` blocks in one tier and as few as possible in the faster ones."""
    layout = SlotLayout(model.kv_spec)
    slot_bytes = layout.slot_bytes
    least = 2 * model.max_recall * slot_bytes + buffer_bytes(layout, model.max_recall, model.dtype)
    plenty = (num_blocks + 8) * slot_bytes
    few = 4 * slot_bytes
    return {
        "gpu": Budgets(least + plenty, plenty, plenty),
        "dram": Budgets(least, plenty, plenty),
        "nvme": Budgets(least, few, plenty),
    }


def walk(model: WorldModel, budgets: Budgets, num_chunks: int, *, is_wrong: bool = False) -> Walked:
    """Walk the route in a fresh world; `is_wrong` recalls wrong bytes on purpose."""
    num_frames = num_chunks * model.frames_per_chunk
    controls = route(ROUTE, num_frames / model.fps).frames(model.fps, num_frames)
    recalled = 0

    with tempfile.TemporaryDirectory(prefix="identity-", dir=Path.cwd()) as folder:
        kind = WrongBuffer if is_wrong else RecallBuffer
        with start(model, budgets, Path(folder), seed=SEED, buffer=kind) as drive:

            def settle() -> None:
                nonlocal recalled
                recalled += len(drive.stats.recalled)
                drive.pager.flush(30.0)

            drive.walk(controls, settle)
            stats = drive.stats
        moved = stats.fetched_bytes + stats.spilled_bytes
        return Walked(drive.frames, moved, stats.hits, recalled)


class WrongBuffer(RecallBuffer):
    """The negative control: the first block of every recall comes out negated."""

    def fill(self, lease: Lease) -> tuple[DecodedBlock, ...]:
        return tuple(
            block._replace(kv=block.kv.neg()) if place == 0 else block
            for place, block in enumerate(super().fill(lease))
        )


def differing_bytes(a: Sequence[Pixels], b: Sequence[Pixels]) -> int:
    """How many bytes differ between two walks, frame by frame; a missing frame differs in all of them."""
    shared = sum(int(np.count_nonzero(x != y)) for x, y in zip(a, b, strict=False))
    missing = sum(frame.nbytes for frame in [*a[len(b) :], *b[len(a) :]])
    return shared + missing


def main(argv: Sequence[str]) -> int:
    """Run the cases; exit 0 only when nothing differs, bytes moved, and the control differs."""
    parser = argparse.ArgumentParser(prog="python -m bench identity", description=__doc__)
    parser.add_argument("--json", dest="path")
    parser.add_argument("--chunks", type=int, default=120)
    options = parser.parse_args(argv)
    from models.rooms.model import RoomsModel  # noqa: PLC0415 - torch and weights only when they are needed

    return run(RoomsModel(), options.chunks, options.path)


def run(model: WorldModel, num_chunks: int, path: str | None) -> int:
    """The case MODEL/tiers for any model."""
    walks = {
        name: walk(model, budgets, num_chunks) for name, budgets in budgets_by_tier(model, num_chunks + 16).items()
    }
    control = walk(model, budgets_by_tier(model, num_chunks + 16)["gpu"], num_chunks, is_wrong=True)
    first = walks["gpu"].frames
    differing = sum(differing_bytes(first, other.frames) for other in walks.values())
    compared = sum(frame.nbytes for frame in first) * (len(walks) - 1)
    moved = sum(walked.moved_bytes for walked in walks.values())
    case = {
        "name": f"{model.name}/tiers",
        "differing_bytes": differing,
        "compared_bytes": compared,
        "moved_bytes": moved,
        "hits": {name: list(walked.hits) for name, walked in walks.items()},
        "recalled": {name: walked.recalled for name, walked in walks.items()},
    }
    control_differs = differing_bytes(first, control.frames) > 0
    totals = {"differing_bytes": differing, "compared_bytes": compared, "moved_bytes": moved}
    write_report(path, command_line(), {**totals, "control_differs": control_differs, "cases": [case]})
    for name, value in {**case, "control_differs": control_differs}.items():
        print(f"{name:16} {value}")
    return 0 if differing == 0 and moved > 0 and control_differs else 1
