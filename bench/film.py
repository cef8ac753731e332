"""`python -m bench film`: the README's picture and clip of a walk, by the real client at a real server. Makes files.

A server of its own draws a new world, live; the client walks a route in it on a window that nobody sees, and what that
window shows is kept. Nothing is staged but the route: the frame rate is that of the machine, and the HUD says so.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from client.legs import TURN_RAD_S
from client.routes import Route, RouteError, RouteLine, route
from client.wire import Visit
from shared.controls import Key
from shared.pose import MOUSE_RAD_PER_COUNT
from shared.tiers import Tier

if TYPE_CHECKING:
    import pygame

    from client.atlas import Atlas

PICTURE_SIZE, CLIP_SIZE = (1152, 768), (864, 576)
PICTURE_SHARE = 0.25  # of the walk, at its end, from which the picture is taken
LEAD_S, LOOK_S, REST_S = 20.0, 1.5, 2.5  # of the clip: before it begins, before its turn, and after it
CLIP_S = LOOK_S + 2.0 * math.pi / TURN_RAD_S + REST_S
CLIP_HZ = 10.0
MAX_CLIP_BYTES = 2_000_000
QUALITIES = (80, 70, 60, 50, 40, 30, 20)
STOP_WAIT_S = 30.0


@dataclass
class Reel:
    """What the window showed from `from_s` after the first frame on, at times of the client's clock."""

    size: tuple[int, int]
    from_s: float
    hz: float
    stills: list[tuple[float, Image.Image]] = field(default_factory=list[tuple[float, Image.Image]])
    fps: float = 0.0  # that the window showed
    best: Image.Image | None = None  # the newest with a whole recall, some of it from NVME

    def look(self, now_s: float, atlas: "Atlas", shot: Callable[[], Image.Image]) -> None:
        """Keep what is shown now, when it is time for a still."""
        if self.stills and now_s - self.stills[-1][0] < 1.0 / self.hz:
            return
        image = shot()
        self.stills.append((now_s, image))
        stats = atlas.stats
        if stats is not None and not stats.stale and Tier.NVME in stats.recalled_tiers:
            self.best = image


def main(argv: Sequence[str]) -> int:
    """Walk, and write what was asked for."""
    options = _parser().parse_args(argv)
    try:
        walked = route(options.route, max(options.seconds, LEAD_S))
    except RouteError as error:
        print(f"bench film: {error}", file=sys.stderr)
        return 2
    if options.picture is None and options.clip is None:
        print("bench film: nothing to make; give --picture FILE or --clip FILE", file=sys.stderr)
        return 2
    if options.picture is not None:
        reel = Reel(PICTURE_SIZE, options.seconds * (1.0 - PICTURE_SHARE), hz=1.0)
        film(walked, options.seconds, options.seed, reel)
        (reel.best or reel.stills[-1][1]).save(options.picture, optimize=True)
        print(f"{options.picture}: {reel.fps:.1f} frames a second, {options.picture.stat().st_size:,} bytes")
    if options.clip is not None:
        reel = Reel(CLIP_SIZE, LEAD_S, CLIP_HZ)
        film(and_a_look_around(walked), LEAD_S + CLIP_S, options.seed, reel, bookmark_s=LEAD_S + LOOK_S / 2.0)
        quality = write_clip(reel.stills, options.clip)
        size = options.clip.stat().st_size
        print(f"{options.clip}: {reel.fps:.1f} frames a second, quality {quality}, {size:,} bytes")
    return 0


def and_a_look_around(walked: Route) -> Route:
    """The first seconds of a route, then a whole turn on the spot, back to the view from which it began. Pure."""
    begin_s, end_s = LEAD_S + LOOK_S, LEAD_S + LOOK_S + 2.0 * math.pi / TURN_RAD_S
    lead = [line for line in walked.lines if line.t_s < LEAD_S]
    travel = walked.mouse_at(LEAD_S)[0] - sum(line.mouse_dx for line in lead)
    rests = [RouteLine(LEAD_S, Key(0), travel), RouteLine(begin_s, Key(0))]
    return Route("a look around", [*lead, *rests, RouteLine(end_s, Key(0), 2.0 * math.pi / MOUSE_RAD_PER_COUNT)])


def film(walked: Route, seconds: float, seed: int, reel: Reel, bookmark_s: float | None = None) -> None:
    """Start a server, walk there for so long after the first frame, and fill the reel. Blocks."""
    with tempfile.TemporaryDirectory(prefix="film-") as folder:
        command = [sys.executable, "-m", "server", "--worlds", folder, "--port", "0", "--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own module
            try:
                assert server.stdout is not None
                ready = next(line for line in server.stdout if line.startswith("ready: "))
                visit = Visit(ready.removeprefix("ready: ").strip(), world="film", seed=seed)
                _walk(visit, walked, seconds, reel, bookmark_s)
            finally:
                server.terminate()
                server.wait(STOP_WAIT_S)


def _walk(visit: Visit, walked: Route, seconds: float, reel: Reel, bookmark_s: float | None) -> None:
    """The client's own loop, with a look at the window after each pass."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    import pygame  # noqa: PLC0415 - SDL reads its environment when it is imported

    from client.stage import Stage  # noqa: PLC0415 - imports pygame
    from client.window import Window  # noqa: PLC0415 - imports pygame

    window, clock = Window(), pygame.time.Clock()
    pygame.display.set_mode(reel.size)
    stage = Stage(window, visit, walked, seconds, Path())
    press = pygame.event.Event(pygame.KEYDOWN, scancode=pygame.KSCAN_B, key=pygame.K_b, mod=0)
    try:
        while not stage.is_over:
            now_s = time.perf_counter()
            pygame.event.pump()
            walked_s = now_s - (stage.walk.record.first_s or now_s)
            if bookmark_s is not None and walked_s >= bookmark_s:
                stage.take(press, now_s)
                bookmark_s = None
            stage.advance(window.target, now_s)
            if walked_s >= reel.from_s:
                reel.look(now_s, stage.walk.atlas, lambda: _shot(window.target))
            clock.tick(60)
        reel.fps = stage.walk.report().fps_shown or 0.0
    finally:
        stage.close(None)
        pygame.quit()


def _shot(surface: "pygame.Surface") -> Image.Image:
    import pygame  # noqa: PLC0415 - see above

    return Image.frombytes("RGB", surface.get_size(), pygame.image.tobytes(surface, "RGB"))


def write_clip(stills: list[tuple[float, Image.Image]], path: Path) -> int:
    """An endless WebP at the pace of the stills, of the best quality within MAX_CLIP_BYTES; that quality."""
    times_s = [at_s for at_s, _ in stills]
    durations_ms = [round((after - before) * 1000.0) for before, after in pairwise(times_s)] + [round(1000.0 / CLIP_HZ)]
    first, *others = (image for _, image in stills)
    for quality in QUALITIES:
        first.save(path, save_all=True, append_images=others, duration=durations_ms, loop=0, quality=quality, method=4)
        if path.stat().st_size <= MAX_CLIP_BYTES:
            break
    return quality


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench film", description=__doc__)
    parser.add_argument("--picture", type=Path, metavar="PNG", help="a frame late in a walk, with the whole HUD")
    parser.add_argument("--clip", type=Path, metavar="WEBP", help=f"{CLIP_S:.0f} s: a bookmark, a turn, and back")
    parser.add_argument("--route", default="figure-8", help="of the picture, and of the clip's unseen lead-in")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the picture's walk")
    parser.add_argument("--seed", type=int, default=900_009, help="of the world")
    return parser
