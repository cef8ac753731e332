"""From the rows of many worlds to the keys of the report. Pure; any thread."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.bootstrap import interval

Row = dict[str, Any]
Found = dict[str, Any]  # one return

LEAST_GAP_CHUNKS = 4  # a place that was seen later than this may still be in the window: it proves nothing
LONG_GAP_CHUNKS = 16


def summary(rows: Sequence[Row], gaps: Sequence[int]) -> dict[str, Any]:
    """Return the report's keys for what these rows hold; what was not measured has no key."""
    returns = [found for row in rows for found in row["returns"] if found["noise"] == 0]
    report: dict[str, Any] = {}
    parts = [part for part in ("given", "invented") if any(found["part"] == part for found in returns)]
    for part in parts:
        kinds = list(dict.fromkeys(found["kind"] for found in returns if found["part"] == part))
        report[part] = {kind: _likeness(_of(returns, part, kind)) for kind in kinds}
    if "given" in parts:
        report["poisoned_psnr"] = report["given"]["poisoned"]["psnr"]
    novelties = [novelty for row in rows for novelty in row.get("novelty", [])]
    if novelties:
        report["invented"] |= _detail(novelties)
        report |= _depth(novelties) | _opinions(novelties)
    turned = [found for row in rows for found in row.get("turned", []) if found["psnr"]]
    if turned:
        report["turned"] = {name: float(_all(turned, name).mean()) for name in ("psnr", "wrong")}
    if rows and "diversity_psnr" in rows[0]:
        for name in ("diversity_psnr", "diversity_psnr_of_renderer"):
            report[name] = float(np.mean([row[name] for row in rows]))
    report |= _gains(rows, parts)
    report |= _recalls(returns, parts)
    if parts:
        report["by_gap"] = [_row_of_gap(returns, parts, gap, gaps) for gap in gaps]
    return report


def codec_difference(rows: Sequence[Row], codecs: Sequence[str]) -> dict[str, Any]:
    """Return int4 minus bf16 with intervals, of returns that differ in nothing else; pairs are independent draws."""
    returns = [found for row in rows for found in row["returns"] if found["noise"] > 0]
    by_codec = {codec: [found for found in returns if found["codec"] == codec] for codec in codecs}
    pairs = list(zip(by_codec["int4"], by_codec["bf16"], strict=True))

    def difference(value: Callable[[Found], float]) -> dict[str, float]:
        return interval([value(small) - value(full) for small, full in pairs])

    return {
        "psnr_diff": difference(lambda found: _mean(found, "psnr", LEAST_GAP_CHUNKS)),
        "ssim_diff": difference(lambda found: _mean(found, "ssim", LEAST_GAP_CHUNKS)),
        "sharpness_diff": difference(lambda found: found["sharpness_ratio"]),
        "long_gaps": {
            "gap_chunks": LONG_GAP_CHUNKS,
            "psnr_diff": difference(lambda found: _mean(found, "psnr", LONG_GAP_CHUNKS)),
            "ssim_diff": difference(lambda found: _mean(found, "ssim", LONG_GAP_CHUNKS)),
        },
        "pairs": len(pairs),
        "musiq": "not measured",
    }


def _of(returns: Iterable[Found], part: str, kind: str) -> list[Found]:
    return [found for found in returns if found["part"] == part and found["kind"] == kind]


def _mean(found: Found, name: str, least_gap: int) -> float:
    """Return the mean over the frames of a return whose place was last seen at least so many chunks ago."""
    return float(np.array(found[name])[np.array(found["gap_chunks"]) >= least_gap].mean())


def _likeness(returns: Sequence[Found]) -> dict[str, float]:
    figures = {
        name: float(np.mean([_mean(found, name, LEAST_GAP_CHUNKS) for found in returns])) for name in ("psnr", "ssim")
    }
    return figures | {"sharpness_ratio": float(np.mean([found["sharpness_ratio"] for found in returns]))}


def _detail(novelties: Sequence[Found]) -> dict[str, Any]:
    drawn, true = _all(novelties, "sharpness"), _all(novelties, "true_sharpness")
    ratio = float(drawn.mean() / true.mean()) if len(drawn) and len(true) else None
    return {"sharpness_ratio": ratio, "invented_frames": len(drawn)}


