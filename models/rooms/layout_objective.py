"""What training of the layout network minimises: the codes and depths of hidden patches, and the picture that
known codes stand for. Pure; training thread only.

The drawing network is only read: it encodes what is remembered, without a gradient.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from models.rooms.codebook import Codebook
from models.rooms.dataset import Batch
from models.rooms.geometry import mate_angles
from models.rooms.grid import grid_facts
from models.rooms.layout import LayoutNetwork
from models.rooms.network import KeysValues, RoomsNetwork
from models.rooms.objective import remember, with_context_noise
from models.rooms.patches import DEPTH, PATCH_DIMS, PatchBasis
from models.rooms.rotation import Turn
from models.rooms.sizes import COLUMNS, TOKENS

_ALL_HIDDEN_SHARE, _ALL_KNOWN_SHARE = 0.15, 0.25  # of chunks
_RAMP_SHARE = 0.5  # of chunks hide one side rather than patches here and there
_RAMP = 1.5  # how much the side counts against chance
# of known patches show any code at all. Things take one patch in a hundred: with as many wrong ones, the first patch
# of a thing counts for a mistake and the thing is never drawn
_WRONG_SHARE = 0.005
_LIKE_SHARE = 0.15  # of known patches show a code that is only nearly right
_LIKE_NOISE = 0.35  # of the numbers of a patch that then finds its code
_OWN_SHARE = 0.5  # of batches remember frames as this network draws them
_OWN_HIDDEN = (0.1, 0.5)  # least and most of their patches that are drawn anew
_BIN_WEIGHT, _PICTURE_WEIGHT, _DEPTH_WEIGHT = 0.5, 30.0, 0.2
_ROUNDING = 0.02  # errors below this count as their square


Patches = tuple[torch.Tensor, torch.Tensor]  # codes and bins, each [B, C, N]


@dataclass(frozen=True, slots=True)
class Teacher:
    """What is given to the layout network's training and never changed by it."""

    drawing: RoomsNetwork  # bfloat16; writes what is remembered
    book: Codebook
    basis: PatchBasis


@dataclass(frozen=True, slots=True)
class Losses:
    """The parts of a loss, each a scalar in its own unit, and the share of hidden codes that were right."""

    code: torch.Tensor
    bin: torch.Tensor
    picture: torch.Tensor
    right_share: float

    @property
    def total(self) -> torch.Tensor:
        return self.code + _BIN_WEIGHT * self.bin + _PICTURE_WEIGHT * self.picture


def loss(layout: LayoutNetwork, teacher: Teacher, batch: Batch, *, has_own_context: bool) -> Losses:
    """Return the losses of a batch; its chances are a function of the batch alone."""
    rng = torch.Generator().manual_seed(batch.noise_seed)
    memory = batch.memory
    if has_own_context and memory.shape[1] and float(torch.rand(1, generator=rng)) < _OWN_SHARE:
        memory = redrawn(layout, teacher, memory, batch.memory_poses, rng)
    targets = batch.targets.flatten(0, 1)
    is_known = known_patches(targets.shape[:2], rng)
    remembered = _remembered(teacher.drawing, batch, memory, rng)
    true = teacher.book.encode(targets)
    seen = _disturbed(teacher.book, targets, true, rng)
    return _compare(layout, teacher, batch, remembered, is_known, true, seen)


def check_loss(layout: LayoutNetwork, teacher: Teacher, batch: Batch, hidden_share: float) -> Losses:
    """Return the losses of a batch with patches hidden here and there, nothing disturbed, memory without noise."""
    rng = torch.Generator().manual_seed(0)
    targets = batch.targets.flatten(0, 1)
    is_known = torch.rand(targets.shape[:-1], generator=rng) >= hidden_share
    remembered = _remembered(teacher.drawing, batch, batch.memory, None)
    true = teacher.book.encode(targets)
    return _compare(layout, teacher, batch, remembered, is_known, true, true)


