"""What the player asks of the world's timeline, and what the server said of it. The player's thread.

Rewinding goes step by step while its key is held: the next step is asked for when the last one has arrived, so that
a slow server is never sent more than it can do, and the world stands still meanwhile.
"""

from client.link import Link
from client.pauses import Pauses, Reason
from client.status import Notice
from shared.protocol import (
    AskTree,
    Fork,
    HeadNote,
    Restore,
    Rewind,
    SnapshotNote,
    SnapshotRequest,
    Stats,
    SwitchRecall,
    Tree,
)

REWIND_S = 0.14  # between two steps back
_QUICK_AFTER = 12  # steps, after which each goes back two chunks, and then four
_PATIENCE_S = 8.0  # for an answer to a step
_TREE_S = 1.5  # between two looks at an open tree


class Travel:
    """One session's place in the tree. `learn` what arrives; the rest is the player's wishes."""

    def __init__(self, link: Link, pauses: Pauses) -> None:
        self.branch = ""
        self.tree: Tree | None = None
        self.recalls = True  # as of the newest chunk
        self.is_rewinding = False
        self.chunk = -1  # where rewinding has arrived
        self._link = link
        self._pauses = pauses
        self._asked_recalls: bool | None = None
        self._asked_s: float | None = None  # of the step that was not answered yet
        self._stepped_s = 0.0
        self._steps = 0
        self._is_at_end = False
        self._tree_s = float("-inf")

    # ---- wishes ----

    def save(self) -> None:
        """Keep this moment as a quick snapshot."""
        self._link.ask(SnapshotRequest())

    def load(self) -> None:
        """Go back to the newest quick snapshot."""
        self._link.ask(Restore())

    def restore(self, name: str) -> None:
        """Go to a snapshot, or over to a branch."""
        self._link.ask(Restore(name=name))

    def fork(self) -> None:
        """Begin a branch here and go on on it."""
        self._link.ask(Fork())

    def switch_recall(self) -> bool:
        """Switch the memory off or on; which of the two was asked for."""
        before = self.recalls if self._asked_recalls is None else self._asked_recalls
        self._asked_recalls = not before
        self._link.ask(SwitchRecall(on=not before))
        return not before

    def look(self, now_s: float) -> None:
        """The tree is open: ask for it anew now and then."""
        if now_s - self._tree_s >= _TREE_S:
            self._tree_s = now_s
            self._link.ask(AskTree())

    def hold_rewind(self, *, is_held: bool, now_s: float) -> None:
        """Call it on every pass: one step back when it is time for one."""
        if is_held and not self.is_rewinding:
            self.is_rewinding, self._is_at_end, self._steps, self._asked_s = True, False, 0, None
            self.chunk = -1
            self._pauses.give(Reason.REWIND)
        elif not is_held and self.is_rewinding:
            self.is_rewinding = False
            self._pauses.take_back(Reason.REWIND)
        if not self.is_rewinding or self._is_at_end:
            return
        is_open = self._asked_s is not None and now_s - self._asked_s < _PATIENCE_S
        if not is_open and now_s - self._stepped_s >= REWIND_S:
            self._asked_s = self._stepped_s = now_s
            self._steps += 1
            self._link.ask(Rewind(chunks=1 << min(2, self._steps // _QUICK_AFTER)))

    # ---- news ----

    def learn(self, news: object) -> None:
        """What the server said; what does not concern the timeline is passed over."""
        if isinstance(news, HeadNote):
            if news.why == "rewind" and news.chunk >= self.chunk >= 0:
                self._is_at_end = True  # it did not go back any further
            self.branch, self.chunk = news.branch, news.chunk
            self._asked_s = None
            self._tree_s = float("-inf")
        elif isinstance(news, SnapshotNote):
            self._tree_s = float("-inf")
        elif isinstance(news, Tree):
            self.tree, self.branch = news, news.branch or self.branch
        elif isinstance(news, Stats):
            self.recalls = news.recalls
            if news.recalls == self._asked_recalls:
                self._asked_recalls = None
        elif isinstance(news, Notice) and news.code == "snapshot" and self.is_rewinding:
            self._is_at_end = True
