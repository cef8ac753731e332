"""A saved state taken apart: its tensors and its facts by name, and the same state with one of them gone or wrong.

What a list holds many of (the chunks of a window, say) is one component: "window.kv". Pure; any thread.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from models.base import SavedState

VALUE_BYTES = 8  # of a fact: JSON has no sizes
_INDEX = re.compile(r"\.\d+(?=\.|$)")
_PATH = "state."


def component_bytes(saved: SavedState) -> dict[str, int]:
    """Bytes of each component, by name, largest first."""
    sizes: dict[str, int] = {}
    for name, tensor in saved.tensors.items():
        sizes[_plain(name)] = sizes.get(_plain(name), 0) + tensor.nbytes
    for name, _ in _leaves(dict(saved.facts)):
        sizes[name] = sizes.get(name, 0) + VALUE_BYTES
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def without(saved: SavedState, component: str) -> SavedState:
    """The state with a component emptied: zeros of its shape, as whoever does not store it would find it."""
    return _changed(saved, component, torch.zeros_like, lambda value: type(value)())


def corrupted(saved: SavedState, component: str) -> SavedState:
    """The state with a component a little wrong: the low bit of every number flipped, or next to it."""
    return _changed(saved, component, _disturbed, _wrong)


def _changed(
    saved: SavedState,
    component: str,
    tensor_change: Callable[[torch.Tensor], torch.Tensor],
    fact_change: Callable[[Any], Any],
) -> SavedState:
    tensors = {
        name: tensor_change(tensor) if _plain(name) == component else tensor for name, tensor in saved.tensors.items()
    }
    return SavedState(_rebuilt(dict(saved.facts), component, fact_change, ""), tensors)


def _plain(name: str) -> str:
    return _INDEX.sub("", name)


def _leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{at}.{name}" if at else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, at)
    else:
        yield at, value


def _rebuilt(value: Any, component: str, change: Callable[[Any], Any], at: str) -> Any:
    if isinstance(value, dict):
        return {
            name: _rebuilt(inner, component, change, f"{at}.{name}" if at else str(name))
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_rebuilt(inner, component, change, at) for inner in value]
    return change(value) if at == component else value


def _disturbed(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor * 1.0625  # exact in every float, and far beyond rounding
    return tensor ^ 1


def _wrong(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value + 0.01 if isinstance(value, float) else value
