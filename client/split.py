"""Split mode: the same walk with recall and without, from one moment on, both drawn live. The player's thread.

The world is paused for a moment, a snapshot is made, and a second connection enters it with recall switched off. From
then on what each chunk of the player's own session was drawn with is given to the other one, so that both draw the
same controls. Pictures are shown in pairs of one chunk and one place in it; the one that is ahead waits. Whatever a
slow machine skips on one side is passed over on both: a pair is made of what arrived, not of what was shown.
"""

import time
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from client.likeness import MAX_PSNR_DB
from client.link import Link
from client.mailbox import News
from client.pairs import Pairs
from client.pauses import Reason
from client.picture import Picture
from client.playout import Playout
from client.status import Notice, Phase, Status, card_for
from client.stepping import Following
from client.walk import Walk
from client.wire import Visit
from shared.protocol import HeadNote, SnapshotNote, SnapshotRequest, Stats, SwitchRecall, Welcome

_AHEAD_CHUNKS, _CAUGHT_UP_CHUNKS = 6, 2
_PATIENCE_S = 60.0  # until the other session stands
_SILENCE_S = 4.0  # without a new pair, after which the player is told what is waited for
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
        self._name = _new_name()
        self._walk, self._visit = walk, visit
        self._begun_s = self._paired_s = now_s
        self._following = Following()
        self._other: Link | None = None
        self._next_chunk = 0  # of the player's own session: the first one that the other was not given
        self._is_running = False
        self._playout = Playout(frame_s=0.1)
        self._pairs = Pairs()
        walk.pauses.give(Reason.SPLIT)
        walk.link.ask(SnapshotRequest(name=self._name))

    @property
    def is_running(self) -> bool:
        """Whether both sessions stand."""
        return self._is_running

    def words(self, now_s: float) -> str:
        """What is waited for; "" while pairs come."""
        if not self._is_running:
            return "Beginning a second walk from here, without recall …"
        silence_s, behind = now_s - self._paired_s, self._following.open_chunks
        if silence_s < _SILENCE_S or Reason.PLAYER in self._walk.pauses:
            return ""
        if behind:
            return (
                f"The walk without recall is {behind} chunks behind; for {silence_s:.0f} s the server drew none of it."
            )
        return f"For {silence_s:.0f} s the server drew nothing of your walk."

    def update(self, now_s: float) -> Both | None:
        """Take what both sessions said since the last call; a new pair to be shown, if one is due."""
        for news in self._walk.heard:
            self._hear(news)
        for picture in self._walk.arrived:
            self._pairs.add_first(picture)
        if self._other is not None:
            news_of_other, frames = self._other.arrivals.drain()
            for news in news_of_other:
                self._hear_other(news)
            for picture, _ in frames:
                self._pairs.add_second(picture)
        for picture in self._pairs.take_ready():
            self._playout.put(picture, now_s)
        if not self._is_running:
            self._paired_s = now_s
            if now_s - self._begun_s > _PATIENCE_S:
                self.end("The second walk could not begin in time: the server is busy. C tries again.")
            return None
        self._keep_together()
        return self._pair(self._playout.take(now_s), now_s)

    def end(self, why: str) -> None:
        """Close the second session and go on with the player's own."""
        if self.ended:
            return
        self.ended = why
        if self._other is not None:
            self._other.close(timeout_s=0.0)
        self._walk.pauses.take_back(Reason.SPLIT)

    def _hear(self, news: News) -> None:
        """Of the player's own session."""
        if isinstance(news, SnapshotNote) and news.name == self._name and self._other is None:
            self._enter(news.chunk + 1)
        elif isinstance(news, Notice) and news.code == "snapshot" and self._other is None:
            self.end(news.text)
        elif isinstance(news, Stats) and self._other is not None:
            self._give(news)
        elif isinstance(news, HeadNote) and news.why != "enter":
            self.end("You went elsewhere in the timeline: the comparison is over.")
        elif isinstance(news, Status) and news.phase is not Phase.WALKING:
            self.end("The connection was lost: the comparison is over.")

    def _enter(self, next_chunk: int) -> None:
        """The snapshot is there: a second connection walks in at it."""
        welcome = self._walk.welcome
        world = welcome.world if welcome is not None else self._visit.world
        self._next_chunk = next_chunk
        self._other = Link(replace(self._visit, world=world, seed=None, at=self._name, mode="exact"), self._following)
        self._other.start()

    def _give(self, stats: Stats) -> None:
        """The other session draws the same chunk. Without what one chunk was drawn with, no later one is the same."""
        if stats.chunk == self._next_chunk and stats.controls:
            self._next_chunk += 1
            self._following.give(stats.controls)
        elif stats.chunk >= self._next_chunk:
            self.end("The connection is too slow for both walks: the comparison is over. C begins a new one.")

    def _hear_other(self, news: News) -> None:
        if isinstance(news, Welcome) and not self._is_running and self._other is not None:
            self._is_running = True
            self._playout = Playout(frame_s=1.0 / news.fps)
            self._other.ask(SwitchRecall(on=False))
            self._walk.pauses.take_back(Reason.SPLIT)
        elif isinstance(news, Status) and news.phase in (Phase.REFUSED, Phase.LOST):
            card = card_for(news)
            self.end(" ".join((card.title + ".", *card.lines[:1])) if card else news.text)

    def _keep_together(self) -> None:
        """Let the player's own session wait while the other one is far behind."""
        behind = self._following.open_chunks
        if behind > _AHEAD_CHUNKS:
            self._walk.pauses.give(Reason.SPLIT)
        elif behind <= _CAUGHT_UP_CHUNKS:
            self._walk.pauses.take_back(Reason.SPLIT)

    def _pair(self, without: Picture | None, now_s: float) -> Both | None:
        """The other's due picture with its partner."""
        partner = self._pairs.partner(without) if without is not None else None
        if without is None or partner is None:
            return None
        self._paired_s = now_s
        self.both = Both(partner, without, _psnr_db(partner.rgb, without.rgb))
        self.curve.append(self.both.psnr_db)
        return self.both


def _new_name() -> str:
    """Of a snapshot that no other one has: two comparisons may begin within a second."""
    return f"split {time.strftime('%H.%M.%S')}.{time.time_ns() // 10_000_000 % 100:02d}"


def _psnr_db(a: bytes, b: bytes) -> float:
    """PSNR of two pictures of one size, over all their bytes."""
    error = np.square(np.frombuffer(a, np.uint8).astype(np.float32) - np.frombuffer(b, np.uint8)).mean() / 255.0**2
    return min(MAX_PSNR_DB, float(-10.0 * np.log10(max(float(error), 1e-12))))
