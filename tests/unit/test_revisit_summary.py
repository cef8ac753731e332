"""From rows to the report: a made-up world whose figures are known."""

import numpy as np
import pytest

from bench.revisit import asked_of, parser
from bench.revisit_long import by_quarter
from bench.revisit_rows import Asked, Rows
from bench.revisit_summary import codec_difference, summary

GAPS = [4, 16]


def back(part, kind, psnr, *, noise=0, codec="int4", frames=64):
    gap = np.arange(frames).tolist()
    return {
        "part": part,
        "kind": kind,
        "route": "out-and-back",
        "codec": codec,
        "noise": noise,
        "psnr": [60.0 if when < 4 else psnr - 0.1 * (when >= 16) for when in gap],
        "ssim": [0.5] * frames,
        "gap_chunks": gap,
        "sharpness_ratio": 0.9,
        "finds_itself": [None] * 8 + [1.0] * (frames - 8) if kind == "paged" else [0.0] * frames,
    }


def row(seed, paged=30.0, window=16.0):
    return {
        "seed": seed,
        "returns": [
            back("given", "paged", paged),
            back("given", "window", window),
            back("given", "poisoned", 18.0),
            back("invented", "paged", paged - 2),
            back("invented", "window", window + 2),
        ],
        "novelty": [
            {
                "sharpness": [0.01, 0.03],
                "true_sharpness": [0.04, 0.04],
                "depth_errors": [0.01, 0.02, 0.9],
                "true_depth_errors": [0.0],
                "invented_looks_invented": [0.9, 0.8, 0.7, 0.1],
                "render_looks_invented": [0.2, 0.9],
            }
        ],
        "diversity_psnr": 15.0 + seed,
        "diversity_psnr_of_renderer": 20.0 + seed,
    }


def test_every_key_of_the_contract_is_there_with_its_known_value():
    report = summary([row(0), row(1, paged=32.0)], GAPS)
    assert report["given"]["paged"]["psnr"] == pytest.approx(31.0 - 0.1 * 48 / 60)
    assert report["poisoned_psnr"] == report["given"]["poisoned"]["psnr"]
    assert report["invented"]["sharpness_ratio"] == pytest.approx(0.5)
    assert report["geometry_rel_error"] == pytest.approx(0.02)
    assert report["classifier_accuracy"] == pytest.approx((0.75 + 0.5) / 2)
    assert report["diversity_psnr"] == pytest.approx(15.5)
    assert report["diversity_psnr_of_renderer"] == pytest.approx(20.5)
    assert report["recall_at_1"]["paged"] == 1.0
    assert report["recall_at_1"]["window"] == 0.0
    assert report["gain_psnr"]["mean"] == pytest.approx(15.0)
    assert report["gain_psnr"]["low"] < 15.0 < report["gain_psnr"]["high"]
    assert report["gain_psnr"]["invented"]["mean"] == pytest.approx(11.0)
    assert [line["gap_chunks"] for line in report["by_gap"]] == GAPS
    assert report["by_gap"][0]["paged"] == pytest.approx(31.0)
    assert report["by_gap"][1]["paged"] == pytest.approx(30.9)
    assert report["by_gap"][1]["invented"]["window"] == pytest.approx(17.9)


def test_walks_that_invented_nothing_have_no_figures_of_it():
    seen = row(0)
    for name in ("sharpness", "invented_looks_invented"):
        seen["novelty"][0][name] = []
    report = summary([seen], GAPS)
    assert report["classifier_accuracy"] is None
    assert report["invented"]["sharpness_ratio"] is None
    assert report["invented"]["invented_frames"] == 0


def test_a_gap_that_no_frame_has_is_no_figure():
    assert summary([row(0)], [4, 500])["by_gap"][1]["paged"] is None


def test_codecs_are_compared_pair_by_pair():
    rows = [
        {
            "returns": [
                back("given", "paged", 30.0 + scene - 0.2 * (codec == "int4"), noise=noise, codec=codec)
                for codec in ("int4", "bf16")
                for noise in (1, 2, 3)
            ]
        }
        for scene in range(4)
    ]
    found = codec_difference(rows, ["int4", "bf16"])
    assert found["pairs"] == 12
    assert found["psnr_diff"] == pytest.approx({"mean": -0.2, "low": -0.2, "high": -0.2}, abs=1e-6)
    assert found["long_gaps"]["psnr_diff"]["mean"] == pytest.approx(-0.2, abs=1e-6)
    assert found["ssim_diff"]["mean"] == 0.0
    assert found["musiq"] == "not measured"


def test_quarters_are_over_the_whole_true_walk():
    walked = {"sharpness": [0.1] * 4 + [0.2] * 4 + [0.3] * 4 + [0.4] * 4, "true_sharpness": [0.2] * 16}
    assert by_quarter([walked, walked])["sharpness_by_quarter"] == pytest.approx([0.5, 1.0, 1.5, 2.0])


class _Model:
    fingerprint = "weights"
    dtype = "bf16"


def test_a_kept_row_is_found_again_but_not_when_something_else_is_asked(tmp_path):
    rows = Rows(tmp_path, _Model(), Asked(), None)
    assert rows.find(3) is None
    rows.keep({"seed": 3, "returns": []})
    assert Rows(tmp_path, _Model(), Asked(), None).find(3) == {"seed": 3, "returns": []}
    assert Rows(tmp_path, _Model(), Asked(num_chunks=8), None).find(3) is None
    assert Rows(None, _Model(), Asked(), None).find(3) is None


def test_flags_become_what_is_asked_and_a_wrong_one_is_named():
    asked = asked_of(parser().parse_args(["--codec", "bf16,int4", "--memory", "paged,window,none"]))
    assert asked.codecs == ("int4", "bf16")
    assert "codec" in asked.parts
    assert asked.memory == ("paged", "window", "none")
    for flag, value in (("--codec", "int8"), ("--memory", "all"), ("--parts", "everything")):
        with pytest.raises(ValueError, match=flag):
            asked_of(parser().parse_args([flag, value]))
