"""`python -m bench pictures`: the pictures of the README that are measurements. Makes files; measures nothing new.

The forgetting curve is drawn from a report of `bench revisit`; the strip is drawn here: a first visit, the return with
recall, and the return without, in one invented world.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from bench.revisit_metrics import Frames, psnr
from bench.revisit_returns import come_back, invented_visit
from models.rooms.model import RoomsModel

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
CURVE, STRIP = "forgetting.png", "return.png"
_STRIP_SEED, _STRIP_CHUNKS = 900_009, 48
_COLUMNS = 6
_ENLARGED = 3
_MARGIN_PX, _LABEL_PX = 6, 22
_LINES = {  # key of a row of by_gap: colour, words
    "paged": ("#1f7a3d", "with recall"),
    "window": ("#b3402a", "attention window alone"),
    "none": ("#777777", "no memory at all"),
}


def curve(report: dict[str, Any], path: Path) -> None:
    """Plot how like itself a place is when it is seen again, over how long ago it was seen.

    Raises ValueError when the report has too few gaps for a curve.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and only plots need it

    rows = report.get("by_gap", [])
    if len(rows) < 4:
        raise ValueError("a curve needs gaps: run `python -m bench revisit --gaps 0,1,2,3,4,6,8,12,16,24,32,48 --json`")
    figure = Figure(figsize=(7.2, 3.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    for name, (colour, words) in _LINES.items():
        for part, style in (("given", "-"), ("invented", "--")):
            points = _points(rows, name, part)
            if points:
                label = f"{words}, {'true' if part == 'given' else 'invented'} world"
                axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=3, label=label)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xticks([row["gap_chunks"] for row in rows], [str(row["gap_chunks"]) for row in rows])
    axes.set_xlabel("chunks since the place was last seen")
    axes.set_ylabel("PSNR of the return, dB")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="lower left")
    figure.savefig(path)


def _points(rows: Sequence[dict[str, Any]], name: str, part: str) -> list[tuple[int, float]]:
    """Return (gap, PSNR) of one line; `given` stands in the row itself where both parts were measured."""
    values = [(row["gap_chunks"], row.get(name) if part == "given" else row.get(part, {}).get(name)) for row in rows]
    return [(gap, value) for gap, value in values if value is not None]


def strip(model: RoomsModel, seed: int, num_chunks: int) -> Image.Image:
    """Draw a world, come back with recall and without; return places of the walk below one another."""
    visit, _, _ = invented_visit(model, seed, "out-and-back", num_chunks)
    back = visit.path[::-1]
    rows: list[tuple[str, Frames]] = [("first visit", visit.frames)]
    for words, kind in (("return with recall", "paged"), ("return without", "window")):
        frames = come_back(model, visit.state, back, visit.memory.copy(), kind, is_writing=True)[::-1]
        likeness = float(psnr(frames, visit.frames)[: -4 * model.frames_per_chunk].mean())
        rows.append((f"{words}: {likeness:.1f} dB", frames))
    chosen = np.linspace(4, len(visit.frames) * 0.85, _COLUMNS).astype(np.int64)[::-1]
    return sheet([(words, frames[chosen]) for words, frames in rows])


def sheet(rows: Sequence[tuple[str, Frames]]) -> Image.Image:
    """Return rows of frames [F, H, W, 3], enlarged, each below its words."""
    count, height, width, _ = rows[0][1].shape
    wide, tall = width * _ENLARGED, height * _ENLARGED
    size = (_MARGIN_PX + count * (wide + _MARGIN_PX), len(rows) * (_LABEL_PX + tall + _MARGIN_PX))
    picture = Image.new("RGB", size, "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    for number, (words, frames) in enumerate(rows):
        top = number * (_LABEL_PX + tall + _MARGIN_PX)
        pen.text((_MARGIN_PX, top + 2), words, fill="black", font=font)
        for column, frame in enumerate(frames):
            enlarged = Image.fromarray(frame).resize((wide, tall), Image.Resampling.BICUBIC)
            picture.paste(enlarged, (_MARGIN_PX + column * (wide + _MARGIN_PX), top + _LABEL_PX))
    return picture


def main(argv: Sequence[str]) -> int:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench pictures", description=__doc__)
    parser.add_argument("--report", type=Path, help="of bench revisit, with many --gaps: makes the forgetting curve")
    parser.add_argument("--strip", action="store_true", help="make the strip")
    parser.add_argument("--seed", type=int, default=_STRIP_SEED)
    parser.add_argument("--chunks", type=int, default=_STRIP_CHUNKS, help="of the strip's first visit")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args(argv)
    if options.report is None and not options.strip:
        parser.error("nothing is asked for: --report FILE, --strip, or both")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report is not None:
        try:
            curve(json.loads(options.report.read_text("utf-8")), options.out / CURVE)
        except (OSError, ValueError) as error:
            print(f"no curve was made: {error}", file=sys.stderr)
            return 1
        print(options.out / CURVE)
    if options.strip:
        torch.set_grad_enabled(False)
        strip(RoomsModel(), options.seed, options.chunks).save(options.out / STRIP)
        print(options.out / STRIP)
    return 0
