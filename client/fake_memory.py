"""A make-believe pager for the rehearsal server: blocks that age from GPU to DRAM to NVME and come back. Pure."""

import math

from shared.pose import Pose, distance_m
from shared.protocol import BlockMove, BlockNote, Message, Stats, TierState
from shared.tiers import Tier

_SLOTS = (12, 40, 400)  # of each tier
_BLOCK_BYTES = 156_000
_RECALL = 4


class FakeMemory:
    """Keeps a block for every second chunk, and recalls the nearest old ones. Figures are plausible, not measured."""

    def __init__(self) -> None:
        self._poses: dict[int, Pose] = {}
        self._tiers: dict[int, Tier] = {}
        self._used: dict[int, int] = {}  # block -> chunk that last wanted it
        self._hits = [0, 0, 0]
        self._fetched = self._spilled = 0

    def chunk(self, chunk: int, pose: Pose) -> list[Message]:
        """What a server says after a chunk that ended at `pose`: its stats, and the blocks that changed."""
        moves: list[BlockMove] = []
        recalled = sorted(self._poses, key=lambda block: distance_m(self._poses[block], pose))[:_RECALL]
        hit_tiers = [self._tiers[block] for block in recalled]
        for block, tier in zip(recalled, hit_tiers, strict=True):
            self._hits[tier] += 1
            self._used[block] = chunk
            self._move(block, Tier.GPU, moves)
        if chunk % 2 == 0:
            self._poses[chunk], self._used[chunk] = pose, chunk
            self._move(chunk, Tier.GPU, moves)
        for tier in (Tier.GPU, Tier.DRAM):
            self._spill(tier, moves)
        note = BlockNote(blocks=[self._place(block) for block, _, _ in moves], moves=moves)
        return [self._stats(chunk, pose, recalled, hit_tiers), note]

    def _place(self, block: int) -> tuple[int, float, float, float, int, bool]:
        pose = self._poses[block]
        return (block, pose.x_m, pose.z_m, pose.yaw_rad, int(self._tiers[block]), block < 12)

    def _move(self, block: int, target: Tier, moves: list[BlockMove]) -> None:
        source = self._tiers.get(block, -1)
        if source == target:
            return
        self._tiers[block] = target
        moves.append((block, int(source), int(target)))
        self._fetched += _BLOCK_BYTES * (source > target)
        self._spilled += _BLOCK_BYTES * (-1 < source < target)

    def _spill(self, tier: Tier, moves: list[BlockMove]) -> None:
        held = sorted((block for block, at in self._tiers.items() if at == tier), key=lambda block: self._used[block])
        for block in held[: max(0, len(held) - _SLOTS[tier])]:
            self._move(block, Tier(tier + 1), moves)

    def _stats(self, chunk: int, pose: Pose, recalled: list[int], hit_tiers: list[Tier]) -> Stats:
        counts = [sum(1 for at in self._tiers.values() if at == tier) for tier in Tier]
        ahead = Pose(
            pose.x_m + 0.3 * math.sin(pose.yaw_rad), 0.0, pose.z_m + 0.3 * math.cos(pose.yaw_rad), pose.yaw_rad + 0.12
        )
        return Stats(
            chunk=chunk, wanted=recalled, recalled=recalled, recalled_tiers=[int(tier) for tier in hit_tiers],
            tiers=[TierState(blocks=count, used_bytes=count * _BLOCK_BYTES, budget_bytes=slots * _BLOCK_BYTES)
                   for count, slots in zip(counts, _SLOTS, strict=True)],
            stale=False, hits=self._hits, chunks=chunk, stale_chunks=chunk // 90, lost=0, forgotten=0, missed=0,
            fetched_bytes=self._fetched, spilled_bytes=self._spilled, disk_read_bytes=0, disk_written_bytes=0,
            queued_moves=0, stalls=0, preempted=0, longest_wait_ms=0.12, prediction_error_m=0.04,
            prediction_error_rad=0.02, foreseen=ahead.as_tuple(), stages_ms={"step": 142.0, "decode": 6.0}, notes=[],
        )  # fmt: skip
