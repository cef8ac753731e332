"""The command line of the client: `python -m client [URL]`. Main thread. docs/client.md lists the flags."""

import argparse
import logging
import math
import os
import sys
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path

from client.address import DEFAULT_URL, AddressError, websocket_url
from client.headless import UnreachableError, walk
from client.legs import SHIPPED
from client.report import Report
from client.routes import RouteError, route
from client.wire import Visit

DEFAULT_SECONDS = 60.0


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError("a number of seconds above 0")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m client", description="Walk through a world that a server draws.")
    parser.add_argument(
        "url", nargs="?", default=DEFAULT_URL, metavar="URL", help=f"the server (default: {DEFAULT_URL})"
    )
    parser.add_argument("--world", default="", metavar="NAME", help="opened, or made when absent; default: you choose")
    parser.add_argument("--at", default="", metavar="NAME", help="branch to enter, or snapshot to begin a branch at")
    parser.add_argument("--new", action="store_true", help="begin a new world without asking")
    parser.add_argument(
        "--seed", type=int, default=None, metavar="N", help="of a new world; default: the server chooses"
    )
    parser.add_argument("--mode", choices=("live", "exact"), default="live", help="live never waits for memory")
    parser.add_argument("--token", default=None, metavar="T", help="default: WORLDPAGER_TOKEN")
    parser.add_argument("--starting", action="store_true", help="the server is being started: wait for it")
    parser.add_argument("--headless", action="store_true", help="no window: walk a route and report")
    parser.add_argument(
        "--route", default=None, metavar="NAME|FILE", help=f"walked by itself: {', '.join(SHIPPED)}, or a file"
    )
    parser.add_argument("--seconds", type=_seconds, default=None, metavar="N", help="of the route (default: 60)")
    parser.add_argument(
        "--report", type=Path, default=None, metavar="PATH", help="where the walk's numbers go, as JSON"
    )
    parser.add_argument(
        "--revisits", type=Path, default=Path("revisits"), metavar="DIR", help="where comparisons are exported to"
    )
    return parser


def _fail(text: str, code: int = 1) -> int:
    print(f"client: {text}", file=sys.stderr)
    return code


def _headless(visit: Visit, route_name: str, seconds: float, report_path: Path | None) -> int:
    print(f"walking {route_name} for {seconds:g} s at {visit.url}", file=sys.stderr)
    try:
        report = walk(visit, route_name, seconds, report_path=report_path)
    except UnreachableError as error:
        return _fail(str(error))
    print(_summary(report) if report_path else report.to_json(), end="\n" if report_path else "")
    return 0


def _summary(report: Report) -> str:
    fps = f"{report.fps_shown:.2f}" if report.fps_shown else "0"
    latency = f"{report.input_to_photon_p50_ms:.0f}" if report.input_to_photon_p50_ms else "-"
    came = report.recalled_from
    return (
        f"{report.frames_shown} frames, {fps} a second, input to photon {latency} ms (p50), {report.stalls} stalls, "
        f"recalled from GPU {came.gpu}, DRAM {came.dram}, NVME {came.nvme}"
    )


def _window(visit: Visit, given: argparse.Namespace) -> int:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if util.find_spec("pygame") is None:
        return _fail("pygame is missing. Install the client: pip install 'worldpager[client]', or add --headless.")
    if len([name for name in ("pygame", "pygame-ce") if _is_installed(name)]) > 1:
        return _fail("pygame and pygame-ce are both installed and break each other: pip uninstall one of them.")
    from client.app import App, Wishes  # noqa: PLC0415 - pygame is only needed, and only loaded, for a window
    from client.window import NoDisplayError  # noqa: PLC0415

    is_open = not (visit.world or given.new or given.route or visit.seed is not None)
    seconds = given.seconds or (DEFAULT_SECONDS if given.route else None)
    try:
        return App(visit, Wishes(given.route, seconds, given.report, given.revisits, asks=is_open)).run()
    except NoDisplayError as error:
        return _fail(str(error), 2)


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Run the client; returns the exit status: 0 walked, 1 no server or refused, 2 wrong use."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    given = _parser().parse_args(arguments)
    token = given.token if given.token is not None else os.environ.get("WORLDPAGER_TOKEN", "")
    visit = Visit(given.url, given.world, given.seed, given.mode, token, given.at, given.starting)
    seconds = given.seconds or DEFAULT_SECONDS
    route_name = given.route or ("out-and-back" if given.headless else None)
    try:
        visit = replace(visit, url=websocket_url(visit.url))
        if route_name is not None:
            route(route_name, seconds)
    except (AddressError, RouteError) as error:
        return _fail(str(error), 2)
    if given.at and not given.world:
        return _fail("--at NAME needs the world that it belongs to: --world NAME", 2)
    if given.report is not None and not given.report.absolute().parent.is_dir():
        return _fail(f"the folder of --report {given.report} does not exist", 2)
    if given.headless:
        return _headless(visit, route_name or "out-and-back", seconds, given.report)
    return _window(visit, given)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
