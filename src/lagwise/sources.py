"""Where text comes from: files, folders, globs, pipes, compressed or not, read as blocks that end at white space."""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

BLOCK_BYTES = 1 << 22  # text read at a time; results never depend on it

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))
_BOM = b"\xef\xbb\xbf"


@dataclass
class Block:
    """Consecutive bytes of one file: ``data[:size]``, padded behind; `last` at the end of the file."""

    data: np.ndarray
    size: int
    name: str
    last: bool


def list_sources(source: Any) -> list[Any]:
    """Expand what the user gave into a list of file names and open files, in the order in which they are read.

    Raises
    ------
    FileNotFoundError
        Naming what does not exist.
    TypeError
        If the source is no path, no list of them and no open binary file.
    """
    if isinstance(source, (list, tuple)):
        listed = [one for item in source for one in list_sources(item)]
        if not listed:
            raise ValueError("the list of files is empty; give at least one file, or text through lines=")
        return listed
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        return _expand(name)
    if hasattr(source, "read"):
        if isinstance(source, io.TextIOBase):
            raise TypeError("the open file is in text mode; open it in binary mode ('rb')")
        return [source]
    raise TypeError(
        f"source is a {type(source).__name__}; expected a path, a list of paths or an open binary file "
        "(text in memory goes through lines=)"
    )


def _expand(name: str) -> list[Any]:
    if name == "-" or "://" in name:
        return [name]
    if os.path.isdir(name):
        found = [
            os.path.join(folder, file)
            for folder, folders, files in os.walk(name)
            for file in files
            if not file.startswith(".")
        ]
        if not found:
            raise FileNotFoundError(f"the folder {name} holds no files")
        return sorted(found, key=os.fsencode)
    if os.path.exists(name):
        return [name]
    if glob.has_magic(name):
        matches = sorted(glob.glob(name, recursive=True), key=os.fsencode)
        files = [one for match in matches for one in (_expand(match) if os.path.isdir(match) else [match])]
        if not files:
            raise FileNotFoundError(f"no file matches {name}")
        return files
    raise FileNotFoundError(f"{name} does not exist (text in memory goes through lines=)")


def display_name(source: Any) -> str:
    """The name of a source in messages."""
    if isinstance(source, str):
        return "standard input" if source == "-" else source
    return str(getattr(source, "name", "the open file"))


def total_bytes(sources: Iterable[Any]) -> int | None:
    """Bytes on disk of all sources, None where one is not a regular file."""
    total = 0
    for source in sources:
        if not isinstance(source, str) or not os.path.isfile(source):
            return None
        total += os.path.getsize(source)
    return total


def compression(head: bytes) -> str | None:
    """How a file that begins with these (at least six) bytes is compressed; None for plain text."""
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    if head[1:4] == b"*M\x18" and 0x50 <= head[0] <= 0x5F:
        return "zstd"  # a skippable frame, with which parallel compressors begin
    if kind == "gzip" and len(head) < 3:
        return None
    if kind == "bz2" and (head[3:4] not in b"123456789" or head[4:6] not in (b"1A", b"\x17r")):
        return None  # the word BZh...: behind the level a block or the end of the stream must begin
    return kind


class _Reader:
    """A binary stream, decompressed when its first bytes say so. `position` counts the bytes taken from the source."""

    def __init__(self, stream: BinaryIO, name: str):
        self.stream, self.name, self.position = stream, name, 0
        head = self._pull(6, exact=True)
        kind = self.kind = compression(head)
        self._left = head
        self._chunks = self._decompress(kind) if kind else None

    def _pull(self, size: int, exact: bool = False) -> bytes:
        data = self.stream.read(size) or b""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"{self.name} reads {type(data).__name__}; expected a file opened in binary mode")
        while exact and len(data) < size:
            more = self.stream.read(size - len(data))
            if not more:
                break
            data += more
        self.position += len(data)
        return data

    def readinto(self, view: memoryview) -> int:
        """Fill some of `view`; 0 at the end."""
        if self._left:
            data = self._left if self._chunks is None else b""
            if self._chunks is None:
                take = min(len(view), len(data))
                view[:take] = data[:take]
                self._left = data[take:]
                return take
        if self._chunks is None:
            if hasattr(self.stream, "readinto"):
                count = self.stream.readinto(view) or 0
                self.position += count
                return count
            data = self._pull(len(view))
            view[: len(data)] = data
            return len(data)
        if not self._pending:
            self._pending = memoryview(next(self._chunks, b""))
        take = min(len(view), len(self._pending))
        view[:take] = self._pending[:take]
        self._pending = self._pending[take:]
        return take

    _pending = memoryview(b"")

    def _decompress(self, kind: str) -> Iterator[bytes]:
        make = _decompressor(kind)
        data, self._left = self._left, b""
        while True:
            machine = make()
            while not machine.eof:
                if not data:
                    data = self._pull(1 << 18)
                    if not data:
                        raise OSError(f"{self.name} is cut short: its {kind} stream has no end")
                try:
                    out = machine.decompress(data)
                except Exception as error:
                    raise OSError(f"{self.name} is damaged: not a valid {kind} stream ({error})") from None
                data = machine.unused_data if machine.eof else b""
                if out:
                    yield out
            data = data or self._pull(1 << 18)
            while kind in ("gzip", "xz") and data and not data.strip(b"\0"):
                data = self._pull(1 << 18)  # padding between and behind members
            if kind in ("gzip", "xz"):
                data = data.lstrip(b"\0")
            if not data:
                return


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        import zlib

        return lambda: zlib.decompressobj(wbits=31)
    if kind == "bz2":
        import bz2

        return bz2.BZ2Decompressor
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor
    import zstandard

    return lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def _open(source: Any) -> tuple[BinaryIO, bool]:
    """The stream of a source and whether we opened it."""
    if not isinstance(source, str):
        return source, False
    if source == "-":
        if sys.stdin is None:
            raise OSError("standard input is closed; give a file, or text through a pipe")
        return sys.stdin.buffer, False
    if "://" in source:
        try:
            import fsspec
        except ImportError:
            raise ImportError(f"{source} is a remote path; install fsspec to read it") from None
        return fsspec.open(source, "rb").open(), True
    return open(source, "rb", buffering=0), True


