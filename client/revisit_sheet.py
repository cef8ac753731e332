"""A return to a bookmark as files: a PNG with then, now and their difference, and a JSON with every figure.

Needs no pygame. `write_sheet` blocks on the disk: call it on a worker.
"""

import json
import re
import time
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from client.likeness import Likeness, Rgb, laid_over
from client.revisit import Pair, View
from shared.pose import distance_m, wrap_rad

HEAT_GAIN = 4.0  # a difference of a quarter of the range is white
FORMULA = (
    "psnr_db = 10 log10(1 / MSE) over RGB from 0 to 1; ssim of Wang et al. 2004 on BT.601 brightness, Gaussian 11x11, "
    "sigma 1.5; registered: on the overlap after shift, roll and zoom (phase correlation, then Gauss-Newton); "
    "recall_at_1: ssim registered against its own place is above that against each of the other places"
)
_WIDTH_PX = 480  # of each picture in the sheet
_PAD_PX, _HEAD_PX, _LINE_PX = 20, 44, 22
_GROUND, _INK, _DIM = (12, 16, 22), (232, 238, 244), (146, 158, 171)
_FONT = Path(__file__).parent / "assets" / "DejaVuSansMono.ttf"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a walk took place."""

    world: str
    seed: int
    model: str


def heat(then: Rgb, now: Rgb, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> Rgb:
    """[H, W, 3]: how far the pictures differ, HEAT_GAIN times, from black over red and yellow to white.

    What the mask leaves out is dark blue: nothing was compared there.
    """
    error = np.abs(then.astype(np.float32) - now).mean(axis=-1) * (HEAT_GAIN / 255.0)
    hot = np.stack([np.clip(3.0 * error - channel, 0.0, 1.0) for channel in range(3)], axis=-1)
    hot[~mask] = (0.07, 0.1, 0.17)
    return (hot * 255.0).astype(np.uint8)


def difference(pair: Pair) -> Rgb:
    """[H, W, 3]: the heat between then and now laid over each other."""
    then = pair.bookmark.view.rgb
    now, mask = laid_over(pair.now.rgb, pair.likeness.alignment)
    return heat(then, now, mask)


def figures(pair: Pair, origin: Origin) -> dict[str, Any]:
    """The JSON object of a return: every key carries its unit."""
    likeness, then, now = pair.likeness, pair.bookmark.view, pair.now
    here, there = now.picture.pose, then.picture.pose
    return {
        **asdict(origin),
        "bookmark": pair.bookmark.name,
        "then": _of_view(then),
        "now": _of_view(now),
        "gap_chunks": pair.gap_chunks,
        "gap_s": round(pair.gap_s, 2),
        "apart_m": round(distance_m(here, there), 4),
        "turned_rad": round(wrap_rad(here.yaw_rad - there.yaw_rad), 4),
        "raw": {"psnr_db": round(likeness.raw_psnr_db, 3), "ssim": round(likeness.raw_ssim, 5)},
        "registered": {
            "psnr_db": round(likeness.psnr_db, 3),
            "ssim": round(likeness.ssim, 5),
            "overlap_share": round(likeness.overlap, 4),
            **{name: round(value, 5) for name, value in asdict(likeness.alignment).items()},
        },
        "other_places_ssim": [round(other, 5) for other in pair.others],
        "recall_at_1": pair.is_recognised if pair.others else None,
        "formula": FORMULA,
    }


def _of_view(view: View) -> dict[str, Any]:
    picture = view.picture
    return {
        "frame_id": picture.frame_id,
        "chunk": picture.chunk,
        "index": picture.index,
        "pose": [round(value, 5) for value in picture.pose.as_tuple()],
        "seeded": picture.seeded,
        "recall_on": view.recalls,
    }


def sheet(pair: Pair, origin: Origin) -> Image.Image:
    """Then, now and the difference beside each other, with the score below."""
    likeness = pair.likeness
    height_px = round(_WIDTH_PX * pair.now.picture.height_px / pair.now.picture.width_px)
    lines = (
        score_in_words(likeness),
        f"{pair.gap_chunks} chunks and {pair.gap_s:.0f} s between the two   ·   {rank_in_words(pair)}",
        f"{origin.world}   ·   seed {origin.seed}   ·   {origin.model}",
    )
    size = (3 * _WIDTH_PX + 4 * _PAD_PX, _HEAD_PX + height_px + _LINE_PX * len(lines) + 2 * _PAD_PX)
    image = Image.new("RGB", size, _GROUND)
    pen = ImageDraw.Draw(image)
    titles = (
        f"THEN · bookmark {pair.bookmark.name}",
        f"NOW · {recall_in_words(pair.now)}",
        f"DIFFERENCE x{HEAT_GAIN:g}",
    )
    for index, (title, rgb) in enumerate(
        zip(titles, (pair.bookmark.view.rgb, pair.now.rgb, difference(pair)), strict=True)
    ):
        left_px = _PAD_PX + index * (_WIDTH_PX + _PAD_PX)
        pen.text((left_px, 14), title, _INK, ImageFont.truetype(str(_FONT), 16))
        smooth = Image.Resampling.LANCZOS
        image.paste(Image.fromarray(rgb).resize((_WIDTH_PX, height_px), smooth), (left_px, _HEAD_PX))
    for index, line in enumerate(lines):
        at = (_PAD_PX, _HEAD_PX + height_px + _PAD_PX // 2 + 4 + index * _LINE_PX)
        pen.text(at, line, _INK if index == 0 else _DIM, ImageFont.truetype(str(_FONT), 14))
    return image


def score_in_words(likeness: Likeness) -> str:
    """Both scores in a line."""
    registered = f"SSIM {likeness.ssim:.3f}, PSNR {likeness.psnr_db:.1f} dB on {likeness.overlap:.0%} of the picture"
    return f"registered: {registered}   ·   raw: SSIM {likeness.raw_ssim:.3f}, PSNR {likeness.raw_psnr_db:.1f} dB"


def recall_in_words(view: View) -> str:
    """Whether a view was drawn with the memory."""
    return "with recall" if view.recalls else "without recall"


def rank_in_words(pair: Pair) -> str:
    """What Recall@1 says of this return."""
    if not pair.others:
        return "no other place to compare with yet"
    best = max(pair.others)
    verdict = "its own place fits best" if pair.is_recognised else "another place fits better"
    whose = "the other place" if len(pair.others) == 1 else f"the best of {len(pair.others)} other places"
    return f"{verdict}: {whose} has SSIM {best:.2f}"


def write_sheet(pair: Pair, origin: Origin, folder: Path) -> Path:
    """Write both files and return the PNG's path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    label = re.sub(r"[^\w\-]+", "-", origin.world, flags=re.ASCII).strip("-") or "world"
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{label[:24]}-{pair.bookmark.name}"
    png = BytesIO()
    sheet(pair, origin).save(png, "PNG")
    (folder / f"{stem}.json").write_text(json.dumps(figures(pair, origin), indent=2) + "\n", "utf-8")
    path = folder / f"{stem}.png"
    path.write_bytes(png.getvalue())
    return path
