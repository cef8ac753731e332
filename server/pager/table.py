"""The block table: every block of every open world, and which slots are free. Owned by the pager thread.

Other threads may look one block up (`blocks.get`) and read its `tiers`; nothing else. No torch, files or clock: times
come in as arguments. In each tier: free slots + slots of copies + bad slots = all slots (`check`).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from server.pager.blocks import NO_SLOT, Block, BlockKey, Copy, Life
from server.pager.counters import Counters
from server.pager.errors import BlockStateError
from shared.tiers import Tier

MAX_NOTES = 4


@dataclass(slots=True)
class Slots:
    """The free list of one tier (of one world, in NVME). A slot is free, taken or bad, and only one of them."""

    num_slots: int
    free: list[int] = field(default_factory=list[int])
    bad: set[int] = field(default_factory=set[int])

    @classmethod
    def all_free(cls, num_slots: int) -> "Slots":
        return cls(num_slots, list(range(num_slots - 1, -1, -1)))

    def take(self) -> int:
        return self.free.pop()

    def give_back(self, slot: int, *, is_bad: bool = False) -> None:
        if is_bad:
            self.bad.add(slot)
        else:
            self.free.append(slot)


@dataclass(slots=True)
class WorldShelf:
    """One world: the slots of its NVME tier, its copies there, the least recently wanted first, and its totals."""

    slots: Slots
    next_generation: int
    order: dict[BlockKey, None] = field(default_factory=dict[BlockKey, None])
    unsaved: dict[BlockKey, None] = field(default_factory=dict[BlockKey, None])  # to be written, oldest first
    stuck: set[BlockKey] = field(default_factory=set[BlockKey])  # could not be written, and never will be
    counters: Counters = field(default_factory=Counters)
    notes: deque[str] = field(default_factory=lambda: deque[str](maxlen=MAX_NOTES))  # its faults in words, newest last
    pinned: frozenset[int] = frozenset()  # blocks that snapshots keep: forgotten last
    is_closing: bool = False


class Table:
    """Blocks and slots. `order` holds the READY copies of GPU and DRAM, the least recently wanted first."""

    def __init__(self, gpu_slots: int, dram_slots: int) -> None:
        self.blocks: dict[BlockKey, Block] = {}
        self.shared: dict[Tier, Slots] = {Tier.GPU: Slots.all_free(gpu_slots), Tier.DRAM: Slots.all_free(dram_slots)}
        self.order: dict[Tier, dict[BlockKey, None]] = {Tier.GPU: {}, Tier.DRAM: {}}
        self.worlds: dict[str, WorldShelf] = {}
        self._serials = count(1)

    def slots(self, tier: Tier, world: str) -> Slots:
        return self.worlds[world].slots if tier is Tier.NVME else self.shared[tier]

    def ready(self, tier: Tier, world: str) -> dict[BlockKey, None]:
        """The READY copies of a tier, least recently wanted first."""
        return self.worlds[world].order if tier is Tier.NVME else self.order[tier]

    def add(self, key: BlockKey, now_s: float) -> Block:
        """A new entry for a block that was just committed."""
        if key in self.blocks:
            raise BlockStateError(f"{key} was committed twice")
        shelf = self.worlds[key.world]
        block = Block(key, next(self._serials), shelf.next_generation, last_wanted_s=now_s)
        shelf.next_generation += 1
        self.blocks[key] = block
        return block

    def adopt(self, key: BlockKey, generation: int, slot: int, now_s: float) -> None:
        """An entry for a block that was found on disk."""
        block = Block(key, next(self._serials), generation, last_wanted_s=now_s)
        block.adopt(slot)
        self.blocks[key] = block
        self.worlds[key.world].order[key] = None

    def begin(self, block: Block, tier: Tier) -> int:
        """Take a free slot for the copy that a move will fill."""
        slot = self.slots(tier, block.key.world).take()
        block.begin(tier, slot)
        return slot

    def end(self, block: Block, tier: Tier, *, failed: bool, is_slot_bad: bool = False) -> None:
        """The move into `tier` has ended: the copy is offered, or its slot is given back."""
        slot = block.end(tier, failed=failed)
        if slot != NO_SLOT:
            self.slots(tier, block.key.world).give_back(slot, is_bad=is_slot_bad)
        else:
            self.ready(tier, block.key.world)[block.key] = None

    def drop(self, block: Block, tier: Tier) -> None:
        """Offer the copy no longer. DRAM's slot is free at once, the others' when `free` says so."""
        block.drop(tier)
        del self.ready(tier, block.key.world)[block.key]
        if tier is Tier.DRAM:
            self.free(block, tier)

    def free(self, block: Block, tier: Tier, *, is_slot_bad: bool = False) -> None:
        self.slots(tier, block.key.world).give_back(block.free(tier), is_bad=is_slot_bad)

    def touch(self, block: Block, now_s: float) -> None:
        """The block is wanted now: it goes to the end of each tier's order."""
        block.last_wanted_s = now_s
        for tier in block.tiers:
            order = self.ready(tier, block.key.world)
            del order[block.key]
            order[block.key] = None

    def remove_if_idle(self, block: Block) -> None:
        """Forget the entry of a dead block that holds nothing any more."""
        if not block.is_alive and block.is_idle and self.blocks.get(block.key) is block:
            del self.blocks[block.key]

    def end_life(self, block: Block, life: Life) -> None:
        """The block is lost or forgotten: nothing is written for it any more. Its copies leave as moves end."""
        block.live(life)
        shelf = self.worlds[block.key.world]
        shelf.unsaved.pop(block.key, None)
        shelf.stuck.discard(block.key)

    def of_world(self, world: str) -> Iterator[Block]:
        return (block for block in self.blocks.values() if block.key.world == world)

    def check(self) -> None:
        """Raise BlockStateError unless every slot is free, bad, or of exactly one copy. For tests and idle moments."""
        for tier in (Tier.GPU, Tier.DRAM):
            _check_slots(tier, self.shared[tier], self.blocks.values())
        for world, shelf in self.worlds.items():
            _check_slots(Tier.NVME, shelf.slots, list(self.of_world(world)))
        for block in self.blocks.values():
            if block.life is Life.KEPT and block.is_idle:
                raise BlockStateError(f"{block.key} is kept by no tier")


def _check_slots(tier: Tier, slots: Slots, blocks: Iterable[Block]) -> None:
    held = [block.slots[tier] for block in blocks if block.copies[tier] is not Copy.NONE]
    found = sorted([*slots.free, *slots.bad, *held])
    if found != list(range(slots.num_slots)):
        raise BlockStateError(f"{tier.name}: {len(slots.free)} free + {len(held)} held of {slots.num_slots} slots")
