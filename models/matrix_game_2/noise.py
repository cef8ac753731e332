"""Noise as a function of (seed, chunk, step): the same on every device and in every torch (promise 3). Any thread."""

import numpy as np
import torch

FIRST_STEP = 0  # the noise that a chunk begins with; k + 1 is the fresh noise after step k
_STEPS_PER_CHUNK = 1 << 12


def chunk_noise(seed: int, chunk_index: int, step: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Standard normal numbers of this shape, float32, on the CPU."""
    key = np.array([seed & (2**64 - 1), chunk_index * _STEPS_PER_CHUNK + step], dtype=np.uint64)
    values = np.random.Generator(np.random.Philox(key=key)).standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(values)
