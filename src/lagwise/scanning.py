"""Blocks of text to provisional ids: check the encoding, split and fold, look words up on every core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._ahead import in_order
from .sources import Block
from .spool import Pieces
from .vocabulary import Normalization, encode_word, fold_token

FILE_END = object()  # among lines of tokens: the end of a file
_DIGITS = {None: 0, "0": 1, "NUM": 2}


@dataclass
class Scanned:
    """A text as provisional ids. Type i has ``words[i]`` and ``counts[i]``; pieces hold ids of their table's own."""

    table: Any  # the merged WordTable
    counts: np.ndarray  # int64 (types,)
    pieces: Pieces = field(default_factory=Pieces)  # (raw ids, number of the table)
    maps: list[np.ndarray] = field(default_factory=list)  # for each table: its ids -> types
    n_lines: int = 0
    n_refused: int = 0
    table_bytes: int = 0  # memory of all word tables


class InvalidText(Exception):
    """A worker met a byte that is not UTF-8, at this place of its block."""

    def __init__(self, place: int):
        self.place = place


class BlockScanner:
    """Turns one block into raw ids of one table: checks the encoding, splits and folds, looks words up."""

    def __init__(self, normalization: Normalization, errors: str, max_token_bytes: int | None):
        from ._unicode import character_classes

        self.normalization, self.errors = normalization, errors
        self.max_length = max_token_bytes or 2**31 - 1
        self.splits = normalization.tokenizer == "words"
        self.folds = normalization.lowercase or normalization.digits is not None
        self.classes = character_classes() if self.splits else np.empty(0, dtype=np.uint8)
        self.digits = _DIGITS[normalization.digits]

    def __call__(self, block: Block, table: Any) -> np.ndarray:
        from ._kernels import tokens, words

        data, size = block.data, block.size
        if self.errors != "surrogateescape":
            place = tokens.invalid_utf8(data, 0, size)
            if place >= 0:
                if self.errors == "strict":
                    raise InvalidText(place)
                data, size = _padded(data[:size].tobytes().decode("utf-8", "replace").encode())
        if self.splits or self.folds:
            out = np.empty(words.room(size, self.digits), dtype=np.uint8)
            if self.splits:
                written = words.split_words(
                    data,
                    size,
                    self.classes,
                    self.normalization.punctuation == "drop",
                    self.normalization.lowercase,
                    self.digits,
                    out,
                )
            else:
                written = words.fold_words(data, size, self.normalization.lowercase, self.digits, out)
            out[written] = 32
            data, size = out, written
        # A token with its space takes two bytes at least, a newline one: room for the usual case, more if needed.
        ids = np.empty(max(size // 3, 16) + 2, dtype=np.int32)
        parts, place = [], 0
        while place < size:
            place, n = table.scan(data, place, size, self.max_length, ids)
            parts.append(ids[:n].copy())
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int32), *parts])


def _padded(raw: bytes) -> tuple[np.ndarray, int]:
    from ._kernels import tokens

    data = np.zeros(len(raw) + tokens.TEXT_PADDING, dtype=np.uint8)
    data[: len(raw)] = np.frombuffer(raw, dtype=np.uint8)
    data[len(raw)] = 32
    return data, len(raw)


class Place:
    """Where we are in a file, to name file, line and byte of what is wrong."""

    def __init__(self) -> None:
        self.name, self.lines, self.tail, self.open = "", 0, 0, False

    def message(self, block: Block, place: int) -> str:
        before = block.data[:place].tobytes()
        line = self.lines + before.count(b"\n") + 1
        newline = before.rfind(b"\n")
        byte = place - newline - 1 if newline >= 0 else self.tail + place
        value = int(block.data[place])
        return (
            f"{block.name}, line {line}, byte {byte}: 0x{value:02x} is not valid UTF-8; convert the file, or pass "
            'errors="replace" or errors="surrogateescape"'
        )

    def advance(self, block: Block, newlines: int) -> None:
        self.lines += newlines
        if block.size:
            raw = block.data[max(0, block.size - (1 << 16)) : block.size]
            hits = np.flatnonzero(raw == 10) if newlines else ()
            if newlines and not len(hits):
                hits = np.flatnonzero(block.data[: block.size] == 10) - (block.size - len(raw))
            self.tail = len(raw) - int(hits[-1]) - 1 if newlines else self.tail + block.size  # type: ignore[misc]
            self.open = self.tail > 0
        if block.last:
            self.lines = self.tail = 0


