"""What the pager thread and the movers say to each other. Values; no thread of their own.

A mover takes a `Move` and always gives back one `MoveDone`, whatever happened: only then are the move's slots anyone
else's again.
"""

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from server.pager.blocks import NO_SLOT, BlockKey
from shared.tiers import Tier

if TYPE_CHECKING:  # what is stored is looked at without torch
    from models.base import FreshBlock


class Route(Enum):
    """From where to where."""

    ENCODE = auto()  # the model's tensors to a DRAM slot
    READ = auto()  # NVME to DRAM
    RAISE = auto()  # DRAM to GPU
    WRITE = auto()  # DRAM to NVME, durable when done
    ERASE = auto()  # the NVME copy's record is dropped, durable when done


ENDS: dict[Route, tuple[Tier | None, Tier | None]] = {
    Route.ENCODE: (None, Tier.DRAM),
    Route.READ: (Tier.NVME, Tier.DRAM),
    Route.RAISE: (Tier.DRAM, Tier.GPU),
    Route.WRITE: (Tier.DRAM, Tier.NVME),
    Route.ERASE: (Tier.NVME, None),
}


@dataclass(slots=True, eq=False)
class Move:
    """One thing for a mover to do. The pager thread sets `is_cancelled` and `rests`; the mover looks between pieces.

    From the first to the second moment of `rests`, on the pager's clock, it begins no piece.
    """

    route: Route
    key: BlockKey
    serial: int
    generation: int
    gpu_slot: int = NO_SLOT
    dram_slot: int = NO_SLOT
    nvme_slot: int = NO_SLOT
    fresh: "FreshBlock | None" = None
    event: Any = None  # CUDA: recorded when the fresh tensors were complete
    is_cancelled: bool = False
    rests: tuple[float, float] = (math.inf, math.inf)

    def is_resting(self, now_s: float) -> bool:
        return not self.is_cancelled and self.rests[0] <= now_s < self.rests[1]


class MoveDone(NamedTuple):
    """How a move ended. `error` is for people; a cancelled move has none and did not finish."""

    move: Move
    error: str | None = None
    is_cancelled: bool = False
    is_damaged: bool = False  # the bytes that came are not the block's
    is_slot_bad: bool = False  # NVME: what the slot holds is unknown; do not use it again
    num_bytes: int = 0

    @property
    def has_failed(self) -> bool:
        return self.error is not None or self.is_cancelled


class Held(NamedTuple):
    """What an NVME slot holds."""

    block: int
    generation: int


class MoveNote(NamedTuple):
    """For the HUD: a block came from a tier (None: it was made) to a tier (None: it left)."""

    key: BlockKey
    from_tier: Tier | None
    to_tier: Tier | None


class Movers(Protocol):
    """Whatever carries out moves. Never blocks the pager thread; every move submitted comes back as a MoveDone."""

    def submit(self, move: Move) -> None: ...

    def stop(self) -> None: ...
