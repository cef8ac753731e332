"""Checkpoints: a tiny random folder in the official layout goes through the path of the real one."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.matrix_game_2 import checkpoint
from models.matrix_game_2.config import load_config
from models.matrix_game_2.load import load_model
from tests.official_folder import write_official_folder

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path):
    return write_official_folder(tmp_path)


def test_a_folder_in_the_official_layout_loads_and_walks(folder):
    model = load_model("tiny", folder, device=CPU)
    assert not model.is_random
    frames = model.begin(5).chunks[0].frames
    assert len(frames) == 9
    stored = load_file(checkpoint.files_of(folder, "universal").network)
    loaded = model.parts.network.state_dict()
    assert all(torch.equal(loaded[name.removeprefix("model.")], tensor) for name, tensor in stored.items())


def test_the_folders_own_config_describes_the_network(folder):
    raw_path = checkpoint.files_of(folder, "universal").network_config
    raw_path.write_text(json.dumps({**json.loads(raw_path.read_text()), "local_attn_size": 9}))
    assert load_model("tiny", folder, device=CPU).config.network.local_attn_size == 9


def test_the_fingerprint_follows_the_weights(folder):
    first = load_model("tiny", folder, device=CPU).fingerprint
    assert load_model("tiny", folder, device=CPU).fingerprint == first
    path = checkpoint.files_of(folder, "universal").network
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    tensors["model.head.head.weight"][0, 0] += 1
    save_file(tensors, path)
    assert load_model("tiny", folder, device=CPU).fingerprint != first


@pytest.mark.parametrize("which", ["network_config", "network", "vae", "clip"])
def test_a_missing_file_is_named_with_the_line_that_fetches_it(folder, which):
    path = getattr(checkpoint.files_of(folder, "universal"), which)
    path.unlink()
    with pytest.raises(checkpoint.WeightsError) as raised:
        load_model("tiny", folder, device=CPU)
    assert str(path.relative_to(folder)) in str(raised.value)
    assert "hf download Skywork/Matrix-Game-2.0" in str(raised.value)
    assert f"--local-dir {folder}" in str(raised.value)


@pytest.mark.parametrize("which", ["network", "vae", "clip"])
def test_a_file_that_was_cut_short_is_refused_before_anything_is_loaded(folder, which):
    path = getattr(checkpoint.files_of(folder, "universal"), which)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(checkpoint.WeightsError, match=path.name):
        checkpoint.check(folder, load_config("tiny"))


def test_a_network_of_other_shapes_is_refused_and_the_key_is_named(folder):
    path = checkpoint.files_of(folder, "universal").network
    tensors = dict(load_file(path))
    tensors["model.head.head.bias"] = torch.zeros(3)
    save_file(tensors, path)
    with pytest.raises(checkpoint.WeightsError, match=r"head.head.bias is \(3,\), not \(64,\)"):
        checkpoint.check(folder, load_config("tiny"))


def test_missing_and_unknown_keys_are_named(folder):
    path = checkpoint.files_of(folder, "universal").network
    tensors = dict(load_file(path))
    tensors["model.head.extra"] = tensors.pop("model.head.head.bias")
    save_file(tensors, path)
    with pytest.raises(checkpoint.WeightsError, match=r"head.head.bias is missing; head.extra is not part"):
        checkpoint.check(folder, load_config("tiny"))


def test_a_pickle_that_runs_code_is_refused(folder):
    import pickle

    path = checkpoint.files_of(folder, "universal").vae
    path.write_bytes(pickle.dumps(print))
    with pytest.raises(checkpoint.WeightsError, match="cannot be read"):
        checkpoint.check(folder, load_config("tiny"))


def test_no_weights_and_no_switch_is_an_explained_error():
    with pytest.raises(checkpoint.WeightsError, match="hf download"):
        load_model("universal", device=CPU)


@pytest.mark.parametrize("kind", ["universal", "gta_drive", "templerun"])
def test_the_published_sizes_of_every_variant_are_known(kind, tmp_path):
    files = checkpoint.files_of(tmp_path, kind)
    assert all(path.name in checkpoint.PUBLISHED_BYTES for path in (files.network, files.vae, files.clip))
