"""The pager's face: the only file that knows both what decides and what moves. It connects them and answers callers.

`commit`, `recall`, `recall_exact`, `spill` and a lease's `release` belong to the engine thread; `open_world`,
`close_world` and `close` block and belong to the application; the rest may be called from any thread. `recall` and
`is_complete` never wait.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import torch

from models.base import FreshBlock, KVSpec
from server.pager.blocks import Block, BlockKey
from server.pager.budgets import Budgets, slot_counts
from server.pager.codec import Codec
from server.pager.decide.place import Plan
from server.pager.decide.relevance import Trail
from server.pager.errors import BlockStateError
from server.pager.header import block_fingerprint
from server.pager.inbox import Answer, Closing, Commit, Flush, Foresee, Forget, Leave, Opened, Pin, Spill, Stop
from server.pager.keeper import Keeper
from server.pager.layout import SlotLayout
from server.pager.lease import Lease, LeasedBlock, Pins
from server.pager.move.arena import Arena
from server.pager.move.carry import Carrier, Device
from server.pager.move.cuda import CudaArena, CudaDevice, CudaFence, step_event
from server.pager.move.disk import DiskIO, RealDisk
from server.pager.move.inline import InlineDevice
from server.pager.move.recover import SlabOpener
from server.pager.move.slab import PIECE_BYTES
from server.pager.move.workers import Workers
from server.pager.moves import MoveDone, MoveNote
from server.pager.open_worlds import OpenWorlds
from server.pager.recall_buffer import RecallBuffer
from server.pager.recaller import Recaller, no_fence
from server.pager.table import Table
from server.pager.traffic import Traffic
from shared.tiers import PagerStats, Tier, TierUsage

CPU = torch.device("cpu")
DRAIN_S = 5.0  # how long closing a world waits for its writes


class Pager:
    """Keeps blocks in three tiers and lends the wanted ones to the engine. One per server."""

    def __init__(
        self,
        spec: KVSpec,
        fingerprint: str,
        budgets: Budgets,
        *,
        max_recall: int,
        device: torch.device = CPU,
        disk: DiskIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        recall_dtype: torch.dtype = torch.bfloat16,
        eviction: str = "relevance",
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`eviction` is the name of a policy of `decide/evict.py`; a read can be cancelled after each `piece_bytes`."""
        self.layout = SlotLayout(spec)
        self._codec = Codec(self.layout)
        self._buffer_args = (max_recall, recall_dtype, device)
        self._is_cuda = device.type == "cuda"
        if not self._is_cuda:
            self._codec.warm_up(recall_dtype)
        gpu_slots, dram_slots = slot_counts(self.layout, budgets, max_recall, recall_dtype, num_staging=self._is_cuda)
        self._dram = Arena(self.layout, dram_slots)
        self._gpu, carrying = self._make_device(gpu_slots, device)
        marks = block_fingerprint(fingerprint, self.layout)
        disk = RealDisk() if disk is None else disk
        self._opener = SlabOpener(disk, self.layout, marks, budgets.nvme_bytes, piece_bytes=piece_bytes)
        self._worlds = OpenWorlds(self._opener.disk, self._give)
        self._slabs = self._worlds.slabs
        self._is_closed = False
        self._table = Table(self._gpu.num_slots, self._dram.num_slots)
        self._movers = Workers(Carrier(self.layout, marks, self._dram, carrying, self._slabs), self._give)
        pins = Pins()
        traffic = Traffic(self._table, self._movers, pins, self._lend, self._note_move)
        self._keeper = Keeper(self._table, traffic, pins, self.layout.slot_bytes, max_recall, clock, eviction)
        self._put = self._keeper.inbox.put
        self._recaller = Recaller(self._keeper, pins, CudaFence if self._is_cuda else no_fence)
        for arena in (self._gpu, self._dram):
            if arena.note is not None:
                traffic.note(arena.note)
        self._thread = threading.Thread(target=self._keeper.run, name="pager", daemon=True)
        self._thread.start()

    # The application's side

    def open_world(self, world: str, folder: Path) -> frozenset[int]:
        """Open or make the world's slab; returns the ids of its durable blocks. Raises WorldFault in words."""
        self._worlds.check_may_open(world, folder)
        opened = self._opener.open(folder)
        self._worlds.add(world, folder, opened)
        answer = Answer()
        self._put(Opened(world, opened.num_slots, opened.held, opened.first_generation, opened.notes, answer))
        answer.ready.wait()
        return frozenset(held.block for held in opened.held.values())

    def close_world(self, world: str, drain_s: float = DRAIN_S) -> None:
        """Wait for its writes, then let go of it; for at most 2 * drain_s. Its leases must have been released.

        When a write hangs in the disk, the world is let go of as soon as that has ended, and cannot be opened before.
        """
        if world in self._worlds:
            self._flush(world, drain_s)
            self._worlds.close([world], drain_s)

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Close every world and end every thread; in at most 4 * drain_s, whatever the disk does. May be called twice.

        A thread that hangs in the disk is left behind; it does not keep the process from ending.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._flush(None, drain_s)
        self._worlds.close(self._worlds.names(), drain_s)
        self._movers.stop(drain_s)
        self._put(Stop())
        self._thread.join(drain_s)

    # The engine's side

    def commit(self, key: BlockKey, fresh: FreshBlock) -> None:
        """Take a block over: encoded once in the background, then a DRAM copy, then an NVME copy. Never waits."""
        if tuple(fresh.kv.shape) != self.layout.spec.shape or fresh.kv.dtype is not torch.bfloat16:
            raise ValueError(f"{key}: K,V are {tuple(fresh.kv.shape)} {fresh.kv.dtype}, not {self.layout.spec.shape}")
        if key.world not in self._worlds:
            raise BlockStateError(f"{key} was committed to a world that is not open")
        if key in self._table.blocks:
            raise BlockStateError(f"{key} was committed twice")
        self._put(Commit(key, fresh, step_event() if self._is_cuda else None))

    def recall(self, head: str, wanted: Sequence[BlockKey]) -> Lease:
        """All of `wanted` when it is ready, else the head's newest set that is complete (stale). Never waits."""
        return self._recaller.recall(head, tuple(wanted))

    def recall_exact(self, head: str, wanted: Sequence[BlockKey], timeout_s: float | None = None) -> Lease:
        """Wait for all of `wanted`. What cannot come, or has not come in time, is named in the lease's `missing`."""
        return self._recaller.recall_exact(head, tuple(wanted), timeout_s)

    def spill(self, keys: Iterable[BlockKey]) -> None:
        """Have blocks leave GPU and DRAM as soon as NVME has them, unless a head says anew that it wants them.

        No head wants them any more until it says so, and the next use of each is a hit of its own. Their leases must
        have been released.
        """
        spilled = frozenset(keys)
        for record in self._recaller.records():
            record.tally.count_anew(spilled)
        self._put(Spill(spilled))

    def is_complete(self, head: str, wanted: Sequence[BlockKey]) -> bool:
        """Whether `recall_exact` would return at once now. Never waits; any thread.

        It asks for `wanted` as `recall_exact` does: fetches start, and what has come stays. Ask again whenever
        `on_published` was called, and at least every second for as long as the answer matters.
        """
        return self._recaller.is_complete(head, tuple(wanted))

    @property
    def on_published(self) -> Callable[[], None]:
        """Called by the pager thread after each ready set that it publishes. It must be short and wait for nothing."""
        return self._keeper.board.on_published

    @on_published.setter
    def on_published(self, told: Callable[[], None]) -> None:
        self._keeper.board.on_published = told

    def recall_buffer(self) -> RecallBuffer:
        """The decoded recall buffer that the GPU budget has room for: one, for the engine."""
        max_recall, dtype, device = self._buffer_args
        return RecallBuffer(self.layout, max_recall, dtype, device)

    # Any thread

    def foresee(self, head: str, plan: Callable[[], Plan], trail: Trail | None = None) -> None:
        """A head's newest plan, in place of its last: (deadline_s on the pager's clock, keys in order of worth).

        The pager thread works it out, unless a newer one has come by then. By `trail`, where the head has been, it
        chooses what to give up when a tier is full; without one by recency.
        """
        record = self._recaller.record(head)

        def work_out() -> Plan:
            worked_out = tuple((deadline_s, tuple(keys)) for deadline_s, keys in plan())
            record.worlds.update(key.world for _, keys in worked_out for key in keys)
            return worked_out

        self._put(Foresee(head, work_out, trail))

    def forget(self, keys: Iterable[BlockKey]) -> None:
        """Drop blocks from all tiers, durably."""
        self._put(Forget(tuple(keys)))

    def jump(self, head: str, recalled: tuple[BlockKey, ...] = ()) -> None:
        """The head stands at another moment: a recall that may not wait falls back on these blocks, and on nothing of
        the line that it left. Engine thread; O(1).
        """
        self._recaller.jump(head, recalled)

    def set_pinned(self, world: str, blocks: Collection[int]) -> None:
        """All blocks of an open world that its snapshots keep, in place of the last ones: they are forgotten last.

        A note of the world's heads (`stats`) says so when one is forgotten all the same.
        """
        self._put(Pin(world, frozenset(blocks)))

    def leave(self, head: str) -> None:
        """The head is gone: nothing is kept for it any more."""
        self._recaller.leave(head)
        self._put(Leave(head))

    def flush(self, timeout_s: float, world: str | None = None) -> bool:
        """Wait until every block committed so far is durable, lost or forgotten; False when that did not come about."""
        return self._flush(world, timeout_s)

    def is_durable(self, key: BlockKey) -> bool:
        """Whether the block would survive a power cut now."""
        block = self._table.blocks.get(key)
        return block is not None and Tier.NVME in block.tiers

    def tiers_of(self, keys: Iterable[BlockKey]) -> list[frozenset[Tier]]:
        """Which tiers offer each block now; none when it is unknown, gone, unreadable, or not encoded yet."""
        blocks = (self._table.blocks.get(key) for key in keys)
        return [frozenset() if block is None else block.offered for block in blocks]

    def take_moves(self, head: str) -> list[MoveNote]:
        """Moves in the head's worlds since it last asked, oldest first; at most 512.

        When there were more, moves between tiers are left out. That a block is gone (it leaves for no tier, and
        `tiers_of` has none) is always told, if need be next time.
        """
        return self._recaller.record(head).take_moves()

    def usage(self) -> tuple[TierUsage, ...]:
        """Each tier's fill, of all worlds together."""
        return self._keeper.board.snapshot.usage

    def stats(self, head: str) -> PagerStats:
        """What the HUD shows. Totals since the head was first heard of, of its own worlds: those that it wanted blocks
        of, and the one of its own name. Only `tiers` is of all worlds together.
        """
        return self._recaller.stats(head, is_direct=all(slab.is_direct for slab in list(self._slabs.values())))

    # Connections

    def _make_device(self, gpu_slots: int, device: torch.device) -> tuple[Arena | CudaArena, Device]:
        if self._is_cuda:
            on_device = CudaArena(self.layout, gpu_slots, device)
            return on_device, CudaDevice(self.layout, self._codec, self._dram, on_device, device)
        in_ram = Arena(self.layout, gpu_slots)
        return in_ram, InlineDevice(self.layout, self._codec, self._dram, in_ram)

    def _flush(self, world: str | None, timeout_s: float) -> bool:
        answer = Answer()
        self._put(Flush(world, answer))
        return answer.ready.wait(timeout_s) and answer.is_good

    def _give(self, message: MoveDone | Closing) -> None:
        self._put(message)

    def _lend(self, block: Block) -> LeasedBlock:
        """Views of a block's GPU slot, made once when it arrives. Pager thread."""
        slot = block.slots[Tier.GPU]
        packed = self._gpu.tensor(slot)[: self.layout.moved_bytes]
        return LeasedBlock(block.key, block.serial, slot, packed, self._codec.side_of(packed))

    def _note_move(self, note: MoveNote) -> None:
        if self._table.worlds[note.key.world].is_closing:
            return  # its blocks leave memory and stay on disk: they are not gone
        is_end = note.to_tier is None and not self.tiers_of([note.key])[0]
        for record in self._recaller.records():
            if note.key.world in record.worlds:
                (record.ends if is_end else record.moves).append(note)
