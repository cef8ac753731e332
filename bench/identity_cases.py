"""The cases of `bench identity`: two walks that must be the same, and how the second one came about. Owns no figure.

All of a model's cases go the same way: a lead, then a walk onward whose frames are compared. Budgets are so small that
memory lives on NVME, except in the case that compares tiers.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.drive import Drive, start
from bench.identity import budgets_by_tier, differing_bytes
from bench.identity_process import walk_on_elsewhere
from client.routes import route
from models.base import Pixels, WorldModel
from server.export_world import export_world
from server.folder_lock import FolderLock
from server.head import Head
from server.import_world import import_world
from server.pager.pager import Budgets
from server.session import Session
from server.worlds import Worlds
from shared.controls import Controls, Key

SEED = 900_100
ROUTE = "figure-8"
WORLD = "there"
CONTROL_CHUNKS = 12
SIBLING_STRIDE = 10  # chunks that one branch draws before the other goes on
DIFFERENT_CHUNKS = 6  # that the siblings draw under different inputs, at the end


def load(name: str) -> WorldModel:
    """A model by its name; matrix-game-2 at tiny size."""
    if name == "rooms":
        from models.rooms.model import RoomsModel  # noqa: PLC0415 - only the model that is asked for is imported

        return RoomsModel()
    if name == "matrix-game-2":
        from models.matrix_game_2.load import load_model  # noqa: PLC0415 - as above

        return load_model("tiny", random_weights=True)
    from models.plain import PlainModel  # noqa: PLC0415 - as above

    return PlainModel()


@dataclass
class Trial:
    """One model's walk: lead and onward, and the frames of never having left."""

    model_name: str
    model: WorldModel
    num_bytes: int
    lead_chunks: int = 60
    excursion_chunks: int = 60
    scratch: Path = field(default_factory=Path.cwd)

    @classmethod
    def of(cls, model_name: str, num_bytes: int) -> "Trial":
        return cls(model_name, load(model_name), num_bytes)

    @property
    def num_chunks(self) -> int:
        """Of the walk onward: whose frames have so many bytes."""
        width, height = self.model.frame_size
        return math.ceil(self.num_bytes / (self.model.frames_per_chunk * width * height * 3))

    @property
    def budgets(self) -> Budgets:
        """Memory on disk, with room for all that any case draws."""
        return budgets_by_tier(self.model, 3 * (self.lead_chunks + self.excursion_chunks + self.num_chunks))["nvme"]

    @cached_property
    def controls(self) -> tuple[list[Controls], list[Controls]]:
        """Of the lead, and of the walk onward."""
        num_lead = self.lead_chunks * self.model.frames_per_chunk
        num_frames = num_lead + self.num_chunks * self.model.frames_per_chunk
        whole = route(ROUTE, num_frames / self.model.fps).frames(self.model.fps, num_frames)
        return list(whole[:num_lead]), list(whole[num_lead:])

    @cached_property
    def never_left(self) -> tuple[list[Pixels], list[Pixels], int]:
        """The frames of lead and onward in one go, and the bytes that moved."""
        with self.folder() as folder, self.begin(folder) as drive:
            lead, onward = (walked(drive, controls) for controls in self.controls)
            return lead, onward, moved(drive)

    def folder(self) -> "Folder":
        return Folder(self.scratch)

    def begin(self, folder: Path, budgets: Budgets | None = None) -> Drive:
        return start(self.model, budgets or self.budgets, folder, seed=SEED, world=WORLD)


class Folder:
    """A temporary folder as a Path."""

    def __init__(self, scratch: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="identity-", dir=scratch)

    def __enter__(self) -> Path:
        return Path(self._folder.name)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def walked(drive: Drive, controls: Sequence[Controls]) -> list[Pixels]:
    """The frames of a walk; after each chunk its blocks go to the disk."""

    def settle() -> None:
        drive.pager.flush(30.0)

    before = len(drive.frames)
    drive.walk(controls, settle)
    return drive.frames[before:]


def moved(drive: Drive) -> int:
    """Bytes that were carried between tiers for this session so far."""
    return drive.stats.fetched_bytes + drive.stats.spilled_bytes


def run_case(trial: Trial, kind: str) -> dict[str, Any]:
    """One case, by the keys of commands.md."""
    began_s = time.monotonic()
    figures = CASES[kind](trial)
    seconds = round(time.monotonic() - began_s, 1)
    return {"name": f"{trial.model_name}/{kind}", **figures, "seconds": seconds}


def leave(trial: Trial) -> dict[str, Any]:
    """Keep the place, go elsewhere until its state and its blocks lie on disk, come back and walk on."""
    lead, onward, _ = trial.never_left
    num = trial.excursion_chunks * trial.model.frames_per_chunk
    elsewhere = route("random", num / trial.model.fps).frames(trial.model.fps, num)
    with trial.folder() as folder, trial.begin(folder) as drive:
        drive.session.timeline.shelf.budget_bytes = 0  # what is kept goes to the disk
        first = walked(drive, trial.controls[0])
        snapshot = drive.session.snapshot("before")
        before = moved(drive)
        walked(drive, elsewhere)
        assert snapshot.durable.result(60.0)
        drive.session.settle()
        is_at_rest = snapshot.head is None
        drive.session.restore(snapshot)
        drive.arrive()
        back = walked(drive, trial.controls[1])
        excursion = {"excursion_chunks": trial.excursion_chunks, "state_was_on_disk": is_at_rest}
        return {**compared([*lead, *onward], [*first, *back]), "moved_bytes": moved(drive) - before, **excursion}


