"""The few lines that read and write safetensors files, beside the library."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.rooms.tensor_file import load_plain, save_plain


def tensors():
    torch.manual_seed(0)
    return {
        "a": torch.randn(3, 5),
        "b": torch.randn(7).bfloat16(),
        "step": torch.tensor(12.0),
        "cells": torch.arange(6, dtype=torch.int32).reshape(3, 2),
        "empty": torch.zeros(0, 4),
        "half": torch.randn(2, 2).half(),
        "bits": torch.tensor([True, False]),
    }


def same(found, given):
    assert set(found) == set(given)
    for name, tensor in given.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_what_one_writes_the_other_reads(tmp_path):
    save_plain(tensors(), tmp_path / "ours")
    same(load_file(tmp_path / "ours"), tensors())
    same(load_plain(tmp_path / "ours"), tensors())
    save_file(tensors(), tmp_path / "theirs", metadata={"facts": "{}"})
    same(load_plain(tmp_path / "theirs"), tensors())


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\x10\0\0\0\0\0\0\0{}"])
def test_what_is_no_such_file_is_refused(tmp_path, data):
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="safetensors"):
        load_plain(path)


def test_an_offset_outside_the_file_is_refused_by_the_tensors_name(tmp_path):
    path = tmp_path / "bad"
    save_plain({"a": torch.zeros(4)}, path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="tensor a"):
        load_plain(path)
