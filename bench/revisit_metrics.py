"""How alike two pictures are, and how much detail one has. Frames are [F, H, W, 3] uint8. Pure; any thread."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Frames = NDArray[np.uint8]
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_SSIM_WINDOW = 7
_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2
_LEAST_ERROR = 1e-6  # equal frames count as 60 dB


def luma(frames: Frames) -> NDArray[np.float32]:
    """Return brightness 0 to 1 [F, H, W]."""
    return np.asarray(frames.astype(np.float32) @ (_LUMA / 255.0), np.float32)


def psnr(a: Frames, b: Frames) -> NDArray[np.float32]:
    """Return the peak signal-to-noise ratio of each pair of frames [F], in dB."""
    error = ((a.astype(np.float32) - b.astype(np.float32)) / 255.0) ** 2
    return -10.0 * np.log10(np.maximum(error.mean((1, 2, 3)), _LEAST_ERROR))


def ssim(a: Frames, b: Frames) -> NDArray[np.float32]:
    """Return the structural similarity of each pair of frames [F], of brightness in 7x7 windows."""
    x, y = luma(a), luma(b)
    mean_x, mean_y = _windows(x), _windows(y)
    var_x, var_y = _windows(x * x) - mean_x**2, _windows(y * y) - mean_y**2
    joint = _windows(x * y) - mean_x * mean_y
    above = (2 * mean_x * mean_y + _SSIM_C1) * (2 * joint + _SSIM_C2)
    below = (mean_x**2 + mean_y**2 + _SSIM_C1) * (var_x + var_y + _SSIM_C2)
    return (above / below).mean((1, 2))


def sharpness(frames: Frames) -> NDArray[np.float32]:
    """Return the mean squared gradient of brightness of each frame [F]."""
    bright = luma(frames)
    along, down = np.diff(bright, axis=2), np.diff(bright, axis=1)
    return ((along**2).mean((1, 2)) + (down**2).mean((1, 2))) / 2.0


def contrast(frames: Frames) -> NDArray[np.float32]:
    """Return the standard deviation of brightness of each frame [F]."""
    return luma(frames).std((1, 2))


def saturation(frames: Frames) -> NDArray[np.float32]:
    """Return the mean distance between a pixel's strongest and weakest colour, 0 to 255, of each frame [F]."""
    return (frames.max(-1).astype(np.float32) - frames.min(-1)).mean((1, 2))


def _windows(picture: NDArray[np.float32]) -> NDArray[Any]:
    """Return the mean of every window [F, H - 6, W - 6]."""
    total = np.pad(picture.astype(np.float64), ((0, 0), (1, 0), (1, 0))).cumsum(1).cumsum(2)
    n = _SSIM_WINDOW
    return (total[:, n:, n:] - total[:, :-n, n:] - total[:, n:, :-n] + total[:, :-n, :-n]) / n**2
