"""The bytes of the int4 codec, for good: blocks on people's disks are decoded by them.

`python tests/golden/test_int4.py` writes the golden file anew, which is right only together with a new CODEC name.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from server.pager.codec import decode_fast, decode_rows, encode_fast, encode_rows
from server.pager.header import CODEC

GOLDEN = Path(__file__).with_name("int4.npz")
GROUPS = (16, 32, 64, 128)


def inputs(group):
    """[24, 3 * group] bfloat16: channel outliers, and the rows that break codecs."""
    numbers = torch.Generator().manual_seed(group)
    width = 3 * group
    rows = torch.randn(24, width, generator=numbers) * torch.exp(0.8 * torch.randn(width, generator=numbers))
    rows[0] = 0.0
    rows[1] = -0.0
    rows[2] = 7.0
    rows[3] *= 1e3
    rows[4] *= 1e5  # beyond fp16
    rows[5] *= 1e-7  # below its normal numbers
    rows[6] *= 1e-40
    rows[7, 5] = 3e3  # one outlier
    return rows.bfloat16()


def words(tensor):
    return tensor.view(torch.uint16).numpy()


def make_golden():
    arrays = {"codec": np.array(CODEC)}
    for group in GROUPS:
        rows = inputs(group)
        codes, scales = encode_rows(rows, group)
        arrays |= {f"rows{group}": words(rows), f"codes{group}": codes.numpy(), f"scales{group}": words(scales)}
        arrays[f"bfloat{group}"] = words(decode_rows(codes, scales, group, torch.bfloat16))
        arrays[f"float{group}"] = decode_rows(codes, scales, group, torch.float32).numpy()
    np.savez_compressed(GOLDEN, **arrays)


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as arrays:
        return dict(arrays)


def test_the_golden_bytes_are_of_this_codec(golden):
    assert str(golden["codec"]) == CODEC


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("way", ["reference", "fast"])
def test_encoding_gives_the_golden_bytes(golden, group, way):
    rows = torch.from_numpy(golden[f"rows{group}"]).view(torch.bfloat16)
    codes, scales = encode_rows(rows, group)
    if way == "fast":
        codes, scales = torch.empty_like(codes), torch.empty_like(scales)
        encode_fast(rows, codes, scales)
    assert np.array_equal(codes.numpy(), golden[f"codes{group}"])
    assert np.array_equal(words(scales), golden[f"scales{group}"])


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("way", ["reference", "fast"])
def test_decoding_gives_the_golden_values(golden, group, dtype, way):
    codes = torch.from_numpy(golden[f"codes{group}"])
    scales = torch.from_numpy(golden[f"scales{group}"]).view(torch.float16)
    out = decode_rows(codes, scales, group, dtype)
    if way == "fast":
        out = torch.empty_like(out)
        decode_fast(codes, scales, out)
    found = out.numpy().view(np.uint32) if dtype is torch.float32 else words(out)
    true = golden[f"float{group}"].view(np.uint32) if dtype is torch.float32 else golden[f"bfloat{group}"]
    assert np.array_equal(found, true)


if __name__ == "__main__":
    make_golden()
