"""The lobby: from a Hello to a session's head. Opens or makes the world, its journal and blocks; begins or continues.

Runs on a worker thread, because it waits for the disk; what the model must compute is handed to the engine thread.
"""

import secrets
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from models.base import Beginning, DrawnFrame
from server.catalog import GrowingCatalog
from server.compress import digest
from server.faults import Refused, WorldFault
from server.journal import Journal
from server.pager.blocks import BlockKey
from server.pager.errors import PagerError
from server.session import Head, Past, Session, Setting
from server.timeline import NO_MOMENT, Moment, ancestors
from server.worlds import OpenedWorld, Worlds
from shared.pose import distance_m, wrap_rad
from shared.protocol import Hello


class Lobby:
    """Makes sessions. `on_engine(work)` runs `work` on the engine thread and returns its result."""

    def __init__(
        self,
        setting: Setting,
        worlds: Worlds,
        on_engine: Callable[[Callable[[], Beginning]], Beginning],
        seed: int | None = None,
    ) -> None:
        """`seed` is that of new worlds whose client names none; None: chance."""
        self._setting = setting
        self._seed = seed
        self._worlds = worlds
        self._on_engine = on_engine

    def world_id(self, name: str) -> str | None:
        """The id of the world with this name or id, when there is one."""
        card = self._worlds.find(name) if name else None
        return card.id if card else None

    def enter(self, hello: Hello) -> tuple[Session, str, list[str]]:
        """A new session for this Hello, the world's name, and what the player should know. Raises Refused."""
        try:
            opened = self._open(hello)
            session, notes = self._settle_or_drop(opened, hello)
        except (WorldFault, PagerError, ValueError) as fault:
            raise Refused("bad_world", self._without_paths(str(fault))) from fault
        except OSError as error:
            raise Refused("disk", f"the world cannot be opened: {error.strerror}. Check the worlds folder.") from error
        return session, opened.card.name, [self._without_paths(note) for note in notes]

    def _settle_or_drop(self, opened: OpenedWorld, hello: Hello) -> tuple[Session, list[str]]:
        try:
            return self._settle(opened, hello)
        except BaseException:
            if opened.is_made:
                self._worlds.drop_empty(opened.card.id)  # or a client that tries again would fill the folder
            raise

    def _settle(self, opened: OpenedWorld, hello: Hello) -> tuple[Session, list[str]]:
        """Take the world's blocks and journal in hand; let go of both when anything fails."""
        pager, world = self._setting.pager, opened.card.id
        known = pager.open_world(world, opened.folder)
        journal: Journal | None = None
        try:
            journal = Journal(opened, lambda timeout_s: pager.flush(timeout_s, world))
            head, past, notes = self._continue(opened, journal, known) or self._begin(opened, journal, known)
            return Session(self._setting, world, opened.card.seed, hello.mode, head, past), notes
        except BaseException:
            if journal is not None:
                journal.close()
            pager.close_world(world)
            raise

    def _without_paths(self, text: str) -> str:
        """Text for the wire: where the worlds lie on this machine is nobody's business."""
        return text.replace(f"{self._worlds.root}/", "").replace(str(self._worlds.root), "the worlds folder")

    def _open(self, hello: Hello) -> OpenedWorld:
        model = self._setting.model
        card = self._worlds.find(hello.world) if hello.world else None
        if card is None:
            seed = next((seed for seed in (hello.seed, self._seed) if seed is not None), secrets.randbits(31))
            return self._worlds.make(hello.world, seed, model.name, model.fingerprint)
        if (card.model, card.fingerprint) != (model.name, model.fingerprint):
            raise Refused(
                "other_model",
                f"world {card.name!r} was drawn by other weights ({card.model} {card.fingerprint[:8]}; this server has "
                f"{model.name} {model.fingerprint[:8]}). Start the server with those weights, or name a new world.",
            )
        return self._worlds.open(card)

    def _continue(
        self, opened: OpenedWorld, journal: Journal, known: frozenset[int]
    ) -> tuple[Head, Past, list[str]] | None:
        """The saved head, with the catalog of the blocks that are still there."""
        if opened.state is None:
            return None
        pager, state = self._setting.pager, self._setting.model.load(opened.state)
        line = ancestors(opened.moments, opened.head)
        catalog: GrowingCatalog | None = None
        for moment in line:
            if moment.footprint is not None:
                catalog = catalog or _catalog_like(moment)
                catalog.append(moment.id, moment.chunk_index, moment.block_poses, moment.footprint)
        if catalog is None:
            return None
        kept = {moment.id for moment in line if moment.has_block}
        catalog.bury(kept - known)
        seeded = frozenset(moment.id for moment in line if moment.seeded)
        pager.forget(BlockKey(opened.card.id, block_id) for block_id in known - kept)  # of moments that were lost
        return (
            Head(opened.head, state, _next_id(opened, known)),
            Past(catalog, seeded, journal),
            _notes(opened, kept - known),
        )

    def _begin(self, opened: OpenedWorld, journal: Journal, known: frozenset[int]) -> tuple[Head, Past, list[str]]:
        """A new world, or one that was never saved: its seeded chunks become its first moments."""
        self._setting.pager.forget(BlockKey(opened.card.id, block_id) for block_id in known)
        model, seed = self._setting.model, opened.card.seed
        beginning = self._on_engine(lambda: model.begin(seed))
        first_id, parent = _next_id(opened, known), NO_MOMENT
        catalog: GrowingCatalog | None = None
        for index, chunk in enumerate(beginning.chunks):
            moment = _seeded_moment(beginning, index, first_id + index, parent, seed)
            journal.note(moment)
            parent = moment.id
            if chunk.block is not None:
                catalog = catalog or _catalog_like(moment)
                catalog.append(moment.id, index, chunk.block.poses, chunk.block.footprint)
                self._setting.pager.commit(BlockKey(opened.card.id, moment.id), chunk.block)
        assert catalog is not None, "a world begins with at least one block"
        head = Head(parent, beginning.state, parent + 1)
        journal.save(parent, model.dump(beginning.state))
        seeded = frozenset(range(first_id, parent + 1))
        return head, Past(catalog, seeded, journal, _view_from(beginning)), _notes(opened, set())


