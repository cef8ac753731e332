"""Process memory and page cache over many small blocks, written, spilled, fetched and forgotten by the real pager."""

import os

import pytest

from bench.io_flat import walk_flat
from bench.pager_measure import cached_bytes

NUM_BLOCKS = 240


def keeps_files_in_memory(folder):
    """Whether this file system has no place but the page cache, as tmpfs."""
    path = folder / "probe"
    path.write_bytes(bytes(1 << 20))
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return cached_bytes(folder) > 0


@pytest.mark.parametrize("refuses_direct", [False, True], ids=["as it is", "without direct IO"])
def test_the_page_cache_does_not_grow_by_the_blocks_that_pass(tmp_path, refuses_direct):
    if keeps_files_in_memory(tmp_path):
        pytest.skip("this file system is the page cache")
    figures = walk_flat(tmp_path / "world", NUM_BLOCKS, refuses_direct=refuses_direct)
    assert figures["direct_io"] is not True or not refuses_direct
    assert figures["fetched_bytes"] >= 100 * figures["block_bytes"], "blocks came back from the slab"
    assert figures["page_cache_peak_bytes"] < 16 * figures["block_bytes"]
    assert figures["page_cache_slope_bytes_per_block"] < figures["block_bytes"] / 20


@pytest.mark.slow
def test_process_memory_grows_by_no_more_than_an_index_entry_a_block(tmp_path):
    figures = walk_flat(tmp_path / "world", 10_000, refuses_direct=False)
    assert figures["rss_slope_bytes_per_block"] < figures["block_bytes"] / 20
    assert figures["rss_grown_bytes"] < 64 << 20
