"""Re-executing a log: each chunk drawn again from its recorded controls and recall, and held against what was recorded.

A chunk is drawn with the blocks that the world holds, in the one encoding that was recalled live; the block that it
leaves is encoded again and held against the world's, so both ends of promise 3 are looked at. One thread.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from models.base import FreshBlock, ModelState, RecalledBlock, SavedState, WorldModel
from server.compress import digest
from server.drawing import draw
from server.moments import NO_MOMENT, Moment, ancestors
from server.pager.blocks import BlockKey
from server.pager.codec import Codec
from server.pager.layout import SlotLayout
from server.pager.lease import Lease, LeasedBlock
from server.pager.recall_buffer import RecallBuffer
from server.stored_blocks import StoredBlocks
from server.world_log import WorldLog, load_state, state_fault


class BlockGone(Exception):  # noqa: N818 - what happened, not an error of ours
    """A chunk was drawn with a block that the world does not hold any more: it cannot be drawn again."""

    def __init__(self, moment: Moment, block: int, why: str) -> None:
        super().__init__(
            f"chunk {moment.chunk_index} (moment {moment.id}) was drawn with block {block}, which {why}. "
            "It and all that follows it cannot be drawn again."
        )
        self.moment = moment
        self.block = block


@dataclass(frozen=True, slots=True)
class Checked:
    """One chunk, drawn again. `difference` is empty when everything was as recorded."""

    moment: Moment
    frames_equal: int
    block_equal: bool | None  # None: it left none, or the world does not hold it any more
    state_equal: bool | None  # None: its state was not kept
    difference: str = ""


class Reexecution:
    """Draws the chunks of one world again. The world's folder must be locked by the caller."""

    def __init__(self, model: WorldModel, folder: Path, log: WorldLog, blocks: StoredBlocks) -> None:
        self._model = model
        self._folder = folder
        self._log = log
        self._layout = SlotLayout(model.kv_spec)
        self._codec = Codec(self._layout)
        self._blocks = blocks
        self._buffer = RecallBuffer(self._layout, model.max_recall, model.dtype, model.device)
        self._leased: dict[int, LeasedBlock] = {}
        self._kept = {kept.moment: kept for kept in log.kept() if not state_fault(folder, kept)}

    @property
    def kept_moments(self) -> list[int]:
        """The moments whose states lie whole in the folder."""
        return sorted(self._kept)

    def all_chunks(self) -> Iterator[Checked]:
        """The whole world from its seed, given chunks included, in the order of its moments. Raises BlockGone."""
        seeds = {moment.seed for moment in self._log.moments.values() if moment.seeded}
        states: dict[int, ModelState] = {}
        for seed in seeds:
            beginning = self._model.begin(seed)
            for moment in self._log.moments.values():
                if moment.seeded and moment.seed == seed:
                    given = beginning.chunks[moment.chunk_index] if moment.chunk_index < len(beginning.chunks) else None
                    hashes = [digest(frame.pixels) for frame in given.frames] if given else []
                    yield self._check(moment, hashes, given.block if given else None, None)
                    if moment.chunk_index == len(beginning.chunks) - 1:
                        states[moment.id] = beginning.state
        yield from self._from(states)

    def chunks_from(self, moment_id: int) -> Iterator[Checked]:
        """What follows `moment_id`, and what lies between it and the nearest kept state. Raises BlockGone, KeyError."""
        line = [moment.id for moment in ancestors(self._log.moments, moment_id)]
        if not line:
            raise KeyError(moment_id)
        start = next((at for at in reversed(line) if at in self._kept), None)
        if start is None:
            yield from self.all_chunks()
            return
        on_the_way = frozenset(line[line.index(start) + 1 :])
        yield from self._from({start: self._load(start)}, on_the_way, moment_id)

    def _load(self, moment_id: int) -> ModelState:
        return self._model.load(load_state(self._folder, self._kept[moment_id]))

    def _from(
        self, states: dict[int, ModelState], on_the_way: frozenset[int] = frozenset(), goal: int = NO_MOMENT
    ) -> Iterator[Checked]:
        """Every chunk that descends from these states. Before the `goal` only those on the way to it."""
        waiting = Counter(moment.parent for moment in self._log.moments.values())
        for moment in sorted(self._log.moments.values(), key=lambda moment: moment.id):
            if moment.parent not in states or moment.seeded:
                continue
            if moment.id < goal and moment.id not in on_the_way:
                continue
            checked, after = self.draw(states[moment.parent], moment)
            yield checked
            waiting[moment.parent] -= 1
            if not waiting[moment.parent]:
                del states[moment.parent]
            if waiting[moment.id]:
                states[moment.id] = after

    def draw(self, state: ModelState, moment: Moment) -> tuple[Checked, ModelState]:
        """Draw one chunk again from the state before it, and hold it against its moment. Raises BlockGone."""
        drawn = draw(self._model, state, moment.controls, self._recall(moment))
        return self._check(moment, drawn.hashes, drawn.step.block, drawn.step.state), drawn.step.state

    def _recall(self, moment: Moment) -> list[RecalledBlock]:
        self._leased = {block: self._lease(moment, block) for block in moment.recalled}
        blocks = tuple(self._leased.values())
        lease = Lease(tuple(block.key for block in blocks), blocks, lambda _: None)
        recall: list[RecalledBlock] = []
        for key, kv, side in self._buffer.fill(lease):
            left = self._log.moments[key.block]
            assert left.footprint is not None, "a moment with a block has a footprint"
            footprint = left.footprint.copy()  # as the log has it, it is read-only, which torch does not take
            recall.append(RecalledBlock(key.block, left.chunk_index, kv, side, footprint, left.block_poses))
        return recall

    def _lease(self, moment: Moment, block: int) -> LeasedBlock:
        if (leased := self._leased.get(block)) is not None:
            return leased
        if block not in self._blocks or block not in self._log.moments:
            raise BlockGone(moment, block, "is forgotten")
        packed, fault = self._blocks.read(block, self._layout)
        if fault:
            raise BlockGone(moment, block, f"is damaged: {fault}")
        packed = packed.to(self._model.device)
        # a block's bytes never change, so its id says which they are
        return LeasedBlock(BlockKey("", block), block + 1, block, packed, self._codec.side_of(packed))

    def _check(
        self, moment: Moment, hashes: Sequence[bytes], block: FreshBlock | None, after: ModelState | None
    ) -> Checked:
        equal = sum(a == b for a, b in zip(hashes, moment.frame_hashes, strict=False))
        block_equal = self._is_block_equal(moment, block)
        state_equal = None if after is None else self._is_state_equal(moment, after)
        difference = ""
        if len(hashes) != len(moment.frame_hashes) or equal != len(hashes):
            difference = f"{len(moment.frame_hashes) - equal} of {len(moment.frame_hashes)} frames differ"
        elif (block is not None) != moment.has_block:
            difference = "it left a block once and not the other time"
        elif block_equal is False:
            difference = "its frames are equal and the block that it left is not"
        elif state_equal is False:
            difference = "its frames are equal and the state that it left is not"
        return Checked(moment, equal, block_equal, state_equal, difference)

    def _is_block_equal(self, moment: Moment, block: FreshBlock | None) -> bool | None:
        if block is None or moment.id not in self._blocks:
            return None
        stored, fault = self._blocks.read(moment.id, self._layout)
        if fault:
            return False
        again = torch.zeros(self._layout.moved_bytes, dtype=torch.uint8)
        self._codec.encode(block.kv.cpu(), again)
        self._codec.store_side(_on_cpu(block.side), again)
        parts = (slice(part.offset, part.offset + part.num_bytes) for part in self._layout.sections)
        return all(torch.equal(again[part], stored[part]) for part in parts)

    def _is_state_equal(self, moment: Moment, after: ModelState) -> bool | None:
        if moment.id not in self._kept:
            return None
        return is_same_state(self._model.dump(after), self._model.dump(self._load(moment.id)))


def is_same_state(a: SavedState, b: SavedState) -> bool:
    """Whether two states are the same, bit for bit."""
    if dict(a.facts) != dict(b.facts) or a.tensors.keys() != b.tensors.keys():
        return False
    pairs = ((tensor, b.tensors[name]) for name, tensor in a.tensors.items())
    return all(
        one.dtype == other.dtype and one.shape == other.shape and _bytes(one) == _bytes(other) for one, other in pairs
    )


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()


def _on_cpu(planes: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: plane.cpu() for name, plane in planes.items()}
