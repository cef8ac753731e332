"""What the renderer compiles to is never kept longer than the sources it comes from."""

import os
import subprocess
import sys
from pathlib import Path

from models.rooms.compiled import cache_folder

_CALLED = """
import models.rooms.compiled
from numba import njit

ADDED = {added}

@njit(cache=True)
def called(x):
    return x + ADDED
"""
_CALLING = """
from numba import njit
from called import called

@njit(cache=True)
def calling(x):
    return called(x)

print(calling(1))
"""


def test_the_folder_is_named_by_every_source(tmp_path: Path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a = 1")
    other.write_text("b = 1")
    before = cache_folder(tmp_path, [one, other])
    assert cache_folder(tmp_path, [other, one]) == before
    other.write_text("b = 2")
    assert cache_folder(tmp_path, [one, other]) != before


def test_a_changed_callee_is_compiled_anew_for_its_callers(tmp_path: Path):
    """numba alone prints 2 twice: it looks at the caller's file only."""
    package = tmp_path / "models" / "rooms"
    package.mkdir(parents=True)
    (tmp_path / "models" / "__init__.py").touch()
    (package / "__init__.py").touch()
    ours = Path(__file__).parents[2] / "models" / "rooms" / "compiled.py"
    (package / "compiled.py").write_text(ours.read_text("utf-8"), "utf-8")
    (package / "calling.py").write_text(_CALLING)
    printed = []
    for added in (1, 20):
        (package / "called.py").write_text(_CALLED.format(added=added))
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{package}"}
        run = subprocess.run(
            [sys.executable, package / "calling.py"], env=environment, capture_output=True, text=True, check=True
        )
        printed.append(int(run.stdout))
    assert printed == [2, 21]
