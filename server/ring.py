"""The rewind ring: which recent heads of a session are kept: all of the newest, fewer further back. Engine thread."""

from server.head import Head, Recent

# kept: every n-th chunk among the heads that were drawn at most so many chunks ago
THINNING = ((16, 1), (64, 4), (512, 16))


class Ring:
    """Recent heads by moment, of whatever branch they were drawn on: going back and forth finds both lines."""

    def __init__(self) -> None:
        self._heads: dict[int, Recent] = {}
        self._num_drawn = 0

    def __len__(self) -> int:
        return len(self._heads)

    def get(self, moment: int) -> Head | None:
        """The head that was kept of a moment, while its state is in RAM."""
        found = self._heads.get(moment)
        return None if found is None else found.head

    def add(self, head: Head) -> tuple[Recent, list[Recent]]:
        """Keep the newest head; returns its place, and those that are thinned out for it."""
        self._num_drawn += 1
        leaving = [recent for recent in self._heads.values() if not self._stays(recent)]
        old = self._heads.pop(head.moment, None)
        for recent in leaving:
            self._heads.pop(recent.moment, None)
        newest = self._heads[head.moment] = Recent(head, self._num_drawn)
        return newest, leaving if old is None else [*leaving, old]

    def clear(self) -> list[Recent]:
        """Keep nothing any more; returns what was kept."""
        left, self._heads = list(self._heads.values()), {}
        return left

    def _stays(self, recent: Recent) -> bool:
        age = self._num_drawn - recent.order
        every = next((each for reach, each in THINNING if age <= reach), 0)
        return recent.head is not None and every > 0 and recent.chunk_index % every == 0
