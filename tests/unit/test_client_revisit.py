"""The revisit meter: registration, scores, when a bookmark is compared, and what is exported."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from client.likeness import MAX_PSNR_DB, compare, laid_over, psnr_db, ssim
from client.picture import Picture
from client.registration import UNMOVED, Alignment, luma, register, sample
from client.revisit import MAX_BOOKMARKS, Meter, Pair, View
from client.revisit_sheet import Origin, difference, figures, heat, rank_in_words, sheet, write_sheet
from shared.pose import Pose

SIZE = (96, 64)
ORIGIN = Origin("my world/../x", 7, "rooms")


def landscape(seed: int = 1) -> Image.Image:
    """A smooth picture with structure at several scales, larger than what a camera sees of it."""
    rng = np.random.default_rng(seed)
    total = np.zeros((256, 384, 3))
    for step, weight in ((64, 0.6), (16, 0.8), (6, 0.7)):
        coarse = rng.random((256 // step + 2, 384 // step + 2, 3)) * 255
        large = Image.fromarray(coarse.astype(np.uint8)).resize((384, 256), Image.Resampling.BICUBIC)
        total += weight * np.asarray(large, float)
    return Image.fromarray((total / 2.1).astype(np.uint8))


def seen(dx: float = 0.0, dy: float = 0.0, roll: float = 0.0, zoom: float = 1.0, seed: int = 1) -> np.ndarray:
    """[64, 96, 3]: what a camera sees after a turn of (dx, dy) pixels, a roll and a step ahead."""
    turned = landscape(seed).rotate(math.degrees(roll), Image.Resampling.BICUBIC, center=(192, 128))
    width, height = 96 / zoom, 64 / zoom
    left, top = 192 + dx - width / 2, 128 + dy - height / 2
    box = (left, top, left + width, top + height)
    return np.asarray(turned.transform(SIZE, Image.Transform.EXTENT, box, Image.Resampling.BICUBIC))


@pytest.mark.parametrize(
    ("dx", "dy", "roll", "zoom"), [(0, 0, 0, 1), (5, 2, 0, 1), (-20, 4, 0, 1), (3.4, -2.7, 0.03, 1), (6, 0, 0, 1.08)]
)
def test_registration_finds_how_the_camera_moved(dx: float, dy: float, roll: float, zoom: float) -> None:
    found = register(luma(seen()), luma(seen(dx, dy, roll, zoom)))
    assert found.zoom == pytest.approx(zoom, abs=0.01)
    assert abs(found.roll_rad) == pytest.approx(abs(roll), abs=0.005)
    assert (found.dx_px, found.dy_px) == pytest.approx((-dx * zoom, -dy * zoom), abs=0.8)


def test_the_registered_score_takes_the_camera_out_and_the_raw_one_does_not() -> None:
    likeness = compare(seen(), seen(7, 2))
    assert likeness.ssim > 0.98 > likeness.raw_ssim + 0.1
    assert likeness.psnr_db > 35.0 > likeness.raw_psnr_db + 10.0
    assert 0.85 < likeness.overlap < 0.95


def test_equal_pictures_are_wholly_alike_and_another_place_is_not() -> None:
    same, other = compare(seen(), seen()), compare(seen(), seen(seed=9))
    assert (same.ssim, same.psnr_db, same.overlap) == (pytest.approx(1.0), MAX_PSNR_DB, 1.0)
    assert other.ssim < 0.5
    assert other.alignment.is_small(*SIZE)


def test_an_even_picture_is_left_where_it_is() -> None:
    flat = np.full((64, 96, 3), 90, np.uint8)
    assert register(luma(flat), luma(flat)) == UNMOVED
    assert compare(flat, flat).ssim == pytest.approx(1.0)


def test_a_shift_takes_the_pixels_along_and_says_what_it_does_not_cover() -> None:
    picture = seen()
    moved, mask = laid_over(picture, Alignment(dx_px=10.0))
    assert mask.sum() == 64 * 86
    assert np.array_equal(moved[:, :80], picture[:, 10:90])


def test_psnr_and_ssim_are_those_of_their_definitions() -> None:
    black, grey = np.zeros((32, 32, 3), np.float32), np.full((32, 32, 3), 0.1, np.float32)
    everywhere = np.ones((32, 32), np.bool_)
    assert psnr_db(black, grey, everywhere) == pytest.approx(20.0, abs=0.01)
    even = ssim(black[..., 0], grey[..., 0], everywhere)  # of constants only the first factor is left
    assert even == pytest.approx(1e-4 / (0.01 + 1e-4), rel=0.01)
    assert ssim(black[:8, :8, 0], grey[:8, :8, 0], everywhere[:8, :8]) == 0.0  # smaller than one window


def test_sampling_keeps_an_unmoved_picture_as_it_is() -> None:
    plane = luma(seen())
    same, mask = sample(plane, UNMOVED)
    assert np.allclose(same, plane)
    assert mask.all()


def view(pose: Pose, at_s: float, *, rgb: np.ndarray | None = None, chunk: int = 0) -> View:
    pixels = seen() if rgb is None else rgb
    picture = Picture(chunk * 2, 0.0, chunk, 0, pose, -1, 0.0, False, *SIZE, pixels.tobytes())
    return View(picture, at_s, recalls=True)


def settle(meter: Meter, pose: Pose, at_s: float, **more) -> Pair | None:
    """Stand there until the worker's answer is in."""
    meter.see(view(pose, at_s, **more))
    if meter._work is not None:
        meter._work.result(60.0)
        meter.see(view(pose, at_s + 0.01, **more))
    return meter.pair


