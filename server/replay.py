"""`python -m server replay`: draw a world's chunks again from its log, and compare every frame with what was recorded.

Exit 0 when all were equal, 1 at the first difference, 2 when it could not begin, 3 when a block that the log names is
gone. Changes nothing in the world.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from models.base import WorldModel
from server.config import SettingsError, load_settings
from server.exactness import exactness, mismatch
from server.faults import WorldFault
from server.folder_lock import FolderLock
from server.load import load_model, torch_threads
from server.reexecution import BlockGone, Checked, Reexecution
from server.stored_blocks import StoredBlocks
from server.world_card import WorldCard
from server.world_log import WorldLog, read_world_log
from server.worlds import Worlds

EXIT_DIFFERS = 1
EXIT_USAGE = 2
EXIT_GONE = 3
TELL_EVERY_S = 5.0


def parser() -> argparse.ArgumentParser:
    """The flags: which world, from where, and what the model needs to be loaded."""
    parser = argparse.ArgumentParser(prog="python -m server replay", description=__doc__)
    parser.add_argument("--world", required=True, metavar="NAME", help="name or id of the world")
    parser.add_argument("--from", dest="start", type=int, metavar="MOMENT", help="begin at the kept state before it")
    parser.add_argument("--worlds", metavar="DIR", help="where worlds are kept; default: worlds")
    parser.add_argument("--model-config", metavar="NAME|FILE", help="of matrix-game-2")
    parser.add_argument("--weights", metavar="DIR")
    parser.add_argument("--random-weights", action="store_true")
    parser.add_argument("--seed-image", metavar="FILE", help="the picture with which the world began")
    parser.add_argument("--threads", type=int, help="torch's threads; default: those that the walk was drawn with")
    parser.add_argument("--json", dest="path", metavar="PATH", help="write one JSON object")
    return parser


@dataclass(slots=True)
class Tally:
    """What has been drawn again so far."""

    chunks: int = 0
    frames: int = 0
    stale: int = 0
    blocks: int = 0
    states: int = 0
    difference: str = ""

    def add(self, checked: Checked) -> None:
        self.frames += checked.frames_equal
        if checked.difference:
            moment = checked.moment
            self.difference = f"chunk {moment.chunk_index} (moment {moment.id}): {checked.difference}"
            return
        self.chunks += 1
        self.stale += checked.moment.stale
        self.blocks += checked.block_equal is True
        self.states += checked.state_equal is True


def main(argv: Sequence[str]) -> int:
    """Replay one world and say how it went."""
    options = parser().parse_args(argv)
    try:
        return _replay(options)
    except (SettingsError, WorldFault, ValueError) as error:
        print(f"no replay: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
        return EXIT_USAGE


def _replay(options: argparse.Namespace) -> int:
    root = Path(options.worlds or "worlds")
    card = Worlds(root).find(options.world) if root.is_dir() else None
    if card is None:
        raise WorldFault(f"there is no world {options.world!r} in {root}. `python -m server worlds list` shows them.")
    folder = root / card.id
    with FolderLock(folder, "replayed"), StoredBlocks(folder) as blocks:
        log = read_world_log(folder)
        model = _model_for(card, options, log)
        for words in _warnings(log, model):
            print(words, flush=True)  # noqa: T201 - a command line prints
        again = Reexecution(model, folder, log, blocks)
        if options.start is not None and options.start not in log.moments:
            raise WorldFault(f"world {card.name!r} has no moment {options.start}")
        chunks = again.all_chunks() if options.start is None else again.chunks_from(options.start)
        return _tell(card, log, chunks, again.kept_moments, options.path)


def _model_for(card: WorldCard, options: argparse.Namespace, log: WorldLog) -> WorldModel:
    """The world's model with its own weights, at the thread count that the walk had. Sets torch's globals."""
    names = ("model_config", "weights", "seed_image", "threads")
    flags = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.random_weights:
        flags["random_weights"] = True
    recorded = log.exactness[-1][1].get("threads") if log.exactness else None
    if isinstance(recorded, int):
        flags.setdefault("threads", recorded)
    settings = load_settings({**flags, "model": card.model}, os.environ).settings
    torch.set_num_threads(torch_threads(settings))
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("highest")
    model = load_model(settings)
    if model.fingerprint != card.fingerprint:
        raise WorldFault(
            f"world {card.name!r} was drawn by other weights ({card.model} {card.fingerprint[:8]}; these are "
            f"{model.fingerprint[:8]}). Give the ones that it was drawn with: --weights, --model-config."
        )
    return model


def _warnings(log: WorldLog, model: WorldModel) -> Iterator[str]:
    yield from (f"warning: {words}" for words in log.faults)
    here = exactness(model)
    told = {words for _, record in log.exactness if (words := mismatch(record, here))}
    for words in sorted(told):
        yield f"warning: this walk was drawn under other conditions ({words}): what is drawn again may differ."


def _tell(card: WorldCard, log: WorldLog, chunks: Iterator[Checked], kept: Sequence[int], path: str | None) -> int:
    tally, gone, started_s = Tally(), None, time.monotonic()
    told_s = started_s
    try:
        for checked in chunks:
            tally.add(checked)
            if tally.difference:
                break
            if time.monotonic() - told_s > TELL_EVERY_S:
                told_s = time.monotonic()
                print(f"{tally.chunks} chunks equal", flush=True)  # noqa: T201 - a command line prints
    except BlockGone as error:
        gone = error
    figures = _figures(card, log, tally, gone, time.monotonic() - started_s)
    if path:
        Path(path).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(_in_words(tally, figures, gone, kept))  # noqa: T201 - a command line prints
    return EXIT_DIFFERS if tally.difference else EXIT_GONE if gone else 0


def _figures(card: WorldCard, log: WorldLog, tally: Tally, gone: BlockGone | None, seconds: float) -> dict[str, Any]:
    return {
        "world": card.name,
        "model": card.model,
        "chunks_recorded": len(log.moments),
        "chunks_compared": tally.chunks + bool(tally.difference),
        "chunks_differing": int(bool(tally.difference)),
        "chunks_equal": tally.chunks,
        "stale_chunks_equal": tally.stale,
        "frames_equal": tally.frames,
        "blocks_equal": tally.blocks,
        "states_equal": tally.states,
        "difference": tally.difference,
        "forgotten_block": gone.block if gone else None,
        "stopped_at_moment": gone.moment.id if gone else None,
        "seconds": round(seconds, 3),
    }


def _in_words(tally: Tally, figures: Mapping[str, Any], gone: BlockGone | None, kept: Sequence[int]) -> str:
    equal = (
        f"{tally.chunks} chunks ({tally.stale} of them drawn with a stale recall) and {tally.frames} frames are equal, "
        f"byte for byte; {tally.blocks} blocks and {tally.states} saved states are too."
    )
    lines = [equal]
    if tally.difference:
        lines.append(f"The first difference: {tally.difference}.")
    if gone:
        later = next((moment for moment in kept if moment >= gone.moment.id), None)
        lines.append(f"Stopped: {gone}" + (f" A kept state lies beyond it: --from {later}." if later else ""))
    lines.append(
        f"total: {figures['chunks_compared']} of {figures['chunks_recorded']} recorded chunks compared, "
        f"{figures['chunks_differing']} differing, {figures['seconds']:.1f} s"
    )
    return "\n".join(lines)
