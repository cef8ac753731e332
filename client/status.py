"""How a visit stands, and what to tell the player about it. Pure values and words; any thread."""

from dataclasses import dataclass
from enum import Enum, auto


class Phase(Enum):
    """The stages of a visit; from LOST it goes back to CONNECTING by itself, from REFUSED it does not."""

    CONNECTING = auto()
    LOADING = auto()
    WALKING = auto()
    LOST = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Status:
    """Where the link stands. `share` is of LOADING, `retry_s` of LOST, `code` of LOST and REFUSED."""

    phase: Phase
    url: str = ""
    text: str = ""
    share: float = 0.0
    code: str = ""
    attempt: int = 0
    retry_s: float = 0.0
    has_walked: bool = False  # the visit had begun before it was lost


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the player should read once, for some seconds."""

    text: str


@dataclass(frozen=True, slots=True)
class Card:
    """What is written over the picture: what happened, what it means, what to do; `share` draws a bar."""

    title: str
    lines: tuple[str, ...] = ()
    share: float | None = None


_REFUSALS: dict[str, tuple[str, tuple[str, ...]]] = {
    "version": (
        "Client and server do not fit together",
        ("One of the two is older. Install the same version of WorldPager on both machines.",),
    ),
    "token": (
        "The server did not let you in",
        (
            "It asks for a token, and none or another one was given.",
            "Use the token that the server printed: --token TOKEN, or WORLDPAGER_TOKEN.",
        ),
    ),
    "busy": (
        "The server is busy",
        (
            "All its places, or the controls of this world, are taken.",
            "Try again later, or open another world with --world NAME.",
        ),
    ),
    "address": (
        "This is not a WorldPager server",
        ("Something else answers at that address. Check the host, the port and the path (…/ws).",),
    ),
    "host": (
        "The server does not answer to that name",
        ("Use an address that it was started with, or add the name to its allowed hosts.",),
    ),
}


_REFUSAL_WORDS = {"version": "version", "token": "token", "auth": "token", "forbidden": "token", "busy": "busy",
                  "full": "busy", "taken": "busy", "limit": "busy", "address": "address", "host": "host",
                  "origin": "host"}  # fmt: skip


def refusal_kind(code: str) -> str:
    """Which of the known refusals a server's error code belongs to, or "" when it is another."""
    return next((kind for word, kind in _REFUSAL_WORDS.items() if word in code.lower()), "")


def card_for(status: Status, waited_s: float = 0.0) -> Card | None:
    """What to write over the picture, `waited_s` after the status began; None while the player walks."""
    if status.phase is Phase.WALKING:
        return None
    if status.phase is Phase.CONNECTING:
        return Card("Connecting", (status.url,))
    if status.phase is Phase.LOADING:
        return Card("Getting ready", (status.text or "The server is loading its model.",), status.share)
    if status.phase is Phase.REFUSED:
        title, lines = _REFUSALS.get(refusal_kind(status.code), ("The server refused this visit", ()))
        said = (f"It says: {status.text}",) if status.text else ()
        return Card(title, (*said, *lines))
    return _lost(status, waited_s)


def _lost(status: Status, waited_s: float) -> Card:
    left_s = status.retry_s - waited_s
    again = f"Trying again in {left_s:.0f} s" if left_s >= 0.5 else "Trying again now"
    again = f"{again} (attempt {status.attempt})."
    if status.has_walked:
        meaning = "Your world is kept on the server: you go on where you stood."
        return Card("Connection lost", (status.text, meaning, again))
    advice = f"Start one with `make serve`, or check the address {status.url} and the firewall."
    return Card("No server answers", (status.text, advice, again))


_PAUSES = {
    "player": "Paused. P goes on.",
    "reader": "The world waits: this window took no frames for a while.",
    "idle": "The world rests while you stand still. Move to wake it.",
}


def pause_words(why: str) -> str:
    """Why the world stands still, in words; "" when it runs."""
    return _PAUSES.get(why, f"The world is paused: {why}.") if why else ""