def known_patches(shape: torch.Size, rng: torch.Generator) -> torch.Tensor:
    """Return which patches [B, C, N] of chunks [B, C] are known: all, none, a random share, or a side of the view."""
    dice = torch.rand(4, shape[0], generator=rng)
    hidden_share = (dice[0] * math.pi / 2).cos()
    hidden_share[dice[1] < _ALL_HIDDEN_SHARE] = 1.0
    hidden_share[dice[1] > 1.0 - _ALL_KNOWN_SHARE] = 0.0
    side = torch.linspace(-1.0, 1.0, COLUMNS).repeat(TOKENS // COLUMNS)
    slope = torch.where(dice[2] < _RAMP_SHARE, _RAMP * torch.where(dice[3] < 0.5, -1.0, 1.0), 0.0)
    score = torch.rand(*shape, TOKENS, generator=rng) + slope[:, None, None] * side
    rank = score.flatten(1).argsort(1).argsort(1).view(score.shape)
    return rank >= (hidden_share * score[0].numel()).round()[:, None, None]


@torch.no_grad()
def redrawn(
    layout: LayoutNetwork, teacher: Teacher, frames: torch.Tensor, poses: torch.Tensor, rng: torch.Generator
) -> torch.Tensor:
    """Return frames [B, M, N, CHANNELS] at poses [B, M, 3] as the network draws them, some patches drawn anew."""
    chunks = frames.flatten(0, 1)[:, None]  # a frame alone
    codes, bins = teacher.book.encode(chunks)
    mates, facts = Turn.by(mate_angles(torch.zeros(1, 1, 3))), grid_facts(poses.flatten(0, 1)[:, None])
    least, most = _OWN_HIDDEN
    hidden_share = least + (most - least) * torch.rand(len(chunks), 1, 1, generator=rng)
    is_known = torch.rand(codes.shape, generator=rng) >= hidden_share
    features = layout.look(teacher.book.decode(codes, bins), is_known, facts, mates, [])[~is_known]
    if len(features):
        codes[~is_known] = torch.multinomial(layout.code_logits(features).softmax(-1), 1, generator=rng)[:, 0]
        bins[~is_known] = layout.bin_logits(features, codes[~is_known]).argmax(-1)
    features = layout.look(teacher.book.decode(codes, bins), torch.ones_like(is_known), facts, mates, [])
    return layout.finish(features).view(frames.shape)


@torch.no_grad()
def _remembered(
    drawing: RoomsNetwork, batch: Batch, memory: torch.Tensor, rng: torch.Generator | None
) -> list[KeysValues]:
    level = torch.zeros(memory.shape[:2])
    if rng is not None:
        memory, level = with_context_noise(memory, rng)
    return remember(drawing, memory, level, batch.memory_poses, batch.target_poses.flatten(1, 2))


def _disturbed(book: Codebook, targets: torch.Tensor, true: Patches, rng: torch.Generator) -> Patches:
    """Return the true codes and bins of targets, a few of them nearly right and fewer wrong, as in a drawn picture."""
    dice = torch.rand(targets.shape[:-1], generator=rng)
    codes, bins = (part.clone() for part in true)
    like, wrong = dice < _LIKE_SHARE, dice > 1.0 - _WRONG_SHARE
    noise = _LIKE_NOISE * torch.randn(targets[like].shape, generator=rng)
    codes[like], bins[like] = book.encode(targets[like] + noise)
    codes[wrong] = torch.randint(len(book.colours), (int(wrong.sum()),), generator=rng)
    return codes, bins


def _compare(
    layout: LayoutNetwork,
    teacher: Teacher,
    batch: Batch,
    remembered: list[KeysValues],
    is_known: torch.Tensor,
    true: Patches,
    seen: Patches,
) -> Losses:
    targets = batch.targets.flatten(0, 1)
    poses = batch.target_poses.flatten(0, 1)
    mates, facts = Turn.by(mate_angles(poses)), grid_facts(poses)
    codes, bins = true
    features = layout.look(teacher.book.decode(*seen), is_known, facts, mates, remembered)
    hidden = features[~is_known]
    wanted = codes[~is_known]
    logits = layout.code_logits(hidden)
    num_hidden = max(1, len(wanted))
    return Losses(
        code=functional.cross_entropy(logits, wanted, reduction="sum") / num_hidden,
        bin=functional.cross_entropy(layout.bin_logits(hidden, wanted), bins[~is_known], reduction="sum") / num_hidden,
        picture=picture_error(layout.finish(features[is_known]), targets[is_known], teacher.basis),
        right_share=float((logits.detach().argmax(-1) == wanted).sum()) / num_hidden,
    )


def picture_error(drawn: torch.Tensor, truth: torch.Tensor, basis: PatchBasis) -> torch.Tensor:
    """Return how far patches [P, CHANNELS] are from the true ones: mean size of the error, in -1..1, and of depth's.

    Sizes rather than squares: of two places where an edge may run, this takes one, and does not blur.
    """
    error = drawn - truth
    pixels = (error[:, :PATCH_DIMS] * basis.scale) @ basis.directions
    depth = error[:, DEPTH]
    num = max(1, len(drawn))
    return _size(pixels).sum() / (num * pixels.shape[1]) + _DEPTH_WEIGHT * _size(depth).sum() / num


def _size(error: torch.Tensor) -> torch.Tensor:
    return (error.square() + _ROUNDING**2).sqrt() - _ROUNDING