def scan_blocks(
    blocks: Iterable[Block],
    normalization: Normalization,
    errors: str,
    max_token_bytes: int | None,
    n_threads: int,
    report: Callable[[int, int], None] | None = None,
    folder: Path | None = None,
) -> Scanned:
    """Scan all blocks; with several threads each has a table of its own, and the tables are united at the end."""
    from ._kernels import ids as ids_kernel
    from ._kernels.tokens import LINE_END, REJECTED, WordTable

    scanner = BlockScanner(normalization, errors, max_token_bytes)
    tables = [WordTable(14) for _ in range(n_threads)]
    result = Scanned(None, np.empty(0, np.int64), Pieces(folder))
    place = Place()
    done_bytes = done_tokens = 0
    file_end = np.array([ids_kernel.FILE_END], dtype=np.int32)
    file_end.flags.writeable = False  # it stands behind every file

    def accept(block: Block, raw: np.ndarray, table: int) -> None:
        nonlocal done_bytes, done_tokens
        newlines = int(np.count_nonzero(raw == LINE_END))
        place.advance(block, newlines)
        result.n_lines += newlines
        if len(raw):
            result.n_refused += int(np.count_nonzero(raw == REJECTED)) if max_token_bytes else 0
            result.pieces.append(raw, table)
        if block.last:
            result.n_lines += place.open
            place.open = False
            result.pieces.append(file_end, table)
        done_bytes += block.size
        done_tokens += len(raw) - newlines
        if report:
            report(done_bytes, done_tokens)

    def work(block: Block, number: int) -> tuple[np.ndarray, int]:
        return scanner(block, tables[number]), number

    with in_order(work, blocks, range(n_threads)) as scanned:
        for block, found in scanned:
            try:
                raw, number = found()
            except InvalidText as error:
                raise decode_error(place, block, error.place) from None
            accept(block, raw, number)
    _unite(result, tables)
    return result


def decode_error(place: Place, block: Block, offset: int) -> UnicodeError:
    """The error that names the file, line and byte of what is no UTF-8."""
    return UnicodeError(place.message(block, offset))


def _unite(result: Scanned, tables: list[Any]) -> None:
    result.table_bytes = sum(table.nbytes for table in tables)
    result.table = tables[0]
    result.maps = [np.arange(len(tables[0]), dtype=np.int32)]
    for other in tables[1:]:
        ids = np.empty(len(other), dtype=np.int32)
        result.table.absorb(other, ids)
        result.maps.append(ids)
    result.counts = np.zeros(len(result.table), dtype=np.int64)
    result.table.counts(result.counts)


def fold_types(result: Scanned, normalization: Normalization) -> None:
    """Fold the types that hold bytes beyond ASCII (the scanner folded the others), once a type."""
    if not (normalization.lowercase or normalization.digits):
        return
    table, old = result.table, len(result.table)
    flags = np.zeros(old, dtype=np.uint8)
    table.non_ascii(flags)
    ids = np.arange(old, dtype=np.int32)
    counts = result.counts
    moved = []
    for number in np.flatnonzero(flags).tolist():
        word = table.word(number).decode("utf-8", "surrogateescape")
        folded = fold_token(word, normalization)
        if folded != word:
            ids[number] = table.add(folded.encode("utf-8", "surrogateescape"), 0)
            moved.append(number)
    if moved:
        grown = np.zeros(len(table), dtype=np.int64)
        grown[:old] = counts
        np.add.at(grown, ids[moved], counts[moved])
        grown[moved] -= counts[moved]
        result.counts = grown
        result.maps = [ids[one] for one in result.maps]


def scan_token_lists(
    token_lines: Iterable[Any],
    normalization: Normalization,
    max_token_bytes: int | None,
    folder: Path | None = None,
) -> Scanned:
    """Scan lines that are already lists of tokens; each is one word whatever characters it holds.
    `FILE_END` among them ends a file."""
    from ._kernels import ids as ids_kernel
    from ._kernels.tokens import LINE_END, REJECTED, WordTable

    table = WordTable()
    known: dict[str, int] = {}
    result = Scanned(table, np.empty(0, np.int64), Pieces(folder))
    counts: list[int] = []
    buffer: list[int] = []
    for row, tokens in enumerate(token_lines):
        if tokens is FILE_END:
            buffer.append(ids_kernel.FILE_END)
            continue
        if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
            raise TypeError(
                f"row {row} gave {tokens!r} ({type(tokens).__name__}) as its tokens; expected a list of str"
            )
        for token in tokens:
            number = known.get(token) if isinstance(token, str) else None
            if number is None:
                if not isinstance(token, str):
                    raise TypeError(f"row {row} holds the token {token!r} ({type(token).__name__}); expected str")
                folded = encode_word(fold_token(token, normalization), f"a token of row {row}")
                if not folded:
                    raise ValueError(f"row {row} holds an empty token; leave empty tokens out")
                number = REJECTED if max_token_bytes and len(folded) > max_token_bytes else table.add(folded, 0)
                known[token] = number
                counts.extend([0] * (len(table) - len(counts)))
            if number >= 0:
                counts[number] += 1
            else:
                result.n_refused += 1
            buffer.append(number)
        buffer.append(LINE_END)
        result.n_lines += 1
        if len(buffer) > 1 << 20:
            result.pieces.append(np.array(buffer, dtype=np.int32), 0)
            buffer = []
    if buffer[-1:] != [ids_kernel.FILE_END]:
        buffer.append(ids_kernel.FILE_END)
    result.pieces.append(np.array(buffer, dtype=np.int32), 0)
    result.counts = np.array(counts, dtype=np.int64)
    result.table_bytes = table.nbytes
    result.maps = [np.arange(len(table), dtype=np.int32)]
    return result
