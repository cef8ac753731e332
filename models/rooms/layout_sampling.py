"""Inventing a chunk: what hidden patches show is decided code by code, in a few passes, then the picture is finished.

A pass decides at once what memory and the patches decided so far leave no doubt of. Of the others it decides patches
that lie far apart, few at first: neighbours that are decided together know nothing of each other, so half a picture
would hang on a wall; and where the surest come first, a wall is plain before a picture could hang there. Chances are a
pure function of (seed, chunk index, pass). Where memory shows a view, the likeliest codes draw it again at once.
No scene; engine thread.
C frames, N patches, D width, K codes, H hidden patches.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from models.rooms.checkpoint import load_layout_weights
from models.rooms.codebook import Codebook
from models.rooms.grid import grid_facts
from models.rooms.layout import LayoutNetwork
from models.rooms.patches import CHANNELS
from models.rooms.remembered import Remembered
from models.rooms.sampling import chances, mates_of, turned
from models.rooms.sizes import COLUMNS, TOKENS

PASSES = 2  # that decide; one more finishes
KEY_PASSES = 8  # the same, of a key view
FIRST_PASS, FIRST_KEY_PASS = 1000, 2000  # pass numbers apart from those of the drawing network
_TURNS_PASS = 999  # after the last of a chunk, for whose turn it is
# of doubt: a patch of less need not wait. A place that one of twenty rooms fills has 0.2: were it sure, half of a
# thing would be decided beside the wall that the other half gave way to, and no thing would ever be whole
_SURE_NATS = 0.03
# a step in the sequence for a column and for a row: R2 (Roberts, 2018), evenly far apart
_SPREAD = (0.7548776662, 0.5698402910)
_SPREAD_FRAME = 0.5  # the same, for a frame

Look = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Inventor:
    """The layout network and its book, as drawing uses them. Nothing here is ever written to."""

    layout: LayoutNetwork
    book: Codebook
    passes: int = PASSES
    key_passes: int = KEY_PASSES


def load_inventor(weights: Path, device: torch.device, dtype: torch.dtype) -> Inventor | None:
    """Return the inventor of a weights file, not to be trained, or None where it has none."""
    found = load_layout_weights(weights)
    if found is None:
        return None
    tensors, book = found
    layout = LayoutNetwork()
    layout.load_state_dict(tensors)
    return Inventor(layout.requires_grad_(False).to(device, dtype).eval(), book.to(device))


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
    device, shape = layout.place.device, (len(cameras), TOKENS)
    look = _looking(layout, cameras, memory)
    codes = torch.zeros(len(cameras) * TOKENS, dtype=torch.int64, device=device)
    bins, is_known = torch.zeros_like(codes), torch.zeros_like(codes, dtype=torch.bool)
    turns = _turns(len(cameras), seed, chunk_index, first_pass).to(device)
    for number in range(passes):
        hidden = (~is_known).nonzero()[:, 0]
        features = look(book.decode(codes, bins).view(*shape, -1), is_known.view(shape))[hidden]
        log_share = layout.code_logits(features).log_softmax(-1)
        doubt = -(log_share.exp() * log_share).sum(-1)  # [H], nats
        dice = torch.rand(2, len(codes), generator=chances(seed, chunk_index, first_pass + number)).to(device)
        first = decided(doubt, turns[hidden], number, passes)
        chosen, features = hidden[first], features[first]
        codes[chosen] = picked(log_share[first], dice[0, chosen])
        bins[chosen] = picked(layout.bin_logits(features, codes[chosen]), dice[1, chosen])
        is_known[chosen] = True
        if bool(is_known.all()):
            break
    return _finished(layout, look(book.decode(codes, bins).view(*shape, -1), is_known.view(shape)), shape)


@torch.no_grad()
def drawn_again(inventor: Inventor, cameras: torch.Tensor, memory: Sequence[Remembered]) -> torch.Tensor:
    """Return latents [C, N, CHANNELS] of the frames at planar poses `cameras` [C, 3], as memory shows them."""
    layout, book = inventor.layout, inventor.book
    device, shape = layout.place.device, (len(cameras), TOKENS)
    look = _looking(layout, cameras, memory)
    features = look(torch.zeros(*shape, CHANNELS, device=device), torch.zeros(shape, dtype=torch.bool, device=device))
    codes = layout.code_logits(features).argmax(-1)
    bins = layout.bin_logits(features, codes).argmax(-1)
    known = torch.ones(shape, dtype=torch.bool, device=device)
    return _finished(layout, look(book.decode(codes, bins).view(*shape, -1), known), shape)


@torch.no_grad()
def recoded(
    inventor: Inventor, cameras: torch.Tensor, memory: Sequence[Remembered], latents: torch.Tensor
) -> torch.Tensor:
    """Return latents [C, N, CHANNELS] as they are drawn where all codes of the given ones are chosen."""
    layout, book = inventor.layout, inventor.book
    shape = (len(cameras), TOKENS)
    look = _looking(layout, cameras, memory)
    return _finished(layout, look(book.decode(*book.encode(latents)), torch.ones(shape, dtype=torch.bool)), shape)


def _looking(layout: LayoutNetwork, cameras: torch.Tensor, memory: Sequence[Remembered]) -> Look:
    """Return what gives features [C*N, D] of one chunk, of latents [C, N, CHANNELS] and which of them are known."""
    device = layout.place.device
    facts, mates = grid_facts(cameras)[None].to(device), mates_of(cameras).to(device)
    remembered = turned(layout, cameras, memory)
    return lambda latents, known: layout.look(latents[None], known[None], facts, mates, remembered).flatten(0, 2)


def _finished(layout: LayoutNetwork, features: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    return layout.finish(features).view(*shape, CHANNELS)


def decided(doubt: torch.Tensor, turns: torch.Tensor, number: int, passes: int) -> torch.Tensor:
    """Return the patches to decide in pass `number` from 0, of doubts [H] in nats and turns [H] in 0..1.

    They are all that are sure, and of the others those whose turn comes first: so many that what stays open falls with
    the cosine (MaskGIT, Chang et al. 2022, section 3.2), at least one, in the last pass all.
    """
    is_open = doubt > _SURE_NATS
    num_open = int(is_open.sum())
    stays, stayed = (math.cos(math.pi / 2 * n / passes) for n in (number + 1, number))
    num = num_open if number + 1 == passes else max(1, round(num_open * (1.0 - stays / stayed)))
    order = torch.where(is_open, turns, -1.0).argsort(stable=True)
    return order[: len(doubt) - num_open + num]


def _turns(frames: int, seed: int, chunk_index: int, first_pass: int) -> torch.Tensor:
    """Return whose turn comes when [C*N], in 0..1; those that follow each other lie apart, chance says who begins."""
    column, row = torch.arange(TOKENS) % COLUMNS, torch.arange(TOKENS) // COLUMNS
    places = column * _SPREAD[0] + row * _SPREAD[1] + torch.arange(frames)[:, None] * _SPREAD_FRAME
    begins = torch.rand(1, generator=chances(seed, chunk_index, first_pass + _TURNS_PASS))
    return torch.remainder(places.flatten() + begins, 1.0)


def picked(logits: torch.Tensor, dice: torch.Tensor) -> torch.Tensor:
    """Return a choice [H] of logits [H, K], each as often as it is likely, by dice [H] in 0..1.

    No unlikely one is left out: a thing that may stand in a room is a hundred codes, each of them unlikely.
    """
    total = logits.softmax(-1).cumsum(-1)
    return torch.searchsorted(total, dice[:, None] * total[:, -1:]).clamp(max=logits.shape[-1] - 1)[:, 0]
