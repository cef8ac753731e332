"""`python -m bench codec --schemes`: other ways to spend 4 bits a value, on synthetic K and V and on rooms' own.

The table of docs/decisions/int4-codec.md. Each scheme is a round trip in float32 with fp16 scales; the bits are those
of one value with its share of scales, zeros and means.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from server.pager.codec import butterfly

Scheme = Callable[[torch.Tensor], torch.Tensor]  # [N, D] float32 to what comes back of it
Pair = tuple[torch.Tensor, torch.Tensor]  # K and V, [N, D] float32 each
ROOMS_SEEDS = (900_300, 900_301)
_SCALE_BITS = 16


def symmetric(groups: torch.Tensor) -> torch.Tensor:
    """[..., G] there and back: codes from -8 to 7 times one scale."""
    scale = _steps(groups.abs().amax(-1, keepdim=True) / 7.0)
    return torch.clamp(torch.round(groups / scale), -8.0, 7.0) * scale


def asymmetric(groups: torch.Tensor) -> torch.Tensor:
    """[..., G] there and back: codes from 0 to 15 times a scale, plus a zero."""
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale, zero = _steps((high - low) / 15.0), low.half().float()
    return torch.clamp(torch.round((groups - zero) / scale), 0.0, 15.0) * scale + zero


def rotated(rows: torch.Tensor, span: int) -> torch.Tensor:
    """[N, D], every `span` values turned by a Hadamard transform, which is its own inverse. 1 turns nothing."""
    return (butterfly(rows.reshape(rows.shape[0], -1, span)) / math.sqrt(span)).reshape(rows.shape)


def per_token(group: int, keep: Scheme, span: int = 1) -> Scheme:
    """Groups along a token, after a rotation over `span` values."""
    return lambda rows: rotated(keep(rotated(rows, span).reshape(rows.shape[0], -1, group)).reshape(rows.shape), span)


def per_channel(group: int, keep: Scheme) -> Scheme:
    """Groups of `group` tokens of one channel."""
    return lambda rows: keep(rows.T.reshape(rows.shape[1], -1, group)).reshape(rows.shape[1], -1).T


def without_means(keep: Scheme) -> Scheme:
    """Each channel's mean is kept beside the codes, which are of what is left."""

    def back(rows: torch.Tensor) -> torch.Tensor:
        means = rows.mean(0, keepdim=True).half().float()
        return keep(rows - means) + means

    return back


def schemes(tokens: int) -> Iterator[tuple[str, float, Scheme]]:
    """Name, bits a value and round trip of each, for blocks of so many tokens."""
    yield "per token, symmetric, 64", 4 + _SCALE_BITS / 64, per_token(64, symmetric)
    yield "per token, asymmetric, 128", 4 + 2 * _SCALE_BITS / 128, per_token(128, asymmetric)
    yield "Hadamard 64, symmetric, 64", 4 + _SCALE_BITS / 64, per_token(64, symmetric, 64)
    yield "Hadamard 64, asymmetric, 128", 4 + 2 * _SCALE_BITS / 128, per_token(128, asymmetric, 64)
    ours = per_token(128, asymmetric, 128)
    yield "Hadamard 128, asymmetric, 128 (ours)", 4 + 2 * _SCALE_BITS / 128, ours
    for most in (80, 120):
        group = max(size for size in range(1, most + 1) if tokens % size == 0)
        yield f"per channel, asymmetric, <= {most} tokens", 4 + 2 * _SCALE_BITS / group, per_channel(group, asymmetric)
    bits = 4 + 2 * _SCALE_BITS / 128 + _SCALE_BITS / tokens
    yield "means off, then ours", bits, without_means(ours)


def rooms_pairs() -> list[Pair]:
    """K and V of every layer of the seeded chunks of two worlds, by the weights that ship."""
    from models.rooms.model import RoomsModel  # noqa: PLC0415  # weights are read only when they are asked for

    model = RoomsModel()
    blocks = [chunk.block for seed in ROOMS_SEEDS for chunk in model.begin(seed).chunks if chunk.block is not None]
    return [(layer[0].float(), layer[1].float()) for block in blocks for layer in block.kv]


def relative_rmse(pairs: Sequence[Pair], which: int, scheme: Scheme) -> float:
    """What a round trip changes of K (0) or V (1), as a share of their RMS; over all planes together."""
    changed = sum(float((scheme(pair[which]) - pair[which]).square().sum()) for pair in pairs)
    return math.sqrt(changed / sum(float(pair[which].square().sum()) for pair in pairs))


def table(synthetic: Pair) -> list[dict[str, object]]:
    """A row for each scheme: bits and relative RMSE of K and V, synthetic and rooms'."""
    samples = {"synthetic": [synthetic], "rooms": rooms_pairs()}
    rows: dict[str, dict[str, object]] = {}
    for source, pairs in samples.items():
        for name, bits, scheme in schemes(pairs[0][0].shape[0]):
            row = rows.setdefault(name, {"scheme": name})
            row[f"{source}_bits"] = round(bits, 3)
            row[f"{source}_key"] = round(relative_rmse(pairs, 0, scheme), 4)
            row[f"{source}_value"] = round(relative_rmse(pairs, 1, scheme), 4)
    return list(rows.values())


def _steps(scales: torch.Tensor) -> torch.Tensor:
    """Scales as fp16 keeps them; 1 where one would be 0."""
    kept = scales.half().float()
    return torch.where(kept == 0, 1.0, kept)
