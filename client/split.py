"""Split mode: the same walk with recall and without, from one moment on, both drawn live. The player's thread.

The world is paused for a moment, a snapshot is made, and a second connection enters it with recall switched off. From
then on what each chunk of the player's own session was drawn with is given to the other one, so that both draw the
same controls. Pictures are shown in pairs of one chunk and one place in it; the one that is ahead waits.
"""

import time
from collections import OrderedDict, deque
from dataclasses import dataclass, replace

import numpy as np

from client.likeness import MAX_PSNR_DB
from client.link import Link
from client.mailbox import News
from client.picture import Picture
from client.playout import Playout
from client.status import Notice, Phase, Status, card_for
from client.stepping import Following
from client.walk import Walk
from client.wire import Visit
from shared.protocol import HeadNote, SnapshotNote, SnapshotRequest, Stats, SwitchRecall, Welcome

_MAX_LEFT = 256  # pictures of the player's own session that wait for the other's
_AHEAD_CHUNKS, _CAUGHT_UP_CHUNKS = 6, 2
_PATIENCE_S = 20.0  # until the other session stands
_REMEMBERED = 400  # pairs in the curve


@dataclass(frozen=True, slots=True)
class Both:
    """Two pictures of one chunk and one place in it, and their PSNR in decibels."""

    with_recall: Picture
    without: Picture
    psnr_db: float


class Split:
    """One comparison, from the key that begins it to the one that ends it. `ended` says why it is over, in words."""

    def __init__(self, walk: Walk, visit: Visit, now_s: float) -> None:
        self.ended = ""
        self.both: Both | None = None
        self.curve: deque[float] = deque(maxlen=_REMEMBERED)
        self._name = f"split {time.strftime('%H.%M.%S')}"
        self._walk, self._visit = walk, visit
        self._was_paused = walk.paused_why == "player"
        self._holds = False  # the player's own session waits for the other
        self._begun_s = now_s
        self._following = Following()
        self._other: Link | None = None
        self._is_running = False
        self._playout = Playout(frame_s=0.1)
        self._left: OrderedDict[tuple[int, int], Picture] = OrderedDict()
        walk.link.pause(on=True)
        walk.link.ask(SnapshotRequest(name=self._name))

    @property
    def is_running(self) -> bool:
        """Whether both sessions stand."""
        return self._is_running

    def update(self, now_s: float) -> Both | None:
        """Take what both sessions said since the last call; a new pair to be shown, if one is due."""
        for news in self._walk.heard:
            self._hear(news)
        if self._other is not None:
            news_of_other, frames = self._other.arrivals.drain()
            for news in news_of_other:
                self._hear_other(news)
            for picture, arrived_s in frames:
                self._playout.put(picture, arrived_s)
        if not self._is_running:
            if now_s - self._begun_s > _PATIENCE_S:
                self.end("The second session did not come in time.")
            return None
        self._keep_together()
        return self._pair(self._playout.take(now_s))

    def saw(self, picture: Picture) -> None:
        """The player's own session showed this picture."""
        self._left[(picture.chunk, picture.index)] = picture
        if len(self._left) > _MAX_LEFT:
            self._left.popitem(last=False)

    def end(self, why: str) -> None:
        """Close the second session and go on with the player's own."""
        if self.ended:
            return
        self.ended = why
        if self._other is not None:
            self._other.close(timeout_s=0.0)
        if (self._holds or not self._is_running) and not self._was_paused:
            self._walk.link.pause(on=False)

    def _hear(self, news: News) -> None:
        """Of the player's own session."""
        if isinstance(news, SnapshotNote) and news.name == self._name and self._other is None:
            self._enter()
        elif isinstance(news, Notice) and news.code == "snapshot" and self._other is None:
            self.end(news.text)
        elif isinstance(news, Stats) and self._is_running and news.controls:
            self._following.give(news.controls)
        elif isinstance(news, HeadNote) and news.why != "enter":
            self.end("You went elsewhere in the timeline: the comparison is over.")
        elif isinstance(news, Status) and news.phase is not Phase.WALKING:
            self.end("The connection was lost: the comparison is over.")

    def _enter(self) -> None:
        """The snapshot is there: a second connection walks in at it."""
        welcome = self._walk.welcome
        world = welcome.world if welcome is not None else self._visit.world
        self._other = Link(replace(self._visit, world=world, seed=None, at=self._name, mode="exact"), self._following)
        self._other.start()

    def _hear_other(self, news: News) -> None:
        if isinstance(news, Welcome) and not self._is_running and self._other is not None:
            self._is_running = True
            self._playout = Playout(frame_s=1.0 / news.fps)
            self._other.ask(SwitchRecall(on=False))
            if not self._was_paused:
                self._walk.link.pause(on=False)
        elif isinstance(news, Status) and news.phase in (Phase.REFUSED, Phase.LOST):
            card = card_for(news)
            self.end(" ".join((card.title + ".", *card.lines[:1])) if card else news.text)

    def _keep_together(self) -> None:
        """Let the player's own session wait while the other one is far behind."""
        behind = self._following.open_chunks
        if not self._holds and behind > _AHEAD_CHUNKS:
            self._holds = True
            self._walk.link.pause(on=True)
        elif self._holds and behind <= _CAUGHT_UP_CHUNKS:
            self._holds = False
            if not self._was_paused:
                self._walk.link.pause(on=False)

    def _pair(self, without: Picture | None) -> Both | None:
        """The other's due picture with its partner; None when that was never shown here."""
        if without is None:
            return None
        partner = self._left.get((without.chunk, without.index))
        if partner is None or (partner.width_px, partner.height_px) != (without.width_px, without.height_px):
            return None
        self.both = Both(partner, without, _psnr_db(partner.rgb, without.rgb))
        self.curve.append(self.both.psnr_db)
        return self.both


def _psnr_db(a: bytes, b: bytes) -> float:
    """PSNR of two pictures of one size, over all their bytes."""
    error = np.square(np.frombuffer(a, np.uint8).astype(np.float32) - np.frombuffer(b, np.uint8)).mean() / 255.0**2
    return min(MAX_PSNR_DB, float(-10.0 * np.log10(max(float(error), 1e-12))))
