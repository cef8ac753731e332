"""`python -m bench state`: what is the state? Found by measurement: each component is dropped, then corrupted, and the
walk goes on; whatever changes a single byte of what follows has to be kept.

Three kinds of model: windowed KV (Matrix-Game 2.0's layout at tiny size), a memory bank (rooms), and an observation
with a random number generator (rooms with nothing carried over but the last frames). Each from a walking and a standing
start, so that what matters only when nobody moves is found as well.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bench.bank import Bank, BankBlock, begin, walk
from bench.components import component_bytes, corrupted, without
from bench.identity import differing_bytes
from bench.report import command_line, write_report
from client.routes import route
from models.base import Pixels, SavedState, WorldModel
from shared.controls import IDLE, Controls, Key

SEED = 900_100
LEAD_CHUNKS = 40  # walked at least before the state is taken: out and half-way back, with memory to recall
STILL_CHUNKS = 10  # stood still before the standing state is taken


@dataclass(frozen=True, slots=True)
class Start:
    """A state to go on from, with the memory it had."""

    saved: SavedState
    bank: Bank


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to hurt one component."""

    component: str
    num_bytes: int
    how: str
    hurt: Callable[[Start], Start]


def main(argv: Sequence[str]) -> int:
    """Measure all three kinds; exit 0 only when the walk itself repeats byte for byte."""
    parser = argparse.ArgumentParser(prog="python -m bench state", description=__doc__)
    parser.add_argument("--json", dest="path")
    parser.add_argument("--chunks", type=int, default=14, help="that each trial goes on for")
    options = parser.parse_args(argv)
    torch.set_grad_enabled(False)
    reports: list[dict[str, Any]] = []
    for kind, model in _models():
        reports.append(measure(kind, model, options.chunks))
        _tell(reports[-1])
        write_report(options.path, command_line(), {"models": reports})
    return 0 if all(report["repeats"] for report in reports) else 1


def _models() -> Iterator[tuple[str, WorldModel]]:
    from bench.frames_only import FramesOnlyModel  # noqa: PLC0415 - weights only when they are needed
    from models.matrix_game_2.load import load_model  # noqa: PLC0415 - as above
    from models.rooms.model import RoomsModel  # noqa: PLC0415 - as above

    yield "windowed KV", load_model("tiny", random_weights=True)
    rooms = RoomsModel()
    yield "memory bank", rooms
    yield "observation and RNG", FramesOnlyModel(rooms)


def measure(kind: str, model: WorldModel, num_chunks: int) -> dict[str, Any]:
    """Which components of a model's state break byte identity when they are dropped or corrupted."""
    starts = _starts(model)
    onward = _onward(model, num_chunks)
    true = {name: _gone_on(model, start, onward) for name, start in starts.items()}
    repeats = all(differing_bytes(true[name], _gone_on(model, start, onward)) == 0 for name, start in starts.items())
    components: dict[str, dict[str, Any]] = {}
    for trial in _trials(starts["walking"]):
        found = {name: _outcome(model, trial, start, onward, true[name]) for name, start in starts.items()}
        report = components.setdefault(
            trial.component, {"name": trial.component, "bytes": trial.num_bytes, "needed": False}
        )
        report[trial.how] = found
        report["needed"] |= any(outcome != "equal" for outcome in found.values())
    frames = sum(frame.nbytes for frames in true.values() for frame in frames)
    return {
        "name": model.name,
        "kind": kind,
        "repeats": repeats,
        "compared_bytes": frames,
        "components": sorted(components.values(), key=lambda report: (not report["needed"], -report["bytes"])),
    }


def _starts(model: WorldModel) -> dict[str, Start]:
    """The walk in its middle, and the same walk after standing still there."""
    state, bank = begin(model, SEED)
    num = model.frames_per_chunk
    lead = route("out-and-back", 1.4 * LEAD_CHUNKS * num / model.fps).frames(model.fps, 2 * LEAD_CHUNKS * num)
    state, _ = walk(model, state, bank, lead[: LEAD_CHUNKS * num])
    for at in range(LEAD_CHUNKS * num, len(lead), num):
        if None not in model.dump(state).facts.values():  # a part that is not there cannot be missed
            break
        state, _ = walk(model, state, bank, lead[at : at + num])
    walking = Start(model.dump(state), bank.copy())
    state, _ = walk(model, state, bank, [IDLE] * (STILL_CHUNKS * model.frames_per_chunk))
    return {"walking": walking, "standing": Start(model.dump(state), bank.copy())}


