"""From names to a model: which variant, which weights, on which device. Engine thread; a checkpoint takes minutes."""

from pathlib import Path

import torch

from models.matrix_game_2 import checkpoint
from models.matrix_game_2.config import load_config
from models.matrix_game_2.model import MatrixGame2Model
from models.matrix_game_2.weights import Parts, random_parts


def preferred_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 on CUDA, float32 on the CPU."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def load_model(
    model_config: str | Path = "universal",
    weights: Path | None = None,
    *,
    random_weights: bool = False,
    compiled: bool = False,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> MatrixGame2Model:
    """The model of a shipped config (or a JSON file) with the weights of a folder, or with random ones.

    `compiled`: torch.compile makes each block's kernels at its first use; warm up before anybody waits for that.
    Raises ValueError (WeightsError for the folder) with a message for the user.
    """
    config = load_config(model_config)
    place = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind = dtype or preferred_dtype(place)
    if random_weights:
        parts, fingerprint = random_parts(config, place, kind), "random weights, seed 0"
        return MatrixGame2Model(_maybe_compiled(parts, compiled), config, place, kind, fingerprint)
    if weights is None:
        line = checkpoint.download_line(Path("weights"), config.kind)
        raise checkpoint.WeightsError(
            f"matrix-game-2 needs --weights DIR (or --random-weights, for measurements). Fetch them with:\n  {line}"
        )
    parts, config, fingerprint = checkpoint.load(weights, config, place, kind)
    return MatrixGame2Model(_maybe_compiled(parts, compiled), config, place, kind, fingerprint)


def _maybe_compiled(parts: Parts, is_wished: bool) -> Parts:  # noqa: FBT001 - its name says it
    """In place, block by block: all thirty share one set of kernels, so the first compiles and the others find them."""
    if is_wished:
        for block in parts.network.blocks:
            block.compile()
    return parts
