"""What the pager lends to the engine: the ready set, a lease on some of it, and the pins that keep slots from reuse.

The engine thread takes leases; the pager thread publishes ready sets and asks `Pins` before it reuses a slot. Neither
takes a lock. The rule: the engine says that it is entering, reads the published set, names its lease, and only then
says that it has entered. The pager first publishes a set without the slot and then looks: whoever is not entering has
either named the slot by now or will never see it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Protocol, Self

import torch

from server.pager.blocks import BlockKey
from shared.tiers import Tier


class LeasedBlock(NamedTuple):
    """A block on the GPU: its encoded bytes and side planes, views of its slot. Read only."""

    key: BlockKey
    serial: int  # of the block's table entry: equal serials mean equal bytes
    slot: int
    packed: torch.Tensor  # [moved_bytes] uint8
    side: Mapping[str, torch.Tensor]


def _no_hits() -> Mapping[str, Mapping[BlockKey, Tier]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ReadySet:
    """All blocks on the GPU at one instant. Never changed after it is published."""

    blocks: Mapping[BlockKey, LeasedBlock] = field(default_factory=dict[BlockKey, LeasedBlock])
    hits: Mapping[str, Mapping[BlockKey, Tier]] = field(default_factory=_no_hits)  # by head, of what it wants
    gone: frozenset[BlockKey] = frozenset()  # wanted by some head, and cannot come
    seen: int = 0  # the newest ask that this set takes into account

    def complete(self, keys: Sequence[BlockKey]) -> bool:
        """Whether all of `keys` that can come are here."""
        for key in keys:  # noqa: SIM110 - within a recall, where a generator costs a microsecond
            if key not in self.blocks and key not in self.gone:
                return False
        return True


class Lease:
    """The blocks of one recall, pinned until `release`. May be released once or more, by the engine thread only."""

    __slots__ = ("_give_back", "_hit_tiers", "_settle", "blocks", "is_released", "keys", "missing", "stale", "wait_ms")

    def __init__(
        self,
        keys: tuple[BlockKey, ...],
        blocks: tuple[LeasedBlock, ...],
        give_back: Callable[["Lease"], None],
        settle: Callable[[], None] | None = None,
        *,
        stale: bool = False,
        missing: tuple[BlockKey, ...] = (),
        wait_ms: float = 0.0,
    ) -> None:
        """`settle` has the lease counted, if it is not yet."""
        self.keys = keys
        self.blocks = blocks  # in the order of `keys`
        self.stale = stale  # the recall differs from what was wanted
        self.missing = missing  # wanted, and lost, forgotten or damaged
        self.wait_ms = wait_ms
        self.is_released = False
        self._give_back = give_back
        self._settle = settle
        self._hit_tiers: tuple[Tier, ...] = ()

    @property
    def hit_tiers(self) -> tuple[Tier, ...]:
        """Of each block."""
        if self._settle is not None:
            self._settle()
        return self._hit_tiers

    def count(self, hit_tiers: tuple[Tier, ...]) -> None:
        """It was counted with these."""
        self._hit_tiers, self._settle = hit_tiers, None

    def release(self) -> None:
        if not self.is_released:
            self.is_released = True
            self._give_back(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Fence(Protocol):
    """Something queued on a device that must be over before what it reads may be overwritten."""

    def is_passed(self) -> bool: ...


class Pins:
    """Which slots the engine holds. Written by the engine thread, read by the pager thread.

    The engine reads a ready set and names its lease inside `with pins`. A lease that is given back while the device
    still decodes from it stays pinned until its fence is passed.
    """

    def __init__(self) -> None:
        self.is_entering = False
        self._leases: tuple[tuple[Lease, Fence | None], ...] = ()  # a fence: given back

    def __enter__(self) -> None:
        self.is_entering = True

    def __exit__(self, *_: object) -> None:
        self.is_entering = False

    def add(self, lease: Lease) -> None:
        self._leases = (*self._passed(), (lease, None)) if self._leases else ((lease, None),)

    def remove(self, lease: Lease, fence: Fence | None) -> None:
        others = tuple(each for each in self._passed() if each[0] is not lease)
        self._leases = others if fence is None else (*others, (lease, fence))

    def may_reuse(self, slot: int) -> bool:
        """Whether nobody can read the slot any more. Ask only after a ready set without it was published."""
        return not self.is_entering and not self.is_leased(slot)

    @property
    def is_fading(self) -> bool:
        """Whether a lease that was given back is still read by the device."""
        return any(fence is not None and not fence.is_passed() for _, fence in self._leases)

    def leased_keys(self) -> set[BlockKey]:
        """Blocks of the leases that are out."""
        return {key for lease, fence in self._leases if fence is None for key in lease.keys}

    def is_leased(self, slot: int) -> bool:
        return any(block.slot == slot for lease, fence in self._leases if not _is_over(fence) for block in lease.blocks)

    def _passed(self) -> tuple[tuple[Lease, Fence | None], ...]:
        """The leases without those that are over."""
        return tuple(each for each in self._leases if not _is_over(each[1]))


def _is_over(fence: Fence | None) -> bool:
    return fence is not None and fence.is_passed()