def test_a_bookmark_is_compared_only_after_its_player_was_away() -> None:
    meter = Meter()
    meter.drop(view(Pose(), 0.0))
    assert settle(meter, Pose(), 1.0) is None
    assert meter.here is None
    assert settle(meter, Pose(yaw_rad=1.3), 2.0) is None  # turned away: that is away too
    pair = settle(meter, Pose(x_m=0.2), 5.0, chunk=40, rgb=seen(5, 1))
    meter.close()
    assert pair is not None
    assert meter.here is not None
    assert (pair.bookmark.name, pair.gap_chunks, pair.gap_s) == ("A", 40, 5.0)
    assert pair.likeness.ssim > 0.95


def test_a_return_is_ranked_against_other_places_of_the_walk() -> None:
    meter = Meter()
    meter.drop(view(Pose(), 0.0))
    for number in range(4):
        settle(meter, Pose(x_m=3.0 + 2.0 * number), 1.0 + number, rgb=seen(seed=20 + number))
    own = settle(meter, Pose(), 20.0, rgb=seen(3, 0))
    assert own is not None
    assert len(own.others) == 4
    assert own.is_recognised
    assert "its own place fits best" in rank_in_words(own)
    settle(meter, Pose(x_m=3.0), 30.0, rgb=seen(seed=20))
    lost = settle(meter, Pose(), 40.0, rgb=seen(seed=21))
    meter.close()
    assert lost is not None
    assert not lost.is_recognised
    assert "another place fits better" in rank_in_words(lost)


def test_the_guide_points_back_and_says_how_to_turn() -> None:
    meter = Meter()
    meter.drop(view(Pose(), 0.0))
    meter.see(view(Pose(z_m=3.0), 1.0))
    guide = meter.guide(Pose(z_m=3.0, yaw_rad=math.pi / 2))
    assert guide is not None
    assert guide.distance_m == pytest.approx(3.0)
    assert guide.bearing_rad == pytest.approx(math.pi / 2)  # it lies behind, to the right
    assert guide.turn_rad == pytest.approx(-math.pi / 2)
    meter.close()


def test_old_bookmarks_make_room_and_another_world_has_none() -> None:
    meter = Meter()
    names = [meter.drop(view(Pose(), float(number))).name for number in range(30)]
    assert names[25:28] == ["Z", "AA", "AB"]
    assert len(meter.bookmarks) == MAX_BOOKMARKS
    meter.clear()
    assert (meter.bookmarks, meter.here, meter.pair) == ([], None, None)
    meter.close()


def a_return() -> Pair:
    meter = Meter()
    meter.drop(view(Pose(), 0.0))
    settle(meter, Pose(x_m=4.0), 1.0, rgb=seen(seed=5))
    pair = settle(meter, Pose(x_m=0.1), 9.0, chunk=30, rgb=seen(6, 2))
    meter.close()
    assert pair is not None
    return pair


def test_heat_is_black_where_nothing_differs_and_blue_where_nothing_was_compared() -> None:
    picture, mask = seen(), np.ones((64, 96), np.bool_)
    mask[:, :5] = False
    shown = heat(picture, picture, mask)
    assert shown[:, 5:].max() == 0
    assert shown[0, 0, 2] > shown[0, 0, 0] > 0
    assert heat(picture, 255 - picture, np.ones_like(mask)).max() == 255


def test_an_export_is_a_png_with_three_pictures_and_a_json_with_every_figure(tmp_path: Path) -> None:
    pair = a_return()
    path = write_sheet(pair, ORIGIN, tmp_path / "new folder")
    assert path.parent == tmp_path / "new folder"
    assert path.name.count("/") == 0
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width > 3 * 480
    told = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert told == json.loads(json.dumps(figures(pair, ORIGIN)))
    assert (told["gap_chunks"], told["then"]["chunk"], told["now"]["chunk"]) == (30, 0, 30)
    assert told["registered"]["ssim"] > told["raw"]["ssim"]
    assert told["recall_at_1"] is True
    assert (told["now"]["recall_on"], len(told["other_places_ssim"])) == (True, 1)


def test_the_sheet_shows_then_now_and_their_difference() -> None:
    pair = a_return()
    image = np.asarray(sheet(pair, ORIGIN))
    assert difference(pair).shape == (64, 96, 3)
    columns = [image[100:300, left : left + 480].mean() for left in (20, 520, 1020)]
    assert columns[0] == pytest.approx(columns[1], abs=20.0)
    assert columns[2] < columns[0] / 2  # what is the same is black
