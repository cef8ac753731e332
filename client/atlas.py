"""What the client knows of the world's memory: blocks by tier, the trail, rates. Pure; the player's thread."""

from collections import deque
from dataclasses import dataclass

from shared.pose import Pose
from shared.protocol import BlockNote, Stats
from shared.tiers import Tier

_TRAIL_STEP_M = 0.05
_MAX_TRAIL = 4_096
_MAX_MOVES = 256
_RATE_S = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """A block on the map: where its view was taken from, and the highest tier that holds a copy."""

    block_id: int
    x_m: float
    z_m: float
    yaw_rad: float
    tier: Tier
    seeded: bool


@dataclass(frozen=True, slots=True)
class Move:
    """A block that moved between tiers; None is nowhere: it was just encoded, or forgotten."""

    block_id: int
    source: Tier | None
    target: Tier | None
    at_s: float


def tier_of(number: int) -> Tier | None:
    """The tier with a number of the wire; None for -1, which is nowhere."""
    return Tier(number) if 0 <= number < len(Tier) else None


class Atlas:
    """The map and the tiers of one session, as the server told them."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self.trail: list[tuple[float, float]] = []
        self._trail_chunks: list[int] = []  # of the points of the trail
        self.pose: Pose | None = None
        self.foreseen: Pose | None = None
        self.stats: Stats | None = None
        self.chunk: int | None = None  # where the head stands: after a jump that is not the chunk of the stats
        self.moves: deque[Move] = deque(maxlen=_MAX_MOVES)
        self._totals: deque[tuple[float, int, int]] = deque(maxlen=128)

    def note(self, note: BlockNote, now_s: float) -> None:
        """Blocks that are new, moved or gone."""
        for block_id, x_m, z_m, yaw_rad, tier_number, seeded in note.blocks:
            tier = tier_of(tier_number)
            if tier is None:
                self.places.pop(block_id, None)
            else:
                self.places[block_id] = Place(block_id, x_m, z_m, yaw_rad, tier, seeded)
        self.moves.extend(Move(block, tier_of(source), tier_of(target), now_s) for block, source, target in note.moves)

    def learn(self, stats: Stats, now_s: float) -> None:
        """What the memory did for one more chunk."""
        self.stats, self.chunk = stats, stats.chunk
        self.foreseen = Pose(*stats.foreseen) if stats.foreseen is not None else None
        self._totals.append((now_s, stats.fetched_bytes, stats.spilled_bytes))

    @property
    def is_recall_known(self) -> bool:
        """Whether the stats are of the chunk where the head stands."""
        return self.stats is not None and self.stats.chunk == self.chunk

    def stand(self, pose: Pose, chunk: int = 0) -> None:
        """The shown frame, of this chunk, was drawn from here."""
        self.pose = pose
        x_m, z_m = self.trail[-1] if self.trail else (float("inf"), 0.0)
        if abs(pose.x_m - x_m) + abs(pose.z_m - z_m) < _TRAIL_STEP_M:
            return
        self.trail.append((pose.x_m, pose.z_m))
        self._trail_chunks.append(chunk)
        if len(self.trail) > _MAX_TRAIL:  # the older half gets by with every second point
            half = _MAX_TRAIL // 2
            self.trail[:half] = self.trail[:half:2]
            self._trail_chunks[:half] = self._trail_chunks[:half:2]

    def forget_places(self) -> None:
        """All blocks will be told anew."""
        self.places.clear()
        self.moves.clear()

    def jump(self, chunk: int) -> None:
        """The head went back to this chunk: its blocks are told anew, and the trail beyond it was not walked."""
        self.chunk = chunk
        self.forget_places()
        self.foreseen = None
        kept = sum(1 for walked in self._trail_chunks if walked <= chunk)
        del self.trail[kept:], self._trail_chunks[kept:]

    def rates(self, now_s: float) -> tuple[float, float]:
        """Bytes a second that were fetched and spilled lately."""
        while len(self._totals) > 2 and now_s - self._totals[0][0] > _RATE_S:
            self._totals.popleft()
        if len(self._totals) < 2:
            return (0.0, 0.0)
        (from_s, fetched_before, spilled_before), (_, fetched, spilled) = self._totals[0], self._totals[-1]
        elapsed_s = max(0.1, now_s - from_s)
        return ((fetched - fetched_before) / elapsed_s, (spilled - spilled_before) / elapsed_s)
