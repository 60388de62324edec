"""Id streams and runs that live in memory or, under a memory cap, in work files."""

from __future__ import annotations

import mmap
import os
import re
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._files import write_all

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}
MIN_MEMORY = 16 * 10**6


def parse_memory(value: Any) -> int | None:
    """Bytes of a memory cap given as a number or as text such as "2GB" or "512 MiB".

    Raises
    ------
    ValueError
        If it cannot be read, or is below 16 MB.
    """
    if value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", value)
        if not match or match[2].upper() not in _UNITS:
            raise ValueError(f"memory is {value!r}; expected bytes, or text such as '512MB' or '2GB'")
        number = float(match[1]) * _UNITS[match[2].upper()]
    elif isinstance(value, bool) or not isinstance(value, (int, float, np.integer)):
        raise ValueError(f"memory is {value!r}; expected bytes, or text such as '512MB' or '2GB'")
    else:
        number = float(value)
    if not number >= MIN_MEMORY:
        raise ValueError(f"memory is {value!r}; expected at least {MIN_MEMORY // 10**6}MB")
    return int(min(number, 2**62))


class Pieces:
    """Pieces of raw ids with the number of their table, in order; in a work file where a folder is given."""

    def __init__(self, folder: Path | None = None):
        self._table: list[tuple[int, int]] = []  # length, table
        self._held: list[np.ndarray | None] = []
        self._folder = folder
        self._file = None if folder is None else tempfile.TemporaryFile(dir=folder, buffering=0)
        if self._file is not None:
            weakref.finalize(self, self._file.close)
        self.length = 0

    def append(self, raw: np.ndarray, table: int) -> None:
        self._table.append((len(raw), table))
        self.length += len(raw)
        if self._file is None:
            self._held.append(raw)
        else:
            write_all(self._file, np.ascontiguousarray(raw), self._folder)

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        if self._file is not None:
            self._file.seek(0)
        for number, (length, table) in enumerate(self._table):
            if self._file is not None:
                yield np.fromfile(self._file, dtype=np.int32, count=length), table
            else:
                piece = self._held[number]
                assert piece is not None
                yield piece, table

    def drain(self) -> Iterator[tuple[np.ndarray, int]]:
        """Iterate for the last time, letting each piece go."""
        for number, pair in enumerate(self):
            if self._file is None:
                self._held[number] = None
            yield pair
        self.close()

    def close(self) -> None:
        """Let memory and file go."""
        self._held = []
        if self._file is not None:
            self._file.close()


class Stream:
    """A finished stream of ids: appended to, then read by ranges."""

    def __init__(self, capacity: int, path: Path | None = None):
        self.length, self.path = 0, path
        self._array = np.empty(capacity if path is None else 0, dtype=np.int32)
        self._file = None if path is None else open(path, "ab+", buffering=0)
        if self._file is not None:
            weakref.finalize(self, self._file.close)

    @classmethod
    def reopen(cls, path: Path) -> Stream:
        """A stream that an earlier process finished."""
        stream = cls(0, path)
        stream.length = os.path.getsize(path) // 4
        return stream

    def append(self, ids: np.ndarray) -> None:
        if self._file is None:
            self._array[self.length : self.length + len(ids)] = ids
        else:
            write_all(self._file, np.ascontiguousarray(ids), self.path)
        self.length += len(ids)

    def room(self, size: int) -> np.ndarray:
        """Where the next `size` ids may be written before they are appended."""
        if self._file is None:
            return self._array[self.length : self.length + size]
        return np.empty(size, dtype=np.int32)

    def read(self, begin: int, end: int) -> np.ndarray:
        """Ids begin .. end - 1, closed by an end of sequence."""
        end = min(end, self.length)
        if self._file is None and (end == self.length or begin == end):
            return self._array[begin:end]
        ids = np.empty(end - begin + 1, dtype=np.int32)
        if self._file is None:
            ids[:-1] = self._array[begin:end]
        else:
            self._file.flush()
            self._file.seek(4 * begin)
            ids[:-1] = np.fromfile(self._file, dtype=np.int32, count=end - begin)
        ids[-1] = -1
        return ids

    def flush(self) -> None:
        """Push what was appended out to the file."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Let memory and file go."""
        if self._file is not None:
            self._file.close()
        self._array = self._array[:0]


class MappedMatrix:
    """A run on disk, memory-mapped, whose pages can be let go so that they do not count as memory in use."""

    def __init__(self, folder: Path, name: str):
        self._maps: list[mmap.mmap] = []
        self.arrays = tuple(self._map(folder / f"{name}.{part}.npy") for part in ("indptr", "indices", "data"))

    def _map(self, path: Path) -> np.ndarray:
        array = np.load(path, mmap_mode="r", allow_pickle=False) if path.stat().st_size > 128 else np.load(path)
        if not array.size:
            return np.asarray(array)
        with open(path, "rb") as handle:
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype=array.dtype, count=len(array), offset=path.stat().st_size - array.nbytes)

    def release(self) -> None:
        """Let the pages read so far go."""
        for mapped in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)
