"""The shelf: how many bytes the states of kept heads may take in RAM, and which of them lie at rest instead.

One for all worlds of an engine. The oldest go first: a head of the rewind ring is let go of, since it can be drawn
again; any other is written to its state file, and its RAM is given up once that is durable. It comes back from there
bit for bit. Engine thread; nothing here waits.
"""

from dataclasses import dataclass, field

from server.head import KeptHead, Writer

DEFAULT_BYTES = 256 << 20
WAITING_BYTES = 64 << 20  # that may always wait for the disk beyond the budget
MAX_WRITING = 8  # heads on their way to the disk at once


@dataclass(slots=True)
class Shelf:
    """Kept heads whose states are in RAM, the one that was used longest ago first."""

    budget_bytes: int = DEFAULT_BYTES
    used_bytes: int = 0
    num_spilled: int = 0  # since it was made
    _held: dict[KeptHead, Writer] = field(default_factory=dict[KeptHead, Writer])

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_crowded(self) -> bool:
        """Whether so much is kept that the disk cannot have taken it as it came: RAM must not grow without bound."""
        return self.used_bytes > self.budget_bytes + max(self.budget_bytes, WAITING_BYTES)

    def hold(self, kept: KeptHead, writer: Writer) -> None:
        """Count a kept head whose state is in RAM; the newest of all."""
        if kept.head is None:
            return
        if kept in self._held:
            self._held[kept] = self._held.pop(kept)
            return
        kept.num_bytes = kept.head.state.num_bytes + (0 if kept.head.frame is None else kept.head.frame.pixels.nbytes)
        self.used_bytes += kept.num_bytes
        self._held[kept] = writer

    def touch(self, kept: KeptHead) -> None:
        """It was used: it goes last, if it is here at all. O(1)."""
        if (writer := self._held.pop(kept, None)) is not None:
            self._held[kept] = writer

    def release(self, kept: KeptHead) -> None:
        """It is kept no more, or a session draws from it: its state counts elsewhere."""
        if self._held.pop(kept, None) is not None:
            self.used_bytes -= kept.num_bytes

    def settle(self) -> None:
        """Bring what is held below the budget, as far as the disk has come."""
        if self.used_bytes <= self.budget_bytes:
            return
        num_writing = 0
        for kept, writer in list(self._held.items()):
            if self.used_bytes <= self.budget_bytes or num_writing >= MAX_WRITING:
                return
            if kept.can_drop:
                self._spill(kept)
            elif kept.rest is not None:
                self._spill(kept)
                self.num_spilled += 1
            else:
                num_writing += _is_being_written(kept, writer)

    def _spill(self, kept: KeptHead) -> None:
        self.release(kept)
        kept.head = None


def _is_being_written(kept: KeptHead, writer: Writer) -> bool:
    """Whether its write is under way; begun now when there was none. What the disk refused, its world tries again."""
    writing = kept.durability
    if writing is None:
        writing = writer.write(kept)
    return not writing.done()
