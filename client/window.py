"""The window itself: whether there is a display, its size, full screen. Main thread; needs pygame."""

import os
import sys
from collections.abc import Mapping

import pygame

from client.theme import BASE_HEIGHT_PX, BASE_WIDTH_PX

_DESKTOP_SHARE = 0.92  # of the desktop for the first window
_UNSEEN = ("dummy", "offscreen")  # drivers that nobody can see; SDL takes one when it finds no display

NO_DISPLAY = (
    "There is no display to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set). Start the client on a "
    "desktop, forward one (ssh -X), or walk without a window: --headless --route out-and-back."
)
NOT_OPENED = "The display cannot be opened ({reason}). Check DISPLAY, or walk without a window: --headless."


class NoDisplayError(Exception):
    """There is nothing to open a window on; the text says what to do."""


def display_fault(environment: Mapping[str, str], platform: str) -> str:
    """Why no window can be opened, as far as the environment tells; "" when one may."""
    is_x11 = platform.startswith(("linux", "freebsd"))
    given = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_VIDEO_DRIVER")
    return NO_DISPLAY if is_x11 and not any(environment.get(name) for name in given) else ""


class Window:
    """The one window of the client."""

    def __init__(self) -> None:
        """Opens it. Raises NoDisplayError."""
        _prepare_desktop()
        if fault := display_fault(os.environ, sys.platform):
            raise NoDisplayError(fault)
        self._is_full = False
        is_chosen = bool(os.environ.get("SDL_VIDEODRIVER") or os.environ.get("SDL_VIDEO_DRIVER"))
        try:
            pygame.display.init()
            if pygame.display.get_driver() in _UNSEEN and not is_chosen:
                raise NoDisplayError(NOT_OPENED.format(reason="no driver can use it"))
            pygame.font.init()
            pygame.display.set_caption("WorldPager")
            self._target = self._open()
        except pygame.error as error:
            raise NoDisplayError(NOT_OPENED.format(reason=error)) from error

    @property
    def target(self) -> pygame.Surface:
        """What is drawn on; another one after the window changed its size."""
        return pygame.display.get_surface() or self._target

    def toggle_full_screen(self) -> None:
        """Fill the screen, or go back to a window."""
        self._is_full = not self._is_full
        self._target = self._open()

    def _open(self) -> pygame.Surface:
        if self._is_full:
            return pygame.display.set_mode(pygame.display.get_desktop_sizes()[0], pygame.FULLSCREEN)
        return pygame.display.set_mode(first_size(pygame.display.get_desktop_sizes()[0]), pygame.RESIZABLE)


def first_size(desktop_px: tuple[int, int]) -> tuple[int, int]:
    """The default size, or as much of it as the desktop has room for; twice that on a 4K desktop."""
    width_px, height_px = desktop_px
    share = min(1.0, _DESKTOP_SHARE * width_px / BASE_WIDTH_PX, _DESKTOP_SHARE * height_px / BASE_HEIGHT_PX)
    if width_px >= 2 * BASE_WIDTH_PX / _DESKTOP_SHARE and height_px >= 2 * BASE_HEIGHT_PX / _DESKTOP_SHARE:
        share = 2.0  # a 4K desktop that is not scaled
    return (round(BASE_WIDTH_PX * share), round(BASE_HEIGHT_PX * share))


def _prepare_desktop() -> None:
    """Settings that SDL and Windows read before the first window."""
    os.environ.setdefault("SDL_MOUSE_RELATIVE_SCALING", "0")
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415 - there is nothing to import elsewhere

        ctypes.windll.user32.SetProcessDPIAware()
