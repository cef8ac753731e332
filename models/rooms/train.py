"""`python -m models.rooms.train`: trains the embedded world from its checkpoint, from given weights, or from nothing.

Owns the loop, the clock, the log and the checkpoints. One process; batches are made on a second thread.
"""

import argparse
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from models.rooms.checkpoint import export_weights, load_weights
from models.rooms.dataset import Batch, MemoryShares, Prefetch, make_batch, training_batch
from models.rooms.objective import predict
from models.rooms.patches import PatchBasis, fit_basis, log_depth
from models.rooms.renderer import render
from models.rooms.scene import make_scene
from models.rooms.sizes import FIRST_HELD_OUT_SEED, TOKENS
from models.rooms.trainer import Trainer, TrainSettings
from models.rooms.walk import random_walk

_LOG_STEPS = 25
_CHECK_STEPS = 250
_CHECKPOINT_S = 240.0
_BASIS_WORLDS = 400
_CHECK_WORLDS = 16

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Train for a number of hours; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m models.rooms.train", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--decay-hours", type=float, default=0.0, help="lower the rate to zero over the last hours")
    parser.add_argument("--weights", type=Path, help="begin with these where `--out` has no checkpoint")
    parser.add_argument("--out", type=Path, default=Path(".training/rooms"))
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    checkpoint = options.out / "checkpoint.safetensors"
    trainer = Trainer.resume(checkpoint) if checkpoint.exists() else new_run(options.seed, options.weights)
    log.info("step=%d settings=%s", trainer.step, trainer.settings)
    run(trainer, checkpoint, options.hours * 3600.0, options.decay_hours * 3600.0)
    return 0


def run(trainer: Trainer, checkpoint: Path, duration_s: float, decay_s: float) -> None:
    """Train for `duration_s`, with checkpoints, an exported model beside each, and a check now and then."""
    batches = Prefetch(partial(_batch, trainer), trainer.step)
    start_s = saved_s = logged_s = time.monotonic()
    total, tokens = 0.0, 0
    while (left_s := start_s + duration_s - time.monotonic()) > 0.0:
        batch = batches.take(trainer.step)
        total += trainer.train(batch, min(1.0, left_s / decay_s) if decay_s else 1.0)
        tokens += TOKENS * (batch.memory.shape[:2].numel() + batch.targets.shape[:3].numel())
        now_s = time.monotonic()
        if trainer.step % _LOG_STEPS == 0:
            rate = tokens / (now_s - logged_s)
            log.info("step=%d loss=%.4f tokens_per_s=%.0f", trainer.step, total / _LOG_STEPS, rate)
            total, tokens, logged_s = 0.0, 0, now_s
        if trainer.step % _CHECK_STEPS == 0:
            log.info("step=%d %s", trainer.step, check(trainer))
            logged_s = time.monotonic()
        if now_s - saved_s > _CHECKPOINT_S:
            _save(trainer, checkpoint)
            saved_s = now_s
    batches.close()
    _save(trainer, checkpoint)


@torch.no_grad()
def check(trainer: Trainer) -> str:
    """Return how well the averaged weights draw held-out worlds in one pass from 0 and from 4 remembered frames."""
    network = trainer.averaged()
    parts: list[str] = []
    worlds = FIRST_HELD_OUT_SEED + np.arange(_CHECK_WORLDS)
    for size in (0, 4):
        batch = make_batch(trainer.basis, worlds, size, np.random.default_rng(7), MemoryShares(0.0))
        truth = batch.targets.flatten(0, 1)
        drawn = predict(network, batch, torch.ones(len(truth)), None)
        error = (trainer.basis.decode(drawn.flatten(0, 1)) - trainer.basis.decode(truth.flatten(0, 1))) / 2
        psnr = -10 * error.square().mean((1, 2, 3)).log10().mean()
        depth = (log_depth(drawn) - log_depth(truth)).abs().mean()
        parts.append(f"psnr_{size}={psnr:.2f} log_depth_error_{size}={depth:.3f}")
    return " ".join(parts)


def _batch(trainer: Trainer, step: int) -> Batch:
    return training_batch(trainer.basis, trainer.settings.seed, step, trainer.settings.samples)


def new_run(seed: int, weights: Path | None) -> Trainer:
    """Return a run at step 0: with given weights, or with random ones and a basis of its own."""
    if weights is None:
        return Trainer(TrainSettings(seed=seed), train_basis(seed, _BASIS_WORLDS))
    tensors, basis = load_weights(weights)
    trainer = Trainer(TrainSettings(seed=seed), basis)
    trainer.masters.start_from(tensors)
    return trainer


def train_basis(seed: int, num_worlds: int) -> PatchBasis:
    """Return the patch basis of walks through training worlds."""
    rng = np.random.default_rng((seed, 1))
    views = []
    for world in rng.integers(FIRST_HELD_OUT_SEED, size=num_worlds):
        scene = make_scene(int(world))
        views.append(render(scene, random_walk(scene, rng, 300)[::30])[0])
    return fit_basis(np.concatenate(views))


def _save(trainer: Trainer, checkpoint: Path) -> None:
    trainer.save(checkpoint)
    export_weights(trainer.masters.ema, trainer.basis, checkpoint.with_name("weights.safetensors"))
    log.info("step=%d saved=%s", trainer.step, checkpoint)


if __name__ == "__main__":
    raise SystemExit(main())
