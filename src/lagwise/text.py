"""Text to streams of ids: scan blocks into provisional ids, choose the vocabulary, renumber."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from ._progress import Progress
from ._threads import resolve_threads
from .sources import Block, lines_blocks, list_sources, read_blocks, total_bytes
from .vocabulary import Normalization, Vocabulary, fold_token

ERRORS = ("strict", "replace", "surrogateescape")
_DIGITS = {None: 0, "0": 1, "NUM": 2}


@dataclass
class Scanned:
    """A text as provisional ids. Type i has ``words[i]`` and ``counts[i]``; pieces hold ids of their table's own."""

    table: Any  # the merged WordTable
    counts: np.ndarray  # int64 (types,)
    pieces: list[tuple[np.ndarray, int]] = field(default_factory=list)  # (raw ids, number of the table)
    maps: list[np.ndarray] = field(default_factory=list)  # for each table: its ids -> types
    n_lines: int = 0
    n_refused: int = 0


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
        self.classes = character_classes() if self.splits else None
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
                written = words.split_words(data, size, self.classes, self.normalization.punctuation == "drop",
                                            self.normalization.lowercase, self.digits, out)
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


class _Place:
    """Where we are in a file, to name file, line and byte of what is wrong."""

    def __init__(self) -> None:
        self.name, self.lines, self.tail, self.open = "", 0, 0, False

    def message(self, block: Block, place: int) -> str:
        before = block.data[:place].tobytes()
        line = self.lines + before.count(b"\n") + 1
        newline = before.rfind(b"\n")
        byte = place - newline - 1 if newline >= 0 else self.tail + place
        value = int(block.data[place])
        return (f"{block.name}, line {line}, byte {byte}: 0x{value:02x} is not valid UTF-8; convert the file, or pass "
                'errors="replace" or errors="surrogateescape"')

    def advance(self, block: Block, newlines: int) -> None:
        self.lines += newlines
        if block.size:
            raw = block.data[max(0, block.size - (1 << 16)) : block.size]
            hits = np.flatnonzero(raw == 10) if newlines else ()
            if newlines and not len(hits):
                hits = np.flatnonzero(block.data[: block.size] == 10) - (block.size - len(raw))
            self.tail = len(raw) - int(hits[-1]) - 1 if newlines else self.tail + block.size
            self.open = self.tail > 0
        if block.last:
            self.lines = self.tail = 0


def scan_blocks(blocks: Iterable[Block], normalization: Normalization, errors: str, max_token_bytes: int | None,
                n_threads: int, report: Callable[[int, int], None] | None = None) -> Scanned:
    """Scan all blocks; with several threads each has a table of its own, and the tables are united at the end."""
    from ._kernels import ids as ids_kernel
    from ._kernels.tokens import LINE_END, WordTable

    scanner = BlockScanner(normalization, errors, max_token_bytes)
    tables = [WordTable(14) for _ in range(n_threads)]
    result = Scanned(None, np.empty(0, np.int64))
    place = _Place()
    done_bytes = done_tokens = 0
    file_end = np.array([ids_kernel.FILE_END], dtype=np.int32)

    def accept(block: Block, raw: np.ndarray, table: int) -> None:
        nonlocal done_bytes, done_tokens
        newlines = int(np.count_nonzero(raw == LINE_END))
        place.advance(block, newlines)
        result.n_lines += newlines
        if len(raw):
            result.pieces.append((raw, table))
        if block.last:
            result.n_lines += place.open
            place.open = False
            result.pieces.append((file_end, table))
        done_bytes += block.size
        done_tokens += len(raw) - newlines
        if report:
            report(done_bytes, done_tokens)

    if n_threads == 1:
        for block in blocks:
            try:
                raw = scanner(block, tables[0])
            except InvalidText as error:
                raise _decode_error(place, block, error.place) from None
            accept(block, raw, 0)
    else:
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(n_threads):
            free.put(number)

        def work(block: Block) -> tuple[np.ndarray, int]:
            number = free.get()
            try:
                return scanner(block, tables[number]), number
            finally:
                free.put(number)

        waiting: deque[tuple[Block, Future[tuple[np.ndarray, int]]]] = deque()

        def take() -> None:
            block, future = waiting.popleft()
            try:
                raw, number = future.result()
            except InvalidText as error:
                raise _decode_error(place, block, error.place) from None
            accept(block, raw, number)

        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="lagwise-scan")
        try:
            for block in blocks:
                waiting.append((block, pool.submit(work, block)))
                while len(waiting) > 2 * n_threads:
                    take()
            while waiting:
                take()
        finally:
            pool.shutdown(cancel_futures=True)
    _unite(result, tables)
    return result


def _decode_error(place: _Place, block: Block, offset: int) -> UnicodeError:
    return UnicodeError(place.message(block, offset))


def _unite(result: Scanned, tables: list[Any]) -> None:
    result.table = tables[0]
    result.maps = [np.arange(len(tables[0]), dtype=np.int32)]
    for other in tables[1:]:
        ids = np.empty(len(other), dtype=np.int32)
        result.table.absorb(other, ids)
        result.maps.append(ids)
    _count(result)


