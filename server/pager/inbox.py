"""What other threads tell the pager thread: values, taken in the order in which they were put."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from models.base import FreshBlock
from server.pager.blocks import BlockKey
from server.pager.decide.place import Plan
from server.pager.decide.relevance import Trail
from server.pager.moves import Held, MoveDone
from server.pager.tally import Tally


@dataclass(frozen=True, slots=True)
class Commit:
    """A chunk left a block. `event` (CUDA) was recorded when its tensors were complete."""

    key: BlockKey
    fresh: FreshBlock
    event: Any


@dataclass(frozen=True, slots=True)
class Foresee:
    """The newest plan of a head, to be worked out by the pager thread, and where it has been so far."""

    head: str
    work_out: Callable[[], Plan]
    trail: Trail | None = None


class Ask(NamedTuple):
    """A head's chunk wants these blocks now; `taken` is what it was given, None while it still waits for all of them.

    `is_blocking`: the engine stands still while it waits. `tally` has the recall entered, to be counted.
    """  # a named tuple: it is made within a recall, and a frozen dataclass takes four times as long

    head: str
    wanted: tuple[BlockKey, ...]
    taken: tuple[BlockKey, ...] | None
    serial: int
    is_blocking: bool = True
    tally: Tally | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """These blocks are not needed any more."""

    keys: tuple[BlockKey, ...]


@dataclass(frozen=True, slots=True)
class Spill:
    """These blocks leave GPU and DRAM as soon as NVME has them. No head wants them until it says so again."""

    keys: frozenset[BlockKey]


@dataclass(frozen=True, slots=True)
class Pin:
    """All blocks of a world that its snapshots keep: forgotten last."""

    world: str
    blocks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Leave:
    """A head is gone."""

    head: str


@dataclass(frozen=True, slots=True)
class Released:
    """A lease was given back: slots may be free."""


@dataclass(slots=True)
class Answer:
    """Where the pager thread puts an answer that somebody waits for."""

    ready: threading.Event = field(default_factory=threading.Event)
    is_good: bool = False

    def give(self, *, is_good: bool) -> None:
        self.is_good = is_good
        self.ready.set()


@dataclass(frozen=True, slots=True)
class Opened:
    """A world's slab is open."""

    world: str
    num_slots: int
    held: Mapping[int, Held]  # by slot
    first_generation: int
    notes: tuple[str, ...]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Closing:
    """Let go of a world; answered when no move of it is under way."""

    world: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Flush:
    """Answered when what was committed to the world (None: to any) before it waits for the disk no more."""

    world: str | None
    answer: Answer


@dataclass(frozen=True, slots=True)
class Stop:
    """The thread ends after what it has."""


Message = MoveDone | Commit | Foresee | Ask | Released | Forget | Spill | Pin | Leave | Opened | Closing | Flush | Stop


class Inbox:
    """Any thread puts; the pager thread waits and takes. A bell apart, so that not everything need wake it."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()

    def put(self, message: Message) -> None:
        self._messages.append(message)
        self._bell.put(None)

    def put_quietly(self, message: Message) -> None:
        """It is taken when the next one rings: waking a thread takes longer than all the rest of a recall."""
        self._messages.append(message)

    def wait(self, timeout_s: float | None) -> None:
        """Until something was put that rings."""
        with suppress(Empty):
            self._bell.get(timeout=timeout_s)
        while not self._bell.empty():
            self._bell.get()

    def take(self) -> Message | None:
        """The next message; None when there is none."""
        return self._messages.popleft() if self._messages else None