def _next_id(opened: OpenedWorld, known: frozenset[int]) -> int:
    """An id that no moment and no block ever bore: after a kill, a block may be durable and its moment not."""
    return max(opened.next_id, max(known, default=NO_MOMENT) + 1)


def _catalog_like(moment: Moment) -> GrowingCatalog:
    assert moment.footprint is not None
    return GrowingCatalog(len(moment.block_poses), moment.footprint.shape, moment.footprint.dtype.name)


def _view_from(beginning: Beginning) -> DrawnFrame:
    """The seeded frame that was seen from where the player stands."""
    start = beginning.state.pose
    frames = [frame for chunk in beginning.chunks for frame in chunk.frames]
    return min(
        frames, key=lambda frame: distance_m(frame.pose, start) + abs(wrap_rad(frame.pose.yaw_rad - start.yaw_rad))
    )


def _seeded_moment(beginning: Beginning, index: int, moment_id: int, parent: int, seed: int) -> Moment:
    chunk = beginning.chunks[index]
    return Moment(
        id=moment_id,
        parent=parent,
        chunk_index=index,
        seed=seed,
        controls=(),
        poses=tuple(frame.pose for frame in chunk.frames),
        recalled=(),
        stale=False,
        seeded=True,
        frame_hashes=tuple(digest(frame.pixels) for frame in chunk.frames),
        has_block=chunk.block is not None,
        block_poses=chunk.block.poses if chunk.block else (),
        footprint=chunk.block.footprint if chunk.block else None,
    )


def _notes(opened: OpenedWorld, absent: AbstractSet[int]) -> list[str]:
    """What a player who comes back should know."""
    notes = list(opened.notes)
    if opened.lost_chunks:
        notes.append(f"The server stopped before it could save: the last {opened.lost_chunks} chunks are lost.")
    if absent:
        notes.append(
            f"{len(absent)} blocks of this walk are not on the disk any more: forgotten under --nvme, or lost when the "
            "server was killed. Those places will be drawn anew."
        )
    return notes
