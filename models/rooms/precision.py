"""In which numbers and on how many threads a machine draws rooms fastest. Asks torch what the CPU can; any thread."""

from functools import cache

import torch

_FLOAT32_THREADS = 4  # two draw 1.4 times as fast as one; more than four were not measured


@cache
def has_matrix_unit() -> bool:
    """Return whether this CPU has AMX, which torch's fused attention in bfloat16 is written for."""
    return torch.cpu._is_amx_tile_supported()  # noqa: SLF001 - torch has no public question


@cache
def has_bfloat16_products() -> bool:
    """Return whether this CPU multiplies bfloat16 fast: with AMX or with AVX512-bf16."""
    return has_matrix_unit() or torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - torch has no public question


def preferred_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 where the device computes it fast, else float32."""
    return torch.bfloat16 if device.type == "cuda" or has_bfloat16_products() else torch.float32


def preferred_threads(dtype: torch.dtype) -> int:
    """Return among how many of torch's threads a chunk is worth sharing at most.

    In bfloat16 its operations are too small to share, and the other cores are left to the server and the client.
    """
    return _FLOAT32_THREADS if dtype == torch.float32 else 1
