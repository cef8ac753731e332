"""Lay one picture over another: find the shift, roll and zoom between two views of nearly the same place. Pure numpy.

Why: a player never comes back to exactly the same pose, and a pose is integrated from controls. Without laying the
pictures over each other first, a comparison measures where the player stands instead of what the memory kept.

Coarse: phase correlation (Kuglin and Hines, 1975) under a Hann window, for some rolls and zooms; the peak that gives
the highest correlation on the overlap wins. Fine: Gauss-Newton on the squared difference with gain and bias, the
forwards additive scheme of Lucas and Kanade (1981; Baker and Matthews, 2004), accepted only when the correlation rose.
Turning the camera a little is a shift, rolling it a roll, a step ahead a zoom; parallax stays unexplained.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]  # [H, W], 0 to 1
Mask = NDArray[np.bool_]  # [H, W]

WORK_WIDTH_PX = 192  # wider pictures are shrunk for the search
MAX_SHIFT_SHARE = 0.35  # of the picture's width and height
MIN_OVERLAP = 0.5
MAX_ROLL_RAD, MAX_ZOOM = 0.1, 1.25
_ROLLS_RAD = (-0.04, 0.0, 0.04)
_ZOOMS = (0.85, 0.92, 1.0, 1.08, 1.17)
_STEPS = 12
_STILL_PX = 0.02
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where a place of `then` lies in `now`: c + zoom * R(roll) * (x - c) + shift, c being the middle, in pixels."""

    dx_px: float = 0.0
    dy_px: float = 0.0
    roll_rad: float = 0.0
    zoom: float = 1.0

    def is_small(self, width_px: int, height_px: int) -> bool:
        """Whether this may come from a step and a turn, and leaves enough of both pictures to compare."""
        return (
            abs(self.dx_px) <= MAX_SHIFT_SHARE * width_px
            and abs(self.dy_px) <= MAX_SHIFT_SHARE * height_px
            and abs(self.roll_rad) <= MAX_ROLL_RAD
            and 1.0 / MAX_ZOOM <= self.zoom <= MAX_ZOOM
        )


UNMOVED = Alignment()


def luma(rgb: NDArray[np.uint8]) -> Plane:
    """[H, W] brightness from 0 to 1 of an [H, W, 3] picture."""
    return np.asarray(rgb.astype(np.float32) @ (_LUMA / np.float32(255.0)), np.float32)


def sample(picture: NDArray[np.float32], alignment: Alignment) -> tuple[NDArray[np.float32], Mask]:
    """`picture` ([H, W] or [H, W, C]) as it lies over `then`, bilinear, and where it covers it."""
    height_px, width_px = picture.shape[:2]
    middle_x, middle_y = (width_px - 1) / 2.0, (height_px - 1) / 2.0
    y, x = np.mgrid[0:height_px, 0:width_px].astype(np.float32)
    x, y = x - middle_x, y - middle_y
    cos, sin = alignment.zoom * math.cos(alignment.roll_rad), alignment.zoom * math.sin(alignment.roll_rad)
    at_x = middle_x + cos * x - sin * y + alignment.dx_px
    at_y = middle_y + sin * x + cos * y + alignment.dy_px
    mask = (at_x >= 0) & (at_x <= width_px - 1) & (at_y >= 0) & (at_y <= height_px - 1)
    left = np.clip(np.floor(at_x).astype(np.intp), 0, width_px - 2)
    top = np.clip(np.floor(at_y).astype(np.intp), 0, height_px - 2)
    share_x, share_y = np.clip(at_x - left, 0.0, 1.0), np.clip(at_y - top, 0.0, 1.0)
    if picture.ndim == 3:
        share_x, share_y = share_x[..., None], share_y[..., None]
    upper = picture[top, left] * (1 - share_x) + picture[top, left + 1] * share_x
    lower = picture[top + 1, left] * (1 - share_x) + picture[top + 1, left + 1] * share_x
    return ((upper * (1 - share_y) + lower * share_y).astype(np.float32), mask)


def correlation(then: Plane, now: Plane, mask: Mask) -> float:
    """Pearson's correlation where the mask is true; -1 where nothing can be said."""
    if mask.sum() < MIN_OVERLAP * mask.size:
        return -1.0
    a, b = then[mask] - then[mask].mean(), now[mask] - now[mask].mean()
    norm = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / norm if norm > 1e-9 else -1.0


