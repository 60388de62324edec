"""Files that are whole or absent: atomic writing, and safetensors files that say what they hold."""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FORMAT_VERSION = 1  # major version of every lagwise file; a newer one is refused
CHECKED = 1 << 28  # bytes of an array up to which it is compared with its checksum when it is read


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Make an OSError inside name the file or folder that was to be written, where it names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, f"{error.strerror} while writing", os.fspath(path)) from None
        raise


def write_all(file: Any, data: Any, path: Any) -> None:
    """Write a whole buffer to an unbuffered file; an OSError names `path`."""
    view = memoryview(data).cast("B")
    with naming(path):
        while len(view):
            view = view[file.write(view) :]


@contextmanager
def atomic_path(target: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success it is flushed to disk and renamed over it.

    A target that exists and is not a regular file (a device, a pipe) is yielded itself and written directly.

    Raises
    ------
    FileExistsError
        If `target` exists and `overwrite` is false.
    OSError
        If the folder cannot be written; the target is then untouched and nothing is left behind.
    """
    path = Path(target)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        with naming(path):
            yield path
        return
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; remove it, choose another name or pass overwrite=True (--force)")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first or choose another place")
    path = Path(os.path.realpath(path))
    temporary = path.parent / f".{path.name}.{os.urandom(4).hex()}.tmp"
    try:
        with naming(path):
            yield temporary
            with open(temporary, "rb+") as handle:
                os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def reserve(path: str | os.PathLike[str]) -> None:
    """Take the disk's space for all of a file before it is written through a map, which a full disk ends by a signal.

    Raises
    ------
    OSError
        If the disk has not enough; not where the file system cannot say.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    with open(path, "rb+") as handle:
        try:
            os.posix_fallocate(handle.fileno(), 0, os.fstat(handle.fileno()).st_size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise


def save_tensors(
    path: str | os.PathLike[str], kind: str, arrays: dict[str, np.ndarray], meta: dict[str, Any], overwrite: bool
) -> None:
    """Write named arrays and JSON metadata to one safetensors file, atomically.

    Parameters
    ----------
    path : str or PathLike
        The file to write.
    kind : str
        What the file holds, such as "word-vectors"; `load_tensors` and `lagwise.load` tell files apart by it.
    arrays : dict of ndarray
        Stored in C order under their names.
    meta : dict
        JSON values; all that is needed beside the arrays to rebuild the object.
    overwrite : bool
        Replace a file that is already there; without it that is a FileExistsError.
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    about = {
        "format": "lagwise",
        "kind": kind,
        "version": FORMAT_VERSION,
        "made_with": _versions(),
        "checksums": {name: zlib.crc32(array.data) for name, array in arrays.items() if array.nbytes <= CHECKED},
        "meta": meta,
    }
    # One entry only: the library writes several in an order that changes from process to process.
    header = {"lagwise": json.dumps(about, sort_keys=True, ensure_ascii=True)}
    payload = save(arrays, metadata=header)
    with atomic_path(path, overwrite) as temporary, open(temporary, "wb") as handle:
        handle.write(payload)


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    from ._version import __version__

    libraries = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"lagwise": __version__, "python": platform.python_version(), **libraries}


def load_tensors(
    path: str | os.PathLike[str], kind: str | None = None
) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Read a file written by `save_tensors`; arrays are read-only memory maps. Never unpickles.

    Arrays of up to 256 MB are compared with their checksums; greater ones are only mapped.

    Returns
    -------
    (kind, arrays, meta)

    Raises
    ------
    ValueError
        If the file is not a lagwise file, is damaged, is of a newer format, or is not of the expected `kind`.
    """
    name = os.fspath(path)
    if not os.path.exists(name):
        raise FileNotFoundError(f"{name} does not exist")
    if os.path.isdir(name):
        raise ValueError(f"{name} is a folder; expected a lagwise {kind or 'model'} file")
    try:
        header, arrays = _map_safetensors(name)
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not a lagwise file, or is damaged ({error})") from None
    try:
        about = json.loads(header["lagwise"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name} is a safetensors file but not one of lagwise's") from None
    if not isinstance(about.get("version"), int) or not isinstance(about.get("meta"), dict) or "kind" not in about:
        raise ValueError(f"{name} is damaged: its header does not say what it holds and in which format version")
    if about["version"] > FORMAT_VERSION:
        raise ValueError(
            f"{name} has format version {about['version']}; this lagwise reads up to {FORMAT_VERSION}: upgrade lagwise"
        )
    if kind is not None and about["kind"] != kind:
        raise ValueError(f"{name} holds {about['kind']}; expected {kind}")
    checksums = about.get("checksums", {})
    if not isinstance(checksums, dict):
        raise ValueError(f"{name} is damaged: its header holds no table of checksums")
    for key, checksum in checksums.items():
        if key not in arrays or zlib.crc32(np.ascontiguousarray(arrays[key]).data) != checksum:
            raise ValueError(f"{name} is damaged: the array {key!r} is not what was written")
    return about["kind"], arrays, about["meta"]


_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


def _map_safetensors(name: str) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    size = os.path.getsize(name)
    with open(name, "rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError("it does not begin like a safetensors file")
        table = json.loads(handle.read(length))
    if not isinstance(table, dict):
        raise ValueError("its header is not a table")
    header = table.pop("__metadata__", {})
    arrays = {}
    for key, entry in table.items():
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if end - begin != dtype.itemsize * int(np.prod(shape, dtype=np.int64)) or 8 + length + end > size or begin < 0:
            raise ValueError(f"array {key!r} of shape {shape} does not fit in the file: it was cut short")
        if end == begin:
            arrays[key] = np.zeros(shape, dtype)
        else:
            arrays[key] = np.memmap(name, dtype, mode="r", offset=8 + length + begin, shape=shape)
    return header, arrays
