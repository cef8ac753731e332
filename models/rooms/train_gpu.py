"""`python -m models.rooms.train_gpu`: trains the embedded world for some minutes on one GPU, a checkpoint each minute.

Needs Python 3.11, torch 2.10 and numpy, and the folders models/ and shared/ of this repository; nothing is downloaded.
Processes choose worlds and poses ahead, the GPU renders and trains. A run resumes from its checkpoint; what it exports
is the shipped weights' format. On a CPU it runs too, slowly: for a rehearsal.
"""

import argparse
import json
import logging
import multiprocessing
import os
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from models.rooms.checkpoint import export_weights
from models.rooms.dataset import Batch, Views, batch_of, training_views
from models.rooms.network import LAYERS, WIDTH
from models.rooms.patches import PatchBasis, fit_basis
from models.rooms.rays_torch import Scenes
from models.rooms.renderer_torch import render
from models.rooms.scene import Scene, make_scene
from models.rooms.sizes import FIRST_HELD_OUT_SEED
from models.rooms.trainer import Trainer, TrainSettings
from models.rooms.walk import random_walk

_LOG_STEPS = 20
_DECAY_SHARE = 0.3  # of the time, at the end, in which the rate falls to zero
_BASIS_WORLDS = 400
_BASIS_FRAMES = 10  # of each world

Prepared = tuple[Views, list[Scene]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a run lasts, how often it saves, and how many processes work ahead of it."""

    duration_s: float
    checkpoint_s: float
    workers: int
    ahead: int


def main(argv: Sequence[str] | None = None) -> int:
    """Train; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m models.rooms.train_gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--checkpoint-s", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=64, help="of a step")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--rate", type=float, default=3e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--basis-worlds", type=int, default=_BASIS_WORLDS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".training/rooms-gpu")))
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    device = torch.device(options.device)
    checkpoint = options.out / "checkpoint.safetensors"
    if checkpoint.exists():
        trainer = Trainer.resume(checkpoint, device)
    else:
        settings = TrainSettings(options.seed, options.samples, options.width, options.layers, options.rate)
        trainer = Trainer(settings, basis_of_renders(options.seed, options.basis_worlds, device), device)
    log.info("step=%d settings=%s device=%s", trainer.step, trainer.settings, device)
    pace = Pace(options.minutes * 60.0, options.checkpoint_s, options.workers, 2 * options.workers)
    run(trainer, checkpoint, pace)
    return 0


def run(trainer: Trainer, checkpoint: Path, pace: Pace) -> None:
    """Train for the time of `pace`; leave a checkpoint and exported weights at every interval and at the end."""
    began_s = saved_s = logged_s = time.monotonic()
    total, steps = torch.zeros((), device=trainer.device), 0
    prepared = prepared_ahead(trainer, pace)
    while (left_s := began_s + pace.duration_s - time.monotonic()) > 0.0:
        rate_share = min(1.0, left_s / (_DECAY_SHARE * pace.duration_s))
        total += trainer.train(rendered_batch(trainer.basis, *next(prepared), trainer.device), rate_share)
        steps += 1
        now_s = time.monotonic()
        if trainer.step % _LOG_STEPS == 0:
            rate = steps * trainer.settings.samples / (now_s - logged_s)
            log.info("step=%d loss=%.4f samples_per_s=%.1f", trainer.step, float(total) / steps, rate)
            total, steps, logged_s = torch.zeros_like(total), 0, now_s
        if now_s - saved_s >= pace.checkpoint_s:
            save(trainer, checkpoint, now_s - began_s)
            saved_s = now_s
    prepared.close()
    save(trainer, checkpoint, time.monotonic() - began_s)


def prepared_ahead(trainer: Trainer, pace: Pace) -> Generator[Prepared, None, None]:
    """Yield the views and worlds of this and the following steps, in order; processes prepare them ahead."""
    settings = trainer.settings
    with ProcessPoolExecutor(pace.workers, multiprocessing.get_context("spawn"), _one_thread) as pool:
        pending: list[Future[Prepared]] = []
        step = trainer.step
        try:
            while True:
                while len(pending) < pace.ahead:
                    pending.append(pool.submit(prepared_step, settings.seed, step + len(pending), settings.samples))
                yield pending.pop(0).result()
                step += 1
        finally:
            for future in pending:
                future.cancel()


def prepared_step(seed: int, step: int, samples: int) -> Prepared:
    """Return what a step looks at, and the worlds in which it does; the expensive part that needs no GPU."""
    views = training_views(seed, step, samples)
    return views, [make_scene(int(world)) for world in views.worlds]


def rendered_batch(basis: PatchBasis, views: Views, worlds: Sequence[Scene], device: torch.device) -> Batch:
    """Return the batch of chosen views [B, M + G*C], rendered on a device."""
    scenes = Scenes.of(worlds, device)
    samples, frames = views.poses.shape[:2]
    scene_of = torch.arange(samples, device=device).repeat_interleave(frames)
    poses = torch.from_numpy(views.poses).to(device)
    rgb, depth_m = render(scenes, scene_of, poses.flatten(0, 1))
    latents = basis.to(device).encode_pictures(rgb, depth_m)
    return batch_of(views, latents.unflatten(0, (samples, frames)), poses.float())


def basis_of_renders(seed: int, num_worlds: int, device: torch.device) -> PatchBasis:
    """Return the patch basis of walks through training worlds."""
    rng = np.random.default_rng((seed, 1))
    pictures: list[NDArray[np.uint8]] = []
    for world in rng.integers(FIRST_HELD_OUT_SEED, size=num_worlds):
        scene = make_scene(int(world))
        poses = torch.from_numpy(random_walk(scene, rng, 30 * _BASIS_FRAMES)[::30].copy()).to(device)
        scene_of = torch.zeros(len(poses), dtype=torch.int64, device=device)
        pictures.append(render(Scenes.of([scene], device), scene_of, poses)[0].cpu().numpy())
    return fit_basis(np.concatenate(pictures))


def save(trainer: Trainer, checkpoint: Path, after_s: float) -> None:
    """Write the checkpoint, the shipped form of its weights, and a copy of these that later ones leave alone."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    trainer.save(checkpoint)
    averages = {name: tensor.cpu() for name, tensor in trainer.masters.ema.items()}
    for name in ("weights.safetensors", f"weights-{trainer.step:06d}.safetensors"):
        export_weights(averages, trainer.basis, checkpoint.with_name(name))
    line = json.dumps({"step": trainer.step, "seconds": round(after_s, 1)})
    with checkpoint.with_name("saves.jsonl").open("a") as file:
        file.write(line + "\n")
    log.info("saved=%s %s", checkpoint, line)


def _one_thread() -> None:
    torch.set_num_threads(1)


if __name__ == "__main__":
    raise SystemExit(main())
