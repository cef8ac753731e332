"""What the player's hands do: pygame events made into held keys, mouse travel and actions. Main thread.

Keys are physical places on the keyboard (scancodes), so WASD sits there on every layout, and come from KEYDOWN and
KEYUP events only. Owns whether the mouse is captured.
"""

from enum import Enum, auto

import pygame

from shared.controls import Key

TURN_COUNTS_S = 480.0  # of the arrow keys: 1.2 rad a second
_FOCUS_GRACE_S = 0.1  # SDL loses the focus for a moment on some desktops: do not let the mouse go for that

_WALK = {
    pygame.KSCAN_W: Key.FORWARD, pygame.KSCAN_A: Key.LEFT, pygame.KSCAN_S: Key.BACK, pygame.KSCAN_D: Key.RIGHT,
    pygame.KSCAN_UP: Key.FORWARD, pygame.KSCAN_DOWN: Key.BACK,
}  # fmt: skip
_TURN = {pygame.KSCAN_LEFT: -1.0, pygame.KSCAN_RIGHT: 1.0}


class Action(Enum):
    """What the player asks of the client itself."""

    HELP = auto()
    FULL_SCREEN = auto()
    HUD = auto()
    PAUSE = auto()
    QUIT = auto()


_ACTIONS = {
    pygame.KSCAN_F1: Action.HELP,
    pygame.KSCAN_F11: Action.FULL_SCREEN,
    pygame.KSCAN_H: Action.HUD,
    pygame.KSCAN_P: Action.PAUSE,
}


class Hands:
    """Held keys and mouse travel. Losing the focus releases all keys at once, and the mouse after a moment."""

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._mouse_dx = 0.0
        self._mouse_dy = 0.0
        self._unfocused_s: float | None = None
        self.is_captured = False
        self.was_captured = False  # ever: the hint is over

    @property
    def keys(self) -> Key:
        """The keys that walk, as held now."""
        keys = Key(0)
        for scancode in self._held:
            keys |= _WALK.get(scancode, Key(0))
        return keys

    def take(self, event: pygame.event.Event, now_s: float) -> Action | None:
        """Learn from one event; the action that it asks for, if any."""
        if event.type == pygame.QUIT:
            return Action.QUIT
        if event.type == pygame.KEYDOWN:
            return self._press(event.scancode)
        if event.type == pygame.KEYUP:
            self._held.discard(event.scancode)
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            self.capture(on=True)
        elif event.type == pygame.MOUSEMOTION and self.is_captured:
            self._mouse_dx += event.rel[0]
            self._mouse_dy += event.rel[1]
        elif event.type == pygame.WINDOWFOCUSLOST:
            self._held.clear()
            self._unfocused_s = now_s
        elif event.type == pygame.WINDOWFOCUSGAINED:
            self._unfocused_s = None
        return None

    def _press(self, scancode: int) -> Action | None:
        if scancode == pygame.KSCAN_ESCAPE:
            self.capture(on=False)
        elif scancode in _WALK or scancode in _TURN:
            self._held.add(scancode)
        return _ACTIONS.get(scancode)

    def travel(self, now_s: float, elapsed_s: float) -> tuple[float, float]:
        """The mouse travel since the last call, in counts; the arrow keys turn too. Call it once a pass."""
        if self._unfocused_s is not None and now_s - self._unfocused_s > _FOCUS_GRACE_S:
            self._unfocused_s = None
            self.capture(on=False)
        turn = sum(_TURN.get(scancode, 0.0) for scancode in self._held)
        dx, dy = self._mouse_dx + turn * TURN_COUNTS_S * elapsed_s, self._mouse_dy
        self._mouse_dx = self._mouse_dy = 0.0
        return (dx, dy)

    def capture(self, *, on: bool) -> None:
        """Hold the mouse in the window, unseen, or let it go."""
        if on == self.is_captured:
            return
        self.is_captured = on
        self.was_captured = True
        self._mouse_dx = self._mouse_dy = 0.0
        pygame.mouse.set_visible(not on)
        pygame.event.set_grab(on)
        set_relative_mode = getattr(pygame.mouse, "set_relative_mode", None)  # pygame-ce has it
        if set_relative_mode is not None:
            set_relative_mode(on)
