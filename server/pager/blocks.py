"""Every state of a block and every legal change, as tables. Pure: no torch, threads, files or clock.

A block has a life, and in each tier a copy with a state of its own. All changes go through `Block`; the pager thread
is the only caller. Other threads may read `tiers`, which is replaced as one value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from server.pager.errors import BlockStateError
from shared.tiers import Tier


class BlockKey(NamedTuple):
    """A block of a world. Ids ascend within a world and are never used twice."""

    world: str
    block: int


class Life(Enum):
    """What became of a committed block."""

    WAITING = auto()  # committed, not encoded yet: its bytes are the model's own tensors
    ENCODING = auto()
    KEPT = auto()  # encoded: some tier holds it
    LOST = auto()  # no tier could take it in time, or its only copy was damaged
    FORGOTTEN = auto()  # its last copy was dropped under a budget, or by request


class Copy(Enum):
    """One tier's copy of a block."""

    NONE = auto()
    FILLING = auto()  # a move is writing it: nobody may read it
    READY = auto()
    LEAVING = auto()  # no longer offered; its slot is not free yet


class Change(Enum):
    """What can happen to a copy."""

    BEGIN = auto()
    DONE = auto()
    FAIL = auto()
    DROP = auto()
    FREE = auto()


COPY_CHANGES: Mapping[tuple[Copy, Change], Copy] = {
    (Copy.NONE, Change.BEGIN): Copy.FILLING,
    (Copy.FILLING, Change.DONE): Copy.READY,
    (Copy.FILLING, Change.FAIL): Copy.NONE,
    (Copy.READY, Change.DROP): Copy.LEAVING,
    (Copy.LEAVING, Change.FREE): Copy.NONE,
}

LIFE_CHANGES: Mapping[Life, frozenset[Life]] = {
    Life.WAITING: frozenset({Life.ENCODING, Life.LOST, Life.FORGOTTEN}),
    Life.ENCODING: frozenset({Life.KEPT, Life.LOST, Life.FORGOTTEN}),
    Life.KEPT: frozenset({Life.LOST, Life.FORGOTTEN}),
    Life.LOST: frozenset(),
    Life.FORGOTTEN: frozenset(),
}

# Which copy a tier is filled from. DRAM is also filled by the codec, while the block's life is ENCODING.
SOURCES: Mapping[Tier, Tier] = {Tier.GPU: Tier.DRAM, Tier.DRAM: Tier.NVME, Tier.NVME: Tier.DRAM}

NO_SLOT = -1


def _no_copies() -> list[Copy]:
    return [Copy.NONE, Copy.NONE, Copy.NONE]


def _no_slots() -> list[int]:
    return [NO_SLOT, NO_SLOT, NO_SLOT]


@dataclass(slots=True, eq=False)
class Block:
    """One block and its copies. A slot belongs to a copy from BEGIN to FAIL or FREE, and to nobody else meanwhile.

    A copy that a move reads (`readers` > 0) cannot be dropped.
    """

    key: BlockKey
    serial: int  # of this table entry, never used twice in a process
    generation: int  # of this block's bytes, never used twice in a world
    life: Life = Life.WAITING
    copies: list[Copy] = field(default_factory=_no_copies)  # by tier
    slots: list[int] = field(default_factory=_no_slots)  # by tier
    readers: list[int] = field(default_factory=lambda: [0, 0, 0])  # moves that read each copy now
    tiers: frozenset[Tier] = frozenset()  # the READY copies
    last_wanted_s: float = 0.0
    faults: int = 0  # failed moves so far
    is_unreadable: bool = False  # its NVME copy could not be read, twice: not tried again until the world is reopened
    is_unkept: bool = False  # NVME has dropped it under its budget, or never had room: not written again

    @property
    def is_alive(self) -> bool:
        """Whether it can still be recalled, now or once it is encoded."""
        return self.life in (Life.WAITING, Life.ENCODING, Life.KEPT)

    @property
    def is_idle(self) -> bool:
        """Whether no tier holds any part of it, so that its entry may go."""
        return all(copy is Copy.NONE for copy in self.copies)

    @property
    def offered(self) -> frozenset[Tier]:
        """The tiers that it can be recalled from."""
        if not self.is_alive:
            return frozenset()
        return self.tiers - {Tier.NVME} if self.is_unreadable else self.tiers

    def has(self, tier: Tier) -> bool:
        return self.copies[tier] is Copy.READY

    def is_filling(self, tier: Tier) -> bool:
        return self.copies[tier] is Copy.FILLING

    def can_drop(self, tier: Tier) -> bool:
        return self.copies[tier] is Copy.READY and self.readers[tier] == 0

    def live(self, life: Life) -> None:
        """Go on to another life."""
        if life not in LIFE_CHANGES[self.life]:
            raise BlockStateError(f"{self.key}: {self.life.name} cannot become {life.name}")
        self.life = life

    def begin(self, tier: Tier, slot: int) -> None:
        """A move starts filling `slot`. The copy it is filled from must be ready, and gains a reader."""
        source = SOURCES[tier]
        encodes = tier is Tier.DRAM and self.life is Life.ENCODING
        if not encodes:
            if self.copies[source] is not Copy.READY:
                raise BlockStateError(f"{self.key}: {tier.name} filled from {source.name}, which is not ready")
            self.readers[source] += 1
        self._change(tier, Change.BEGIN)
        self.slots[tier] = slot

    def end(self, tier: Tier, *, failed: bool) -> int:
        """The move into `tier` has ended. Returns the slot that a failed one gives back, or NO_SLOT."""
        source = SOURCES[tier]
        if self.life is not Life.ENCODING and self.readers[source] > 0:
            self.readers[source] -= 1
        self._change(tier, Change.FAIL if failed else Change.DONE)
        return self._take_slot(tier) if failed else NO_SLOT

    def drop(self, tier: Tier) -> None:
        """Offer the copy no longer. Its slot stays taken until `free`."""
        if self.readers[tier] > 0:
            raise BlockStateError(f"{self.key}: dropped from {tier.name} while a move reads it")
        self._change(tier, Change.DROP)

    def free(self, tier: Tier) -> int:
        """The copy is gone; returns its slot."""
        self._change(tier, Change.FREE)
        return self._take_slot(tier)

    def adopt(self, slot: int) -> None:
        """Found on disk when the world was opened: a ready NVME copy and nothing else."""
        self.life = Life.KEPT
        self._change(Tier.NVME, Change.BEGIN)
        self._change(Tier.NVME, Change.DONE)
        self.slots[Tier.NVME] = slot

    def _change(self, tier: Tier, change: Change) -> None:
        after = COPY_CHANGES.get((self.copies[tier], change))
        if after is None:
            raise BlockStateError(f"{self.key}: {change.name} in {tier.name} while {self.copies[tier].name}")
        self.copies[tier] = after
        self.tiers = frozenset(each for each in Tier if self.copies[each] is Copy.READY)

    def _take_slot(self, tier: Tier) -> int:
        slot, self.slots[tier] = self.slots[tier], NO_SLOT
        return slot
