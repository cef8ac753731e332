"""`python -m models.rooms.train_layout`: trains the layout network beside a trained drawing network.

Owns the loop, the clock, the log and the checkpoints. Goes on from the checkpoint in `--out`, else starts from the
layout network of `--layout`, else from the drawing network's weights. One process; a second thread makes batches.
"""

import argparse
import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from models.rooms.checkpoint import WEIGHTS, add_layout, load_layout_weights, load_tensors, load_weights, save_tensors
from models.rooms.codebook import Codebook, fit_codebook
from models.rooms.dataset import Batch, MemoryShares, Prefetch, make_batch
from models.rooms.layout import LayoutNetwork
from models.rooms.layout_objective import Losses, Teacher, check_loss, loss
from models.rooms.masters import Masters
from models.rooms.network import RoomsNetwork
from models.rooms.patches import PatchBasis
from models.rooms.sizes import FIRST_HELD_OUT_SEED, TOKENS

_SAMPLES = 8
_LEARNING_RATE = 2e-3
_MEMORY_SIZES = (0, 1, 2, 4, 6, 8, 12)
_MEMORY_SHARES = (0.10, 0.04, 0.30, 0.30, 0.14, 0.08, 0.04)
_SHARES = MemoryShares(recent=0.3, afar=0.3, aside=0.5)
_OWN_CONTEXT_FROM_STEP = 800
_LOG_STEPS, _CHECK_STEPS = 25, 400
_CHECKPOINT_S = 240.0
_BOOK_WORLDS, _CHECK_WORLDS = 600, 16

log = logging.getLogger(__name__)


class LayoutTrainer:
    """One training run at one step. Not shared between threads."""

    def __init__(self, seed: int, teacher: Teacher, samples: int = _SAMPLES) -> None:
        torch.manual_seed(seed)
        self.seed, self.samples, self.teacher, self.step = seed, samples, teacher, 0
        self.layout = _like(teacher.drawing)
        self.layout.load_state_dict(teacher.drawing.state_dict(), strict=False)
        self.masters = Masters(self.layout.float(), _LEARNING_RATE)

    def train(self, batch: Batch, rate_share: float = 1.0) -> Losses:
        """Take one step with this share of the learning rate; return the losses."""
        losses = loss(self.layout, self.teacher, batch, has_own_context=self.step >= _OWN_CONTEXT_FROM_STEP)
        losses.total.backward()
        self.masters.update(rate_share)
        self.step += 1
        return losses

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, a pure function of (seed, step); its worlds are never held-out ones."""
        rng = np.random.default_rng((self.seed, 6, step))
        memory_size = int(rng.choice(_MEMORY_SIZES, p=_MEMORY_SHARES))
        worlds = rng.integers(FIRST_HELD_OUT_SEED, size=self.samples)
        assert worlds.max() < FIRST_HELD_OUT_SEED
        return make_batch(self.teacher.basis, worlds, memory_size, rng, _SHARES)

    def averaged(self) -> LayoutNetwork:
        """Return a network in bfloat16 with the averaged weights."""
        layout = _like(self.teacher.drawing)
        layout.load_state_dict(self.masters.ema)
        return layout.bfloat16().eval()

    def save(self, path: Path) -> None:
        """Write everything that resuming needs, except the drawing network."""
        facts = {"seed": self.seed, "samples": self.samples, "step": self.step, "drawing": _digest(self.teacher)}
        save_tensors(path, self.masters.tensors() | self.teacher.book.tensors(), facts)

    @classmethod
    def resume(cls, path: Path, drawing: RoomsNetwork, basis: PatchBasis) -> "LayoutTrainer":
        """Return the run that `save` wrote, at its step. Raises ValueError beside another drawing network."""
        tensors, facts = load_tensors(path)
        teacher = Teacher(drawing, Codebook.from_tensors(tensors), basis)
        trainer = cls(int(facts["seed"]), teacher, int(facts["samples"]))
        if facts["drawing"] != _digest(teacher):
            raise ValueError(f"{path} was trained beside other weights: give those with --weights")
        trainer.step = int(facts["step"])
        trainer.masters.restore(tensors)
        return trainer


def main(argv: Sequence[str] | None = None) -> int:
    """Train for a number of minutes; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m models.rooms.train_layout", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--decay-minutes", type=float, default=0.0, help="lower the rate to zero over the last minutes")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="the drawing network to train beside")
    parser.add_argument("--layout", type=Path, help="begin with this file's layout network, its book refitted")
    parser.add_argument("--out", type=Path, default=Path(".training/layout"))
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    checkpoint = options.out / "checkpoint.safetensors"
    drawing, basis = drawing_network(options.weights)
    if checkpoint.exists():
        trainer = LayoutTrainer.resume(checkpoint, drawing, basis)
    else:
        trainer = new_run(drawing, basis, options.seed, options.layout)
    log.info("step=%d seed=%d weights=%s", trainer.step, trainer.seed, options.weights)
    run(trainer, options.weights, checkpoint, options.minutes * 60.0, options.decay_minutes * 60.0)
    return 0


