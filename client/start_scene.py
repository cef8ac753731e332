"""The start screen on the window: waits for the list of worlds, takes keys and the mouse. Main thread; pygame."""

from typing import TYPE_CHECKING

import pygame

from client import overlay
from client.start import NEW_WORLD, Entrance, Move, Start
from client.start_view import Places, StartView, start_scale
from client.status import Phase, Status, card_for
from client.theme import BACKDROP, Type
from client.worlds import AGAIN_S, Listing

if TYPE_CHECKING:
    from client.wire import Visit

_QUIET_S = 0.4
_REDRAW_S = 0.05
_MOVES = {
    pygame.KSCAN_LEFT: Move.LEFT, pygame.KSCAN_RIGHT: Move.RIGHT, pygame.KSCAN_UP: Move.UP,
    pygame.KSCAN_DOWN: Move.DOWN, pygame.KSCAN_A: Move.LEFT, pygame.KSCAN_D: Move.RIGHT, pygame.KSCAN_W: Move.UP,
    pygame.KSCAN_S: Move.DOWN, pygame.KSCAN_ESCAPE: Move.UP, pygame.KSCAN_RETURN: Move.ENTER,
    pygame.KSCAN_KP_ENTER: Move.ENTER, pygame.KSCAN_SPACE: Move.ENTER, pygame.KSCAN_N: Move.NEW,
}  # fmt: skip


class StartScene:
    """Until `entrance` is set: by the player, or at once where there is nothing to choose from."""

    def __init__(self, visit: "Visit", now_s: float) -> None:
        self.entrance: Entrance | None = None
        self._url, self._is_starting = visit.url, visit.is_starting
        self._listing = Listing(visit.url, visit.token)
        self._start: Start | None = None
        self._places = Places()
        self._view: StartView | None = None
        self._begun_s = now_s
        self._drawn_s = float("-inf")

    def take(self, event: pygame.event.Event) -> None:
        """One event of the window."""
        start = self._start
        if start is None:
            return
        if event.type == pygame.KEYDOWN and event.scancode in _MOVES and not event.mod & pygame.KMOD_CTRL:
            self.entrance = start.take(_MOVES[event.scancode])
        elif event.type == pygame.MOUSEWHEEL:
            start.take(Move.RIGHT if event.y < 0 else Move.LEFT)
        elif event.type == pygame.MOUSEMOTION:
            self._places.point(start, event.pos)
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1 and self._places.point(start, event.pos):
            self.entrance = start.entrance
        self._drawn_s = float("-inf")

    def advance(self, target: pygame.Surface, now_s: float) -> None:
        """Look for the list, and draw."""
        if self._start is None:
            if self._listing.fault or self._listing.worlds == []:
                self.entrance = NEW_WORLD  # nothing to choose from, or a server that has no list
                return
            if self._listing.worlds is not None:
                self._start = Start(self._listing.worlds)
        if now_s - self._drawn_s < _REDRAW_S:
            return
        self._drawn_s = now_s
        type_ = self._type_for(target)
        if self._start is not None and self._view is not None:
            self._places = self._view.draw(target, self._start, self._listing.pictures)
        else:
            self._draw_waiting(target, type_, now_s)
        pygame.display.flip()

    def close(self) -> None:
        """Fetch nothing more."""
        self._listing.close()

    def _type_for(self, target: pygame.Surface) -> Type:
        scale = start_scale(*target.get_size())
        if self._view is None or self._view.type_.scale != scale:
            self._view = StartView(Type(scale), self._url)
        return self._view.type_

    def _draw_waiting(self, target: pygame.Surface, type_: Type, now_s: float) -> None:
        """A card, unless the answer comes at once."""
        target.fill(BACKDROP)
        status = Status(Phase.STARTING if self._is_starting else Phase.CONNECTING, self._url)
        if (silence := self._listing.silence) and not self._is_starting:
            text = silence if silence.endswith(".") else f"{silence}."
            status = Status(Phase.LOST, self._url, text, attempt=self._listing.attempts, retry_s=AGAIN_S)
        card = card_for(status, AGAIN_S)
        if card is not None and now_s - self._begun_s > _QUIET_S:
            overlay.draw_card(target, type_, card, now_s)
