"""The walk on the window: one pass 60 times a second, whatever the network does. Main thread; needs pygame.

Owns the order of a pass: steering, arrivals, the due frame, drawing, flip. What a key does stands in deeds.py. The
link has its own thread and never waits for this one.
"""

import time
from pathlib import Path

import pygame

from client import overlay
from client.deeds import Deeds
from client.hud import Hud, HudMode
from client.keys import Action, Hands
from client.link import Link
from client.pauses import Reason
from client.picture import Picture
from client.report import write_report
from client.revisit import Meter, View
from client.revisit_view import RevisitView
from client.routes import Route
from client.screen import Screen
from client.split import Split
from client.split_view import SplitView
from client.status import Phase, card_for, pause_words
from client.theme import DIM, Type, scale_for
from client.tree_view import TreeView
from client.walk import Walk
from client.window import Window
from client.wire import Visit
from shared.protocol import Welcome

_REDRAW_S = 0.11  # at the latest, with no new picture
_MOVE_S = 0.03  # between two positions of a flight
_RELEASE_HINT_S = 4.0
_QUIET_S = 0.4  # a connection younger than this gets no card: a flash of one helps nobody


class Stage:
    """One visit. `take` events, then `advance`, until `is_over`; `close` at last."""

    def __init__(self, window: Window, visit: Visit, path: Route | None, seconds: float | None, folder: Path) -> None:
        """`folder` is where exported returns go."""
        self.window, self.visit = window, visit
        self.walk = Walk(Link(visit), visit.url)
        self.meter, self.revisit, self.tree = Meter(), RevisitView(), TreeView()
        self.split: Split | None = None
        self.hud = Hud(Type(scale_for(*window.target.get_size())))
        self.helps = self.is_over = False
        self.shown: Picture | None = None
        self._path, self._seconds = path, seconds
        self._hands, self._screen, self._split_view = Hands(), Screen(), SplitView()
        self._deeds = Deeds(self, folder)
        self._world = ""
        self._sent_mouse = (0.0, 0.0)
        self._pass_s = self._captured_s = time.perf_counter()
        self._drawn_s = self._moved_s = 0.0
        self.walk.link.start()

    # ---- one pass ----

    def take(self, event: pygame.event.Event, now_s: float) -> None:
        """One event of the window."""
        if event.type == pygame.KEYDOWN and self.tree.is_open and self.tree.takes(event.scancode):
            self._drawn_s = 0.0
            if (row := self.tree.press(event.scancode)) is not None:
                self._deeds.go_to(row)
            return
        if event.type == pygame.KEYDOWN and event.scancode == pygame.KSCAN_ESCAPE:
            self.helps = self.tree.is_open = False
        action = self._hands.take(event, now_s)
        if action is Action.QUIT:
            self.is_over = True
        elif action is not None:
            self._drawn_s = 0.0  # show it at once
            self._deeds.do(action, now_s)

    def advance(self, target: pygame.Surface, now_s: float) -> None:
        """Everything but the events."""
        self._steer(now_s)
        self.walk.update(now_s)
        self._listen()
        picture = self.walk.due(now_s)
        if picture is not None:
            self._show(picture, now_s)
        is_new = picture is not None and self.split is None
        if self.split is not None:
            is_new = self.split.update(now_s) is not None
            self._end_split(now_s)
        self._deeds.collect(now_s)
        self._refresh(target, now_s, is_new=is_new)
        if picture is not None:
            self.walk.presented(picture, time.perf_counter())
        first_s = self.walk.record.first_s
        if self._seconds is not None and first_s is not None and now_s - first_s >= self._seconds:
            self.is_over = True

    def close(self, report_path: Path | None) -> None:
        """Write the report, say goodbye, end the threads."""
        if self.split is not None:
            self.split.end("")
        try:
            if report_path is not None:
                report = self.walk.report(self._path.name if self._path else "")
                self.walk.link.submit(write_report(report_path, report)).result(10.0)
        finally:
            self.meter.close()
            self._hands.capture(on=False)
            self.walk.link.close()

    # ---- parts of a pass ----

    def _steer(self, now_s: float) -> None:
        """The player's hands, and on top of them the route when one was asked for."""
        dx, dy = self._hands.travel(now_s, now_s - self._pass_s)
        self._pass_s = now_s
        if not self._hands.is_captured:
            self._captured_s = now_s
        keys = self._hands.keys
        first_s = self.walk.record.first_s
        if self._path is not None and first_s is not None:
            keys |= self._path.keys_at(now_s - first_s)
            mouse = self._path.mouse_at(now_s - first_s)
            dx, dy = dx + mouse[0] - self._sent_mouse[0], dy + mouse[1] - self._sent_mouse[1]
            self._sent_mouse = mouse
        self.walk.steer(keys, dx, dy, now_s)
        is_walking = self.walk.status.phase is Phase.WALKING
        is_held = self._hands.is_rewinding and is_walking and self.split is None
        self.walk.travel.hold_rewind(is_held=is_held, now_s=now_s)
        if self.tree.is_open and is_walking:
            self.walk.travel.look(now_s)

    def _listen(self) -> None:
        """Another world has other places: its bookmarks begin anew."""
        for news in self.walk.heard:
            if isinstance(news, Welcome) and news.world != self._world:
                self._world = news.world
                self.meter.clear()

    def _show(self, picture: Picture, now_s: float) -> None:
        self.shown = picture
        self._screen.show(picture)
        self.meter.see(View(picture, now_s, self.walk.travel.recalls))
        self.hud.marks = [one.view.picture.pose for one in self.meter.bookmarks]

    def _end_split(self, now_s: float) -> None:
        if self.split is not None and self.split.ended:
            self.walk.tell(self.split.ended, now_s)
            self.split = None

    # ---- drawing ----

    def _refresh(self, target: pygame.Surface, now_s: float, *, is_new: bool) -> None:
        """Draw what changed: all of the window for a picture, and where blocks fly between two pictures."""
        if is_new or now_s - self._drawn_s >= _REDRAW_S:
            self._drawn_s = now_s
            self._draw(target, now_s)
            pygame.display.flip()
            return
        region = self.hud.moving_region(now_s) if self.split is None else None
        if region is not None and now_s - self._moved_s >= _MOVE_S:
            self._moved_s = now_s
            target.set_clip(region)
            self._draw(target, now_s)
            target.set_clip(None)
            pygame.display.update(region)

    def _draw(self, target: pygame.Surface, now_s: float) -> None:
        scale = scale_for(*target.get_size())
        if scale != self.hud.scale:
            self.hud = Hud(Type(scale), self.hud.mode)
        type_ = self.hud.type_
        if self.split is not None and self.split.both is not None:
            self._draw_split(target, type_, self.split, now_s)
        else:
            self._screen.draw(target)
            self.hud.draw(target, self.walk, now_s)
            pose = self.walk.atlas.pose
            guide = self.meter.guide(pose) if pose is not None else None
            self.revisit.draw(target, type_, self.meter, guide, now_s)
        status, age_s = self.walk.status, now_s - self.walk.status_s
        card = card_for(status, age_s)
        if card is not None and (age_s > _QUIET_S or status.phase in (Phase.STARTING, Phase.LOADING)):
            overlay.draw_card(target, type_, card, now_s)
        elif self.helps:
            overlay.draw_help(target, type_)
        else:
            if self.tree.is_open:
                self.tree.draw(target, type_, self.walk.travel.tree)
            self._draw_hints(target, type_, now_s)

    def _draw_split(self, target: pygame.Surface, type_: Type, split: Split, now_s: float) -> None:
        self._split_view.draw(target, type_, split)
        before, self.hud.mode = self.hud.mode, HudMode.OFF if self.hud.mode is HudMode.OFF else HudMode.COMPACT
        self.hud.draw(target, self.walk, now_s)
        self.hud.mode = before

    def _draw_hints(self, target: pygame.Surface, type_: Type, now_s: float) -> None:
        area = self.hud.free_area(target.get_size())
        if self.split is not None and self.split.both is not None:  # its compact HUD is at the left
            area = pygame.Rect(target.get_width() // 2, 0, target.get_width() // 2, target.get_height())
        if above := self._words_above(now_s):
            overlay.draw_hint(target, type_, above, area, at_top=True)
        if self.walk.welcome is None or self.split is not None or self.revisit.shows(self.meter, now_s):
            return
        if not self._hands.was_captured and self._path is None:
            overlay.draw_hint(target, type_, overlay.CAPTURE_HINT, area, at_top=False)
        elif self._hands.is_captured and now_s - self._captured_s < _RELEASE_HINT_S:
            overlay.draw_hint(target, type_, overlay.RELEASE_HINT, area, at_top=False, colour=DIM)

    def _words_above(self, now_s: float) -> str:
        """The one line at the upper edge: what is being done, why the world stands still, or what was said last."""
        travel = self.walk.travel
        if travel.is_rewinding:
            return f"◀◀ rewinding · chunk {travel.chunk}" if travel.chunk >= 0 else "◀◀ rewinding"
        is_paused = self.split is None or Reason.PLAYER in self.walk.pauses
        waits_for = self.split.words(now_s) if self.split is not None else ""
        return waits_for or self.walk.notice(now_s) or (pause_words(self.walk.paused_why) if is_paused else "")
