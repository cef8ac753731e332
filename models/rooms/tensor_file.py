"""Files in the safetensors format: by the library where it is installed, else by the few lines it takes. Any thread.

The format: eight bytes little-endian with the length of a JSON header, the header (name: dtype, shape, data_offsets),
the bytes of the tensors. https://huggingface.co/docs/safetensors, "Format".
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_MOST_HEADER_BYTES = 100_000_000  # the library's own limit
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def save_plain(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors by name."""
    header: dict[str, Any] = {}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def load_plain(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file. Raises ValueError when it is no such file."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else -1
    if not 0 <= length <= min(_MOST_HEADER_BYTES, len(data) - 8):
        raise ValueError(f"{path} is no safetensors file: its header would have {length} bytes")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: _tensor(data[8 + length :], name, facts) for name, facts in header.items()}


def _tensor(data: bytes, name: str, facts: Mapping[str, Any]) -> torch.Tensor:
    begin, end = facts["data_offsets"]
    if facts["dtype"] not in _DTYPES or not 0 <= begin <= end <= len(data):
        raise ValueError(f"tensor {name}: {facts} does not fit the file")
    flat = torch.frombuffer(bytearray(data[begin:end] or b"\0"), dtype=torch.uint8)[: end - begin]
    return flat.view(_DTYPES[facts["dtype"]]).reshape(facts["shape"])


try:
    from safetensors.torch import load_file, save_file
except ImportError:
    load_file, save_file = load_plain, save_plain

__all__ = ["load_file", "load_plain", "save_file", "save_plain"]
