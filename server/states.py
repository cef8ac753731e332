"""A head at rest as one safetensors file: the model's state, the newest frame, and what it was drawn with. Any thread.

The file's hash and size stand in the log; whoever reads one checks them before he parses it (world_log.state_fault).
"""

import json
from dataclasses import dataclass
from typing import Any, cast

import torch
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_of_tensors

from models.base import DrawnFrame, SavedState
from shared.pose import Pose

_SHOWN = "shown.frame"  # [H, W, 3] uint8, lossless; no model's tensor bears this name
_LENGTH_BYTES = 8  # bytes of a safetensors file that say how long its header is


@dataclass(frozen=True, slots=True)
class RestingHead:
    """What a state file holds. Files of older versions have no frame."""

    saved: SavedState
    frame: DrawnFrame | None = None
    recalled: tuple[int, ...] = ()


def state_bytes(saved: SavedState, frame: DrawnFrame | None = None, recalled: tuple[int, ...] = ()) -> bytes:
    """A head as the bytes of its file: the same ones for the same head. Facts stand as JSON in the file's metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in saved.tensors.items()}
    shown: dict[str, Any] = {"recalled": list(recalled)}
    if frame is not None:
        tensors[_SHOWN] = torch.tensor(frame.pixels)
        shown["pose"] = list(frame.pose.as_tuple())
    # one text, since the order of several is chance
    return bytes_of_tensors(tensors, {"head": json.dumps({"facts": dict(saved.facts), "shown": shown})})


def head_from_bytes(data: bytes) -> RestingHead:
    """The head in a file whose hash was checked. Raises ValueError, KeyError or SafetensorError when it is not one."""
    header_bytes = int.from_bytes(data[:_LENGTH_BYTES], "little")
    texts: dict[str, str] = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + header_bytes])["__metadata__"]
    head = json.loads(texts["head"]) if "head" in texts else {"facts": json.loads(texts["facts"])}
    tensors = tensors_from_bytes(data)
    pixels = tensors.pop(_SHOWN, None)
    shown = cast(dict[str, Any], head.get("shown", {}))
    frame = None if pixels is None else DrawnFrame(pixels.numpy(), Pose(*shown["pose"]))
    return RestingHead(SavedState(head["facts"], tensors), frame, tuple(shown.get("recalled", ())))
