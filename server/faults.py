"""What stops an operation of the server, not the server. A fault of the world is a value wherever it can be one.

    PagerError       server/pager/errors.py: BudgetError, WorldFault, BlockStateError
    Refused          a client may not have what it asked for; `code` goes to the wire
    SnapshotFault    a snapshot, a branch or a moment that was asked for cannot be had; nothing was changed

The texts are for users: what happened, what it means, what to do.
"""

from server.pager.errors import WorldFault

__all__ = ["Refused", "SnapshotFault", "WorldFault"]


class Refused(Exception):  # noqa: N818 - a refusal is no error of ours
    """A client may not have what it asked for."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class SnapshotFault(Exception):  # noqa: N818 - its text is for the player
    """A snapshot, a branch or an earlier moment cannot be had. The session stands where it stood."""
