"""`--seed-image FILE`: new worlds begin with the picture of its owner."""

import numpy as np
import pytest
from PIL import Image

from server.config import load_settings
from server.load import load_model

TINY = {"model": "matrix-game-2", "model_config": "tiny", "random_weights": True}


def settings(**flags):
    return load_settings(flags, {}).settings


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "mine.png"
    pixels = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path, pixels


def frames(beginning):
    return np.stack([frame.pixels for frame in beginning.chunks[0].frames])


def test_a_new_world_begins_with_the_picture(picture):
    path, pixels = picture
    with_picture, without = load_model(settings(**TINY, seed_image=str(path))), load_model(settings(**TINY))
    assert np.array_equal(frames(with_picture.begin(5)), frames(without.begin(5, pixels)))
    assert not np.array_equal(frames(with_picture.begin(5)), frames(without.begin(5)))


@pytest.mark.parametrize("content", [b"", b"GIF89a of some kind", b"x" * (17 << 20)])
def test_what_is_no_picture_or_too_large_is_refused_with_its_name(tmp_path, content):
    path = tmp_path / "mine.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"mine\.png"):
        load_model(settings(**TINY, seed_image=str(path)))


def test_rooms_takes_no_picture_and_says_so(picture):
    with pytest.raises(ValueError, match="takes no picture"):
        load_model(settings(seed_image=str(picture[0])))
