"""What all sessions of an engine share."""

from dataclasses import dataclass, field

from models.base import WorldModel
from server.pager.pager import Pager
from server.pager.recall_buffer import RecallBuffer
from server.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Setting:
    """What all sessions share: the model, the pager, the engine's recall buffer, and the shelf of kept heads."""

    model: WorldModel
    pager: Pager
    buffer: RecallBuffer
    shelf: Shelf = field(default_factory=Shelf)
