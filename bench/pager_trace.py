"""The shipped trajectories, for any number of chunks: routes of the client and two of the paper's. Pure.

`python -m bench.pager_trace` writes them as files to bench/traces/, for `server plan` and for whoever wants to look.
"""

from collections import Counter
from collections.abc import Callable

from client.legs import SHIPPED as SHIPPED_ROUTES
from client.legs import Leg, Legs, cut
from client.routes import Route, RouteLine
from server.pager.capacity import SHIPPED, Geometry
from server.trace import SHIPPED_FOLDER, TraceChunk, read_trace, write_trace
from shared.controls import Key
from shared.pose import MOUSE_RAD_PER_COUNT, Pose, advance

DEFAULT_CHUNKS = 300
LONG_CHUNKS = 1984  # so that the last chunks return to places of 1,981 chunks ago
STROKE_S = 9.0  # b1_ws: this long ahead, this long back


def _ahead_and_back(seconds: float, _turn_rad_s: float) -> Legs:
    """Straight ahead and straight back, again and again, without turning: the paper's b1_ws."""
    strokes = [Leg(STROKE_S, Key.FORWARD), Leg(STROKE_S, Key.BACK)] * (int(seconds / STROKE_S) + 1)
    return cut(strokes, seconds)


TRAJECTORIES: dict[str, Callable[[float, float], Legs]] = {
    "a_yaw": SHIPPED_ROUTES["yaw-360"],
    "b1_ws": _ahead_and_back,
    **SHIPPED_ROUTES,
}


def natural_chunks(name: str) -> int:
    """How long a trajectory is when nobody says."""
    return LONG_CHUNKS if name == "long-round-trip" else DEFAULT_CHUNKS


def trace(name_or_path: str, num_chunks: int | None, geometry: Geometry) -> list[TraceChunk]:
    """A shipped trajectory of so many chunks, or a file's first ones. Raises TraceError. Reads a file; blocks."""
    if name_or_path in TRAJECTORIES:
        return trajectory(name_or_path, num_chunks or natural_chunks(name_or_path), geometry)
    return read_trace(name_or_path)[:num_chunks]


def trajectory(name: str, num_chunks: int, geometry: Geometry) -> list[TraceChunk]:
    """The walk in the geometry's model time, nothing in the way."""
    num = geometry.frames_per_chunk
    legs = TRAJECTORIES[name](num_chunks * num / geometry.fps, geometry.motion.turn_rad_s)
    frames = _route(name, legs).frames(geometry.fps, num_chunks * num)
    pose = Pose()
    chunks: list[TraceChunk] = []
    for at in range(0, len(frames), num):
        held = frames[at : at + num]
        for frame in held:
            pose = advance(pose, frame, geometry.motion, 1.0 / geometry.fps)
        keys = Counter(frame.keys for frame in held).most_common(1)[0][0]
        mouse = (sum(frame.mouse_dx for frame in held), sum(frame.mouse_dy for frame in held))
        chunks.append(TraceChunk(pose, keys, mouse))
    return chunks


def _route(name: str, legs: Legs) -> Route:
    lines: list[RouteLine] = []
    t_s = counts = 0.0
    for leg in legs:
        lines.append(RouteLine(t_s, leg.keys, counts))
        t_s += leg.seconds
        counts = leg.turn_rad / MOUSE_RAD_PER_COUNT
    return Route(name, [*lines, RouteLine(t_s, Key(0), counts)])


def main() -> None:
    """Write every trajectory at its natural length, for Matrix-Game 2.0."""
    for name in TRAJECTORIES:
        walked = trajectory(name, natural_chunks(name), SHIPPED["matrix-game-2"])
        (SHIPPED_FOLDER / f"{name}.jsonl").write_text(write_trace(walked), encoding="utf-8")


if __name__ == "__main__":
    main()
