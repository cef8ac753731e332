"""`python -m models.matrix_game_2.measure`: what turning one recalled block costs here, beside copying the same bytes.

The paper names 27 ms a chunk for its rotation on an RTX 4090; here the figure is also given as a ratio to memcpy.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from models.matrix_game_2.config import Config, load_config
from models.matrix_game_2.load import preferred_dtype
from models.matrix_game_2.positions import grid_angles, rotate

REPEATS = 5


def rotation_ms(config: Config, device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Medians over a few repeats: turning the keys of one block, layer by layer, and copying its keys and values."""
    network = config.network
    shape = (network.num_layers, config.chunk_tokens, network.num_heads, network.head_width)
    keys = torch.randn(shape, device=device).to(dtype)  # [L, N, H, d]
    turned = torch.empty_like(keys)
    frames = tuple(range(config.num_frame_per_block))
    turns = grid_angles(frames, config.latent_rows, config.latent_cols, network.head_width, str(device))

    def turn() -> None:
        for layer in range(network.num_layers):
            turned[layer] = rotate(keys[layer], turns)

    def copy() -> None:
        turned.copy_(keys)

    turn_ms, copy_ms = _median_ms(turn, device), 2.0 * _median_ms(copy, device)
    return {"rotate_ms": round(turn_ms, 3), "memcpy_kv_ms": round(copy_ms, 3), "ratio": round(turn_ms / copy_ms, 1)}


def _median_ms(work: Callable[[], None], device: torch.device) -> float:
    times_ms: list[float] = []
    for _ in range(REPEATS + 1):
        began_s = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # the clock must see the work, not its launch
        times_ms.append(1000.0 * (time.perf_counter() - began_s))
    return statistics.median(times_ms[1:])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m models.matrix_game_2.measure", description=__doc__)
    parser.add_argument("--model-config", default="universal")
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if options.model_config != "tiny" else preferred_dtype(device)
    figures = {"device": str(device), "dtype": str(dtype), "threads": torch.get_num_threads()}
    figures |= rotation_ms(load_config(options.model_config), device, dtype)
    print(json.dumps(figures, indent=1))  # noqa: T201  a command line prints


if __name__ == "__main__":
    main()
