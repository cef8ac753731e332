"""What the revisit meter measures in one world, as a row of JSON values; rows can be kept and read again. One thread.

A row is a pure function of (weights, code, world seed, what is asked). `Rows` keeps rows in a folder, each under a key
of all of these, so that a run that was stopped goes on where it was, and no stale row is ever taken.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.classifier_network import Judge
from bench.revisit_geometry import depth_errors
from bench.revisit_metrics import psnr, sharpness
from bench.revisit_returns import Return, given_returns, invented_returns, invented_visit
from bench.revisit_turned import turned_return
from bench.revisit_walk import TURN_RAD, Walk, generated, glance, guided, is_invented, rendered, walk
from bench.sources import with_sources
from models.rooms.model import RoomsModel
from models.rooms.renderer import render
from models.rooms.scene import PITCH_CELLS, ROOM_CELLS, Scene, make_scene
from models.rooms.sizes import CAMERA_HEIGHT_M, FOCAL_PX, HEIGHT_PX
from shared.controls import Controls
from shared.pose import MOUSE_RAD_PER_COUNT, Pose

Row = dict[str, Any]

_DIVERSITY_CHUNKS = 10
_SEEN_SHARE = 0.1  # of a quarter of a floor: from here on a view gives its tiles away
_UNSEEN_RAD = np.pi / 2  # a field of view: nothing of the first view is left in sight
_SOURCES = ("bench/revisit*.py", "bench/classifier_network.py", "models/rooms/*.py", "server/pager/codec.py")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured in every world."""

    routes: tuple[str, ...] = ("out-and-back",)
    memory: tuple[str, ...] = ("paged", "window")
    codecs: tuple[str, ...] = ("int4",)  # the first one is the one that the other figures are of
    parts: tuple[str, ...] = ("given", "invented", "diversity")
    num_chunks: int = 32  # of a first visit
    noises: int = 1  # noise seeds of each return on which codecs are compared


def measure(model: RoomsModel, seed: int, asked: Asked, judge: Judge | None) -> Row:
    """Return the row of a world: its returns, and what is seen of places that were never seen before."""
    returns: list[Return] = []
    row: Row = {"seed": seed}
    for route in asked.routes:
        if "given" in asked.parts:
            kinds = (*asked.memory, "poisoned")
            returns += given_returns(model, seed, route, kinds, asked.codecs[0], asked.num_chunks)
        if "codec" in asked.parts:
            for codec in asked.codecs:
                returns += given_returns(
                    model, seed, route, ("paged",), codec, asked.num_chunks, range(1, asked.noises + 1)
                )
        if "invented" in asked.parts:
            visit, out, seeded = invented_visit(model, seed, route, asked.num_chunks)
            returns += invented_returns(model, visit, route, asked.memory)
            row.setdefault("novelty", []).append(novelty(model, seed, route, out, seeded, judge))
        if "turned" in asked.parts:
            row.setdefault("turned", []).append(turned_return(model, seed, route, asked.codecs[0], asked.num_chunks))
    row["returns"] = [_plain(found) for found in returns]
    if "diversity" in asked.parts:
        row["diversity_psnr"], row["diversity_psnr_of_renderer"] = diversity(model, seed)
    return row


def novelty(model: RoomsModel, seed: int, route: str, out: Walk, seeded: Any, judge: Judge | None) -> dict[str, Any]:
    """Return detail, depth errors and the judge's opinions of invented frames, and of the renderer's on this route."""
    state, _, scene = glance(model, seed)
    num_chunks = len(out.path) // model.frames_per_chunk
    true = walk(model, state, num_chunks, guided(model, route, num_chunks, state.chunk_index), rendered(model, scene))
    new, true_new = is_invented(out, seeded), is_invented(true, seeded)
    found: dict[str, Any] = {
        "sharpness": _rounded(sharpness(out.frames[new]), 7),
        "true_sharpness": _rounded(sharpness(true.frames[true_new]), 7),
        "depth_errors": _rounded(depth_errors(out.path, out.log_depth), 4),
        "true_depth_errors": _rounded(depth_errors(true.path, true.log_depth), 4),
    }
    if judge is not None:
        found["invented_looks_invented"] = _rounded(judge.opinions(out.frames[new]), 3)
        found["render_looks_invented"] = _rounded(judge.opinions(true.frames[true_new]), 3)
    return found


