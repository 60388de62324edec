"""The folder on disk that holds counts: streaming writers, atomic replacement, and checks on loading."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ._files import write_all

FORMAT = "lagwise-counts"
VERSION = 1
_HEADER = 128  # bytes of every .npy header written here


def narrowest(largest: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds `largest`."""
    return np.min_scalar_type(max(int(largest), 0))


class ArrayWriter:
    """One .npy array written piece by piece; unsigned data are kept in the narrowest type that fits all of them.

    The file is open only while a piece is written, so that any number of arrays can be written side by side.
    """

    def __init__(self, path: Path, dtype: Any, narrow: bool = False):
        self.path, self.dtype, self.narrow = path, np.dtype(np.uint8 if narrow else dtype), narrow
        self.length = self.crc = 0
        self._write(b" " * _HEADER, "wb")

    def _write(self, data: Any, mode: str = "ab") -> None:
        with open(self.path, mode, buffering=0) as file:
            write_all(file, data, self.path)

    def append(self, values: np.ndarray) -> None:
        """Add values behind those written."""
        if self.narrow and len(values):
            wanted = narrowest(values.max())
            if wanted.itemsize > self.dtype.itemsize:
                self._widen(wanted)
        piece = np.ascontiguousarray(values, dtype=self.dtype)
        if len(piece):
            raw = piece.view(np.uint8).data
            self.crc = zlib.crc32(raw, self.crc)
            self._write(raw)
            self.length += len(piece)

    def _widen(self, wanted: np.dtype[Any]) -> None:
        old, self.dtype = self.dtype, wanted
        left, self.length, self.crc = self.length, 0, 0
        with open(self.path, "rb", buffering=0) as source:
            os.unlink(self.path)
            self._write(b" " * _HEADER, "wb")
            source.seek(_HEADER)
            while left:
                part = np.fromfile(source, dtype=old, count=min(left, 1 << 20))
                left -= len(part)
                self.append(part)

    def close(self) -> dict[str, Any]:
        """Write the header; returns dtype, length and checksum."""
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': ({self.length},), }}"
        head = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + text.ljust(_HEADER - 11).encode() + b"\n"
        self._write(head, "rb+")
        return {"dtype": self.dtype.str, "length": self.length, "crc32": self.crc}


class MatrixWriter:
    """A CSR matrix written row by row into three .npy files ``name.{indptr,indices,data}.npy``."""

    def __init__(self, folder: Path, name: str, float_data: bool = False):
        self.name = name
        self._indptr = ArrayWriter(folder / f"{name}.indptr.npy", np.int64)
        self._indptr.append(np.zeros(1, dtype=np.int64))
        self._indices = ArrayWriter(folder / f"{name}.indices.npy", np.int32)
        self._data = ArrayWriter(folder / f"{name}.data.npy", np.float64, narrow=not float_data)

    def append(self, lengths: np.ndarray, pieces: list[Any]) -> None:
        """Add rows: their lengths, and their entries as (indices, values) pieces."""
        self._indptr.append(np.cumsum(lengths) + self._indices.length)
        for indices, values in pieces:
            self._indices.append(indices)
            self._data.append(values)

    def close(self) -> dict[str, Any]:
        return {
            f"{self.name}.indptr": self._indptr.close(),
            f"{self.name}.indices": self._indices.close(),
            f"{self.name}.data": self._data.close(),
        }


class MatrixBuilder:
    """The same in memory: rows in, (indptr, indices, data) out."""

    def __init__(self) -> None:
        self._lengths: list[np.ndarray] = []
        self._indices: list[np.ndarray] = []
        self._data: list[np.ndarray] = []

    def append(self, lengths: np.ndarray, pieces: list[Any]) -> None:
        self._lengths.append(lengths)
        for indices, values in pieces:
            if len(indices):
                self._indices.append(indices.copy())
                kind = narrowest(values.max()) if values.dtype.kind == "u" else values.dtype
                self._data.append(values.astype(kind))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        indptr = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum(np.concatenate([np.zeros(0, np.int64), *self._lengths]))]
        )
        kind = np.result_type(np.uint8, *{piece.dtype for piece in self._data})
        return indptr, _join(self._indices, np.dtype(np.int32)), _join(self._data, kind)


