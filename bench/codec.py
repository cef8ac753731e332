"""`python -m bench codec`: the int4 codec's size, error and speed, on keys with channel outliers.

Error is relative RMSE after a round trip. Speed is of one thread against memcpy of the same bfloat16 bytes, each the
best of several runs in the same minute, so that other work on the machine weighs on all alike.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from bench.codec_schemes import table
from bench.report import command_line, write_report
from models.base import KVSpec
from server.pager.codec import Codec, decode_fast, decode_rows, encode_fast, encode_rows
from server.pager.layout import SlotLayout

MATRIX_GAME_2 = KVSpec(layers=30, tokens=2640, width=1536, head_width=128)
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "int4.npz"
SEED = 0
SIGMA = 0.8  # of the log-normal scale of each key channel
RUNS = 7


def sample(tokens: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys N(0, 1) times a log-normal per channel, and values N(0, 1): [N, D] bfloat16 each."""
    numbers = torch.Generator().manual_seed(SEED)
    channels = torch.exp(SIGMA * torch.randn(width, generator=numbers))
    keys = torch.randn(tokens, width, generator=numbers) * channels
    return keys.bfloat16(), torch.randn(tokens, width, generator=numbers).bfloat16()


def relative_rmse(rows: torch.Tensor, group: int) -> float:
    """What a round trip through int4 changes, as a share of the rows' RMS."""
    codes, scales = encoded(rows, group)
    back = torch.empty(rows.shape, dtype=torch.float32)
    decode_fast(codes, scales, back)
    return float((back - rows.float()).norm() / rows.float().norm())


def encoded(rows: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of rows, by the fast path."""
    codes = torch.empty((rows.shape[0], rows.shape[1] // 2), dtype=torch.uint8)
    scales = torch.empty((rows.shape[0], rows.shape[1] // group, 2), dtype=torch.float16)
    encode_fast(rows, codes, scales)
    return codes, scales


def is_bit_equal(rows: torch.Tensor, group: int) -> bool:
    """Whether the fast path and the reference give the same bytes, here and on the golden file."""
    codes, scales = encoded(rows, group)
    true_codes, true_scales = encode_rows(rows, group)
    back = torch.empty_like(rows)
    decode_fast(codes, scales, back)
    same = torch.equal(codes, true_codes) and torch.equal(scales.view(torch.int16), true_scales.view(torch.int16))
    true_back = decode_rows(true_codes, true_scales, group, torch.bfloat16)
    return same and torch.equal(back.view(torch.int16), true_back.view(torch.int16)) and is_golden(group)


def is_golden(group: int) -> bool:
    """Whether the fast path gives the bytes that are kept in the repository."""
    with np.load(GOLDEN) as golden:
        rows = torch.from_numpy(golden[f"rows{group}"]).view(torch.bfloat16)
        codes, scales = encoded(rows, group)
        found = scales.view(torch.uint16).numpy()
        return np.array_equal(codes.numpy(), golden[f"codes{group}"]) and np.array_equal(
            found, golden[f"scales{group}"]
        )


def best_s(works: Sequence[Callable[[], object]]) -> list[float]:
    """The least CPU seconds of each work, taken in turns."""
    best = [float("inf")] * len(works)
    for _ in range(RUNS):
        for index, work in enumerate(works):
            begin_s = time.thread_time()
            work()
            best[index] = min(best[index], time.thread_time() - begin_s)
    return best


def measure() -> dict[str, object]:
    """All figures of the report."""
    torch.set_num_threads(1)
    layout = SlotLayout(MATRIX_GAME_2)
    keys, values = sample(MATRIX_GAME_2.tokens, MATRIX_GAME_2.width)
    Codec(layout).warm_up(torch.bfloat16)
    codes, scales = encoded(keys, layout.group)
    back, copy = torch.empty_like(keys), np.empty(keys.nbytes, dtype=np.uint8)
    source = keys.view(torch.uint8).numpy().reshape(-1)
    copy_s, encode_s, decode_s = best_s(
        [
            lambda: np.copyto(copy, source),
            lambda: encode_fast(keys, codes, scales),
            lambda: decode_fast(codes, scales, back),
        ]
    )
    return {
        "bits_per_value": layout.bits_per_value,
        "key_rel_rmse": round(relative_rmse(keys, layout.group), 5),
        "value_rel_rmse": round(relative_rmse(values, layout.group), 5),
        "encode_over_memcpy": round(copy_s / encode_s, 4),
        "decode_over_memcpy": round(copy_s / decode_s, 4),
        "bit_equal": is_bit_equal(keys, layout.group),
        "encode_gbps": round(keys.nbytes / encode_s / 1e9, 3),
        "decode_gbps": round(keys.nbytes / decode_s / 1e9, 3),
        "memcpy_gbps": round(keys.nbytes / copy_s / 1e9, 3),
        "block_bytes": layout.planes_bytes + layout.scales_bytes,
        "bf16_bytes": MATRIX_GAME_2.kv_bytes,
    }


def schemes_table() -> list[dict[str, object]]:
    """Our scheme and others, on the keys and values of `sample` and on rooms' own."""
    keys, values = sample(MATRIX_GAME_2.tokens, MATRIX_GAME_2.width)
    return table((keys.float(), values.float()))


def main(argv: Sequence[str]) -> int:
    """Measure and print. Exit 1 when the bytes are not those of the reference."""
    parser = argparse.ArgumentParser(prog="python -m bench codec", description=__doc__)
    parser.add_argument("--schemes", action="store_true", help="beside other ways to spend 4 bits, also on rooms' K,V")
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(argv)
    figures = measure()
    rows = schemes_table() if options.schemes else []
    scaled = {"speed and error": "one plane of one layer, 2640 x 1536"}
    write_report(options.path, command_line(), {**figures, **({"schemes": rows} if rows else {})}, scaled)
    for name, value in figures.items():
        print(f"{name:20} {value}")
    for row in rows:
        print("  ".join(f"{value:<38}" if isinstance(value, str) else f"{value:.4f}" for value in row.values()))
    return 0 if figures["bit_equal"] else 1
