"""Plans for a walk on a trace: what the extrapolators may know at each instant, and what they make of it. Pure.

While a chunk is computed the player's input for the next one arrives. A share of that chunk's time later, the held
keys and as large a share of its mouse travel are known; the rest of the trace is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.pager_rule import Rule
from server.pager.blocks import BlockKey
from server.pager.capacity import Geometry
from server.pager.decide.extrapolate import Seen, constant_velocity, likely_poses
from server.pager.decide.place import Plan
from server.trace import TraceChunk
from shared.controls import Controls
from shared.pose import Pose

CHUNKS_AHEAD = (1, 2, 4, 8)
KNOWN_SHARES = (0.0, 0.25, 0.6)  # of a chunk's time, at which it is planned again


@dataclass(frozen=True, slots=True)
class Foreseer:
    """Turns what is known of a walk into a plan, by the named extrapolator."""

    name: str
    chunks: Sequence[TraceChunk]
    geometry: Geometry
    rule: Rule
    world: str

    def poses(self, index: int, share: float) -> list[tuple[Pose, ...]]:
        """Likely poses 1, 2, 4 and 8 chunks after chunk `index`, when `share` of the next one's input is known."""
        at = self.chunks[index].pose
        if self.name == "constant-velocity":
            before = self.chunks[index - 1].pose if index else at
            recent = (Seen(-1.0, before), Seen(0.0, at))
            return [(constant_velocity(recent, float(ahead)),) for ahead in CHUNKS_AHEAD]
        if self.name == "oracle":
            last = len(self.chunks) - 1
            return [(self.chunks[min(last, index + ahead)].pose,) for ahead in CHUNKS_AHEAD]
        return self._by_controls(index, at, share)

    def plan(self, index: int, share: float, begin_s: float, chunk_s: float) -> Plan:
        """(deadline_s, keys in order of worth) for the chunks after chunk `index`, which began at `begin_s`."""
        if self.name == "none":
            return ()
        plan: list[tuple[float, list[BlockKey]]] = []
        for ahead, poses in zip(CHUNKS_AHEAD, self.poses(index, share), strict=True):
            found = [self.rule.wanted(pose, index + 1, ahead - 1) for pose in poses]
            keys = dict.fromkeys(BlockKey(self.world, block) for wanted in found for block in wanted)
            plan.append((begin_s + ahead * chunk_s, list(keys)))
        return plan

    def _by_controls(self, index: int, at: Pose, share: float) -> list[tuple[Pose, ...]]:
        geometry = self.geometry
        num = geometry.frames_per_chunk
        known = self.chunks[min(index + (share > 0.0), len(self.chunks) - 1)]
        held = Controls(known.keys, known.mouse[0] / num, known.mouse[1] / num)  # the mouse rate, over what is known
        ahead = [chunks * num for chunks in CHUNKS_AHEAD]
        return likely_poses(at, held, held, geometry.motion, 1.0 / geometry.fps, ahead)
