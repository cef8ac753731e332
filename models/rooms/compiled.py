"""numba's compiler where it is installed; a training machine may have only torch and numpy. Any thread.

What is compiled is kept on disk in a folder named by the sources it comes from. numba alone looks at the file of a
function and not at those that it calls: after a change of `shading.py` it would go on drawing with the old one.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HAS_NUMBA = True
try:
    import numba
    from numba import njit
except ImportError:  # such a machine has a GPU, and draws with tensor operations
    HAS_NUMBA = False

    def njit(**_: Any) -> Callable[[Any], Any]:
        """Return a decorator that leaves a function as it is."""
        return lambda function: function


def cache_folder(within: Path, sources: Sequence[Path]) -> Path:
    """Return the folder of `within` for what these sources compile to."""
    told = hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(sources)), digest_size=8)
    return within / f"numba-{told.hexdigest()}"


if HAS_NUMBA:
    _here = Path(__file__).parent
    _config: Any = numba.config  # it takes its names from the environment, so no type checker knows them
    _within = Path(_config.CACHE_DIR) if _config.CACHE_DIR else _here / "__pycache__"
    _config.CACHE_DIR = str(cache_folder(_within, list(_here.glob("*.py"))))

__all__ = ["HAS_NUMBA", "cache_folder", "njit"]
