"""Is the log of a world that came from elsewhere in order, and are its states the ones that it names? One thread.

Nothing of the log is kept, however long it is: a record is looked at and let go of.
"""

from pathlib import Path

from server.faults import WorldFault
from server.record_log import read_records
from server.world_log import WorldLog, file_mark, kept_from_record


def check_arrived(folder: Path) -> None:
    """Look at `moments.log` and `states/` of a folder. Raises WorldFault when something is damaged, OSError."""
    path = folder / "moments.log"
    unproven = {state.name: file_mark(state) for state in (folder / "states").iterdir()}
    end = 0
    try:
        for record, record_end in read_records(path):
            end = record_end
            WorldLog().take(record)
            if record.get("kind") in ("head", "snapshot"):
                kept = kept_from_record(record)
                if unproven.get(kept.file) == (kept.num_bytes, kept.hash):
                    del unproven[kept.file]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WorldFault(f"the log of the exported world is damaged after byte {end}: {error}") from error
    if end != path.stat().st_size:
        raise WorldFault("the log of the exported world is damaged: it is cut off")
    if unproven:
        raise WorldFault(
            f"the state {min(unproven)} of the exported world is damaged: its bytes are not the ones that were saved"
        )
