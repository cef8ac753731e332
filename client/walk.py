"""A walk as the player's thread sees it: what arrived, which frame is due, what was measured. No window, no socket.

The window and the headless walker both drive this: `update`, then `due`, then `presented` once the frame is visible.
"""

from dataclasses import replace

from client.atlas import Atlas
from client.link import Link
from client.mailbox import News
from client.pauses import Pauses
from client.picture import Picture
from client.playout import Playout
from client.report import Record, Report
from client.status import Notice, Phase, Status
from client.travel import Travel
from shared.controls import Key
from shared.protocol import RANDOM_WEIGHTS, BlockNote, HeadNote, Paused, SnapshotNote, Stats, Welcome

_NOTICE_S = 8.0


class Walk:
    """One visit over one link. Only the thread that made it may call it."""

    def __init__(self, link: Link, url: str) -> None:
        self.link = link
        self.status = Status(Phase.CONNECTING, url)
        self.status_s = 0.0  # when it became so
        self.welcome: Welcome | None = None
        self.record = Record()
        self.atlas = Atlas()
        self.pauses = Pauses(link)
        self.travel = Travel(link, self.pauses)
        self.heard: list[News] = []  # in the last update, for those who listen
        self.arrived: list[Picture] = []  # likewise; shown or not
        self.paused_why = ""
        self.cut_count = 0
        self._playout = Playout(frame_s=0.1)
        self._dropped_before = 0
        self._fault = ""  # the newest that the server told of
        self._notices: list[tuple[float, str]] = []

    @property
    def cushion(self) -> int:
        """Frames that the playout keeps in hand."""
        return self._playout.cushion

    def steer(self, keys: Key, mouse_dx: float, mouse_dy: float, now_s: float) -> None:
        """Hand the player's controls to the link; call it on every pass, it proves that this thread is alive."""
        self.link.controls.steer(keys, mouse_dx, mouse_dy, self._playout.buffered, now_s)

    def update(self, now_s: float) -> None:
        """Take what arrived since the last call."""
        self.heard, frames = self.link.arrivals.drain()
        for item in self.heard:
            self._learn(item, now_s)
            self.travel.learn(item)
        self.arrived = [picture for picture, _ in frames]
        for picture, arrived_s in frames:
            self._playout.put(picture, arrived_s)

    def due(self, now_s: float) -> Picture | None:
        """The frame to be shown now, if it is another one than before."""
        return self._playout.take(now_s)

    def presented(self, picture: Picture, now_s: float) -> None:
        """A frame became visible."""
        self.record.shown(picture, self.link.sent_at_s(picture.input_seq), now_s)
        self.atlas.stand(picture.pose, picture.chunk)

    def notice(self, now_s: float) -> str:
        """What the player should read now; "" when there is nothing."""
        self._notices = [(at_s, text) for at_s, text in self._notices if now_s - at_s < _NOTICE_S]
        return self._notices[-1][1] if self._notices else ""

    def report(self, route_name: str = "") -> Report:
        """The walk so far in numbers."""
        self.record.dropped = self._dropped_before + self._playout.dropped
        welcome = self.welcome
        return replace(
            self.record.report(),
            reconnects=self.cut_count,
            world=welcome.world if welcome else "",
            seed=welcome.seed if welcome else None,
            model=welcome.model if welcome else "",
            mode=welcome.mode if welcome else "",
            route=route_name,
            rtt_ms=self.link.rtt_ms,
            random_weights=welcome is not None and RANDOM_WEIGHTS in welcome.capabilities,
        )

    def _learn(self, news: News, now_s: float) -> None:
        if isinstance(news, Status):
            self.cut_count += news.phase is Phase.LOST and self.status.phase is Phase.WALKING
            self.status, self.status_s = news, now_s
            self._playout.hold()
        elif isinstance(news, Welcome):
            self._begin(news, now_s)
        elif isinstance(news, Stats):
            self.record.learn(news)
            self._notices.extend((now_s, note) for note in news.notes[-1:] if note != self._fault)
            self._fault = news.notes[-1] if news.notes else self._fault
            self.atlas.learn(news, now_s)
        elif isinstance(news, BlockNote):
            self.atlas.note(news, now_s)
        elif isinstance(news, Paused):
            self.paused_why = news.why
            self._playout.hold()
        elif isinstance(news, HeadNote):
            self._jump(news, now_s)
        elif isinstance(news, SnapshotNote | Notice):
            self.tell(news.text, now_s)

    def tell(self, text: str, now_s: float) -> None:
        """Let the player read this for some seconds."""
        if text:
            self._notices.append((now_s, text))

    def _jump(self, note: HeadNote, now_s: float) -> None:
        """The head stands elsewhere: what was on its way is no longer true."""
        if note.is_jump:
            self._dropped_before += self._playout.buffered
            self._playout.jump()
            self.atlas.jump(note.chunk)
        if not self.travel.is_rewinding:
            self.tell(note.text, now_s)

    def _begin(self, welcome: Welcome, now_s: float) -> None:
        """A connection stands. A session that was resumed, by its token, goes on; a new one starts with an empty map.

        The frames of each connection have a time of their own: a server that was restarted counts from zero again.
        """
        goes_on = welcome.resumed and self.welcome is not None and welcome.world == self.welcome.world
        self.paused_why = ""
        self.pauses.connected()
        self._notices.extend((now_s, note) for note in welcome.notes)
        self._dropped_before += self._playout.dropped
        self._playout = Playout(frame_s=1.0 / welcome.fps)
        if goes_on:
            self.atlas.forget_places()  # all are told anew
        else:
            self.atlas = Atlas()
            self.record.new_session()
        self.welcome = welcome
