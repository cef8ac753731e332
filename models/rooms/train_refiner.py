"""`python -m models.rooms.train_refiner`: trains the refiner on what a trained network draws.

Owns the loss, the optimisers, the loop and the checkpoints of the refiner and of the critic that it learns to please;
the network is only read. Goes on from the checkpoint in `--out`, else from the refiner that the weights hold, else from
nothing.
"""

import argparse
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from models.rooms.checkpoint import (
    WEIGHTS,
    add_refiner,
    load_refiner_weights,
    load_tensors,
    save_tensors,
)
from models.rooms.critic import Critic, critic_loss
from models.rooms.grid import fine_facts
from models.rooms.layout_sampling import load_inventor
from models.rooms.patches import PatchBasis
from models.rooms.refiner import Refiner
from models.rooms.refiner_pairs import Group, Painters, Pairs, Pool, make_group
from models.rooms.sizes import FIRST_HELD_OUT_SEED, PATCH_PX
from models.rooms.train_layout import drawing_network

_LEARNING_RATE, _CRITIC_RATE = 3e-3, 1e-3
_CRITIC_WEIGHT = 0.08  # of what the critic says, beside the loss
_CRITIC_STEPS = 500  # until its word has this weight
_WARMUP_STEPS = 50
_ROUNDING = 0.01  # errors below this count as their square, in -1..1
_BORDER_WEIGHT = 4.0  # of steps of colour between two patches; that of others is 1
_WRONG = 0.2  # mean error of a patch, in -1..1, from which on it hardly counts
_DECAY_SHARE = 0.5  # of the run, at its end
_LOG_STEPS, _CHECK_STEPS = 100, 400
_CHECKPOINT_S = 120.0
_CHECK_WORLDS = 12

log = logging.getLogger(__name__)


class RefinerTrainer:
    """The weights of the refiner and of its critic, their optimisers and the step. Training thread only."""

    def __init__(self, seed: int, start: dict[str, torch.Tensor] | None = None) -> None:
        torch.manual_seed(seed)
        self.seed, self.step = seed, 0
        self.refiner, self.critic = Refiner(), Critic()
        if start:
            self.refiner.load_state_dict(start)
        self._adams = {
            "refiner": torch.optim.AdamW(self.refiner.parameters(), lr=_LEARNING_RATE, betas=(0.9, 0.98)),
            "critic": torch.optim.AdamW(self.critic.parameters(), lr=_CRITIC_RATE, betas=(0.0, 0.98)),
        }

    def train(self, pairs: Pairs, rate_share: float = 1.0) -> float:
        """Take one step with this share of the learning rates; return the loss, without the critic's part."""
        with torch.autocast("cpu", torch.bfloat16):
            refined = self.refiner(pairs.pictures, pairs.fine)
        self._teach_critic(refined.detach(), pairs, rate_share)
        value = loss(refined, pairs.pictures, pairs.rendered)
        self.critic.requires_grad_(False)
        with torch.autocast("cpu", torch.bfloat16):
            praise = self.critic(refined, pairs.fine).float().mean()
        self.critic.requires_grad_(True)
        weight = _CRITIC_WEIGHT * min(1.0, self.step / _CRITIC_STEPS)
        self._adams["refiner"].zero_grad()
        (value - weight * praise).backward()
        torch.nn.utils.clip_grad_norm_(self.refiner.parameters(), 1.0)
        self._update("refiner", _LEARNING_RATE * rate_share)
        self.step += 1
        return float(value.detach())

    def save(self, path: Path) -> None:
        """Write everything that resuming needs."""
        tensors: dict[str, torch.Tensor] = {}
        for name, network in self._networks():
            tensors |= {f"{name}.{key}": tensor for key, tensor in network.state_dict().items()}
            for key, parameter in network.named_parameters():
                state = self._adams[name].state[parameter]
                tensors |= {f"adam.{name}.{key}.{part}": torch.as_tensor(value) for part, value in state.items()}
        save_tensors(path, tensors, {"seed": self.seed, "step": self.step})

    @classmethod
    def resume(cls, path: Path) -> "RefinerTrainer":
        """Return the run that `save` wrote, at its step. Raises ValueError: of a training without a critic."""
        tensors, facts = load_tensors(path)
        if not _below(tensors, "critic."):
            raise ValueError(f"{path} is of a training without a critic: begin anew, in another folder (--out)")
        trainer = cls(int(facts["seed"]))
        trainer.step = int(facts["step"])
        for name, network in trainer._networks():
            network.load_state_dict(_below(tensors, f"{name}."))
            for key, parameter in network.named_parameters():
                state: dict[str, Any] = _below(tensors, f"adam.{name}.{key}.")
                if state:
                    trainer._adams[name].state[parameter] = state
        return trainer

    def _teach_critic(self, refined: torch.Tensor, pairs: Pairs, rate_share: float) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            value = critic_loss(self.critic, refined, pairs.rendered, pairs.fine)
        self._adams["critic"].zero_grad()
        value.backward()
        self._update("critic", _CRITIC_RATE * rate_share)

    def _update(self, name: str, rate: float) -> None:
        for group in self._adams[name].param_groups:
            group["lr"] = rate * min(1.0, (self.step + 1) / _WARMUP_STEPS)
        self._adams[name].step()

    def _networks(self) -> list[tuple[str, nn.Module]]:
        return [("refiner", self.refiner), ("critic", self.critic)]


