"""`python -m bench classifier`: trains the judge of plausibility, and says how often it is right on unknown worlds.

One command from nothing: it draws invented first visits, renders the same routes through the true worlds, trains a
small network to tell them apart, and measures it on other worlds. It is never used to train rooms. Worlds of training,
choosing and measuring are disjoint, and none of them is one that rooms was trained on.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from bench.classifier_network import WEIGHTS as JUDGE_WEIGHTS
from bench.classifier_network import Judge, JudgeNetwork, as_pictures, load_judge, save_judge
from bench.report import command_line, write_report
from bench.revisit_metrics import Frames
from bench.revisit_returns import invented_visit
from bench.revisit_walk import glance, guided, is_invented, rendered, walk
from bench.sources import with_sources
from models.rooms.checkpoint import WEIGHTS, load_tensors, save_tensors
from models.rooms.model import RoomsModel

TRAIN_SEED, CHOOSE_SEED, TEST_SEED = 840_000, 845_000, 900_000
ROUTE = "out-and-back"
_SOURCES = ("bench/revisit*.py", "models/rooms/*.py")
_BATCH = 48  # half invented, half rendered
_RATE = 2e-3
_CHECKS = 12  # in a training: the best of these on the worlds for choosing is kept


@dataclass(frozen=True, slots=True)
class Pictures:
    """Invented frames and rendered ones, each [F, H, W, 3]."""

    invented: Frames
    rendered: Frames

    @classmethod
    def of_worlds(cls, model: RoomsModel, seeds: Sequence[int], num_chunks: int, folder: Path) -> "Pictures":
        """Return the pictures of all worlds; what a stopped run drew with these weights and this code is read again."""
        parts = [_kept(model, seed, num_chunks, folder) for seed in seeds]
        return cls(np.concatenate([part.invented for part in parts]), np.concatenate([part.rendered for part in parts]))


def pictures_of(model: RoomsModel, seed: int, num_chunks: int) -> Pictures:
    """Return what a first visit invents in a world, and what the same route shows in the true one."""
    _, out, seeded = invented_visit(model, seed, ROUTE, num_chunks)
    state, _, scene = glance(model, seed)
    guide = guided(model, ROUTE, num_chunks, state.chunk_index)
    true = walk(model, state, num_chunks, guide, rendered(model, scene))
    return Pictures(out.frames[is_invented(out, seeded)], true.frames[is_invented(true, seeded)])


@torch.enable_grad()
def train(pictures: Pictures, choosing: Pictures, num_steps: int, seed: int) -> JudgeNetwork:
    """Return the network that told best apart the worlds for choosing, among a few moments of one training."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network, best, best_accuracy = JudgeNetwork(), JudgeNetwork(), -1.0
    optimiser = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.02)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=num_steps)
    for step in range(num_steps):
        frames, answers = _batch(pictures, rng)
        error = functional.binary_cross_entropy_with_logits(network(frames), answers)
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        rates.step()
        if (step + 1) % max(1, num_steps // _CHECKS) == 0:
            accuracy = right_share(Judge(network, "", ""), choosing)
            print(
                f"step {step + 1} loss {float(error.detach()):.3f} accuracy {accuracy:.3f}", file=sys.stderr, flush=True
            )
            network.train()
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                best.load_state_dict(network.state_dict())
    return best


def right_share(judge: Judge, pictures: Pictures) -> float:
    """Return how often the judge is right, invented frames and renders counting alike."""
    caught = (judge.opinions(pictures.invented) > 0.5).mean()
    cleared = (judge.opinions(pictures.rendered) <= 0.5).mean()
    return float(caught + cleared) / 2.0


def _batch(pictures: Pictures, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures [_BATCH, 3, H, W], some of them mirrored, and 1 for each that is invented."""
    half = _BATCH // 2
    chosen = [part[rng.integers(len(part), size=half)] for part in (pictures.invented, pictures.rendered)]
    frames = as_pictures(np.concatenate(chosen))
    mirrored = torch.from_numpy(rng.random(_BATCH) < 0.5)
    frames[mirrored] = frames[mirrored].flip(-1)
    return frames, torch.cat([torch.ones(half), torch.zeros(half)])


def _kept(model: RoomsModel, seed: int, num_chunks: int, folder: Path) -> Pictures:
    path = folder / _drawn_by(model) / f"{seed}-{num_chunks}.safetensors"
    if path.exists():
        tensors, _ = load_tensors(path)
        return Pictures(*(_frames(tensors[name]) for name in ("invented", "rendered")))
    found = pictures_of(model, seed, num_chunks)
    save_tensors(path, {"invented": torch.from_numpy(found.invented), "rendered": torch.from_numpy(found.rendered)})
    print(f"world {seed}: {len(found.invented)} invented, {len(found.rendered)} rendered", file=sys.stderr, flush=True)
    return found


def _drawn_by(model: RoomsModel) -> str:
    """Return a name for these weights and the code that draws and renders with them."""
    return with_sources(hashlib.blake2b(model.fingerprint.encode(), digest_size=16), _SOURCES).hexdigest()


def _frames(tensor: torch.Tensor) -> NDArray[np.uint8]:
    return tensor.numpy()


def main(argv: Sequence[str]) -> int:
    """Train (or, with --worlds 0, take the judge that ships), measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench classifier", description=__doc__)
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="of rooms")
    parser.add_argument("--worlds", type=int, default=48, help="to train on; 0: measure the judge that ships")
    parser.add_argument("--choosing-worlds", type=int, default=8)
    parser.add_argument("--test-worlds", type=int, default=16)
    parser.add_argument("--chunks", type=int, default=32, help="of each walk")
    parser.add_argument("--steps", type=int, default=1_200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, default=Path(".training/classifier"), help="where drawn worlds are kept")
    parser.add_argument("--out", type=Path, default=JUDGE_WEIGHTS)
    parser.add_argument("--json")
    options = parser.parse_args(argv)
    model = RoomsModel(options.weights)

    def worlds(first: int, count: int) -> Pictures:
        return Pictures.of_worlds(model, range(first, first + count), options.chunks, options.kept)

    facts: dict[str, object] = {"trained_against": model.fingerprint, "worlds": options.worlds, "seed": options.seed}
    if options.worlds > 0:
        choosing = worlds(CHOOSE_SEED, options.choosing_worlds)
        network = train(worlds(TRAIN_SEED, options.worlds), choosing, options.steps, options.seed)
        save_judge(network, facts, options.out)
    judge, test = load_judge(options.out), worlds(TEST_SEED, options.test_worlds)
    report = {
        "classifier_accuracy": right_share(judge, test),
        "invented_frames": len(test.invented),
        "rendered_frames": len(test.rendered),
        "trained_against_these_weights": judge.trained_against == model.fingerprint,
        "weights_bytes": options.out.stat().st_size,
        **facts,
    }
    write_report(options.json, command_line(), report)
    for name, value in report.items():
        print(f"{name:32} {json.dumps(value)}")
    return 0