def _join(pieces: list[np.ndarray], dtype: np.dtype[Any]) -> np.ndarray:
    """Concatenate, letting each piece go as soon as it is copied."""
    out = np.empty(sum(map(len, pieces)), dtype=dtype)
    place = 0
    for number, piece in enumerate(pieces):
        out[place : place + len(piece)] = piece
        place += len(piece)
        pieces[number] = piece[:0]
    return out


@contextmanager
def store_folder(path: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that takes its place on success; an old store stays whole until then.

    Raises
    ------
    FileExistsError
        If something is at `path` and `overwrite` is false, or if it is no count store.
    OSError
        If the folder cannot be made.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"{path} is not a folder; a count store is a folder: choose another name")
    if target.exists():
        if not is_store(target):
            raise FileExistsError(
                f"{path} exists and is not a lagwise store; it is never overwritten: choose another name"
            )
        if not overwrite:
            raise FileExistsError(f"{path} exists; remove it, choose another name or pass overwrite=True (--force)")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; make it first or choose another place")
    temporary = target.parent / f".{target.name}.{os.urandom(4).hex()}.tmp"
    try:
        temporary.mkdir()
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: cannot make a store in", str(target.parent)) from None
    try:
        yield temporary
        if target.exists():
            _exchange(temporary, target)
        else:
            os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders, in one step where the system can."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        swapped = libc.renameat2(-100, os.fsencode(new), -100, os.fsencode(old), 2) == 0
    except (OSError, AttributeError):
        swapped = False
    if not swapped:
        aside = new.with_name(new.name + ".old")
        os.rename(old, aside)
        try:
            os.rename(new, old)
        except BaseException:
            os.rename(aside, old)
            raise
        os.rename(aside, new)


def is_store(path: Path) -> bool:
    """Whether a folder says that it is a count store."""
    try:
        with open(path / "meta.json", encoding="utf-8") as handle:
            return json.load(handle).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        return False


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write sorted, readable JSON: equal values give equal bytes."""
    path.write_text(json.dumps(value, sort_keys=True, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


def read_meta(path: Path) -> dict[str, Any]:
    """The metadata of a store, after checking that it is one and that this version reads it."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not path.is_dir() or not is_store(path):
        raise ValueError(f"{path} is not a count store (no meta.json of lagwise); make one with lagwise count")
    meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    if not isinstance(meta.get("version"), int):
        raise ValueError(f"{path} is damaged: its meta.json gives {meta.get('version')!r} as format version")
    if meta["version"] > VERSION:
        raise ValueError(
            f"{path} has store format {meta['version']}; this lagwise reads up to {VERSION}: upgrade lagwise"
        )
    return meta


def read_array(path: Path, name: str, entry: dict[str, Any], verify: bool = False) -> np.ndarray:
    """Memory-map one array of a store after checking its type and length, and its checksum on request."""
    file = path / f"{name}.npy"
    try:
        if entry["length"] == 0:
            array = np.load(file, allow_pickle=False)
        else:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a whole count store: {name}.npy cannot be read ({error})") from None
    if array.dtype.str != entry["dtype"] or array.shape != (entry["length"],):
        raise ValueError(
            f"{path} is damaged: {name}.npy holds {array.dtype.str} {array.shape}, its meta.json says "
            f"{entry['dtype']} ({entry['length']},)"
        )
    if verify:
        crc = 0
        for start in range(0, len(array), 1 << 20):
            crc = zlib.crc32(np.ascontiguousarray(array[start : start + (1 << 20)]).view(np.uint8).data, crc)
        if crc != entry["crc32"]:
            raise ValueError(
                f"{path} is damaged: the checksum of {name}.npy is {crc}, its meta.json says {entry['crc32']}"
            )
    return array