def loss(refined: torch.Tensor, pictures: torch.Tensor, rendered: torch.Tensor) -> torch.Tensor:
    """Return how far refined pictures [F, H, W, 3] are from the rendered ones, in colours and in their gradients.

    A patch that was drawn quite wrong counts little: there is nothing to learn from it but to blur.
    """
    weight = _trust(pictures, rendered)
    error = refined - rendered
    down, right = error[:, 1:] - error[:, :-1], error[:, :, 1:] - error[:, :, :-1]
    down_weight = weight[:, 1:] * _border_weight(down.shape[1])[:, None, None]
    right_weight = weight[:, :, 1:] * _border_weight(right.shape[2])[:, None]
    return (_size(error) * weight).mean() + (_size(down) * down_weight).mean() + (_size(right) * right_weight).mean()


def main(argv: Sequence[str] | None = None) -> int:
    """Train for a number of minutes; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m models.rooms.train_refiner", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="the network whose pictures are refined")
    parser.add_argument("--out", type=Path, default=Path(".training/refiner"))
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    checkpoint = options.out / "checkpoint.safetensors"
    start = load_refiner_weights(options.weights)
    trainer = RefinerTrainer.resume(checkpoint) if checkpoint.exists() else RefinerTrainer(options.seed, start)
    log.info("step=%d seed=%d weights=%s", trainer.step, trainer.seed, options.weights)
    run(trainer, options.weights, options.out, options.minutes * 60.0)
    return 0


def run(trainer: RefinerTrainer, weights: Path, out: Path, duration_s: float) -> None:
    """Train for `duration_s`; leaves checkpoints in `out`, and beside each the weights together with the refiner."""
    painters = _painters(weights)
    digest = hashlib.blake2b(weights.read_bytes(), digest_size=4).hexdigest()
    pool = Pool(painters, trainer.seed, out / f"pairs-{digest}")
    held_out = make_group(painters, FIRST_HELD_OUT_SEED + np.arange(_CHECK_WORLDS), np.random.default_rng(7))
    start_s = saved_s = time.monotonic()
    total = 0.0
    while (left_s := start_s + duration_s - time.monotonic()) > 0.0:
        total += trainer.train(pool.batch(trainer.step), min(1.0, left_s / (duration_s * _DECAY_SHARE)))
        if trainer.step % _LOG_STEPS == 0:
            log.info("step=%d loss=%.5f", trainer.step, total / _LOG_STEPS)
            total = 0.0
        if trainer.step % _CHECK_STEPS == 0:
            log.info("step=%d %s", trainer.step, check(trainer.refiner, painters.basis, held_out))
        if time.monotonic() - saved_s > _CHECKPOINT_S:
            _save(trainer, weights, out)
            saved_s = time.monotonic()
    pool.close()
    _save(trainer, weights, out)


@torch.no_grad()
def check(refiner: Refiner, basis: PatchBasis, group: Group) -> str:
    """Return PSNR, seams and sharpness of the pictures as decoded and as refined, beside the renderer's."""
    rendered = group.rendered.float() / 127.5 - 1.0
    decoded = basis.decode(group.drawn.float())
    refined = refiner(decoded, fine_facts(group.poses)).clamp(-1.0, 1.0)
    parts: list[str] = []
    for name, pictures in (("decoded", decoded), ("refined", refined)):
        psnr = -10 * ((pictures - rendered) / 2).square().mean((1, 2, 3)).log10().mean()
        sharp = sharpness(pictures) / sharpness(rendered)
        parts.append(f"{name}: psnr={psnr:.2f} seams={seam_ratio(pictures):.3f} sharpness={sharp:.3f}")
    return f"{' '.join(parts)} rendered: seams={seam_ratio(rendered):.3f}"


def seam_ratio(pictures: torch.Tensor) -> float:
    """Return the mean step of colour between neighbours in two patches over that between neighbours in one patch."""
    across: list[torch.Tensor] = []
    within: list[torch.Tensor] = []
    for lines in (pictures.movedim(1, 0), pictures.movedim(2, 0)):
        step = (lines[1:] - lines[:-1]).abs().flatten(1).mean(1)
        is_border = torch.arange(1, len(lines)) % PATCH_PX == 0
        across.append(step[is_border])
        within.append(step[~is_border])
    return float(torch.cat(across).mean() / torch.cat(within).mean())


def sharpness(pictures: torch.Tensor) -> float:
    """Return the mean squared step of brightness between neighbours."""
    bright = pictures @ torch.tensor([0.299, 0.587, 0.114])
    down, right = bright[:, 1:] - bright[:, :-1], bright[:, :, 1:] - bright[:, :, :-1]
    return float(down.square().mean() + right.square().mean())


def _trust(pictures: torch.Tensor, rendered: torch.Tensor) -> torch.Tensor:
    """Return the weight [F, H, W, 1] of each pixel: that of its patch."""
    square = (pictures - rendered).square().mean(-1)[:, None]  # [F, 1, H, W]
    weight = 1.0 / (1.0 + functional.avg_pool2d(square, PATCH_PX) / _WRONG**2)
    return functional.interpolate(weight, scale_factor=PATCH_PX)[:, 0, :, :, None]


def _border_weight(num_steps: int) -> torch.Tensor:
    return torch.where(torch.arange(1, num_steps + 1) % PATCH_PX == 0, _BORDER_WEIGHT, 1.0)


def _size(error: torch.Tensor) -> torch.Tensor:
    return (error.square() + _ROUNDING**2).sqrt()


def _painters(weights: Path) -> Painters:
    network, basis = drawing_network(weights)
    return Painters(network, basis, load_inventor(weights, torch.device("cpu"), torch.bfloat16))


def _below(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _save(trainer: RefinerTrainer, weights: Path, out: Path) -> None:
    trainer.save(out / "checkpoint.safetensors")
    add_refiner(weights, trainer.refiner.state_dict(), out / "weights.safetensors")
    log.info("step=%d saved=%s", trainer.step, out)


if __name__ == "__main__":
    raise SystemExit(main())
