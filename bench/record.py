"""`python -m bench record`: walk a real session along a route, and keep the walk as a trace for `bench pager`.

The session is the server's own, in exact mode: model, pager, journal, everything but the socket. What each chunk wanted
is what the model's retrieval named when it was drawn; the moments that the journal wrote are the trace. Without flags
of its own it records the rooms traces that are shipped.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.drive import start
from bench.identity import budgets_by_tier
from client.legs import SHIPPED as ROUTES
from client.routes import RouteError, route
from models.base import WorldModel
from server.config import Settings
from server.load import load_model
from server.moments import Moment, ancestors
from server.trace import SHIPPED_FOLDER, TraceChunk, TraceError, write_trace
from server.worlds import Worlds
from shared.controls import NO_KEYS

SHIPPED = ("out-and-back", "random", "square", "figure-8")
CHUNKS = 300
SEED = 910_500
SPARE_BLOCKS = 64  # of the chunks that a world is given


def record(model: WorldModel, route_name: str, num_chunks: int, seed: int) -> list[TraceChunk]:
    """Walk a new world and read back what its journal says. Raises RouteError, TraceError. Draws; blocks."""
    num_frames = num_chunks * model.frames_per_chunk
    controls = route(route_name, num_frames / model.fps).frames(model.fps, num_frames)
    budgets = budgets_by_tier(model, num_chunks + SPARE_BLOCKS)["gpu"]  # so that each recall is complete
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        with start(model, budgets, Path(folder), seed=seed) as drive:
            world = drive.session.world
            drive.walk(controls, after_chunk=drive.frames.clear)
        worlds = Worlds(Path(folder))
        card = worlds.find(world)
        assert card is not None, "the world that was just walked"
        opened = worlds.open(card)
        return chunks_of(ancestors(opened.moments, opened.head))


def chunks_of(moments: Iterable[Moment]) -> list[TraceChunk]:
    """Moments of a walk in exact mode, oldest first, as a trace. Pure; raises TraceError when one lacked a block.

    Blocks bear the ids of their moments; a trace names chunks by their place in it.
    """
    chunks: list[TraceChunk] = []
    place: dict[int, int] = {}
    for moment in moments:
        if moment.stale:
            raise TraceError(f"chunk {moment.chunk_index} was drawn without all that it wanted; nothing was recorded")
        keys = Counter(frame.keys for frame in moment.controls).most_common(1)
        mouse = (
            sum(frame.mouse_dx for frame in moment.controls),
            sum(frame.mouse_dy for frame in moment.controls),
        )
        wanted = tuple(place[block] for block in moment.recalled)
        place[moment.id] = len(chunks)
        chunks.append(TraceChunk(moment.poses[-1], keys[0][0] if keys else NO_KEYS, mouse, wanted, moment.has_block))
    return chunks


def main(argv: Sequence[str]) -> int:
    """Record, say what was seen, write."""
    options = _parser().parse_args(argv)
    model = load_model(Settings(model=options.model, gpu=0, dram=0, nvme=0))
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.routes.split(","):
        try:
            chunks = record(model, name, options.chunks, options.seed)
        except (RouteError, TraceError) as error:
            print(f"bench record: {error}")
            return 2
        path = options.out / f"{options.model}-{Path(name).stem}.jsonl"
        path.write_text(write_trace(chunks), encoding="utf-8")
        num_blocks = sum(chunk.leaves_block for chunk in chunks)
        num_wanted = sum(len(chunk.wanted or ()) for chunk in chunks)
        print(f"{path}: {len(chunks)} chunks, {num_blocks} blocks, {num_wanted} wanted", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench record", description=__doc__)
    parser.add_argument("--model", choices=["rooms", "plain"], default="rooms")
    names = f"{', '.join(ROUTES)}, or route files; with commas between them"
    parser.add_argument("--routes", default=",".join(SHIPPED), help=names)
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="to walk; those that a world is given come first")
    parser.add_argument("--seed", type=int, default=SEED, help="of the world")
    parser.add_argument("--out", type=Path, default=SHIPPED_FOLDER, help="the folder; a file is MODEL-ROUTE.jsonl")
    return parser
