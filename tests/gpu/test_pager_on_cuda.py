"""The pager with CUDA: the same bytes as on a CPU, and nothing overwritten while a kernel still reads it."""

import numpy as np
import pytest
import torch

from models.base import FreshBlock, KVSpec, SidePlane
from server.pager.blocks import BlockKey
from server.pager.budgets import Budgets, buffer_bytes
from server.pager.codec import Codec, decode_rows, encode_rows
from server.pager.layout import SlotLayout
from server.pager.pager import Pager

pytestmark = pytest.mark.gpu
SPEC = KVSpec(layers=4, tokens=264, width=256, head_width=128, side=(SidePlane("depth", (264,), torch.float32),))
LAYOUT = SlotLayout(SPEC)


def fresh(block, device):
    numbers = torch.Generator().manual_seed(block)
    kv = torch.randn(SPEC.shape, generator=numbers).bfloat16().to(device)
    return FreshBlock(kv, {"depth": torch.randn(264, generator=numbers).to(device)}, np.zeros(1), ())


def parts(slot):
    return torch.cat([slot[part.offset : part.offset + part.num_bytes].cpu() for part in LAYOUT.sections])


def encoded_on_cpu(block):
    slot, true = torch.zeros(LAYOUT.slot_bytes, dtype=torch.uint8), fresh(block, "cpu")
    Codec(LAYOUT).encode(true.kv, slot)
    Codec(LAYOUT).store_side(true.side, slot)
    return parts(slot)


@pytest.mark.parametrize("group", [16, 64, 128])
def test_the_codec_gives_the_same_bytes_on_both_devices(group):
    rows = (torch.randn(300, 3 * group) * torch.exp(torch.randn(3 * group))).bfloat16()
    here, there = encode_rows(rows, group), encode_rows(rows.cuda(), group)
    assert torch.equal(here[0], there[0].cpu())
    assert torch.equal(here[1].view(torch.int16), there[1].cpu().view(torch.int16))
    back = decode_rows(*here, group, torch.bfloat16)
    assert torch.equal(back.view(torch.int16), decode_rows(*there, group, torch.bfloat16).cpu().view(torch.int16))


def test_blocks_come_back_the_same_from_all_tiers(tmp_path):
    budgets = Budgets(
        9 * LAYOUT.slot_bytes + buffer_bytes(LAYOUT, 3, torch.bfloat16), 6 * LAYOUT.slot_bytes, 60 * LAYOUT.slot_bytes
    )
    pager = Pager(SPEC, "weights", budgets, max_recall=3, device=torch.device("cuda"))
    pager.open_world("w", tmp_path)
    for block in range(24):
        busy = fresh(block, "cuda")
        late = FreshBlock(torch.zeros_like(busy.kv), busy.side, busy.footprint, ())
        torch.cuda._sleep(20_000_000)  # the step's kernels are still running when the block is committed
        late.kv.copy_(busy.kv)
        pager.commit(BlockKey("w", block), late)
        assert pager.flush(10.0)
    buffer = pager.recall_buffer()
    for turn in range(40):
        keys = [BlockKey("w", (turn * 3 + step) % 24) for step in range(3)]
        with pager.recall_exact("h", keys, 10.0) as lease:
            assert all(torch.equal(parts(each.packed), encoded_on_cpu(each.key.block)) for each in lease.blocks)
            decoded = buffer.fill(lease)
        for each in decoded:
            slot, out = torch.zeros(LAYOUT.slot_bytes, dtype=torch.uint8), torch.empty(SPEC.shape, dtype=torch.bfloat16)
            Codec(LAYOUT).encode(fresh(each.key.block, "cpu").kv, slot)
            Codec(LAYOUT).decode(slot, out)
            assert torch.equal(out.view(torch.int16), each.kv.cpu().view(torch.int16))
    pager.close()