def fork(trial: Trial) -> dict[str, Any]:
    """Two branches of one moment, drawn in turns: equal until their inputs differ, and different then."""
    per_chunk = trial.model.frames_per_chunk
    same = trial.controls[1]
    num = DIFFERENT_CHUNKS * per_chunk
    left, right = [Controls(Key.FORWARD, -20.0)] * num, [Controls(Key.BACK, 20.0)] * num
    stride = SIBLING_STRIDE * per_chunk
    with trial.folder() as folder, trial.begin(folder) as drive:
        walked(drive, trial.controls[0])
        branches = drive.session.branch, drive.session.fork("sibling")
        frames: tuple[list[Pixels], list[Pixels]] = ([], [])
        for at in range(0, len(same), stride):
            for branch, shown in zip(branches, frames, strict=True):
                _stand_on(drive, branch)
                shown.extend(walked(drive, same[at : at + stride]))
        ends: list[list[Pixels]] = []
        for branch, controls in zip(branches, (left, right), strict=True):
            _stand_on(drive, branch)
            ends.append(walked(drive, controls))
        apart = differing_bytes(*ends) > 0
        return {**compared(*frames), "moved_bytes": moved(drive), "differs_after": apart}


def _stand_on(drive: Drive, branch: Any) -> None:
    if drive.session.branch is not branch:
        drive.session.switch(branch)
        drive.arrive()


def restart(trial: Trial) -> dict[str, Any]:
    """Stop after the lead; another process opens the world and walks on."""
    _, onward, _ = trial.never_left
    with trial.folder() as folder:
        with trial.begin(folder) as drive:
            walked(drive, trial.controls[0])
        back, moved_bytes = walk_on_elsewhere(trial.model_name, folder, trial.num_bytes, trial.lead_chunks)
    return {**compared(onward, back), "moved_bytes": moved_bytes}


def export(trial: Trial) -> dict[str, Any]:
    """Stop after the lead, export, import into another folder; another process walks on there."""
    _, onward, _ = trial.never_left
    with trial.folder() as folder, trial.folder() as other:
        with trial.begin(folder) as drive:
            walked(drive, trial.controls[0])
            home = folder / drive.session.world
        file = other / "there.worldpager"
        with FolderLock(home, "exported"):
            exported = export_world(home, Worlds(folder).card(home.name), file)
        import_world(file, Worlds(other / "worlds"))
        back, moved_bytes = walk_on_elsewhere(trial.model_name, other / "worlds", trial.num_bytes, trial.lead_chunks)
    return {**compared(onward, back), "moved_bytes": moved_bytes, "file_bytes": exported.num_bytes}


def tiers(trial: Trial) -> dict[str, Any]:
    """The same walk with every block on the GPU tier, in DRAM, and on NVME."""
    num = math.ceil(len(trial.controls[1]) / 2 / trial.model.frames_per_chunk) * trial.model.frames_per_chunk
    controls = [*trial.controls[0], *trial.controls[1]][:num]
    walks: dict[str, list[Pixels]] = {}
    moved_bytes, hits = 0, dict[str, list[int]]()
    for name, budgets in budgets_by_tier(trial.model, num // trial.model.frames_per_chunk + 16).items():
        with trial.folder() as folder, trial.begin(folder, budgets) as drive:
            walks[name] = walked(drive, controls)
            hits[name] = list(drive.stats.hits)
            moved_bytes += moved(drive)
    figures = compared([*walks["gpu"], *walks["gpu"]], [*walks["dram"], *walks["nvme"]])
    return {**figures, "moved_bytes": moved_bytes, "hits": hits}


CASES: dict[str, Callable[[Trial], dict[str, Any]]] = {
    "leave": leave,
    "fork": fork,
    "restart": restart,
    "tiers": tiers,
    "export": export,
}


def control_differs(trial: Trial) -> bool:
    """The negative control: the same state with another noise seed does not go on as it did."""
    _, onward, _ = trial.never_left
    controls = trial.controls[1][: CONTROL_CHUNKS * trial.model.frames_per_chunk]
    with trial.folder() as folder, trial.begin(folder) as drive:
        walked(drive, trial.controls[0])
        _corrupt_noise(drive.session)
        drive.arrive()
        wrong = walked(drive, controls)
    return differing_bytes(onward[: len(wrong)], wrong) > 0


def _corrupt_noise(session: Session) -> None:
    head = session.head
    state: Any = head.state  # every model's state has a seed
    session.restore(Head(head.moment, replace(state, seed=state.seed + 1), head.line, head.frame, head.recalled))


def compared(a: Sequence[Pixels], b: Sequence[Pixels]) -> dict[str, Any]:
    """The figures of two walks side by side."""
    return {"differing_bytes": differing_bytes(a, b), "compared_bytes": sum(frame.nbytes for frame in a)}
