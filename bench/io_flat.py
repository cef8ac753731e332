"""Does memory grow with the walk? Small blocks written, spilled, fetched and forgotten by the real pager.

The slab has a slot for every block, so that a page cache that is not let go of would grow by every block. Half of the
blocks are forgotten after they were fetched; the others stay, as an index entry each.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bench.pager_measure import cached_bytes, rss_bytes, slope
from models.base import FreshBlock, KVSpec
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.move.bad_disk import BadDisk
from server.pager.move.disk import RealDisk
from server.pager.move.slab import slot_at
from server.pager.pager import Pager

SPEC = KVSpec(layers=2, tokens=40, width=1536, head_width=128)  # a thousandth of a Matrix-Game 2.0 block
GROUP = 8  # blocks that are made durable together
LAG = 4 * GROUP  # how long ago a block was written when it is fetched: it has left DRAM by then
MAX_RECALL = 2
WAIT_S = 60.0  # only a broken disk takes so long
POLL_S = 0.0002


def walk_flat(folder: Path, num_blocks: int, *, refuses_direct: bool) -> dict[str, object]:
    """Walk `num_blocks` small blocks; how process memory and the slab's page cache change with each.

    `refuses_direct` walks as on a file system without direct IO. Raises OSError when a block does not come.
    """
    disk = BadDisk(RealDisk())
    disk.trouble.refuses_direct = refuses_direct
    pager = _pager(folder, num_blocks, disk)
    resident: list[tuple[int, int]] = []
    cached: list[tuple[int, int]] = []
    try:
        for first in range(0, num_blocks, GROUP):
            _write(pager, folder.name, range(first, min(num_blocks, first + GROUP)))
            _fetch_and_forget(pager, folder.name, range(max(0, first - LAG), max(0, first - LAG + GROUP)))
            resident.append((first, rss_bytes()))
            cached.append((first, cached_bytes(folder)))
        stats = pager.stats(folder.name)
    finally:
        pager.close()
    return {
        "blocks": num_blocks,
        "block_bytes": pager.layout.slot_bytes,
        "direct_io": stats.direct_io,
        "fetched_bytes": stats.disk_read_bytes,
        "rss_slope_bytes_per_block": round(slope(resident), 1),
        "rss_grown_bytes": resident[-1][1] - resident[len(resident) // 4][1],
        "page_cache_slope_bytes_per_block": round(slope(cached), 1),
        "page_cache_peak_bytes": max(held for _, held in cached),
    }


def _pager(folder: Path, num_blocks: int, disk: BadDisk) -> Pager:
    layout = SlotLayout(SPEC)
    budgets = Budgets(
        4 * MAX_RECALL * layout.slot_bytes + buffer_bytes(layout, MAX_RECALL, torch.bfloat16),
        2 * GROUP * layout.slot_bytes,
        slot_at(layout, num_blocks),
    )
    folder.mkdir(parents=True, exist_ok=True)
    pager = Pager(SPEC, "bench", budgets, max_recall=MAX_RECALL, disk=disk)
    pager.open_world(folder.name, folder)
    pager.stats(folder.name)  # its totals count from here on
    return pager


def _write(pager: Pager, world: str, blocks: Sequence[int]) -> None:
    """Commit these blocks, one after another as an engine does, and make them durable."""
    for block in blocks:
        kv = torch.randn(SPEC.shape, generator=torch.Generator().manual_seed(block)).bfloat16()
        key = BlockKey(world, block)
        pager.commit(key, FreshBlock(kv, {}, np.zeros(1), ()))
        while not pager.tiers_of([key])[0]:
            time.sleep(POLL_S)
    if not pager.flush(WAIT_S):
        raise OSError(f"blocks {blocks[0]} to {blocks[-1]} did not become durable")


def _fetch_and_forget(pager: Pager, world: str, blocks: Sequence[int]) -> None:
    """Bring these blocks back from the slab, and forget every second one."""
    keys = [BlockKey(world, block) for block in blocks]
    for first in range(0, len(keys), MAX_RECALL):
        with pager.recall_exact(world, keys[first : first + MAX_RECALL], WAIT_S) as lease:
            if lease.missing:
                raise OSError(f"{lease.missing} did not come back")
    pager.forget(keys[::2])
    pager.take_moves(world)  # as an engine does every chunk: that a block is gone waits to be told
