"""Other ways to keep a block on disk, as `bench io` compares them: one file each, in formats that people use."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from models.base import Array


class Format(Protocol):
    """Writes a block durably and reads it back into memory that is there already."""

    name: str

    def write(self, path: Path, block: Array) -> None: ...

    def read(self, path: Path, into: Array) -> None: ...


class FilePerBlock:
    """A new file for each block: direct IO, reserved, synced, renamed, folder synced."""

    name = "file-per-block"

    def write(self, path: Path, block: Array) -> None:
        fresh = path.with_suffix(".new")
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        try:
            os.posix_fallocate(fd, 0, block.nbytes)
            _whole(lambda at: os.pwritev(fd, [block.data[at:]], at), block.nbytes)
            os.fsync(fd)
        finally:
            os.close(fd)
        fresh.replace(path)
        sync_folder(path.parent)

    def read(self, path: Path, into: Array) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            _whole(lambda at: os.preadv(fd, [into.data[at:]], at), into.nbytes)
        finally:
            os.close(fd)


class Safetensors:
    """safetensors, then copied to where it is wanted."""

    name = "safetensors"

    def write(self, path: Path, block: Array) -> None:
        save_file({"block": torch.from_numpy(block)}, path)
        _sync(path)

    def read(self, path: Path, into: Array) -> None:
        np.copyto(into, load_file(path)["block"].numpy())


class TorchSave:
    """torch.save and torch.load, then copied to where it is wanted."""

    name = "torch.save"

    def write(self, path: Path, block: Array) -> None:
        torch.save({"block": torch.from_numpy(block)}, path)
        _sync(path)

    def read(self, path: Path, into: Array) -> None:
        np.copyto(into, torch.load(path, weights_only=True)["block"].numpy())


class Tensorstore:
    """tensorstore's zarr3 driver, one chunk a block."""

    name = "tensorstore"

    def write(self, path: Path, block: Array) -> None:
        self._open(path, block.nbytes, create=True).write(block).result()
        os.sync()

    def read(self, path: Path, into: Array) -> None:
        np.copyto(into, self._open(path, into.nbytes, create=False).read().result())

    def _open(self, path: Path, num_bytes: int, *, create: bool) -> Any:
        import tensorstore  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  # optional: compared when installed

        metadata = {
            "shape": [num_bytes],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [num_bytes]}},
            "codecs": [{"name": "bytes"}],
        }
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
        return tensorstore.open(spec, create=create, delete_existing=create).result()  # pyright: ignore[reportUnknownMemberType]


def formats() -> list[Format]:
    """Those that this machine has."""
    found: list[Format] = [FilePerBlock(), Safetensors(), TorchSave()]
    return [*found, Tensorstore()] if find_spec("tensorstore") else found


def forget_cached(path: Path) -> None:
    """Let go of the page cache behind a file or the files of a folder."""
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        if each.is_file():
            fd = os.open(each, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    sync_folder(path.parent)


def _whole(step: Callable[[int], int], num_bytes: int) -> None:
    done = 0
    while done < num_bytes:
        done += step(done)
