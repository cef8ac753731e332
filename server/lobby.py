"""The lobby: from a Hello to a session that stands on a branch. Opens or makes the world, or joins it where it is open.

Runs on a worker thread, because it waits for the disk; what the model must compute, and what changes a timeline that
others use, is handed to the engine thread.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from models.base import DrawnFrame
from server.exactness import exactness, mismatch
from server.faults import Refused, SnapshotFault, WorldFault
from server.head import Branch, Head, KeptHead, Recent, Snapshot
from server.journal import Journal
from server.lines import Lines, gone_of
from server.moments import MAIN, NO_MOMENT
from server.new_world import first_head, view_from
from server.pager.blocks import BlockKey
from server.pager.errors import PagerError
from server.rows import Line
from server.session import Session
from server.setting import Setting
from server.timeline import Timeline
from server.worlds import STATES_KEPT, OpenedWorld, Worlds
from shared.protocol import Hello


class Lobby:
    """Makes sessions. `on_engine(work)` runs `work` on the engine thread and returns its result."""

    def __init__(
        self,
        setting: Setting,
        worlds: Worlds,
        on_engine: Callable[[Callable[[], Any]], Any],
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

    def enter(self, hello: Hello, timeline: Timeline | None = None) -> tuple[Session, str, list[str]]:
        """A new session for this Hello, the world's name, and what the player should know. Raises Refused.

        `timeline` is that of the named world where it is open already.
        """
        try:
            if timeline is not None:
                return self._join(hello, timeline), self._worlds.card(timeline.world).name, []
            opened = self._open(hello)
            session, notes = self._settle_or_drop(opened, hello)
        except SnapshotFault as fault:
            raise Refused("snapshot", self._without_paths(str(fault))) from fault
        except (WorldFault, PagerError, ValueError) as fault:
            raise Refused("bad_world", self._without_paths(str(fault))) from fault
        except OSError as error:
            raise Refused("disk", f"the world cannot be opened: {error.strerror}. Check the worlds folder.") from error
        return session, opened.card.name, [self._without_paths(note) for note in notes]

    # ---- a world that is open ----

    def _join(self, hello: Hello, timeline: Timeline) -> Session:
        kept, left = self._on_engine(lambda: (timeline.place(hello.at, hello.resume), timeline.left_by(hello.resume)))
        head = timeline.read(kept)

        def stand() -> Session:
            session = self._stand(timeline, kept, head, hello)
            session.is_resumed = session.branch is left
            return session

        return self._on_engine(stand)

    def _stand(self, timeline: Timeline, kept: KeptHead, head: Head, hello: Hello) -> Session:
        """Engine thread."""
        if kept.head is None:
            timeline.wake(kept, head)
        branch = kept if isinstance(kept, Branch) else timeline.fork(head)
        if branch.is_taken:
            raise SnapshotFault(f"somebody walks on branch {branch.name!r}: choose another one, or a snapshot")
        return Session(self._setting, timeline, branch, hello.mode)

    # ---- a world at rest, or a new one ----

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
            marks = exactness(self._setting.model)
            journal = Journal(opened, lambda timeout_s: pager.flush(timeout_s, world), marks)
            next_id = max(opened.next_id, max(known, default=NO_MOMENT) + 1)  # a block may outlive its moment
            card, setting = opened.card, self._setting
            timeline = Timeline(
                world,
                card.seed,
                opened.folder,
                setting.model,
                journal,
                setting.shelf,
                next_id,
                lambda blocks: pager.set_pinned(world, blocks),
            )
            timeline.tree.load(opened.moments)
            return self._continue(opened, timeline, known, hello) or self._begin(opened, timeline, known, hello)
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
            if hello.at:
                raise WorldFault(f"there is no world {hello.world!r} that could have a branch or snapshot {hello.at!r}")
            seed = next((seed for seed in (hello.seed, self._seed) if seed is not None), secrets.randbits(31))
            return self._worlds.make(hello.world, seed, model.name, model.fingerprint)
        if (card.model, card.fingerprint) != (model.name, model.fingerprint):
            raise Refused(
                "other_model",
                f"world {card.name!r} was drawn by other weights ({card.model} {card.fingerprint[:8]}; this server has "
                f"{model.name} {model.fingerprint[:8]}). Start the server with those weights, or name a new world.",
            )
        return self._worlds.open(card, hello.at, hello.resume)

    def _continue(
        self, opened: OpenedWorld, timeline: Timeline, known: frozenset[int], hello: Hello
    ) -> tuple[Session, list[str]] | None:
        """The head at which one enters, on the lines of the blocks that are still there."""
        entry = opened.entry
        if entry is None:
            return None
        lines = Lines(opened.moments)
        line = lines.of(entry.kept.moment)
        timeline.seeded = frozenset(moment.id for moment in opened.moments.values() if moment.seeded)
        _adopt_all(opened, timeline, lines)
        timeline.gone = gone_of(lines, known)
        self._setting.pager.forget(BlockKey(timeline.world, each) for each in known - lines.blocks)  # of lost moments
        recalled = tuple(BlockKey(timeline.world, block) for block in entry.resting.recalled)
        state = self._setting.model.load(entry.resting.saved)
        head = Head(entry.kept.moment, state, line, entry.resting.frame, recalled)
        absent = timeline.gone.among(line.ids())

        def stand() -> Session:
            kept = timeline.branches[entry.branch] if entry.branch else timeline.snapshots[entry.kept.name]
            session = self._stand(timeline, kept, head, hello)
            session.is_resumed = entry.is_resumed
            return session

        return self._on_engine(stand), _notes(opened, int(absent.sum()), exactness(self._setting.model))

    def _begin(
        self, opened: OpenedWorld, timeline: Timeline, known: frozenset[int], hello: Hello
    ) -> tuple[Session, list[str]]:
        """A new world, or one that was never saved: its seeded chunks become its first moments."""
        pager, model = self._setting.pager, self._setting.model
        pager.forget(BlockKey(timeline.world, block_id) for block_id in known)
        beginning = self._on_engine(lambda: model.begin(timeline.seed))
        head = first_head(beginning, timeline, pager)
        timeline.branches[MAIN] = Branch(MAIN, head, NO_MOMENT)
        timeline.journal.save(head.moment, model.dump(beginning.state))
        view: DrawnFrame = view_from(beginning)

        def stand() -> Session:
            timeline.root = Recent(head, 0)
            self._setting.shelf.hold(timeline.root, timeline)
            return Session(self._setting, timeline, timeline.branches[MAIN], hello.mode, first_view=view)

        return self._on_engine(stand), _notes(opened, 0, exactness(self._setting.model))


def _adopt_all(opened: OpenedWorld, timeline: Timeline, lines: Lines) -> None:
    """Enter the branches and snapshots of the log. Their states stay where they lie until somebody goes there."""
    moments = opened.moments
    entered = opened.entry.branch if opened.entry else ""
    for name, branch in opened.branches.items():
        heads = [kept for kept in opened.log.heads.get(name, [])[-STATES_KEPT:] if kept.moment in moments]
        kept = next((kept for kept in reversed(heads) if (opened.folder / "states" / kept.file).exists()), None)
        if opened.entry and name == entered:
            kept = opened.entry.kept
        if kept is not None and (line := _line_of(lines, kept.moment)) is not None:
            chunk_index = moments[kept.moment].chunk_index + 1
            timeline.adopt(Branch.at_rest(name, kept, branch.start, chunk_index, line))
    for kept in opened.snapshots.values():
        if kept.moment in moments and (line := _line_of(lines, kept.moment)) is not None:
            chunk_index = moments[kept.moment].chunk_index + 1
            timeline.adopt(Snapshot.at_rest(kept, chunk_index, line, timeline))


def _line_of(lines: Lines, moment: int) -> Line | None:
    """None: its ancestors are not in the log. It cannot be entered; the rest of the world can."""
    try:
        return lines.of(moment)
    except ValueError:
        return None


def _notes(opened: OpenedWorld, num_absent: int, here: Mapping[str, Any]) -> list[str]:
    """What a player who comes back should know. `here` is the exactness fingerprint of this process."""
    notes = list(opened.notes)
    if faults := opened.log.faults:
        notes.append(
            f"{len(faults)} records of this world's log make no sense and were passed over, the first: {faults[0]}. "
            "`python -m server worlds verify` says more."
        )
    if opened.log.exactness and (difference := mismatch(opened.log.exactness[-1][1], here)):
        notes.append(f"This world was drawn elsewhere ({difference}): what is drawn again may differ in single pixels.")
    if opened.lost_chunks:
        notes.append(f"The server stopped before it could save: the last {opened.lost_chunks} chunks are lost.")
    if num_absent:
        notes.append(
            f"{num_absent} blocks of this walk are not on the disk any more: forgotten under --nvme, or lost when the "
            "server was killed. Those places will be drawn anew."
        )
    return notes
