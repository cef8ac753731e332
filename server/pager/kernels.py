"""The codec's fast path on a CPU: numba kernels, one set for each group size. They release the GIL.

They do what codec.py's reference does, operation for operation, and give the same bytes. The butterfly is written as
equal stages from one buffer to another (each adds and subtracts neighbours, and deals the results into two halves):
after log2(G) stages every value is back in its place, and each stage is a loop that compiles to vector code. G must
be a constant of the kernel for that: 1.8 times as fast as with G as an argument.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, cast

import numpy as np
from numba import njit

from models.base import Array

Kernel = Callable[..., None]
_F = TypeVar("_F", bound=Callable[..., object])


def _compiled(function: _F) -> _F:
    """Without fast-math, so that nothing is contracted or reordered. Kept on disk where there is a place for it."""
    try:
        return cast(_F, njit(nogil=True, cache=True)(function))
    except RuntimeError:  # neither the package's folder nor a home can be written to
        return cast(_F, njit(nogil=True)(function))


def _inlined(function: _F) -> _F:
    return cast(_F, njit(nogil=True, inline="always")(function))


@_inlined
def _stage(source: Array, target: Array, half: int) -> None:
    for i in range(half):
        first, second = source[2 * i], source[2 * i + 1]
        target[i] = first + second
        target[i + half] = first - second


@_inlined
def _butterfly(one: Array, two: Array, half: int, pairs: int, is_odd: bool) -> Array:  # noqa: FBT001  # a kernel's flag
    """All stages, from `one`; returns the buffer that holds the result."""
    for _ in range(pairs):
        _stage(one, two, half)
        _stage(two, one, half)
    if is_odd:
        _stage(one, two, half)
    return two if is_odd else one


@_compiled
def _extremes(values: Array, spare: Array, pair: Array, half: int) -> None:
    """Least and greatest of `values` into pair[0] and pair[1]; overwrites `spare`, which has the same length."""
    quarter = half // 2
    for i in range(half):
        spare[i] = min(values[i], values[i + half])
        spare[i + half] = max(values[i], values[i + half])
    for i in range(quarter):
        spare[i] = min(spare[i], spare[i + quarter])
        spare[i + half] = max(spare[i + half], spare[i + half + quarter])
    low, high = spare[0], spare[half]
    for i in range(1, quarter):
        low, high = min(low, spare[i]), max(high, spare[i + half])
    pair[0], pair[1] = low, high


@_compiled
def _half_bits(value: float, scratch: Array, bits: Array) -> int:
    """float32 to fp16, to nearest even, as bits. |value| is at most 65504. `bits` is `scratch` as uint32."""
    scratch[0] = value
    sign = (bits[0] >> 16) & 0x8000
    magnitude = bits[0] & 0x7FFFFFFF
    if magnitude < 0x38800000:  # below the smallest normal number: a multiple of 2^-24
        return sign | int(np.rint(abs(value) * np.float32(16777216.0)))
    rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1)
    return sign | ((rounded - 0x38000000) >> 13)


@lru_cache
def half_table() -> Array:
    """[65536] float32: the value of each fp16 bit pattern."""
    return np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)


@lru_cache
def encoder(group: int) -> Kernel:
    """kernel(rows [R, D] uint16 of bfloat16, codes [R, D/2] uint8, scales [R, D/G, 2] uint16, table, normaliser)."""
    half, pairs, is_odd = group // 2, _num_stages(group) // 2, _num_stages(group) % 2 == 1

    @_compiled
    def encode(rows: Array, codes: Array, scales: Array, table: Array, scaling: float) -> None:
        one, two = np.empty(group, np.float32), np.empty(group, np.float32)
        one_bits = one.view(np.uint32)
        pair = np.empty(2, np.float32)
        pair_bits = pair.view(np.uint32)
        top = np.float32(65504.0)
        for row in range(rows.shape[0]):
            for index in range(scales.shape[1]):
                for j in range(group):
                    one_bits[j] = np.uint32(rows[row, index * group + j]) << np.uint32(16)
                values = _butterfly(one, two, half, pairs, is_odd)
                spare = one if is_odd else two
                for j in range(group):
                    values[j] *= scaling
                _extremes(values, spare, pair, half)
                low = pair[0] + np.float32(0.0)  # minus zero becomes zero, here and in the reference
                spread = (pair[1] - pair[0] + np.float32(0.0)) / np.float32(15.0)
                scale_bits = _half_bits(min(spread, top), pair, pair_bits)
                zero_bits = _half_bits(min(max(low, -top), top), pair, pair_bits)
                scales[row, index, 0] = scale_bits
                scales[row, index, 1] = zero_bits
                zero = table[zero_bits]
                step = table[scale_bits]
                if step == np.float32(0.0):
                    step = np.float32(1.0)
                for j in range(group):
                    values[j] = min(max(np.rint((values[j] - zero) / step), np.float32(0.0)), np.float32(15.0))
                for j in range(half):
                    codes[row, index * half + j] = np.uint8(values[j]) | (np.uint8(values[j + half]) << np.uint8(4))

    return encode


@lru_cache
def decoder(group: int, *, is_wide: bool) -> Kernel:
    """kernel(codes [R, D/2] uint8, scales [R, D/G, 2] uint16, table, undo, out [R, D]).

    `out` is float32 when `is_wide`, otherwise the bits of bfloat16 as uint16.
    """
    half, pairs, is_odd = group // 2, _num_stages(group) // 2, _num_stages(group) % 2 == 1

    @_compiled
    def decode(codes: Array, scales: Array, table: Array, undo: float, out: Array) -> None:
        one, two = np.empty(group, np.float32), np.empty(group, np.float32)
        for row in range(codes.shape[0]):
            for index in range(scales.shape[1]):
                scale, zero = table[scales[row, index, 0]], table[scales[row, index, 1]]
                for j in range(half):
                    code = codes[row, index * half + j]
                    one[j] = np.float32(code & 15) * scale + zero
                    one[j + half] = np.float32(code >> 4) * scale + zero
                values = _butterfly(one, two, half, pairs, is_odd)
                bits = values.view(np.uint32)
                for j in range(group):
                    values[j] *= undo
                at = index * group
                if is_wide:
                    for j in range(group):
                        out[row, at + j] = values[j]
                else:
                    for j in range(group):
                        word = bits[j]
                        nearest = word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))
                        out[row, at + j] = nearest >> np.uint32(16)

    return decode


def _num_stages(group: int) -> int:
    return group.bit_length() - 1
