"""numba's compiler where it is installed; a training machine may have only torch and numpy. Any thread."""

from collections.abc import Callable
from typing import Any

HAS_NUMBA = True
try:
    from numba import njit
except ImportError:  # such a machine has a GPU, and draws with tensor operations
    HAS_NUMBA = False

    def njit(**_: Any) -> Callable[[Any], Any]:
        """Return a decorator that leaves a function as it is."""
        return lambda function: function


__all__ = ["HAS_NUMBA", "njit"]
