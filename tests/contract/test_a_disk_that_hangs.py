"""A disk that does not answer while a world is closed, or while the whole process ends."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from server.pager.errors import WorldFault
from server.pager.moves import Route

ROOT = Path(__file__).parents[2]


def is_writing(pager):
    return Route.WRITE in {route for _, route in pager._keeper._traffic.moves}


def open_when_it_may(paging, pager):
    """Opens the world as soon as it is let go of; returns its durable blocks."""
    found = []

    def is_open():
        with suppress(WorldFault):
            found.append(pager.open_world("w", paging.folder))
        return found

    paging.wait_for(is_open)
    return found[0]


def test_a_world_whose_writes_hang_is_let_go_of_when_they_end_and_until_then_it_says_so(paging):
    pager = paging.pager()
    paging.commit(pager, range(2))
    paging.trouble.is_stalled = True
    pager.commit(paging.key(2), paging.fresh(2))
    paging.wait_for(lambda: is_writing(pager))
    pager.close_world("w", 0.1)  # returns, though the disk does not answer
    with pytest.raises(WorldFault, match=r"still hang on the disk.*Try again"):
        pager.open_world("w", paging.folder)
    with pytest.raises(WorldFault, match="still hang on the disk"):
        pager.open_world("by another name", paging.folder)
    paging.trouble.is_stalled = False
    assert open_when_it_may(paging, pager) >= {0, 1}
    assert paging.recall_exact(pager, [0, 1]) == [0, 1]


def test_a_log_that_cannot_be_ended_holds_nobody_up(paging):
    pager = paging.pager()
    paging.commit(pager, range(2))
    paging.trouble.is_stalled = True
    pager.close_world("w", 0.1)  # returns, though the disk does not answer
    paging.trouble.is_stalled = False
    assert open_when_it_may(paging, pager) == {0, 1}


LEAVER = """
import sys, pathlib
sys.path.insert(0, {root!r}); sys.path.insert(0, {here!r})
import conftest
paging = conftest.Paging(pathlib.Path(sys.argv[1]))
pager = paging.pager()
paging.trouble.is_stalled = True
for block in range(4):
    pager.commit(paging.key(block), paging.fresh(block))
conftest.wait_for(lambda: any(route.name == "WRITE" for _, route in pager._keeper._traffic.moves))
pager.close(0.2)
print("closed", flush=True)
"""


def test_a_process_ends_in_bounded_time_while_its_writes_hang(paging, tmp_path_factory):
    script = tmp_path_factory.mktemp("script") / "leaver.py"
    script.write_text(LEAVER.format(root=str(ROOT), here=str(Path(__file__).parent)))
    leaver = subprocess.Popen([sys.executable, script, paging.folder], stdout=subprocess.PIPE, text=True)
    try:
        assert leaver.stdout.readline() == "closed\n"
        assert leaver.wait(60.0) == 0
    finally:
        leaver.kill()
        leaver.communicate()
