"""Which pictures of two sessions belong together: those of one chunk and one place in it. Pure; the player's thread.

Each session's pictures come in order, and some of the first one's never come: a live server leaves out what is late.
"""

from collections import OrderedDict, deque

from client.picture import Picture

MAX_WAITING = 256  # pictures of either side
_Place = tuple[int, int]


def _place(picture: Picture) -> _Place:
    return (picture.chunk, picture.index)


class Pairs:
    """Pictures that wait for their partner, whichever side is ahead. Memory is bounded on both sides."""

    def __init__(self) -> None:
        self._first: OrderedDict[_Place, Picture] = OrderedDict()
        self._second: deque[Picture] = deque(maxlen=MAX_WAITING)
        self._newest: _Place = (-1, -1)  # of the first side

    def add_first(self, picture: Picture) -> None:
        """One of the player's own session."""
        self._newest = max(self._newest, _place(picture))
        self._first[_place(picture)] = picture
        if len(self._first) > MAX_WAITING:
            self._first.popitem(last=False)

    def add_second(self, picture: Picture) -> None:
        """One of the other session."""
        self._second.append(picture)

    def take_ready(self) -> list[Picture]:
        """Pictures of the second side whose partners are here, in order, each once."""
        ready: list[Picture] = []
        while self._second and _place(self._second[0]) <= self._newest:  # what is not here by then never comes
            picture = self._second.popleft()
            partner = self._first.get(_place(picture))
            if partner is not None and (partner.width_px, partner.height_px) == (picture.width_px, picture.height_px):
                ready.append(picture)
        return ready

    def partner(self, picture: Picture) -> Picture | None:
        """The first side's picture for one that was ready. It and all before it are let go."""
        partner = self._first.get(_place(picture))
        while self._first and next(iter(self._first)) <= _place(picture):
            self._first.popitem(last=False)
        return partner
