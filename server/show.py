"""The show: what the seats of a session get to see of it: frames, the memory's figures, and the map of blocks.

Engine thread; seats come and go under one lock. Frames are compressed once per codec in use.
"""

import threading
import time
from dataclasses import asdict, replace

from models.base import DrawnFrame, Pixels, WorldModel
from server.catalog import GrowingCatalog
from server.compress import compress, digest
from server.mailbox import Taken
from server.moments import Moment
from server.outbox import OutFrame
from server.pager.blocks import BlockKey
from server.pager.moves import MoveNote
from server.pager.pager import Pager
from server.seat import Seat
from server.timeline import Timeline
from shared.pose import Pose, distance_m, wrap_rad
from shared.protocol import BlockNote, Codec, Message, Stats, TierState

BLOCKS_PER_NOTE = 2_000
NOWHERE = -1


class Show:
    """The seats of one session, and the newest frame for those who come late."""

    def __init__(self, model: WorldModel, head_id: str, timeline: Timeline, catalog: GrowingCatalog) -> None:
        """`head_id` is the session's head as the pager knows it, `catalog` that of its ancestors' blocks."""
        self._model = model
        self._head_id = head_id
        self._world = timeline.world
        self._timeline = timeline
        self._catalog = catalog
        self._lock = threading.Lock()
        self._seats: tuple[Seat, ...] = ()
        self._num_frames = 0
        self._newest: tuple[DrawnFrame, OutFrame] | None = None
        self._told_why = ""
        self.journal_fault = ""  # what the journal could not save, in words

    @property
    def driver(self) -> Seat | None:
        """The seat that steers, if somebody sits there."""
        return next((seat for seat in self._seats if seat.role == "driver"), None)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return self._seats

    @property
    def newest_pixels(self) -> Pixels | None:
        """The newest frame; None before the first."""
        return self._newest[0].pixels if self._newest else None

    def sit(self, seat: Seat, pager: Pager) -> None:
        """A connection joins: it gets the newest frame and the whole map."""
        with self._lock:
            self._seats = (*self._seats, seat)
        if self._newest is not None:
            frame, blank = self._newest
            seat.outbox.push(self._packed(frame, replace(blank, made_s=time.monotonic()), seat.welcome.codec))
        seat.tell(*self._whole_map(pager))
        self._told_why = ""

    def stand_up(self, seat: Seat) -> None:
        """A connection left."""
        with self._lock:
            self._seats = tuple(other for other in self._seats if other is not seat)

    def tell(self, *notes: Message) -> None:
        """Leave messages for every seat."""
        for seat in self._seats:
            seat.tell(*notes)

    # ---- frames ----

    def still(self, frame: DrawnFrame, chunk_index: int, *, seeded: bool = False) -> None:
        """Show where the head stands before it draws `chunk_index`; what was on its way from elsewhere is not sent."""
        for seat in self._seats:
            seat.outbox.clear()
        chunk, index = (0, 0) if seeded else (max(0, chunk_index - 1), self._model.frames_per_chunk - 1)
        self.frame(frame, chunk, index, Taken((), -1, 0.0), digest(frame.pixels), seeded=seeded)
        self._told_why = ""

    def whole_map(self, pager: Pager) -> None:
        """Tell every seat the blocks of the line on which the head stands now."""
        for seat in self._seats:
            seat.tell(*self._whole_map(pager))

    def frame(
        self, frame: DrawnFrame, chunk_index: int, index: int, taken: Taken, pixel_hash: bytes, *, seeded: bool = False
    ) -> None:
        """Send one frame to every seat."""
        codecs: set[Codec] = {seat.welcome.codec for seat in self._seats}
        blank = OutFrame(
            id=self._num_frames,
            pts_s=self._num_frames / self._model.fps,
            chunk=chunk_index,
            index=index,
            pose=frame.pose.as_tuple(),
            input_seq=taken.input_seq,
            input_s=taken.arrived_s,
            made_s=time.monotonic(),
            seeded=seeded,
            codec="jpeg",
            data=b"",
            sha=pixel_hash.hex(),
        )
        packed = {codec: self._packed(frame, blank, codec) for codec in codecs}
        self._num_frames += 1
        self._newest = (frame, blank)
        for seat in self._seats:
            if seat.welcome.codec in packed:
                seat.outbox.push(packed[seat.welcome.codec])

    def _packed(self, frame: DrawnFrame, blank: OutFrame, codec: Codec) -> OutFrame:
        sha = blank.sha if codec == "png" else ""  # of a jpeg it would say nothing
        return replace(blank, codec=codec, data=compress(frame.pixels, codec), sha=sha)

    # ---- memory ----

    def report(
        self,
        moment: Moment,
        pager: Pager,
        foreseen: Pose | None,
        stages_ms: dict[str, float],
        *,
        is_held: bool,
        recalls: bool,
    ) -> set[int]:
        """Tell every seat what the memory did for this chunk. Returns the blocks that no tier holds any more, of
        whatever branch of the world.
        """
        stats = pager.stats(self._head_id)
        figures = asdict(stats)
        figures["tiers"] = [
            TierState(blocks=usage.blocks, used_bytes=usage.used_bytes, budget_bytes=usage.budget_bytes)
            for usage in stats.tiers
        ]
        for name in ("wanted", "recalled", "recalled_tiers", "hits", "notes"):
            figures[name] = list(figures[name])
        figures["notes"] += [self.journal_fault] if self.journal_fault else []
        del figures["direct_io"]
        error_m, error_rad = _apart(foreseen, moment.poses[-1])
        figures |= {"prediction_error_m": error_m, "prediction_error_rad": error_rad}
        pose = foreseen.as_tuple() if foreseen else None
        notes = [note for note in pager.take_moves(self._head_id) if note.key.world == self._world]
        moves = [note for note in notes if note.key.block in self._catalog]
        figures |= {"foreseen": pose, "stages_ms": stages_ms, "held": is_held, "recalls": recalls}
        figures["controls"] = [(int(held.keys), held.mouse_dx, held.mouse_dy) for held in moment.controls]
        self.tell(Stats(chunk=moment.chunk_index, **figures))
        changed = {note.key.block for note in moves}
        if moment.has_block:
            changed.add(moment.id)
        tiers = self._tiers(pager, sorted(changed))
        if changed:
            arrows = [(note.key.block, _number(note.from_tier), _number(note.to_tier)) for note in moves]
            self.tell(BlockNote(blocks=self._places(tiers), moves=arrows))
        for seat in filter(Seat.has_caught_up, self._seats):
            seat.tell(*self._whole_map(pager))
        return self._gone_of(pager, notes)

    def _gone_of(self, pager: Pager, notes: list[MoveNote]) -> set[int]:
        """The blocks that left their last tier with these moves."""
        moved_out = sorted({note.key.block for note in notes if note.to_tier is None})
        return {block_id for block_id, tier in self._tiers(pager, moved_out).items() if tier == NOWHERE}

    def paused(self, note: Message, why: str) -> None:
        """Tell every seat once that the world stands still, or that it goes on."""
        if why != self._told_why:
            self._told_why = why
            self.tell(note)

    def _tiers(self, pager: Pager, block_ids: list[int]) -> dict[int, int]:
        held = pager.tiers_of([BlockKey(self._world, block_id) for block_id in block_ids])
        return {block_id: int(min(tiers, default=NOWHERE)) for block_id, tiers in zip(block_ids, held, strict=True)}

    def _places(self, tiers: dict[int, int]) -> list[tuple[int, float, float, float, int, bool]]:
        if not tiers:
            return []
        seen_from = self._catalog.first_poses(list(tiers)).tolist()
        return [
            (block_id, x_m, z_m, yaw_rad, tier, block_id in self._timeline.seeded)
            for (block_id, tier), (x_m, _, z_m, yaw_rad, _) in zip(tiers.items(), seen_from, strict=True)
        ]

    def _whole_map(self, pager: Pager) -> list[Message]:
        ids = [int(block_id) for block_id in self._catalog.view(0).ids]
        places = self._places(self._tiers(pager, ids))
        return [
            BlockNote(blocks=places[at : at + BLOCKS_PER_NOTE], moves=[])
            for at in range(0, len(places), BLOCKS_PER_NOTE)
        ]


def _number(tier: int | None) -> int:
    return NOWHERE if tier is None else int(tier)


def _apart(foreseen: Pose | None, real: Pose) -> tuple[float, float]:
    if foreseen is None:
        return (0.0, 0.0)
    return distance_m(foreseen, real), abs(wrap_rad(foreseen.yaw_rad - real.yaw_rad))
