"""The analytical model: what budgets and a drive are good for, before anything runs. Pure arithmetic; any thread.

Owns the formulas and the shipped geometries. `python -m server plan` prints them, `bench/pager_grid.py` holds them
against the real pager.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from models.base import KVSpec, SidePlane
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.layout import SlotLayout, round_up
from server.pager.move.slab import slots_at
from shared.pose import Motion

DRIVE_TBW = 600.0  # terabytes that a usual 1 TB consumer drive is warranted for
USUAL_READ_GBPS = 3.5  # a PCIe 3.0 drive
PAGE_BYTES = 4096
HOUR_S = 3600.0
USUAL_MOTION = Motion(walk_m_s=1.6, turn_rad_s=0.8)
PLAN_TIERS = ("gpu_bf16", "dram_bf16", "gpu_int4", "dram_int4", "nvme_int4")


@dataclass(frozen=True, slots=True)
class Geometry:
    """What of a model decides its memory: a block's shape, how long a chunk takes, and how many blocks it recalls."""

    name: str
    spec: KVSpec
    chunk_ms: float
    k: int
    table_frames: int = 0  # latent frames that the rotary table covers; 0: positions have no end
    frames_per_block: int = 1  # latent frames of one chunk
    fps: float = 16.0
    frames_per_chunk: int = 12
    motion: Motion = USUAL_MOTION  # of the shipped trajectories

    @property
    def bf16_bytes(self) -> int:
        """Payload of a block as the model left it."""
        return self.spec.kv_bytes + self.spec.side_bytes

    @property
    def int4_bytes(self) -> int:
        """Payload of an encoded block: codes, scales and side planes, without header and padding."""
        layout = SlotLayout(self.spec)
        return layout.planes_bytes + layout.scales_bytes + self.spec.side_bytes

    @property
    def position_limit_chunk(self) -> int | None:
        """The first chunk that the model's own rotary table cannot place."""
        return self.table_frames // self.frames_per_block if self.table_frames else None


SHIPPED: Mapping[str, Geometry] = {
    "matrix-game-2": Geometry(
        "matrix-game-2",
        KVSpec(layers=30, tokens=2640, width=1536, head_width=128),
        chunk_ms=1200.0,
        k=3,
        table_frames=1024,
        frames_per_block=3,
        motion=Motion(walk_m_s=0.12 * 16.0, turn_rad_s=0.1 * 0.26 * 16.0, max_pitch_rad=0.6),
    ),
    "rooms": Geometry(
        "rooms",
        KVSpec(6, 192, 256, 64, (SidePlane("depth", (2, 96), torch.float32),)),
        chunk_ms=2000.0 / 12.0,
        k=6,
        fps=12.0,
        frames_per_chunk=2,
        motion=Motion(walk_m_s=0.11 * 12.0, turn_rad_s=0.2 * 12.0),
    ),
}


@dataclass(frozen=True, slots=True)
class Load:
    """What a walk asks of the drive: how long a chunk is, how much of a recall is new, and how fast the drive reads."""

    chunk_ms: float
    new_per_chunk: float
    read_gbps: float
    blocks_per_chunk: float = 1.0  # that chunks leave behind


def spill_chunks(geometry: Geometry, budgets: Budgets) -> dict[str, int]:
    """The chunk at which each tier alone is full: floor(budget / payload bytes)."""
    bf16, int4 = geometry.bf16_bytes, geometry.int4_bytes
    payloads = (
        budgets.gpu_bytes // bf16,
        budgets.dram_bytes // bf16,
        budgets.gpu_bytes // int4,
        budgets.dram_bytes // int4,
        budgets.nvme_bytes // int4,
    )
    return dict(zip(PLAN_TIERS, payloads, strict=True))


def stored_chunks(geometry: Geometry, budgets: Budgets, k: int) -> dict[str, int]:
    """Slots that the budgets really buy: headers, pages and the decoded recall buffer of `k` blocks counted.

    The pager stores no bf16; its two figures are what the same slots would take unencoded.
    """
    layout = SlotLayout(geometry.spec)
    raw_slot = round_up(layout.header_bytes + geometry.bf16_bytes, PAGE_BYTES)
    buffer = buffer_bytes(layout, k, torch.bfloat16)
    slots = (
        budgets.gpu_bytes // raw_slot,
        budgets.dram_bytes // raw_slot,
        max(0, budgets.gpu_bytes - buffer) // layout.slot_bytes,
        budgets.dram_bytes // layout.slot_bytes,
        max(0, budgets.nvme_bytes - slots_at(layout)) // layout.slot_bytes,
    )
    return dict(zip(PLAN_TIERS, slots, strict=True))


def critical_read_gbps(block_bytes: int, new_per_chunk: float, chunk_ms: float) -> float:
    """The rate below which reads fall behind: new blocks per chunk x block bytes / chunk time."""
    return new_per_chunk * block_bytes / (chunk_ms / 1e3) / 1e9


def stall_class(read_gbps: float, critical_gbps: float) -> str:
    """Whether a walk that waits for its recalls has waits in the long run: "zero" or "non-zero"."""
    return "zero" if read_gbps >= critical_gbps else "non-zero"


def new_per_chunk(wanted: Iterable[Sequence[int]]) -> float:
    """Blocks of a chunk's recall that the chunk before did not have, on average over a trace."""
    fresh = [len(set(now) - set(before)) for before, now in pairwise(wanted)]
    return sum(fresh) / len(fresh) if fresh else 0.0


def wear(geometry: Geometry, budgets: Budgets, k: int, load: Load) -> dict[str, float]:
    """How fast blocks are written, when the NVMe budget is full, and when the drive is worn out."""
    chunks_per_hour = HOUR_S * 1e3 / load.chunk_ms
    blocks_per_hour = chunks_per_hour * load.blocks_per_chunk
    gb_per_hour = blocks_per_hour * SlotLayout(geometry.spec).moved_bytes / 1e9
    slots = stored_chunks(geometry, budgets, k)["nvme_int4"]
    return {
        "write_gb_per_hour": gb_per_hour,
        "hours_until_nvme_full": slots / blocks_per_hour if blocks_per_hour else math.inf,
        "hours_until_600_tbw": DRIVE_TBW * 1e3 / gb_per_hour if gb_per_hour else math.inf,
    }
