"""The wire's messages about a world's timeline: snapshots, going back, branches, and the tree of them. Pure.

A part of shared/protocol.py, which packs and unpacks them. All are sent by a driver, or to one that asked.
"""

from typing import Annotated, Literal

from pydantic import Field, Strict

from shared.message import Message, News

MAX_NAME = 64
MAX_REWIND_CHUNKS = 512
MAX_TREE_NODES = 1_024

TreeNode = Annotated[tuple[int, int, int, str], Strict(False)]  # moment, parent or -1, chunk, label
Why = Literal["enter", "restore", "rewind", "fork"]


# ---- client to server ----


class SnapshotRequest(Message):
    """Keep the moment where the head stands now. Without a name the server makes one up: a quick snapshot."""

    type: Literal["snapshot"] = "snapshot"
    name: str = Field(default="", max_length=MAX_NAME)


class Restore(Message):
    """Go back to a snapshot; without a name, to the newest quick one."""

    type: Literal["restore"] = "restore"
    name: str = Field(default="", max_length=MAX_NAME)


class Rewind(Message):
    """Go back some chunks on this branch."""

    type: Literal["rewind"] = "rewind"
    chunks: int = Field(ge=1, le=MAX_REWIND_CHUNKS)


class Fork(Message):
    """Begin a new branch here and go on on it; the old one keeps this moment as its head."""

    type: Literal["fork"] = "fork"
    name: str = Field(default="", max_length=MAX_NAME)


class SwitchRecall(Message):
    """Whether chunks are drawn with what the memory holds. Off, the model sees its own window alone."""

    type: Literal["recall"] = "recall"
    on: bool


class AskTree(Message):
    """Asks for the Tree of this world."""

    type: Literal["tree"] = "tree"


# ---- server to client ----


class SnapshotNote(News):
    """A snapshot was made, or what was made is now safe on the disk (`durable`). `text` is for the player."""

    type: Literal["snapshot"] = "snapshot"
    name: str
    moment: int
    chunk: int
    durable: bool
    text: str


class HeadNote(News):
    """The head stands elsewhere than the chunk before it says; the frame of that moment follows.

    `redrawn` counts the chunks that had to be drawn again to get there.
    """

    type: Literal["head"] = "head"
    branch: str
    moment: int
    chunk: int
    why: Why
    redrawn: int = 0
    text: str = ""

    @property
    def is_jump(self) -> bool:
        """Whether what was shown before is another moment."""
        return self.why in ("restore", "rewind")


class Tree(News):
    """The timeline, thinned: only the first moment, forks, snapshots, heads and ends, each with its thinned parent."""

    type: Literal["tree"] = "tree"
    nodes: list[TreeNode]
    here: int  # the moment of this session's head, which is among the nodes
    branch: str = ""  # the branch that this session stands on
