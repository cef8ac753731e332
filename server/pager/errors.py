"""What can go wrong in the pager, by whose fault it is. A failed move is a value (`MoveDone`), never one of these."""


class PagerError(Exception):
    """The root of the pager's exceptions."""


class BudgetError(PagerError):
    """The operator's numbers cannot work. The text says which, what is needed, and what to do."""


class WorldFault(PagerError):  # noqa: N818  # the word of design.md: the world's fault
    """A world's folder cannot be opened or used. The text says what happened and what to do."""


class BlockStateError(PagerError):
    """Our own fault: a change of a block that the tables do not allow."""
