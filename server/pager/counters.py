"""What happened to the blocks and bytes of one world. Pure values, counted by the pager thread."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(slots=True)
class Counters:
    """Totals of one world since it was opened."""

    lost: int = 0
    forgotten: int = 0
    missed: int = 0
    fetched_bytes: int = 0
    spilled_bytes: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0

    def copy(self) -> "Counters":
        return replace(self)

    def since(self, base: "Counters | None") -> "Counters":
        """What was added since `base`. A world that was opened anew meanwhile counts from there."""
        if base is None or any(getattr(self, name) < getattr(base, name) for name in Counters.__slots__):
            return self
        return Counters(*(getattr(self, name) - getattr(base, name) for name in Counters.__slots__))


def total(counters: Iterable[Counters]) -> Counters:
    """The sum over several worlds."""
    each = list(counters)
    return Counters(*(sum(getattr(one, name) for one in each) for name in Counters.__slots__))
