"""Parts of a text that many workers share: files cut behind line ends, and the scan of one part."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from .options import Plan
from .pipeline import scan_planned
from .scanning import Scanned
from .sources import _BOM, _open, compression


@dataclasses.dataclass(frozen=True)
class Part:
    """Whole files, or the bytes ``start .. end`` of one file, cut behind line ends."""

    names: tuple[str, ...]
    start: int = 0
    end: int | None = None  # None: to the end of the files
    n_bytes: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the file goes on behind this part."""
        return self.end is not None


def cut_files(sources: Iterable[Any], part_bytes: int) -> list[Part]:
    """Cut files into parts of about `part_bytes`; small files share a part, compressed ones stay whole.

    Raises
    ------
    ValueError
        For standard input, pipes and open files, which other processes cannot read.
    """
    parts: list[Part] = []
    small: list[str] = []
    n_small = 0

    def close() -> None:
        nonlocal n_small
        if small:
            parts.append(Part(tuple(small), n_bytes=n_small))
            small.clear()
            n_small = 0

    for source in sources:
        name, size = _locate(source)
        if n_small and n_small + size > part_bytes:
            close()
        if size <= part_bytes or _is_compressed(name):
            small.append(name)
            n_small += size
            continue
        close()
        with opened(name) as handle:
            cuts, target = [0], part_bytes
            while target < size:
                cut = next_cut(handle, target, size)
                cuts.append(cut)
                target = max(target + part_bytes, cut + 1)
            cuts = cuts[:-1] if cuts[-1] >= size else cuts
        ends = [*cuts[1:], None]
        parts += [Part((name,), start, end, (end or size) - start) for start, end in zip(cuts, ends)]
    close()
    return parts


def _locate(source: Any) -> tuple[str, int]:
    """The name by which any worker finds a file, and its bytes."""
    if isinstance(source, str) and "://" in source:
        import fsspec

        system, path = fsspec.core.url_to_fs(source)
        return source, int(system.size(path) or 0)
    if not isinstance(source, str) or not os.path.isfile(source):
        shown = "standard input" if source == "-" else repr(source)
        raise ValueError(f"{shown} cannot be read by other processes; give regular files or remote paths")
    return os.path.abspath(source), os.path.getsize(source)


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    handle, _ = _open(name)
    with handle:
        yield handle


def _is_compressed(name: str) -> bool:
    with opened(name) as handle:
        return compression(handle.read(6)) is not None


def next_cut(handle: BinaryIO, target: int, size: int) -> int:
    """The first line end at or behind `target` where a part may begin; `size` where there is none.

    A part must not begin with bytes that mean something at the start of a file.
    """
    handle.seek(target - 1)
    place, window = target - 1, b""
    while True:
        more = handle.read(1 << 16)
        window += more
        begin = 0
        while (newline := window.find(b"\n", begin)) >= 0:
            follows = window[newline + 1 : newline + 9]
            if len(follows) < 8 and more:
                break  # not seen yet
            if not follows.startswith(_BOM) and compression(follows) is None:
                return min(place + newline + 1, size)
            begin = newline + 1
        if not more:
            return size
        keep = newline if newline >= 0 else len(window)
        place, window = place + keep, window[keep:]


class Slice:
    """The bytes ``start .. end`` of a file as an open binary file."""

    def __init__(self, handle: BinaryIO, name: str, start: int, end: int | None):
        self.handle, self.name = handle, name
        self.left = None if end is None else end - start
        handle.seek(start)

    def read(self, size: int) -> bytes:
        data = self.handle.read(size if self.left is None else min(size, self.left)) or b""
        self.left = None if self.left is None else self.left - len(data)
        return data


def scan_part(part: Part, plan: Plan, folder: Path | None = None) -> Scanned:
    """Scan a part as `lagwise.count` scans a file; errors name file, line and byte of the whole file."""

    if not part.start and part.end is None:
        return scan_planned(list(part.names), None, plan, folder)
    with opened(part.names[0]) as handle:
        try:
            return scan_planned(Slice(handle, part.names[0], part.start, part.end), None, plan, folder)
        except UnicodeError:
            if part.start:  # the line's number needs the text before
                scan_planned(Slice(handle, part.names[0], 0, part.end), None, plan, folder)
            raise