def _onward(model: WorldModel, num_chunks: int) -> list[Controls]:
    """What follows: a little standing, then turning, walking (into what stands there) and standing again."""
    per_second = model.fps
    turn = Controls(mouse_dx=1.5 / 0.0025 / per_second)  # 1.5 rad a second
    parts = [IDLE, turn, Controls(Key.FORWARD), Controls(Key.LEFT), turn, IDLE, Controls(Key.BACK)]
    chunks = [parts[index * len(parts) // num_chunks] for index in range(num_chunks)]
    return [held for held in chunks for _ in range(model.frames_per_chunk)]


def _gone_on(model: WorldModel, start: Start, onward: Sequence[Controls]) -> list[Pixels]:
    return walk(model, model.load(start.saved), start.bank.copy(), onward)[1]


def _outcome(model: WorldModel, trial: Trial, start: Start, onward: Sequence[Controls], true: Sequence[Pixels]) -> str:
    """How the walk went on: equal, differs, or refused when the state was not even taken."""
    try:
        frames = _gone_on(model, trial.hurt(start), onward)
    except (ValueError, RuntimeError, IndexError, AssertionError, TypeError, KeyError):
        return "refused"
    return "equal" if differing_bytes(true, frames) == 0 else "differs"


def _trials(start: Start) -> Iterator[Trial]:
    for name, num_bytes in component_bytes(start.saved).items():
        for how, change in (("drop", without), ("corrupt", corrupted)):
            yield Trial(f"state: {name}", num_bytes, how, _hurt_state(name, change))
    if start.bank.blocks:
        yield from _memory_trials(start.bank)


def _hurt_state(name: str, change: Callable[[SavedState, str], SavedState]) -> Callable[[Start], Start]:
    return lambda start: replace(start, saved=change(start.saved, name))


def _memory_trials(bank: Bank) -> Iterator[Trial]:
    layout, blocks = bank.layout, bank.blocks
    kv = slice(layout.planes_at, layout.scales_at + layout.scales_bytes)
    side = slice(layout.scales_at + layout.scales_bytes, layout.moved_bytes)
    yield Trial("memory: the bank as a whole", len(blocks) * layout.moved_bytes, "drop", _closed)
    yield from _block_trials("memory: K,V", len(blocks) * (layout.planes_bytes + layout.scales_bytes), _bytes_of(kv))
    if layout.spec.side:
        yield from _block_trials("memory: side planes", len(blocks) * layout.spec.side_bytes, _bytes_of(side))
    footprints = sum(block.footprint.nbytes for block in blocks)
    yield from _block_trials("memory: footprints", footprints, _hurt_footprint)
    yield from _block_trials("memory: poses", sum(len(block.poses) * 40 for block in blocks), _hurt_poses)
    yield from _block_trials("memory: chunk indices", len(blocks) * 8, _hurt_chunk_index)


def _block_trials(name: str, num_bytes: int, hurt: Callable[[BankBlock, str], BankBlock]) -> Iterator[Trial]:
    for how in ("drop", "corrupt"):

        def hurt_all(start: Start, how: str = how) -> Start:
            bank = start.bank.copy()
            bank.blocks = tuple(hurt(block, how) for block in bank.blocks)
            return replace(start, bank=bank)

        yield Trial(name, num_bytes, how, hurt_all)


def _closed(start: Start) -> Start:
    bank = start.bank.copy()
    bank.is_open = False
    return replace(start, bank=bank)


def _bytes_of(part: slice) -> Callable[[BankBlock, str], BankBlock]:
    def hurt(block: BankBlock, how: str) -> BankBlock:
        packed = block.packed.clone()
        packed[part] = 0 if how == "drop" else packed[part] ^ 1
        return replace(block, packed=packed)

    return hurt


def _hurt_footprint(block: BankBlock, how: str) -> BankBlock:
    wrong = block.footprint * 0 if how == "drop" else block.footprint + np.ones_like(block.footprint)
    return replace(block, footprint=wrong)


def _hurt_poses(block: BankBlock, how: str) -> BankBlock:
    poses = tuple(
        type(pose)() if how == "drop" else replace(pose, x_m=pose.x_m + 0.5, yaw_rad=pose.yaw_rad + 0.5)
        for pose in block.poses
    )
    return replace(block, poses=poses)


def _hurt_chunk_index(block: BankBlock, how: str) -> BankBlock:
    return replace(block, chunk_index=0 if how == "drop" else block.chunk_index + 1)


def _tell(report: dict[str, Any]) -> None:
    print(f"\n{report['name']} ({report['kind']}): repeats byte for byte: {report['repeats']}")
    for part in report["components"]:
        ways = "; ".join(
            f"{how}: {', '.join(f'{s} {o}' for s, o in part[how].items())}"
            for how in ("drop", "corrupt")
            if how in part
        )
        print(f"  {'needed' if part['needed'] else 'not   '}  {part['bytes']:>10,} B  {part['name']:34} {ways}")