def _count(result: Scanned) -> None:
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


def scan_token_lists(token_lines: Iterable[Iterable[str]], normalization: Normalization,
                     max_token_bytes: int | None) -> Scanned:
    """Scan lines that are already lists of tokens; each is one word whatever characters it holds."""
    from ._kernels import ids as ids_kernel
    from ._kernels.tokens import LINE_END, REJECTED, WordTable

    table = WordTable()
    known: dict[str, int] = {}
    result = Scanned(table, np.empty(0, np.int64))
    counts: list[int] = []
    buffer: list[int] = []
    for tokens in token_lines:
        for token in tokens:
            number = known.get(token)
            if number is None:
                if not isinstance(token, str):
                    raise TypeError(f"a token is {token!r} ({type(token).__name__}); expected str")
                folded = fold_token(token, normalization).encode("utf-8", "surrogateescape")
                if not folded:
                    raise ValueError("a token is empty; leave empty tokens out")
                number = REJECTED if max_token_bytes and len(folded) > max_token_bytes else table.add(folded, 0)
                known[token] = number
                counts.extend([0] * (len(table) - len(counts)))
            if number >= 0:
                counts[number] += 1
            buffer.append(number)
        buffer.append(LINE_END)
        result.n_lines += 1
        if len(buffer) > 1 << 20:
            result.pieces.append((np.array(buffer, dtype=np.int32), 0))
            buffer = []
    buffer.append(ids_kernel.FILE_END)
    result.pieces.append((np.array(buffer, dtype=np.int32), 0))
    result.counts = np.array(counts, dtype=np.int64)
    result.maps = [np.arange(len(table), dtype=np.int32)]
    return result


def _check_line(number: int, line: Any, wanted: type | tuple[type, ...]) -> Any:
    if not isinstance(line, wanted):
        hint = " (decode it first)" if isinstance(line, bytes) else ""
        raise TypeError(f"row {number} of lines= is {line!r} ({type(line).__name__}); expected a str or a list of "
                        f"tokens in every row{hint}")
    return line


def _text_lines(blocks: Iterable[Block], errors: str) -> Iterator[str]:
    """Decoded lines of blocks, for tokenizers that are Python functions; "" closes nothing, a file's end is a line end."""
    place = _Place()
    carry = b""
    for block in blocks:
        raw = block.data[: block.size].tobytes()
        *whole, rest = (carry + raw).split(b"\n")
        for line in whole if not (block.last and rest) else [*whole, rest]:
            try:
                yield line.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                number = place.lines + 1
                raise UnicodeError(f"{block.name}, line {number}, byte {error.start}: 0x{line[error.start]:02x} is not "
                                   'valid UTF-8; convert the file, or pass errors="replace" or '
                                   'errors="surrogateescape"') from None
            place.lines += 1
        carry = b"" if block.last else rest
        if block.last:
            place.lines = 0


def as_function(tokenizer: Any) -> Callable[[str], Iterable[str]] | None:
    """A tokenizer given as an object, as a function from a line to tokens; None for a named one."""
    if isinstance(tokenizer, str):
        return None
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "get_vocab"):
        return lambda line: tokenizer.encode(line).tokens
    if callable(tokenizer):
        return tokenizer
    raise ValueError(f"tokenizer is {tokenizer!r}; expected 'whitespace', 'words', a function from str to a list of str, "
                     "or a tokenizers.Tokenizer")


def scan_text(source: Any, lines: Any, normalization: Normalization, *, function: Callable[[str], Iterable[str]] | None,
              errors: str, max_token_bytes: int | None, n_threads: int | None, progress: bool | None) -> Scanned:
    """Scan text from files or from memory; the one entry for counting, encoding and inference."""
    threads = resolve_threads(n_threads)
    if (source is None) == (lines is None):
        raise TypeError("give either a source (files) or lines= (text in memory), not both" if source is not None else
                        "no text given: pass a path, or text in memory through lines=")
    if lines is not None:
        return _scan_lines(lines, normalization, function, errors, max_token_bytes, threads, progress)
    if not isinstance(source, (str, bytes)) and not hasattr(source, "__fspath__") and not hasattr(source, "read") and \
            not isinstance(source, (list, tuple)):
        raise TypeError(f"source is a {type(source).__name__}; expected a path, a list of paths or an open binary file; "
                        "pass text in memory, also a generator of lines, through lines=")
    sources = list_sources(source)
    blocks = read_blocks(sources)
    with Progress(progress, "reading text", total_bytes(sources), "B") as bar:
        report = lambda size, tokens: bar.update(size, f"{tokens / 1e6:.1f}M tokens")  # noqa: E731
        if function is not None:
            result = scan_token_lists((function(line) for line in _text_lines(blocks, errors)), normalization,
                                      max_token_bytes)
        else:
            result = scan_blocks(blocks, normalization, errors, max_token_bytes, threads, report)
    if function is None:
        fold_types(result, normalization)
    return result


