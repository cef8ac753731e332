"""Inventing a chunk: what hidden patches show is decided code by code, in a few passes, then the picture is finished.

A pass decides patches that memory and the patches decided so far leave little open, as many as hold an equal share of
the uncertainty that is left; so what memory shows is decided at once, and what is new takes all passes. Chance has a
part in which come first: where the surest always do, walls are plain before a picture could hang there. Chances are a
pure function of (seed, chunk index, pass). No scene; engine thread.
C frames, N patches, K codes, H hidden patches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from models.rooms.codebook import Codebook
from models.rooms.grid import grid_facts
from models.rooms.layout import LayoutNetwork
from models.rooms.remembered import Remembered
from models.rooms.sampling import chances, mates_of, turned
from models.rooms.sizes import TOKENS

PASSES = 2  # that decide; one more finishes
KEY_PASSES = 8  # the same, of a key view
FIRST_PASS, FIRST_KEY_PASS = 1000, 2000  # pass numbers apart from those of the drawing network
_ORDER_NATS = 3.0  # of doubt, up to which chance may let a patch wait
_MOST_CHOICES = 64  # that are looked at
_LIKELY = 0.99  # of the probability: codes beyond are never chosen
_SHARPEN = 1.0  # of the logits of codes: a little less chance than there is


@dataclass(frozen=True, slots=True)
class Inventor:
    """The layout network and its book, as drawing uses them. Nothing here is ever written to."""

    layout: LayoutNetwork
    book: Codebook
    passes: int = PASSES
    key_passes: int = KEY_PASSES


@torch.no_grad()
def invent(
    inventor: Inventor,
    cameras: torch.Tensor,
    memory: Sequence[Remembered],
    seed: int,
    chunk_index: int,
    *,
    is_key: bool = False,
) -> torch.Tensor:
    """Return clean latents [C, N, CHANNELS] float32 of the frames at planar poses `cameras` [C, 3]."""
    passes, first_pass = (inventor.key_passes, FIRST_KEY_PASS) if is_key else (inventor.passes, FIRST_PASS)
    layout, book = inventor.layout, inventor.book
    device = layout.place.device
    facts, mates = grid_facts(cameras)[None].to(device), mates_of(cameras).to(device)
    remembered = turned(layout, cameras, memory)
    codes = torch.zeros(len(cameras) * TOKENS, dtype=torch.int64, device=device)
    bins, is_known = torch.zeros_like(codes), torch.zeros_like(codes, dtype=torch.bool)

    def look() -> torch.Tensor:
        latents = book.decode(codes, bins).view(1, len(cameras), TOKENS, -1)
        return layout.look(latents, is_known.view(latents.shape[:3]), facts, mates, remembered).flatten(0, 2)

    for number in range(passes):
        hidden = (~is_known).nonzero()[:, 0]
        features = look()[hidden]
        log_share = layout.code_logits(features).log_softmax(-1)
        doubt = -(log_share.exp() * log_share).sum(-1)  # [H], nats
        dice = torch.rand(3, len(codes), generator=chances(seed, chunk_index, first_pass + number)).to(device)
        first = decided(doubt, dice[2, hidden], passes - number)
        chosen, features = hidden[first], features[first]
        codes[chosen] = picked(_SHARPEN * log_share[first], dice[0, chosen])
        bins[chosen] = picked(layout.bin_logits(features, codes[chosen]), dice[1, chosen])
        is_known[chosen] = True
        if bool(is_known.all()):
            break
    return layout.finish(look()).view(len(cameras), TOKENS, -1)


@torch.no_grad()
def finished(
    inventor: Inventor, cameras: torch.Tensor, memory: Sequence[Remembered], latents: torch.Tensor
) -> torch.Tensor:
    """Return latents [C, N, CHANNELS] as they are drawn where all codes of the given ones are chosen."""
    layout, book = inventor.layout, inventor.book
    seen = book.decode(*book.encode(latents))[None]
    is_known = torch.ones(seen.shape[:3], dtype=torch.bool)
    facts, mates = grid_facts(cameras)[None], mates_of(cameras)
    return layout.finish(layout.look(seen, is_known, facts, mates, turned(layout, cameras, memory))).view(latents.shape)


def decided(doubt: torch.Tensor, dice: torch.Tensor, passes_left: int) -> torch.Tensor:
    """Return the patches to decide now, of doubts [H] in nats and dice [H] in 0..1: one at least.

    They are the first with an equal share of all doubt, the surer ones and the luckier ones before the others.
    """
    order = (doubt + _ORDER_NATS * dice).argsort(stable=True)
    total = doubt[order].cumsum(0)
    num = int((total <= total[-1] / passes_left).sum()) if passes_left > 1 else len(order)
    return order[: max(1, num)]


def picked(logits: torch.Tensor, dice: torch.Tensor) -> torch.Tensor:
    """Return one of the likely choices [H] of logits [H, K], by dice [H] in 0..1."""
    share, choice = logits.softmax(-1).topk(min(_MOST_CHOICES, logits.shape[-1]))
    before = share.cumsum(-1) - share
    share = share * (before < _LIKELY)
    total = share.cumsum(-1)
    index = torch.searchsorted(total, dice[:, None] * total[:, -1:]).clamp(max=share.shape[-1] - 1)
    return choice.gather(1, index)[:, 0]