def read_blocks(
    sources: Iterable[Any],
    block_bytes: int | None = None,
    longest: int | None = None,
    memory: int | None = None,
    whole_lines: bool = False,
) -> Iterator[Block]:
    """Yield the text of all sources as padded blocks; no token or character lies in two blocks.

    Parameters
    ----------
    block_bytes : int, optional
        Text read at a time.
    longest : int, optional
        Of a run without white space that is longer than a block and this, only the beginning is kept, which is still
        longer than `longest` bytes.
    memory : int, optional
        Refuse a run without white space that takes more bytes than a quarter of this.
    whole_lines : bool
        No line lies in two blocks either.

    Raises
    ------
    OSError
        Naming the file that cannot be read or decompressed.
    """
    from ._kernels import tokens

    size_wanted = max(1, BLOCK_BYTES if block_bytes is None else block_bytes)
    padding = tokens.TEXT_PADDING
    for source in sources:
        name = display_name(source)
        stream, opened = _open(source)
        try:
            reader = _Reader(stream, name)
            carry = np.empty(0, dtype=np.uint8)
            first, ended = True, False
            while not ended:
                data = np.empty(
                    max(size_wanted, 2 * len(carry) if len(carry) >= size_wanted else 0) + padding, np.uint8
                )
                filled = len(carry)
                data[:filled] = carry
                view = memoryview(data)  # type: ignore[arg-type]
                while filled < len(data) - padding:
                    count = reader.readinto(view[filled : len(data) - padding])
                    if count == 0:
                        ended = True
                        break
                    filled += count
                if first and (filled >= 3 or ended):
                    first = False
                    if filled >= 3 and data[:3].tobytes() == _BOM:
                        data[: filled - 3] = data[3:filled].copy()
                        filled -= 3
                size = filled if ended else (_last_line if whole_lines else tokens.last_space)(data, filled)
                if first:
                    size = 0
                if not size and not ended and longest is not None and filled > longest + 4:
                    filled = _shortened(data, longest + 1)
                if memory is not None and filled - size > memory // 4:
                    raise ValueError(
                        f"{name} holds a run of more than {memory // 4} bytes without white space, too long for "
                        f"memory={memory}; raise it, or pass max_token_bytes= to leave such tokens out"
                    )
                carry = data[size:filled].copy()
                data[size] = 32
                data[size + 1 : size + padding] = 0
                if size or ended:
                    yield Block(data, size, name, ended)
        finally:
            if opened:
                stream.close()


def _last_line(data: np.ndarray, filled: int) -> int:
    """The place behind the last newline of data[:filled], 0 where there is none."""
    for begin in (max(0, filled - (1 << 16)), 0):
        ends = np.flatnonzero(data[begin:filled] == 10)
        if len(ends):
            return begin + int(ends[-1]) + 1
    return 0


def _shortened(data: np.ndarray, least: int) -> int:
    """How many bytes to keep of a long run: at least this many, up to the end of a character."""
    end = least
    while end < least + 3 and (data[end] & 0xC0) == 0x80:
        end += 1
    return end


def lines_blocks(lines: Iterable[Any], block_bytes: int | None = None) -> Iterator[Block]:
    """Yield strings as the blocks of one text, each string a line (or several, where it holds newlines)."""
    from ._kernels import tokens

    size_wanted = max(1, BLOCK_BYTES if block_bytes is None else block_bytes)
    parts: list[bytes] = []
    size = 0

    def block(last: bool) -> Block:
        data = np.empty(size + tokens.TEXT_PADDING, dtype=np.uint8)
        data[:size] = np.frombuffer(b"".join(parts), dtype=np.uint8)
        data[size] = 32
        data[size + 1 :] = 0
        return Block(data, size, "lines", last)

    for number, line in enumerate(lines):
        try:
            raw = line.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise UnicodeError(
                f"row {number} of lines= holds the lone surrogate {line[error.start]!r} at character {error.start}, "
                "which no UTF-8 text has; clean the row first"
            ) from None
        if not raw.endswith(b"\n"):
            raw += b"\n"
        parts.append(raw)
        size += len(raw)
        if size >= size_wanted:
            yield block(False)
            parts, size = [], 0
    yield block(True)
