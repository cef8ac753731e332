"""A walk without a window: plays a route, shows frames at their due time on a virtual display, reports. No pygame.

`walk` is the API for the bench and the tests; it blocks the calling thread. Exact walks are in exact.py.
"""

import time
from collections.abc import Callable
from pathlib import Path

from client.exact import ExactFrame, walk_exact
from client.legs import TURN_RAD_S
from client.link import Link
from client.picture import Picture
from client.report import Report, write_report
from client.routes import Route, route
from client.status import Card, Phase, Status, card_for
from client.walk import Walk
from client.wire import WIRE_ERRORS, RefusedError, Visit, trouble_of

DISPLAY_HZ = 60.0
GIVE_UP_S = 4.0  # without any answer of a server
_REPORT_S = 10.0
_TURN_MARGIN = 0.9  # of the model's largest turn rate

__all__ = ["ExactFrame", "UnreachableError", "walk", "walk_exact"]


class UnreachableError(Exception):
    """No frame was ever shown; the text says why and what to do."""

    def __init__(self, card: Card) -> None:
        lines = (line for line in card.lines if line and not line.startswith("Trying again"))
        super().__init__("\n".join((card.title, *lines)))


def walk(
    visit: Visit | str,
    route_name: str,
    seconds: float,
    *,
    report_path: Path | None = None,
    give_up_s: float = GIVE_UP_S,
    on_picture: Callable[[Picture], None] | None = None,
) -> Report:
    """Walk a route until `seconds` after the first frame, connected or not; in exact mode until it is drawn.

    `visit` may be a bare URL. Raises UnreachableError when no frame ever came, and RouteError. `on_picture` is called
    for each shown frame.
    """
    visit = Visit(visit) if isinstance(visit, str) else visit
    if visit.mode == "exact":
        return _walk_exactly(visit, route_name, seconds, report_path, on_picture)
    path = route(route_name, seconds)
    link = Link(visit)
    link.start()
    try:
        report = _play(Walk(link, visit.url), path, seconds, give_up_s, on_picture)
        if report_path is not None:
            link.submit(write_report(report_path, report)).result(_REPORT_S)
    finally:
        link.close()
    return report


def _walk_exactly(
    visit: Visit,
    route_name: str,
    seconds: float,
    report_path: Path | None,
    on_picture: Callable[[Picture], None] | None,
) -> Report:
    try:
        report, frames = walk_exact(visit, route_name, seconds, report_path=report_path)
    except (RefusedError, *WIRE_ERRORS) as error:
        trouble = trouble_of(error)
        phase = Phase.REFUSED if trouble.is_refusal else Phase.LOST
        card = card_for(Status(phase, visit.url, trouble.text, code=trouble.code)) or Card(trouble.text)
        raise UnreachableError(card) from error
    if on_picture is not None:
        for frame in frames:
            on_picture(frame.picture)
    return report


def _play(
    walked: Walk, path: Route, seconds: float, give_up_s: float, on_picture: Callable[[Picture], None] | None
) -> Report:
    started_s = next_s = time.perf_counter()
    sent_x = sent_y = 0.0
    while True:
        now_s = time.perf_counter()
        walked.update(now_s)
        first_s = walked.record.first_s
        if first_s is None:
            _check_patience(walked, now_s - started_s, give_up_s)
            walked.steer(path.keys_at(-1.0), 0.0, 0.0, now_s)
        elif now_s - first_s >= seconds:
            return walked.report(path.name)
        else:
            mouse_x, mouse_y = path.mouse_at(now_s - first_s)
            walked.steer(path.keys_at(now_s - first_s), mouse_x - sent_x, mouse_y - sent_y, now_s)
            sent_x, sent_y = mouse_x, mouse_y
        picture = walked.due(now_s)
        if picture is not None:
            if first_s is None and walked.welcome is not None:
                path = _within(path, seconds, walked.welcome.turn_rad_s)
            walked.presented(picture, time.perf_counter())
            if on_picture is not None:
                on_picture(picture)
        next_s = max(next_s + 1.0 / DISPLAY_HZ, time.perf_counter())
        time.sleep(max(0.0, next_s - time.perf_counter()))


def _within(path: Route, seconds: float, turn_rad_s: float) -> Route:
    """A shipped route again, turning no faster than the model can; a route from a file as it is."""
    if Path(path.name).is_file() or turn_rad_s * _TURN_MARGIN >= TURN_RAD_S:
        return path
    return route(path.name, seconds, turn_rad_s * _TURN_MARGIN)


def _check_patience(walked: Walk, waited_s: float, give_up_s: float) -> None:
    """Raise UnreachableError when a server refuses, or when none ever answered within `give_up_s`."""
    status = walked.status
    is_silent = status.phase in (Phase.CONNECTING, Phase.LOST) and not status.has_walked and waited_s > give_up_s
    if status.phase is Phase.REFUSED or is_silent:
        raise UnreachableError(card_for(status) or Card("No frame came"))
