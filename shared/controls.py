"""Controls: the held keys and the mouse travel of one frame. Pure values; any thread."""

from dataclasses import dataclass
from enum import IntFlag


class Key(IntFlag):
    """The keys that steer, as the bits of the wire's key mask."""

    FORWARD = 1
    LEFT = 2
    BACK = 4
    RIGHT = 8


NO_KEYS = Key(0)
KEY_LETTERS: dict[str, Key] = {"W": Key.FORWARD, "A": Key.LEFT, "S": Key.BACK, "D": Key.RIGHT}
ALL_KEYS = Key.FORWARD | Key.LEFT | Key.BACK | Key.RIGHT


@dataclass(frozen=True, slots=True)
class Controls:
    """What the player asks for during one frame: held keys, and mouse travel in counts (right and down positive)."""

    keys: Key = NO_KEYS
    mouse_dx: float = 0.0
    mouse_dy: float = 0.0

    @property
    def is_idle(self) -> bool:
        """True when nothing is pressed and the mouse rests."""
        return not self.keys and self.mouse_dx == 0.0 and self.mouse_dy == 0.0


IDLE = Controls()


def keys_from_letters(letters: str) -> Key:
    """The key mask of a route's letters, for example "WA". Raises ValueError for any other letter."""
    keys = Key(0)
    for letter in letters:
        if letter not in KEY_LETTERS:
            raise ValueError(f"{letter!r} is not one of W, A, S, D")
        keys |= KEY_LETTERS[letter]
    return keys


def letters_from_keys(keys: Key) -> str:
    """The letters of a key mask, in the order W, A, S, D."""
    return "".join(letter for letter, key in KEY_LETTERS.items() if key in keys)
