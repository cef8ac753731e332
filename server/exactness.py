"""The exactness fingerprint: under which conditions a walk was drawn. The same ones draw the same bytes again.

Stored with the moments. A mismatch is no fault: the world opens, and who replays it is told. Imports torch.
"""

import platform
from collections.abc import Mapping
from typing import Any

import torch

from models.base import WorldModel
from models.rooms.precision import has_bfloat16_products, has_matrix_unit

_MEANT = ("torch", "dtype", "threads", "device", "model")


def exactness(model: WorldModel) -> dict[str, Any]:
    """The conditions of this process: build of torch, dtype, thread count, and the device that draws."""
    is_cuda = model.device.type == "cuda"
    return {
        "torch": torch.__version__,
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(model.device) if is_cuda else _cpu_kind(),
        "model": f"{model.name} {model.fingerprint[:16]}",
    }


def mismatch(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Which conditions differ, in words; empty when none does."""
    different = [name for name in _MEANT if name in recorded and recorded[name] != here[name]]
    return ", ".join(f"{name} {recorded[name]} then, {here[name]} here" for name in different)


def _cpu_kind() -> str:
    """The kernels that torch, and rooms, choose by what the CPU can do."""
    products = "AMX" if has_matrix_unit() else "bf16" if has_bfloat16_products() else ""
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {products}".rstrip()