def register(then: Plane, now: Plane) -> Alignment:
    """The alignment of `now` to `then`, both [H, W]; UNMOVED when none lays them over each other better."""
    factor = max(1, math.ceil(then.shape[1] / WORK_WIDTH_PX))
    small_then, small_now = _shrunk(then, factor), _shrunk(now, factor)
    height_px, width_px = small_then.shape

    def fit(alignment: Alignment) -> float:
        if not alignment.is_small(width_px, height_px):
            return -1.0
        return correlation(small_then, *sample(small_now, alignment))

    found = max((UNMOVED, *_coarse(small_then, small_now)), key=fit)
    found = max((found, _refined(small_then, small_now, found)), key=fit)
    return Alignment(found.dx_px * factor, found.dy_px * factor, found.roll_rad, found.zoom)


def _shrunk(plane: Plane, factor: int) -> Plane:
    """The plane in means of factor x factor pixels; edges that fill no square are left out."""
    rows, columns = plane.shape[0] // factor, plane.shape[1] // factor
    return plane[: rows * factor, : columns * factor].reshape(rows, factor, columns, factor).mean((1, 3))


def _coarse(then: Plane, now: Plane) -> list[Alignment]:
    """The best shift for each roll and zoom."""
    found: list[Alignment] = []
    for roll_rad, zoom in product(_ROLLS_RAD, _ZOOMS):
        turned, _ = sample(now, Alignment(roll_rad=roll_rad, zoom=zoom))
        x, y = _shift(then, turned)
        cos, sin = zoom * math.cos(roll_rad), zoom * math.sin(roll_rad)
        found.append(Alignment(cos * x - sin * y, sin * x + cos * y, roll_rad, zoom))
    return found


def _shift(then: Plane, now: Plane) -> tuple[float, float]:
    """(x, y) in pixels such that now(place + shift) looks like then(place)."""
    window = np.outer(np.hanning(then.shape[0]), np.hanning(then.shape[1])).astype(np.float32)
    cross = np.fft.rfft2((then - then.mean()) * window) * np.conj(np.fft.rfft2((now - now.mean()) * window))
    peaks = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-9), s=then.shape)
    row, column = np.unravel_index(int(np.argmax(peaks)), peaks.shape)
    height_px, width_px = then.shape
    y = int(row) - height_px if int(row) > height_px // 2 else int(row)
    x = int(column) - width_px if int(column) > width_px // 2 else int(column)
    return (float(-x), float(-y))


def _refined(then: Plane, now: Plane, start: Alignment) -> Alignment:
    """Gauss-Newton from `start` in (dx, dy, roll, log zoom, gain, bias)."""
    height_px, width_px = then.shape
    y, x = np.mgrid[0:height_px, 0:width_px].astype(np.float32)
    x, y = x - (width_px - 1) / 2.0, y - (height_px - 1) / 2.0
    slope_y, slope_x = np.gradient(now, axis=0), np.gradient(now, axis=1)
    at, gain, bias = start, 1.0, 0.0
    for _ in range(_STEPS):
        seen, mask = sample(now, at)
        if mask.sum() < MIN_OVERLAP * mask.size:
            return start
        gx, _ = sample(np.asarray(slope_x, np.float32), at)
        gy, _ = sample(np.asarray(slope_y, np.float32), at)
        cos, sin = at.zoom * math.cos(at.roll_rad), at.zoom * math.sin(at.roll_rad)
        ax, ay = cos * x - sin * y, sin * x + cos * y  # the place relative to the middle, rolled and zoomed
        columns = (
            gain * gx,
            gain * gy,
            gain * (gy * ax - gx * ay),
            gain * (gx * ax + gy * ay),
            seen,
            np.ones_like(seen),
        )
        slopes = np.stack([column[mask] for column in columns], axis=1).astype(np.float64)
        error = (then - (gain * seen + bias))[mask].astype(np.float64)
        step, *_ = np.linalg.lstsq(slopes, error, rcond=None)
        dx, dy, roll, log_zoom, more_gain, more_bias = (float(value) for value in step)
        at = Alignment(
            at.dx_px + dx, at.dy_px + dy, at.roll_rad + roll, at.zoom * math.exp(max(-0.2, min(0.2, log_zoom)))
        )
        gain, bias = gain + more_gain, bias + more_bias
        if not at.is_small(width_px, height_px):
            return start
        if abs(dx) + abs(dy) + (abs(roll) + abs(log_zoom)) * width_px / 2.0 < _STILL_PX:
            break
    return at