def _depth(novelties: Sequence[Found]) -> dict[str, float]:
    return {
        "geometry_rel_error": float(np.median(_all(novelties, "depth_errors"))),
        "geometry_rel_error_of_renderer": float(np.median(_all(novelties, "true_depth_errors"))),
    }


def _opinions(novelties: Sequence[Found]) -> dict[str, Any]:
    """Return how often the judge is right, invented frames and renders counting alike; None where it saw none."""
    if "invented_looks_invented" not in novelties[0]:
        return {}
    invented, rendered = (_all(novelties, f"{kind}_looks_invented") for kind in ("invented", "render"))
    if not len(invented) or not len(rendered):
        return {"classifier_accuracy": None, "classifier": None}
    caught, cleared = float((invented > 0.5).mean()), float((rendered <= 0.5).mean())
    return {
        "classifier_accuracy": (caught + cleared) / 2.0,
        "classifier": {"invented_called_invented": caught, "renders_called_renders": cleared},
    }


def _gains(rows: Sequence[Row], parts: Sequence[str]) -> dict[str, Any]:
    """Return recall minus window in dB with its interval over worlds: `given` in front, `invented` inside."""
    found = {part: [gain for row in rows if (gain := _gain(row, part)) is not None] for part in parts}
    intervals = {part: interval(gains) for part, gains in found.items() if gains}
    if not intervals:
        return {}
    first = "given" if "given" in intervals else "invented"
    return {"gain_psnr": intervals[first] | {part: values for part, values in intervals.items() if part != first}}


def _gain(row: Row, part: str) -> float | None:
    returns = [found for found in row["returns"] if found["noise"] == 0]
    kinds = [_of(returns, part, kind) for kind in ("paged", "window")]
    if not all(kinds):
        return None
    paged, window = (_likeness(kind)["psnr"] for kind in kinds)
    return paged - window


def _recalls(returns: Sequence[Found], parts: Sequence[str]) -> dict[str, Any]:
    """Return Recall@1 of each kind: of `invented` in front where it was measured, of `given` inside."""
    if not parts:
        return {}
    by_part: dict[str, dict[str, float | None]] = {}
    for part in parts:
        kinds = list(dict.fromkeys(found["kind"] for found in returns if found["part"] == part))
        by_part[part] = {kind: _recall_at_1(_of(returns, part, kind)) for kind in kinds}
    first = parts[-1]
    return {"recall_at_1": by_part[first] | {part: by_part[part] for part in parts if part != first}}


def _recall_at_1(returns: Sequence[Found]) -> float | None:
    hits = [
        hit
        for found in returns
        for hit, gap in zip(found["finds_itself"], found["gap_chunks"], strict=True)
        if hit is not None and gap >= LEAST_GAP_CHUNKS
    ]
    return float(np.mean(hits)) if hits else None


def _row_of_gap(returns: Sequence[Found], parts: Sequence[str], gap: int, gaps: Sequence[int]) -> dict[str, Any]:
    """Return mean PSNR by kind of frames whose place was last seen between this gap and the next one."""
    row: dict[str, Any] = {"gap_chunks": gap}
    for part in parts:
        kinds = dict.fromkeys(found["kind"] for found in returns if found["part"] == part)
        at_gap = {kind: _psnr_at_gap(_of(returns, part, kind), gap, gaps) for kind in kinds}
        row |= at_gap if part == parts[0] else {part: at_gap}
    return row


def _psnr_at_gap(returns: Sequence[Found], gap: int, gaps: Sequence[int]) -> float | None:
    above = min((other for other in gaps if other > gap), default=10**9)
    values = [
        value
        for found in returns
        for value, when in zip(found["psnr"], found["gap_chunks"], strict=True)
        if gap <= when < above
    ]
    return float(np.mean(values)) if values else None


def _all(novelties: Sequence[Found], name: str) -> NDArray[np.float64]:
    return np.concatenate([np.array(novelty[name], np.float64) for novelty in novelties])
