"""How alike two pictures are, as they are and laid over each other. Pure numpy; any thread.

PSNR = 10 log10(1 / MSE) over all three channels, 1 being the largest value. SSIM is that of Wang, Bovik, Sheikh and
Simoncelli (2004) on the brightness: an 11 x 11 Gaussian window of sigma 1.5, K1 = 0.01, K2 = 0.03, the mean over the
windows that lie wholly inside. *Raw* compares pixel by pixel and mixes where the player stands with what the memory
kept; *registered* compares the overlap after `registration.register`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from client.registration import Alignment, Mask, Plane, luma, register, sample

Rgb = NDArray[np.uint8]  # [H, W, 3]

MAX_PSNR_DB = 99.0  # of equal pictures
_SIGMA_PX, _REACH_PX = 1.5, 5
_BELL = np.exp(-0.5 * (np.arange(-_REACH_PX, _REACH_PX + 1) / _SIGMA_PX) ** 2)
_TAPS: list[float] = (_BELL / _BELL.sum()).tolist()
_C1, _C2 = 0.01**2, 0.03**2


@dataclass(frozen=True, slots=True)
class Likeness:
    """Two pictures compared. SSIM of equal ones is 1, PSNR is in decibels; `overlap` is the share that was compared."""

    raw_psnr_db: float
    raw_ssim: float
    psnr_db: float
    ssim: float
    overlap: float
    alignment: Alignment


def compare(then: Rgb, now: Rgb) -> Likeness:
    """How alike `now` is to `then`, raw and registered. Takes milliseconds: not on the thread that draws."""
    then_luma, now_luma = luma(then), luma(now)
    alignment = register(then_luma, now_luma)
    moved, mask = sample(_unit(now), alignment)
    moved_luma, _ = sample(now_luma, alignment)
    everything = np.ones_like(mask)
    return Likeness(
        raw_psnr_db=psnr_db(_unit(then), _unit(now), everything),
        raw_ssim=ssim(then_luma, now_luma, everything),
        psnr_db=psnr_db(_unit(then), moved, mask),
        ssim=ssim(then_luma, moved_luma, mask),
        overlap=float(mask.mean()),
        alignment=alignment,
    )


def laid_over(now: Rgb, alignment: Alignment) -> tuple[Rgb, Mask]:
    """`now` as it lies over `then`, and where it covers it."""
    moved, mask = sample(_unit(now), alignment)
    return ((moved * 255.0 + 0.5).astype(np.uint8), mask)


def psnr_db(a: NDArray[np.float32], b: NDArray[np.float32], mask: Mask) -> float:
    """PSNR of two [H, W, C] pictures from 0 to 1 where the mask is true."""
    error = float(np.square(a[mask].astype(np.float64) - b[mask]).mean()) if mask.any() else 1.0
    return min(MAX_PSNR_DB, float(-10.0 * np.log10(max(error, 1e-12))))


def ssim(a: Plane, b: Plane, mask: Mask) -> float:
    """SSIM of two [H, W] planes, over the windows that lie in the mask; 0 when there is none."""
    if min(a.shape) < len(_TAPS):
        return 0.0
    mean_a, mean_b = _blurred(a), _blurred(b)
    var_a, var_b = _blurred(a * a) - mean_a**2, _blurred(b * b) - mean_b**2
    covariance = _blurred(a * b) - mean_a * mean_b
    likeness = ((2 * mean_a * mean_b + _C1) * (2 * covariance + _C2)) / (
        (mean_a**2 + mean_b**2 + _C1) * (var_a + var_b + _C2)
    )
    is_inside = _blurred(mask.astype(np.float32)) > 0.999
    return float(likeness[is_inside].mean()) if is_inside.any() else 0.0


def _unit(rgb: Rgb) -> NDArray[np.float32]:
    return rgb.astype(np.float32) / np.float32(255.0)


def _blurred(plane: Plane) -> Plane:
    """The plane under the Gaussian window, without its edges: [H - 10, W - 10]."""
    height_px, width_px = plane.shape[0] - 2 * _REACH_PX, plane.shape[1] - 2 * _REACH_PX
    across = np.zeros((plane.shape[0], width_px), np.float32)
    for at, tap in enumerate(_TAPS):
        across += np.float32(tap) * plane[:, at : at + width_px]
    blurred = np.zeros((height_px, width_px), np.float32)
    for at, tap in enumerate(_TAPS):
        blurred += np.float32(tap) * across[at : at + height_px]
    return blurred