def new_run(
    drawing: RoomsNetwork, basis: PatchBasis, seed: int, layout: Path | None, book_worlds: int = _BOOK_WORLDS
) -> LayoutTrainer:
    """Return a new run beside a drawing network, from its weights or from the layout network of a weights file.

    A layout network keeps its book, whose codes are moved to what worlds look like now. Raises ValueError where the
    file has none.
    """
    if layout is None:
        return LayoutTrainer(seed, Teacher(drawing, training_book(basis, seed, book_worlds), basis))
    found = load_layout_weights(layout)
    if found is None:
        raise ValueError(f"{layout} has no layout network: leave --layout out to begin without one")
    tensors, book = found
    trainer = LayoutTrainer(seed, Teacher(drawing, training_book(basis, seed, book_worlds, book), basis))
    trainer.masters.start_from(tensors)
    trainer.step = _OWN_CONTEXT_FROM_STEP  # it knows what the steps before teach
    return trainer


def run(trainer: LayoutTrainer, weights: Path, checkpoint: Path, duration_s: float, decay_s: float) -> None:
    """Train for `duration_s`, with checkpoints, weights to ship beside each, and a check now and then."""
    batches = Prefetch(trainer.batch, trainer.step)
    start_s = saved_s = logged_s = time.monotonic()
    seen: list[tuple[float, ...]] = []
    tokens = 0
    while (left_s := start_s + duration_s - time.monotonic()) > 0.0:
        batch = batches.take(trainer.step)
        seen.append(_numbers(trainer.train(batch, min(1.0, left_s / decay_s) if decay_s else 1.0)))
        tokens += TOKENS * (batch.memory.shape[:2].numel() + batch.targets.shape[:3].numel())
        now_s = time.monotonic()
        if trainer.step % _LOG_STEPS == 0:
            rate = tokens / (now_s - logged_s)
            log.info("step=%d %s tokens_per_s=%.0f", trainer.step, _words(np.nanmean(seen, axis=0)), rate)
            seen, tokens, logged_s = [], 0, now_s
        if trainer.step % _CHECK_STEPS == 0:
            log.info("step=%d %s", trainer.step, check(trainer))
            logged_s = time.monotonic()
        if now_s - saved_s > _CHECKPOINT_S:
            _save(trainer, weights, checkpoint)
            saved_s = now_s
    batches.close()
    _save(trainer, weights, checkpoint)


@torch.no_grad()
def check(trainer: LayoutTrainer) -> str:
    """Return how well the averaged weights know held-out worlds: from 0 and 4 remembered frames, all or half hidden."""
    layout = trainer.averaged()
    parts: list[str] = []
    worlds = FIRST_HELD_OUT_SEED + np.arange(_CHECK_WORLDS)
    for size in (0, 4):
        batch = make_batch(trainer.teacher.basis, worlds, size, np.random.default_rng(7), MemoryShares(0.0))
        for hidden in (1.0, 0.5, 0.0):
            found = check_loss(layout, trainer.teacher, batch, hidden)
            parts.append(f"[{size} remembered, {hidden:.0%} hidden: {_words(_numbers(found))}]")
    return " ".join(parts)


def training_book(
    basis: PatchBasis, seed: int, num_worlds: int = _BOOK_WORLDS, start: Codebook | None = None
) -> Codebook:
    """Return the code book of frames of training worlds: a new one, or `start` refitted."""
    rng = np.random.default_rng((seed, 7))
    worlds = rng.integers(FIRST_HELD_OUT_SEED, size=num_worlds)
    frames = make_batch(basis, worlds, 0, rng, MemoryShares(0.0)).targets
    return fit_codebook(frames.flatten(0, -2), seed, start)


def drawing_network(weights: Path) -> tuple[RoomsNetwork, PatchBasis]:
    """Return the network of a weights file in bfloat16, not to be trained, and its patch basis."""
    tensors, basis = load_weights(weights)
    network = RoomsNetwork()
    network.load_state_dict(tensors)
    return network.requires_grad_(False).bfloat16().eval(), basis


def _like(drawing: RoomsNetwork) -> LayoutNetwork:
    return LayoutNetwork(drawing.width, len(drawing.layers))


def _digest(teacher: Teacher) -> str:
    parts = (p.detach().float().numpy().tobytes() for p in teacher.drawing.parameters())
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()


def _numbers(losses: Losses) -> tuple[float, ...]:
    return (*(float(x.detach()) for x in (losses.code, losses.bin, losses.picture)), losses.right_share)


def _words(numbers: Sequence[float]) -> str:
    code, depth_bin, picture, right = numbers
    return f"code={code:.3f} bin={depth_bin:.3f} picture={picture:.4f} right={right:.3f}"


def _save(trainer: LayoutTrainer, weights: Path, checkpoint: Path) -> None:
    trainer.save(checkpoint)
    add_layout(weights, trainer.masters.ema, trainer.teacher.book, checkpoint.with_name("weights.safetensors"))
    log.info("step=%d saved=%s", trainer.step, checkpoint)


if __name__ == "__main__":
    raise SystemExit(main())