def _scan_lines(lines: Any, normalization: Normalization, function: Callable[[str], Iterable[str]] | None, errors: str,
                max_token_bytes: int | None, threads: int, progress: bool | None) -> Scanned:
    if isinstance(lines, (str, bytes)):
        raise TypeError(f"lines= is one {type(lines).__name__}; expected an iterable of lines: lines=[text] for one line, "
                        "lines=text.splitlines() for several, or a path as the first argument for a file")
    if not hasattr(lines, "__iter__"):
        raise TypeError(f"lines= is a {type(lines).__name__}; expected an iterable of str or of token lists")
    if hasattr(lines, "to_pylist"):
        lines = lines.to_pylist()
    iterator = iter(lines)
    nothing = object()
    first = next(iterator, nothing)
    if first is nothing:
        raise ValueError("no tokens: lines= is empty (a generator can be read only once)")
    numbered = enumerate(chain([first], iterator))
    with Progress(progress, "reading lines", None, "tokens") as bar:
        if isinstance(first, str) and function is None:
            texts = (_check_line(number, line, str) for number, line in numbered)
            result = scan_blocks(lines_blocks(texts), normalization, errors, max_token_bytes, threads,
                                 lambda size, tokens: bar.update(tokens))
            fold_types(result, normalization)
            return result
        if isinstance(first, str):
            parts = (function(part) for number, line in numbered  # type: ignore[misc]
                     for part in _split_lines(_check_line(number, line, str)))
            return scan_token_lists(parts, normalization, max_token_bytes)
        if isinstance(first, np.ndarray):
            numbered = enumerate(line.tolist() if isinstance(line, np.ndarray) else line for _, line in numbered)
        return scan_token_lists((_check_line(number, line, (list, tuple)) for number, line in numbered), normalization,
                                max_token_bytes)


def _split_lines(line: str) -> list[str]:
    return (line[:-1] if line.endswith("\n") else line).split("\n")


def renumber(scanned: Scanned, ids_of_types: np.ndarray, rejected: int, boundary: str,
             thresholds: np.ndarray | None = None, seed: int = 0, consume: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Turn provisional ids into one stream (see `ext/ids.pyx`).

    Returns
    -------
    stream : ndarray of int32
        Word ids, the gap, and -1 behind each sequence.
    state : ndarray of int64
        Counters, as `ids_remap` documents.
    """
    from ._kernels import ids as kernel

    kind = {"line": kernel.BY_LINE, "none": kernel.BY_FILE, "blank": kernel.BY_BLANK}[boundary]
    state = np.zeros(kernel.STATE_SIZE, dtype=np.int64)
    maps = [np.ascontiguousarray(ids_of_types[one]) for one in scanned.maps]
    empty = np.empty(0, dtype=np.uint64)
    limits = [empty if thresholds is None else np.ascontiguousarray(thresholds[one]) for one in scanned.maps]
    stream = np.empty(sum(len(raw) for raw, _ in scanned.pieces), dtype=np.int32)
    filled = 0
    for number, (raw, table) in enumerate(scanned.pieces):
        filled += kernel.ids_remap(raw, maps[table], rejected, kind, limits[table], seed, stream[filled:], state)
        if consume:
            scanned.pieces[number] = (raw[:0], table)
    return stream[:filled], state


def encode(vocabulary: Vocabulary, source: Any = None, *, lines: Any = None, errors: str = "strict",
           n_threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """See `Vocabulary.encode`."""
    from ._kernels.tokens import LINE_END, REJECTED

    normalization = vocabulary.normalization
    if normalization.tokenizer == "custom":
        if lines is None or isinstance(next(iter(lines), ()), str):
            raise ValueError("this vocabulary was made with a tokenizer of your own; pass token lists through lines=")
    scanned = scan_text(source, lines, normalization, function=None, errors=errors, max_token_bytes=None,
                        n_threads=n_threads, progress=False)
    words = (scanned.table.word(number).decode("utf-8", "surrogateescape") for number in range(len(scanned.table)))
    ids_of_types = vocabulary.lookup(words)
    flat: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    total = 0
    for raw, table in scanned.pieces:
        is_word = (raw >= 0) | (raw == REJECTED)
        mapped = np.full(len(raw), vocabulary.unknown_id, dtype=np.int32)
        known = raw >= 0
        mapped[known] = ids_of_types[scanned.maps[table][raw[known]]]
        before = np.cumsum(is_word)
        ends.append(total + before[raw == LINE_END])
        flat.append(mapped[is_word])
        total += int(before[-1])
        if raw[-1] < REJECTED and total > _last(ends):  # the last line of a file may lack its newline
            ends.append(np.array([total]))
    ids = np.concatenate([np.empty(0, np.int32), *flat])
    return ids, np.concatenate([np.zeros(1, np.int64), *ends]).astype(np.int64)


def _last(parts: list[np.ndarray]) -> int:
    return next((int(part[-1]) for part in reversed(parts) if len(part)), 0)
