"""How a visit stands, and what to tell the player about it. Pure values and words; any thread."""

from dataclasses import dataclass
from enum import Enum, auto


class Phase(Enum):
    """The stages of a visit; from LOST it goes back to CONNECTING by itself, from REFUSED it does not."""

    STARTING = auto()  # the server was started together with this client, and does not answer yet
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
    """Something that the player should read once, for some seconds; `code` is of docs/protocol.md, or empty."""

    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """What is written over the picture: what happened, what it means, what to do.

    `share` draws a bar; `is_busy` moves dots behind the title, for what ends by itself.
    """

    title: str
    lines: tuple[str, ...] = ()
    share: float | None = None
    is_busy: bool = False


_FIRST_STAGE = "It loads its libraries: a few seconds, and longer the first time or on a busy machine."
_REFUSALS: dict[str, tuple[str, str]] = {  # codes of docs/protocol.md, and those of wire.py
    "version": (
        "Client and server do not fit together",
        "One of the two is older: install the same version of WorldPager on both machines.",
    ),
    "unauthorized": (
        "The server did not let you in",
        "Use the token that the server printed: --token TOKEN, or WORLDPAGER_TOKEN.",
    ),
    "world_in_use": (
        "Somebody walks in this world already",
        "Open another world with --world NAME, or wait until they have left.",
    ),
    "taken_over": (
        "Your walk goes on in another window",
        "Another connection took it over. Close this window, or start it again to take it back.",
    ),
    "session_over": (
        "This walk is over",
        "Its driver left. Watch another one, or walk yourself: start the client without a viewer's role.",
    ),
    "bad_world": (
        "This world cannot be opened",
        "Check its name, or let the server look at it: python -m server worlds verify NAME.",
    ),
    "other_model": (
        "This world was drawn by another model",
        "Start the server with the model and weights that it was made with, or open a new world.",
    ),
    "disk": (
        "The server cannot use its disk",
        "Its worlds folder is full, or cannot be read or written. Free some room, then start the client again.",
    ),
    "address": (
        "This is not a WorldPager server",
        "Something else answers at that address: check the host, the port and the path (…/ws).",
    ),
    "host": (
        "The server does not answer to that name",
        "Use an address that it was started with, or allow the name: --allow-host NAME.",
    ),
    "internal": ("The client failed", "Start it again, and report what its log says."),
}
_WAITS: dict[str, tuple[str, str]] = {  # refusals that pass by themselves
    "busy": ("The server is busy", "All its worlds or places are taken for now."),
    "not_ready": ("The server is not ready", "It is starting, or stopping."),
    "fault": ("The server made an error", "Your world was saved: you go on from there."),
    "hello_timeout": ("The connection is slow", "The server waited too long for the first word."),
    "too_fast": ("The server asks to slow down", "It took more messages than it allows."),
}


def is_passing(code: str) -> bool:
    """True for a server's error after which the client tries again by itself."""
    return code in _WAITS


def card_for(status: Status, waited_s: float = 0.0) -> Card | None:
    """What to write over the picture, `waited_s` after the status began; None while the player walks."""
    if status.phase is Phase.WALKING:
        return None
    if status.phase is Phase.CONNECTING:
        return Card("Connecting", (status.url,), is_busy=True)
    if status.phase is Phase.STARTING:
        return Card("Starting the server", (_FIRST_STAGE,), 0.0, is_busy=True)
    if status.phase is Phase.LOADING:
        stage = status.text or "loading its model"
        return Card("Getting ready", (f"The server is {stage}.",), status.share, is_busy=True)
    if status.phase is Phase.REFUSED:
        title, advice = _REFUSALS.get(status.code, ("The server refused this visit", ""))
        return Card(title, (status.text, advice))
    return _lost(status, waited_s)


def _lost(status: Status, waited_s: float) -> Card:
    left_s = status.retry_s - waited_s
    again = f"Trying again in {left_s:.0f} s" if left_s >= 0.5 else "Trying again now"
    again = f"{again} (attempt {status.attempt})."
    if status.code in _WAITS:
        title, meaning = _WAITS[status.code]
        return Card(title, (meaning, again))
    if status.has_walked:
        meaning = "Your world is kept on the server: you go on where you stood."
        return Card("Connection lost", (status.text, meaning, again))
    advice = f"Start one with `make serve`, or check the address {status.url} and the firewall."
    return Card("No server answers", (status.text, advice, again))


_PAUSES = {
    "player": "Paused. P goes on.",
    "reader": "The world waits: this window took no frames for a while.",
}


def pause_words(why: str) -> str:
    """Why the world stands still, in words; "" when it runs."""
    return _PAUSES.get(why, f"The world is paused: {why}.") if why else ""
