"""A block that is forgotten while it is on its way to the GPU gives its slot back."""

import numpy as np
import torch

from models.base import FreshBlock
from server.pager.blocks import BlockKey, Life
from server.pager.inbox import Commit
from server.pager.lease import LeasedBlock, Pins
from server.pager.moves import Move, MoveDone
from server.pager.table import Slots, Table, WorldShelf
from server.pager.traffic import Traffic
from shared.tiers import Tier

KEY = BlockKey("w", 1)


class Queue:
    """Movers that keep what they are given."""

    def __init__(self) -> None:
        self.moves: list[Move] = []

    def submit(self, move: Move) -> None:
        self.moves.append(move)

    def stop(self) -> None:
        pass


def test_a_block_that_dies_on_its_way_to_the_gpu_gives_its_slot_back():
    table, movers = Table(2, 4), Queue()
    table.worlds["w"] = WorldShelf(Slots.all_free(4), 1)
    lent = torch.zeros(1, dtype=torch.uint8)
    traffic = Traffic(table, movers, Pins(), lambda block: LeasedBlock(block.key, 1, 0, lent, {}), lambda note: None)
    block = table.add(KEY, 0.0)
    fresh = FreshBlock(torch.zeros(1), {}, np.zeros(0), ())
    traffic.encode(block, Commit(KEY, fresh, None))
    traffic.done(MoveDone(movers.moves[-1]))
    traffic.fetch(block, Tier.GPU)
    traffic.end_life(block, Life.FORGOTTEN)
    traffic.done(MoveDone(movers.moves[-1]))  # the mover had begun before it could see that it was cancelled
    traffic.retire()
    table.check()
    assert KEY not in table.blocks
    assert len(table.shared[Tier.GPU].free) == 2
