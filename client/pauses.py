"""Why the player's world should stand still. The player's thread.

Several parts of the client stop the world for a while: P, rewinding, split mode. The server knows only one pause. So
each part gives its own reason here, and the world runs again when the last one is gone, whoever was first. What the
server says of pauses comes later than what was asked of it, and is never used to decide.
"""

from enum import Enum, auto

from client.link import Link


class Reason(Enum):
    """Who wants the world to stand still."""

    PLAYER = auto()  # P
    REWIND = auto()
    SPLIT = auto()


class Pauses:
    """The reasons that hold now; the server is told when the first one comes and when the last one goes."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._reasons: set[Reason] = set()

    def __contains__(self, reason: Reason) -> bool:
        return reason in self._reasons

    def give(self, reason: Reason) -> None:
        """From now on the world stands still for this reason, too."""
        if not self._reasons:
            self._link.pause(on=True)
        self._reasons.add(reason)

    def take_back(self, reason: Reason) -> None:
        """This reason holds no more."""
        if reason not in self._reasons:
            return
        self._reasons.remove(reason)
        if not self._reasons:
            self._link.pause(on=False)

    def turn(self, reason: Reason) -> None:
        """Give the reason, or take it back when it holds."""
        (self.take_back if reason in self else self.give)(reason)

    def connected(self) -> None:
        """A connection begins, and with it the world runs: ask again for what should stand still."""
        if self._reasons:
            self._link.pause(on=True)
