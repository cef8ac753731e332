"""The pager over many blocks: killed at any moment, and for as long as one likes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WALKER = """
import sys, pathlib
sys.path.insert(0, {root!r}); sys.path.insert(0, {here!r})
import conftest
paging = conftest.Paging(pathlib.Path(sys.argv[1]))
pager = paging.pager(nvme=30)
first = max(pager.durable_at_start, default=-1) + 1
for block in range(first, first + 100_000):
    pager.commit(paging.key(block), paging.fresh(block))
    while not pager.tiers_of([paging.key(block)])[0]:
        pass
    for each in range(max(first, block - 8), block + 1):
        if pager.is_durable(paging.key(each)):
            print(each, flush=True)
    if block % 7 == 0:
        pager.forget([paging.key(block - 3)])
"""


def kill_while_walking(paging, tmp_path, seed):
    """A walker in another process, killed at a random moment. Returns the last block it knew to be durable."""
    script = tmp_path / "walker.py"
    script.write_text(WALKER.format(root=str(ROOT), here=str(Path(__file__).parent)))
    walker = subprocess.Popen([sys.executable, script, paging.folder], stdout=subprocess.PIPE, text=True)
    told = [walker.stdout.readline() for _ in range(1 + seed * 7 % 30)]
    time.sleep(seed * 13 % 10 / 1000)
    walker.send_signal(signal.SIGKILL)
    rest, _ = walker.communicate()
    return [int(line) for line in [*told, *rest.split()] if line.strip().isdigit()]


def lost_by_kills(paging, tmp_path, num_kills):
    """The blocks that a kill cost: called durable and not there, or there and not what they were."""
    lost = []
    for seed in range(num_kills):
        told = kill_while_walking(paging, tmp_path, seed)
        pager = paging.pager(nvme=30, dram=6, gpu=8)
        newest = [block for block in sorted(set(told))[-5:] if (block + 3) % 7 and block % 7]
        lost += [(seed, block) for block in newest if block not in pager.durable_at_start]
        blocks = sorted(pager.durable_at_start)
        for start in range(0, len(blocks), 2):
            came = paging.recall_exact(pager, blocks[start : start + 2])
            lost += [(seed, block) for block in blocks[start : start + 2] if block not in came]
        pager.close()
        paging.pagers.remove(pager)
    return lost


def test_a_kill_costs_nothing_that_was_called_durable(paging, tmp_path_factory):
    assert lost_by_kills(paging, tmp_path_factory.mktemp("script"), 2) == []


@pytest.mark.slow
def test_a_hundred_kills_cost_nothing_that_was_called_durable(paging, tmp_path_factory):
    assert lost_by_kills(paging, tmp_path_factory.mktemp("script"), 100) == []


def resident_and_cached_bytes():
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    cached = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("Cached:"))
    return resident, int(cached.split()[1]) * 1024


@pytest.mark.slow
def test_memory_stays_flat_over_10000_blocks(paging):
    pager = paging.pager(nvme=64)
    paging.commit(pager, range(500), flushes=False)
    before, _ = resident_and_cached_bytes()
    for start in range(500, 10_500, 100):
        paging.commit(pager, range(start, start + 100), flushes=False)
        paging.recall_exact(pager, [start + 90, start + 97])
    after, _ = resident_and_cached_bytes()
    assert after - before < 64 << 20
    assert len(pager._table.blocks) < 100
