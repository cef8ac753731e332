"""`python -m models.matrix_game_2.calibrate`: measure how far one mouse unit turns the camera of a checkpoint.

Generates a turn on the spot from a picture, registers each frame with the next one (phase correlation of their columns)
and converts pixels to radians with an assumed horizontal field of view. Prints the `motion` entry for a config file.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.base import Array, Pixels
from models.matrix_game_2.conditioning import decode_seed_image
from models.matrix_game_2.load import load_model
from models.matrix_game_2.model import MatrixGame2Model
from shared.controls import Controls
from shared.pose import MOUSE_RAD_PER_COUNT

SETTLING_CHUNKS = 1  # the turn needs some frames to begin
_LEAST_MAGNITUDE = 1e-9


def column_shift_px(before: Pixels, after: Pixels) -> float:
    """By how many pixels the content of `after [H, W, 3]` stands to the left of where it was: the turn to the right."""
    width = before.shape[1]
    window = np.hanning(width)
    spectra = [np.fft.rfft(_columns(frame) * window, axis=1) for frame in (before, after)]
    cross = (spectra[0] * np.conj(spectra[1])).sum(axis=0)
    peak = np.fft.irfft(cross / np.maximum(np.abs(cross), _LEAST_MAGNITUDE), n=width)
    best = int(np.argmax(peak))
    left, middle, right = (float(peak[(best + i) % width]) for i in (-1, 0, 1))
    curve = left - 2.0 * middle + right
    fraction = 0.5 * (left - right) / curve if curve else 0.0
    shift = best + fraction
    return shift - width if shift > width / 2 else shift


def _columns(frame: Pixels) -> Array:
    """The luma of a frame `[H, W]`, without its mean, as the registration sees it."""
    luma = frame.astype(np.float64).mean(axis=2)
    return luma - luma.mean(axis=1, keepdims=True)


def turn_rad(shift_px: float, width_px: int, hfov_rad: float) -> float:
    """The turn that moves the picture's middle by `shift_px`."""
    focal_px = width_px / 2 / math.tan(hfov_rad / 2)
    return math.atan(shift_px / focal_px)


def yaw_per_unit(model: MatrixGame2Model, num_chunks: int, hfov_rad: float, picture: Pixels | None) -> list[float]:
    """Radians per mouse unit, one estimate per pair of frames of a turn to the right at full speed."""
    scale = model.config.motion
    counts = scale.max_unit * scale.yaw_rad_per_unit / MOUSE_RAD_PER_COUNT
    beginning = model.begin(0, picture)
    state, last = beginning.state, beginning.chunks[-1].frames[-1].pixels
    estimates: list[float] = []
    for chunk in range(num_chunks + SETTLING_CHUNKS):
        drawing = model.step(state, [Controls(mouse_dx=counts)] * model.frames_per_chunk, ())
        while True:
            try:
                pixels = next(drawing).pixels
            except StopIteration as end:
                state = end.value.state
                break
            if chunk >= SETTLING_CHUNKS:
                shift = column_shift_px(last, pixels)
                estimates.append(turn_rad(shift, pixels.shape[1], hfov_rad) / scale.max_unit)
            last = pixels
    return estimates


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m models.matrix_game_2.calibrate", description=__doc__)
    parser.add_argument("--model-config", default="universal")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--random-weights", action="store_true")
    parser.add_argument("--image", type=Path)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--hfov-deg", type=float, default=90.0)
    options = parser.parse_args(arguments)
    model = load_model(options.model_config, options.weights, random_weights=options.random_weights)
    picture = decode_seed_image(options.image.read_bytes()) if options.image else None
    estimates = yaw_per_unit(model, options.chunks, math.radians(options.hfov_deg), picture)
    figures = {
        "motion": {"yaw_rad_per_unit": round(float(np.median(estimates)), 4)},
        "spread_rad_per_unit": round(float(np.std(estimates)), 4),
        "pairs": len(estimates),
        "weights": "random" if model.is_random else "checkpoint",
    }
    print(json.dumps(figures, indent=1))  # noqa: T201  a command line prints


if __name__ == "__main__":
    main()
