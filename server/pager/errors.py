"""What can go wrong in the pager, by whose fault it is. A failed move is a value (`MoveDone`), never one of these.

PagerError
  BudgetError      the operator's numbers cannot work
  WorldFault       a world's folder cannot be opened, written or trusted; the whole server has only this one
  BlockStateError  our own fault
"""


class PagerError(Exception):
    """The root of the pager's exceptions."""


class BudgetError(PagerError):
    """The operator's numbers cannot work. The text says which, what is needed, and what to do."""


class WorldFault(PagerError):  # noqa: N818  # the word of design.md: the world's fault
    """A world's folder cannot be opened, written or trusted. The text says what happened, what it means, what to do."""


class BlockStateError(PagerError):
    """Our own fault: a change of a block that the tables do not allow."""
