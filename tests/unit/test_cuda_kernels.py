"""The CUDA decoding, run by Triton's interpreter on the CPU: the same values as the reference, bit for bit.

In a process of its own, because Triton looks at TRITON_INTERPRET when it is imported.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import torch
from server.pager.codec import decode_rows, encode_rows, normaliser
from server.pager.cuda_kernels import decode
for group in (16, 64, 128):
    rows = (torch.randn(37, 3 * group) * torch.exp(torch.randn(3 * group))).bfloat16()
    codes, scales = encode_rows(rows, group)
    for dtype in (torch.float32, torch.bfloat16):
        out = torch.empty(rows.shape, dtype=dtype)
        decode(codes, scales, 1.0 / (group * normaliser(group)), out)
        assert torch.equal(out, decode_rows(codes, scales, group, dtype)), (group, dtype)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="torch for CPU comes without Triton")
def test_the_kernel_decodes_as_the_reference_does():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, cwd=ROOT, env=environment)
