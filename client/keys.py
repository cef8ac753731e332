"""What the player's hands do: pygame events made into held keys, mouse travel and actions. Main thread.

Keys that walk are physical places on the keyboard (scancodes), so WASD sits there on every layout; other letters are
what is printed on them. Held keys come from KEYDOWN and KEYUP events only. Owns whether the mouse is captured.
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
    BOOKMARK = auto()
    METER_VIEW = auto()
    EXPORT = auto()
    RECALL = auto()
    COMPARE = auto()
    SAVE = auto()
    LOAD = auto()
    FORK = auto()
    TREE = auto()


# these by place, like the keys that walk
_BY_PLACE = {
    pygame.KSCAN_F1: Action.HELP, pygame.KSCAN_F5: Action.SAVE, pygame.KSCAN_F6: Action.FORK,
    pygame.KSCAN_F9: Action.LOAD, pygame.KSCAN_F11: Action.FULL_SCREEN, pygame.KSCAN_H: Action.HUD,
    pygame.KSCAN_P: Action.PAUSE, pygame.KSCAN_B: Action.BOOKMARK, pygame.KSCAN_V: Action.METER_VIEW,
    pygame.KSCAN_X: Action.EXPORT, pygame.KSCAN_M: Action.RECALL, pygame.KSCAN_C: Action.COMPARE,
    pygame.KSCAN_T: Action.TREE,
}  # fmt: skip
# and these by what is printed on them, where that is a Latin letter
_BY_LETTER = {
    "h": Action.HUD, "p": Action.PAUSE, "b": Action.BOOKMARK, "v": Action.METER_VIEW, "x": Action.EXPORT,
    "m": Action.RECALL, "c": Action.COMPARE, "t": Action.TREE,
}  # fmt: skip


def is_quit(event: pygame.event.Event) -> bool:
    """Whether the window was closed, or Ctrl+Q pressed."""
    if event.type == pygame.KEYDOWN and event.mod & pygame.KMOD_CTRL:
        letter = _letter(event)
        return letter == "q" if letter else event.scancode == pygame.KSCAN_Q
    return event.type == pygame.QUIT


def _letter(event: pygame.event.Event) -> str:
    """The Latin letter that is printed on the pressed key; "" for any other."""
    return chr(event.key) if ord("a") <= event.key <= ord("z") else ""


class Hands:
    """Held keys and mouse travel. Losing the focus releases all keys at once, and the mouse after a moment."""

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._mouse_dx = 0.0
        self._mouse_dy = 0.0
        self._unfocused_s: float | None = None
        self.is_captured = False
        self.is_rewinding = False  # Backspace is held
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
        if is_quit(event):
            return Action.QUIT
        if event.type == pygame.KEYDOWN:
            return self._press(event)
        if event.type == pygame.KEYUP:
            self._held.discard(event.scancode)
            self.is_rewinding &= event.scancode != pygame.KSCAN_BACKSPACE
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            self.capture(on=True)
        elif event.type == pygame.MOUSEMOTION and self.is_captured:
            self._mouse_dx += event.rel[0]
            self._mouse_dy += event.rel[1]
        elif event.type == pygame.WINDOWFOCUSLOST:
            self._held.clear()
            self.is_rewinding = False
            self._unfocused_s = now_s
        elif event.type == pygame.WINDOWFOCUSGAINED:
            self._unfocused_s = None
        return None

    def _press(self, event: pygame.event.Event) -> Action | None:
        if event.mod & pygame.KMOD_CTRL:
            return None  # the desktop's own shortcuts are no steps
        scancode, letter = event.scancode, _letter(event)
        if scancode == pygame.KSCAN_ESCAPE:
            self.capture(on=False)
        elif scancode == pygame.KSCAN_BACKSPACE:
            self.is_rewinding = True
        elif scancode in _WALK or scancode in _TURN:
            self._held.add(scancode)
            return None
        return _BY_LETTER.get(letter) if letter else _BY_PLACE.get(scancode)

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
