"""The README's measured pictures, from made-up reports and frames."""

import json

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from PIL import Image

from bench.pictures import CURVE, main, sheet


def test_a_curve_is_drawn_from_a_report_with_many_gaps(tmp_path):
    rows = [
        {"gap_chunks": gap, "paged": 31.0, "window": 30.0 - gap / 3, "invented": {"paged": 30.0, "window": None}}
        for gap in (0, 1, 2, 4, 8, 16, 32)
    ]
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"by_gap": rows}))
    assert main(["--report", str(report), "--out", str(tmp_path)]) == 0
    with Image.open(tmp_path / CURVE) as picture:
        assert picture.size[0] > 600


def test_a_report_without_gaps_makes_no_curve_and_says_what_to_run(tmp_path, capsys):
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"by_gap": []}))
    assert main(["--report", str(report), "--out", str(tmp_path)]) == 1
    assert "--gaps" in capsys.readouterr().err
    assert not (tmp_path / CURVE).exists()


def test_a_sheet_shows_every_frame_of_every_row_enlarged():
    colours = [np.full((2, 64, 96, 3), value, np.uint8) for value in (10, 120, 240)]
    picture = np.asarray(sheet([("a", colours[0]), ("b", colours[1]), ("c", colours[2])]))
    assert picture.shape[1] >= 2 * 3 * 96
    for value in (10, 120, 240):
        assert (picture == value).all(-1).sum() >= 2 * (3 * 64) * (3 * 96)