def diversity(model: RoomsModel, seed: int) -> tuple[float, float]:
    """Return how alike (PSNR) two noise seeds draw what lies more than 90 degrees from their common first view.

    Beside it, how alike two rendered worlds are there that agree on what of the room the view gives away.
    """
    state, memory, scene = glance(model, seed)
    turn = (Controls(mouse_dx=TURN_RAD / MOUSE_RAD_PER_COUNT),) * model.frames_per_chunk
    walks: list[Walk] = []
    for noise_seed in (seed, seed + 1):
        paint = generated(model, memory.copy())
        walks.append(walk(model, replace(state, seed=noise_seed), _DIVERSITY_CHUNKS, lambda _: turn, paint))
    unseen = (np.arange(len(walks[0].frames)) + 1) * TURN_RAD > _UNSEEN_RAD
    poses = walks[0].path[unseen]
    true = [render(each, poses)[0] for each in (scene, _recoloured(make_scene(seed + 1), scene, state.pose))]
    return float(psnr(walks[0].frames[unseen], walks[1].frames[unseen]).mean()), float(psnr(*true).mean())


def _recoloured(scene: Scene, like: Scene, pose: Pose) -> Scene:
    """Return a scene whose room at `pose` has what a view from there shows of `like`: its colours, its floor ahead."""
    room = scene.room[int(pose.z_m), int(pose.x_m)]
    palette, tiles = scene.palette.copy(), scene.tiles.copy()
    palette[room] = like.palette[room]
    ahead = _quarters_ahead(pose)
    tiles[room, ahead] = like.tiles[room, ahead]
    return replace(scene, palette=palette, tiles=tiles)


def _quarters_ahead(pose: Pose) -> NDArray[np.bool_]:
    """Return of which quarters of the floor of its room a view from `pose` shows a tenth or more."""
    side = (np.arange(20) + 0.5) / 20 * ROOM_CELLS
    first_x, first_z = ((at - 1.0) // PITCH_CELLS * PITCH_CELLS + 1.0 for at in (pose.x_m, pose.z_m))
    east, north = np.meshgrid(first_x + side - pose.x_m, first_z + side - pose.z_m)  # [z, x]
    sin, cos = np.sin(pose.yaw_rad), np.cos(pose.yaw_rad)
    ahead, right = east * sin + north * cos, east * cos - north * sin
    is_seen = (np.abs(right) < ahead) & (ahead > 2.0 * CAMERA_HEIGHT_M * FOCAL_PX / HEIGHT_PX)
    return is_seen.reshape(2, 10, 2, 10).mean((1, 3)).reshape(-1) >= _SEEN_SHARE


class Rows:
    """Rows in a folder, or nowhere. Each is written whole or not at all."""

    def __init__(self, folder: Path | None, model: RoomsModel, asked: Asked, judge: Judge | None) -> None:
        self._folder = folder
        told = hashlib.blake2b(json.dumps(asdict(asked)).encode(), digest_size=16)
        told.update(model.fingerprint.encode() + str(model.dtype).encode())
        told.update(b"" if judge is None else judge.fingerprint.encode())
        self._key = with_sources(told, _SOURCES).hexdigest()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, seed: int) -> Row | None:
        """Return the row of a world that was measured before under the same key."""
        if self._folder is None or not self._path(seed).exists():
            return None
        kept = json.loads(self._path(seed).read_text("utf-8"))
        return kept["row"] if kept["key"] == self._key else None

    def keep(self, row: Row) -> None:
        """Write a row where `find` looks for it."""
        if self._folder is None:
            return
        part = self._path(row["seed"]).with_suffix(".part")
        part.write_text(json.dumps({"key": self._key, "row": row}), "utf-8")
        part.replace(self._path(row["seed"]))

    def _path(self, seed: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{seed}.json"


def _plain(found: Return) -> dict[str, Any]:
    values = asdict(found)
    return {name: _rounded(value, 4) if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _rounded(values: Any, digits: int) -> list[float | None]:
    """Return numbers as JSON has them; what is no number is None."""
    return [None if np.isnan(value) else round(float(value), digits) for value in np.asarray(values, np.float64)]
