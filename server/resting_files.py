"""Which state files a world's log still names. Journal thread: it unlinks what nothing names any more."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from server.world_log import Kept, WorldLog, kept_from_record, state_fault
from server.worlds import STATES_KEPT, newest_heads


class RestingFiles:
    """Counts the names of each file in `states/`. One file may serve a snapshot and several branches at its moment."""

    def __init__(self, folder: Path, log: WorldLog) -> None:
        self._folder = folder
        self._heads = {name: [kept.file for kept in newest_heads(heads)] for name, heads in log.heads.items()}
        self._snapshots = {name: (kept.file, kept.thumbnail) for name, kept in log.snapshots.items()}
        self._num_names: Counter[str] = Counter(file for files in self._heads.values() for file in files)
        for names in self._snapshots.values():
            self._num_names.update(filter(None, names))
        self._written: dict[int, Mapping[str, Any]] = {}  # by moment: files that are known to be whole
        heads = (kept for heads in log.heads.values() for kept in newest_heads(heads))
        self._found = {kept.moment: kept for kept in (*heads, *log.snapshots.values())}  # named, not looked at yet
        self._logged: set[str] = set()  # files that some record names, although its save was refused
        self._has_swept = False

    def written(self, moment: int) -> dict[str, Any]:
        """Name, size and hash of the whole file that is there for a moment; else nothing.

        One that other records name is not written over: what they say of it would be true no more.
        """
        found = self._found.pop(moment, None)
        if found is not None and moment not in self._written and not state_fault(self._folder.parent, found):
            self._written[moment] = {"state": found.file, "bytes": found.num_bytes, "hash": found.hash}
        return dict(self._written.get(moment, {}))

    def has_picture(self, file: str) -> bool:
        """Whether a snapshot of the same moment has this picture already."""
        return file in self._num_names and (self._folder.parent / "thumbnails" / file).is_file()

    def note_written(self, moment: int, file: Mapping[str, Any]) -> None:
        self._written[moment] = file

    def refer(self, record: Mapping[str, Any]) -> Kept:
        """A durable record names a file now, perhaps in place of an older one."""
        kept = kept_from_record(record)
        self._num_names.update(filter(None, (kept.file, kept.thumbnail)))
        if record["kind"] == "head":
            files = self._heads.setdefault(kept.name, [])
            if kept.file in files:  # the same head again
                files.remove(kept.file)
                self._num_names[kept.file] -= 1
            files.append(kept.file)
            if len(files) > STATES_KEPT:
                self._let_go(files.pop(0))
            self._sweep(kept.moment)
        else:
            self._let_go(*self._snapshots.get(kept.name, ()))
            self._snapshots[kept.name] = (kept.file, kept.thumbnail)
        return kept

    def refused(self, moments: Iterable[int], *, is_logged: bool) -> None:
        """The saves of these moments failed, perhaps after their records were logged: then a later sync makes them
        durable, and their files stay. Otherwise what nothing names goes: on a full disk it would be in the way.
        """
        files = {f"{moment}.{kind}" for moment in moments for kind in ("safetensors", "safetensors.new", "jpg")}
        if is_logged:
            self._logged |= files
        for file in files - self._logged:
            if file not in self._num_names:
                self._unlink(file)

    def drop(self, what: str, name: str) -> None:
        """A snapshot or a branch is there no more."""
        if what == "branch":
            self._let_go(*self._heads.pop(name, []))
        else:
            self._let_go(*self._snapshots.pop(name, ()))

    def _let_go(self, *files: str) -> None:
        for file in filter(None, files):
            self._num_names[file] -= 1
            if self._num_names[file] <= 0:
                del self._num_names[file]
                self._unlink(file)

    def _unlink(self, file: str) -> None:
        if file.endswith(".jpg"):
            (self._folder.parent / "thumbnails" / file).unlink(missing_ok=True)
            return
        self._written = {moment: named for moment, named in self._written.items() if named["state"] != file}
        (self._folder / file).unlink(missing_ok=True)

    def _sweep(self, before: int) -> None:
        """Once: unlink what a kill left behind, files of moments before this one that no record names."""
        if not self._has_swept:
            self._has_swept = True
            for path in self._folder.glob("*.safetensors"):
                if path.name not in self._num_names and -1 < _moment_of(path.name) < before:
                    path.unlink(missing_ok=True)


def _moment_of(file: str) -> int:
    stem = file.partition(".")[0]
    return int(stem) if stem.isdigit() else -1
