"""What a driver asks of the timeline, done between two chunks and answered with notes. Engine thread.

A head that lies at rest is read on a thread of its own: the engine, and whoever else walks, does not wait for the
disk. What cannot be done is an error in words, and the session stands where it stood.
"""

import logging
import threading
from collections.abc import Callable

from server.faults import SnapshotFault
from server.head import Branch, Head, KeptHead, Snapshot
from server.seat import Seat
from server.session import Session
from server.tree import tree_of
from shared.protocol import (
    AskTree,
    Error,
    Fork,
    FromTraveller,
    HeadNote,
    Restore,
    Rewind,
    SnapshotNote,
    SnapshotRequest,
    SwitchRecall,
)
from shared.timeline import Why

_log = logging.getLogger(__name__)


class Travel:
    """One session's ways through its world's timeline."""

    def __init__(self, session: Session, post: Callable[[Callable[[], None]], None]) -> None:
        """`post` has the engine thread do something between two chunks; from any thread."""
        self._session = session
        self._post = post

    def do(self, message: FromTraveller, seat: Seat) -> None:
        """Do it now, and tell this seat, or every seat when the head moved."""
        try:
            self._do(message, seat)
        except SnapshotFault as fault:
            _refuse(seat, fault)
        except Exception:  # noqa: BLE001 - top of a wish, which nobody waits for: the player and the log are told
            _log.exception("wish failed world=%s wish=%s", self._session.world, message.type)
            text = "The server made an error with that wish, and logged it. Your world goes on."
            seat.tell(Error(code="snapshot", text=text, fatal=False))

    def _do(self, message: FromTraveller, seat: Seat) -> None:
        session = self._session
        match message:
            case SnapshotRequest():
                self._keep(message.name, seat)
            case Restore():
                self._restore(message.name, seat)
            case Rewind():
                redrawn = session.rewind(message.chunks)
                again = f"; {redrawn} drawn again to get there" if redrawn else ""
                self._arrive("rewind", f"Back at chunk {session.head.chunk_index - 1}{again}.", redrawn)
            case Fork():
                branch = session.fork(message.name)
                old = session.branch.name
                session.switch(branch)
                self._arrive("fork", f"You walk on {branch.name} now. {old} keeps this moment; T shows both.")
            case SwitchRecall():
                session.recalls = message.on
            case AskTree():
                seat.tell(tree_of(session.timeline, session.head.moment, session.branch.name))

    def enter(self, seat: Seat) -> None:
        """Tell a driver who sat down where the session stands."""
        seat.tell(self._head_note("enter", ""))

    # ---- snapshots ----

    def _keep(self, name: str, seat: Seat) -> None:
        timeline = self._session.timeline
        snapshot = self._session.snapshot(name)
        gone, total = timeline.memory_gone(snapshot)
        how = "F9 goes back to it." if snapshot.is_quick else "T goes back to it."
        seat.tell(_kept_note(snapshot, f"{snapshot.name} kept. {how}{_gone_in_words(gone, total)}", is_durable=False))

        has_told = False

        def told(is_durable: bool) -> None:  # noqa: FBT001 - one of two answers
            """On the journal's thread; of many refusals the first is told."""
            nonlocal has_told
            if is_durable:
                seat.tell(_kept_note(snapshot, f"{snapshot.name} is safe on the disk.", is_durable=True))
            elif not has_told:
                has_told = True
                seat.tell(Error(code="snapshot", text=_not_written(snapshot, timeline.journal.fault), fatal=False))

        timeline.scribe.watch(snapshot, told)

    # ---- going elsewhere ----

    def _restore(self, name: str, seat: Seat) -> None:
        """Go to a snapshot; or over to a branch, when no snapshot bears the name."""
        timeline = self._session.timeline
        branch = timeline.branches.get(name)
        if branch is not None and name not in timeline.snapshots:
            if branch is self._session.branch:
                raise SnapshotFault(f"you walk on {name!r} already")
            self._with_head(branch, seat, lambda _: self._switch(branch))
        else:
            snapshot = timeline.find(name)
            self._with_head(snapshot, seat, lambda head: self._stand(snapshot, head))

    def _switch(self, branch: Branch) -> None:
        self._session.switch(branch)
        self._arrive("restore", f"You walk on {branch.name} now, where it was left.")

    def _stand(self, snapshot: Snapshot, head: Head) -> None:
        self._session.restore(head)
        gone, total = self._session.timeline.memory_gone(snapshot)
        self._arrive("restore", f"Back at {snapshot.name}.{_gone_in_words(gone, total)}")

    def _with_head(self, kept: KeptHead, seat: Seat, go: Callable[[Head], None]) -> None:
        """Go now when the head is in RAM, else once a thread has read it."""
        if kept.head is not None:
            go(kept.head)
            return
        timeline = self._session.timeline

        def arrived(head: Head) -> None:
            """Back on the engine thread."""
            if kept.head is None:
                timeline.wake(kept, head)
            try:
                go(head)
            except SnapshotFault as fault:
                _refuse(seat, fault)

        def read() -> None:
            try:
                head = timeline.read(kept)
            except SnapshotFault as fault:
                _refuse(seat, fault)
            else:
                self._post(lambda: arrived(head))

        threading.Thread(target=read, name="read-head", daemon=True).start()

    def _arrive(self, why: Why, text: str, redrawn: int = 0) -> None:
        """Tell every seat, then show the place. What waits from before is dropped first: it must not come after."""
        show = self._session.show
        for seat in show.seats:
            seat.outbox.clear()
        show.tell(self._head_note(why, text, redrawn))
        self._session.settle()

    def _head_note(self, why: Why, text: str, redrawn: int = 0) -> HeadNote:
        session = self._session
        return HeadNote(
            branch=session.branch.name,
            moment=session.head.moment,
            chunk=session.head.chunk_index - 1,
            why=why,
            redrawn=redrawn,
            text=text,
        )


def _kept_note(snapshot: Snapshot, text: str, *, is_durable: bool) -> SnapshotNote:
    return SnapshotNote(
        name=snapshot.name,
        moment=snapshot.moment,
        chunk=snapshot.chunk_index - 1,
        durable=is_durable,
        text=text,
    )


def _not_written(snapshot: Snapshot, fault: str) -> str:
    why = fault or "The disk is slow: its memory is not written yet, and that is tried again."
    return f"{snapshot.name} is not on the disk: so far it lasts until the server stops. {why[:1].upper()}{why[1:]}"


def _gone_in_words(gone: int, total: int) -> str:
    """What is missing of a snapshot's memory; nothing when all is there."""
    return f" {gone} of {total} blocks of its memory are gone: those places are drawn anew." if gone else ""


def _refuse(seat: Seat, fault: SnapshotFault) -> None:
    text = str(fault)
    seat.tell(Error(code="snapshot", text=text[:1].upper() + text[1:], fatal=False))
