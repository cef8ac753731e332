"""A folder that one process at a time has in hand, as a server has its worlds. Any thread."""

import os
from pathlib import Path
from typing import Self

from server.faults import WorldFault
from server.pager.move.disk import RealDisk


class FolderLock:
    """A world's folder, held by this process alone. Raises WorldFault when a server has it open."""

    def __init__(self, folder: Path, what: str) -> None:
        """`what` is what cannot be done otherwise, for the text: "exported", say."""
        try:
            self._fd = RealDisk().lock(folder)
        except BlockingIOError as error:
            raise WorldFault(
                f"the world in {folder} is open in a server, so it cannot be {what} now. Leave the world, or stop "
                "that server, and try again."
            ) from error
        except OSError as error:
            raise WorldFault(f"{folder} cannot be opened: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
