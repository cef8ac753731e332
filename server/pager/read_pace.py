"""How long the disk takes to read one block, by how long it took for the last ones. Pager thread only; no clock."""

from server.pager.blocks import BlockKey

NEWEST_SHARE = 0.3  # of the newest read in the average
READERS = 2  # that share the disk, piece by piece
PIECE_SHARE = 1 / 7  # of a block, at most: move/slab.py reads one of Matrix-Game 2.0 in eight
KNOWN_AFTER_S = 0.02  # a chunk says what it wants at its edge, or a little later


class ReadPace:
    """Reads that are under way share the disk, so a block is taken to cost the time between two that come."""

    def __init__(self) -> None:
        self._read_s = 0.0  # 0: nothing is known, and nothing is held back
        self._began_s: dict[BlockKey, float] = {}
        self._came_s = 0.0  # when the last one came

    def begin(self, key: BlockKey, now_s: float) -> None:
        """A read has been given to the readers."""
        self._began_s[key] = now_s

    def end(self, key: BlockKey, now_s: float, *, is_whole: bool) -> None:
        """It has ended; when it was cancelled or failed, it has taught no more than that it was not faster."""
        num = max(1, len(self._began_s))
        began_s = self._began_s.pop(key, now_s)
        if is_whole:
            self._read_s += NEWEST_SHARE * (now_s - max(began_s, self._came_s) - self._read_s)
            self._came_s = now_s
        else:
            self._read_s = max(self._read_s, (now_s - began_s) / num)

    def rests(self, due_s: float) -> tuple[float, float]:
        """When a read should begin no piece: around the moment at which it will be known whether it was for nothing.

        A piece that is under way then could not be stopped, and would be in the way of what is wanted instead.
        """
        num_reading = min(READERS, len(self._began_s))
        return due_s - num_reading * self._read_s * PIECE_SHARE, due_s + KNOWN_AFTER_S

    def next_ends_s(self, now_s: float) -> float:
        """When one more read would end."""
        return now_s + self._read_s * (len(self._began_s) + 1)
