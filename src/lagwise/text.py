"""Text in every form to streams of ids: the one entry for counting, encoding and inference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ._ahead import in_order
from ._progress import Progress
from ._threads import resolve_threads
from .scanning import FILE_END, BlockScanner, Place, Scanned, fold_types, scan_blocks, scan_token_lists
from .sources import Block, lines_blocks, list_sources, read_blocks, total_bytes
from .spool import Stream
from .vocabulary import Normalization, Vocabulary

ERRORS = ("strict", "replace", "surrogateescape")


def _check_line(number: int, line: Any, wanted: type | tuple[type, ...]) -> Any:
    if not isinstance(line, wanted):
        hint = ""
        if isinstance(line, bytes):
            hint = " (decode it first)"
        elif line is None or type(line).__name__ == "NAType" or (isinstance(line, float) and line != line):
            hint = " (it is missing: drop such rows, or fill them with an empty str)"
        raise TypeError(
            f"row {number} of lines= is {line!r} ({type(line).__name__}); expected a str or a list of "
            f"tokens in every row{hint}"
        )
    return line


def _rows(lines: Any) -> Iterable[Any]:
    """The rows of a column of a table library as Python values, some at a time; other iterables as they are."""
    if hasattr(lines, "columns") and len(getattr(lines, "shape", ())) == 2:
        raise TypeError(
            f"lines= is a {type(lines).__name__}, a table; give its column that holds the text: lines=table['text']"
        )
    if hasattr(lines, "to_pylist"):  # pyarrow: slicing copies nothing
        return chain.from_iterable(lines[start : start + 8192].to_pylist() for start in range(0, len(lines), 8192))
    return lines


def _as_tokens(row: Any) -> Any:
    """A row that holds its tokens in an array of NumPy or a column of polars, as a list."""
    return row.tolist() if isinstance(row, np.ndarray) else row.to_list() if hasattr(row, "to_list") else row


def _text_lines(blocks: Iterable[Block], errors: str) -> Iterator[str | None]:
    """Decoded lines of blocks, for tokenizers that are Python functions; None behind the last line of each file."""
    place = Place()
    carry = b""
    for block in blocks:
        raw = block.data[: block.size].tobytes()
        *whole, rest = (carry + raw).split(b"\n")
        for line in whole if not (block.last and rest) else [*whole, rest]:
            try:
                yield line.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                number = place.lines + 1
                raise UnicodeError(
                    f"{block.name}, line {number}, byte {error.start}: 0x{line[error.start]:02x} is not "
                    'valid UTF-8; convert the file, or pass errors="replace" or '
                    'errors="surrogateescape"'
                ) from None
            place.lines += 1
        carry = b"" if block.last else rest
        if block.last:
            place.lines = 0
            yield None


def read_lines(source: Any, errors: str = "strict") -> Iterator[str]:
    """Decoded lines of files in any of the forms that `lagwise.count` reads, without their ends."""
    return (line for line in _text_lines(read_blocks(list_sources(source)), errors) if line is not None)


def as_function(tokenizer: Any) -> Callable[[str], Iterable[str]] | None:
    """A tokenizer given as an object, as a function from a line to tokens; None for a named one."""
    if isinstance(tokenizer, str):
        return None
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "get_vocab"):
        return lambda line: tokenizer.encode(line).tokens
    if callable(tokenizer):
        return tokenizer
    raise ValueError(
        f"tokenizer is {tokenizer!r}; expected 'whitespace', 'words', a function from str to a list of str, "
        "or a tokenizers.Tokenizer"
    )


def scan_text(
    source: Any,
    lines: Any,
    normalization: Normalization,
    *,
    function: Callable[[str], Iterable[str]] | None,
    errors: str,
    max_token_bytes: int | None,
    n_threads: int | None,
    progress: bool | None,
    folder: Path | None = None,
    memory: int | None = None,
) -> Scanned:
    """Scan text from files or from memory; the one entry for counting, encoding and inference."""
    threads = resolve_threads(n_threads)
    if (source is None) == (lines is None):
        raise TypeError(
            "give either a source (files) or lines= (text in memory), not both"
            if source is not None
            else "no text given: pass a path, or text in memory through lines="
        )
    if lines is not None:
        return _scan_lines(lines, normalization, function, errors, max_token_bytes, threads, progress, folder)
    if (
        not isinstance(source, (str, bytes))
        and not hasattr(source, "__fspath__")
        and not hasattr(source, "read")
        and not isinstance(source, (list, tuple))
    ):
        raise TypeError(
            f"source is a {type(source).__name__}; expected a path, a list of paths or an open binary file; "
            "pass text in memory, also a generator of lines, through lines="
        )
    sources = list_sources(source)
    whole_tokens = function is None and normalization.tokenizer == "whitespace"
    blocks = read_blocks(sources, longest=max_token_bytes if whole_tokens else None, memory=memory)
    with Progress(progress, "reading text", total_bytes(sources), "B") as bar:
        report = lambda size, tokens: bar.update(size, f"{tokens / 1e6:.1f}M tokens")  # noqa: E731
        if function is not None:
            result = scan_token_lists(
                (FILE_END if line is None else function(line) for line in _text_lines(blocks, errors)),
                normalization,
                max_token_bytes,
                folder,
            )
        else:
            result = scan_blocks(blocks, normalization, errors, max_token_bytes, threads, report, folder)
    if function is None:
        fold_types(result, normalization)
    return result


def _scan_lines(
    lines: Any,
    normalization: Normalization,
    function: Callable[[str], Iterable[str]] | None,
    errors: str,
    max_token_bytes: int | None,
    threads: int,
    progress: bool | None,
    folder: Path | None,
) -> Scanned:
    if isinstance(lines, (str, bytes)):
        raise TypeError(
            f"lines= is one {type(lines).__name__}; expected an iterable of lines: lines=[text] for one line, "
            "lines=text.splitlines() for several, or a path as the first argument for a file"
        )
    if isinstance(lines, Mapping):
        raise TypeError(f"lines= is a {type(lines).__name__}; expected an iterable of lines: lines=texts.values()")
    lines = _rows(lines)
    if not hasattr(lines, "__iter__"):
        raise TypeError(f"lines= is a {type(lines).__name__}; expected an iterable of str or of token lists")
    iterator = iter(lines)
    nothing = object()
    first = next(iterator, nothing)
    if first is nothing:
        raise ValueError("no tokens: lines= is empty (a generator can be read only once)")
    numbered = enumerate(chain([first], iterator))
    with Progress(progress, "reading lines", None, "tokens") as bar:
        if isinstance(first, str) and function is None:
            texts = (_check_line(number, line, str) for number, line in numbered)
            result = scan_blocks(
                lines_blocks(texts),
                normalization,
                errors,
                max_token_bytes,
                threads,
                lambda size, tokens: bar.update(tokens),
                folder,
            )
            fold_types(result, normalization)
            return result
        if isinstance(first, str):
            parts = (
                function(part)  # type: ignore[misc]
                for number, line in numbered  # type: ignore[misc]
                for part in _split_lines(_check_line(number, line, str))
            )
            return scan_token_lists(parts, normalization, max_token_bytes, folder)
        return scan_token_lists(
            (_check_line(number, _as_tokens(line), (list, tuple)) for number, line in numbered),
            normalization,
            max_token_bytes,
            folder,
        )


def _split_lines(line: str) -> list[str]:
    return (line[:-1] if line.endswith("\n") else line).split("\n")


def renumber(
    scanned: Scanned,
    ids_of_types: np.ndarray,
    rejected: int,
    boundary: str,
    thresholds: np.ndarray | None = None,
    seed: int = 0,
    path: Path | None = None,
    last: bool = True,
    n_threads: int = 1,
) -> tuple[Stream, int, int]:
    """Turn provisional ids into one stream (see `ext/ids.pyx`), in a file where a path is given.

    Returns
    -------
    stream : Stream
        Word ids, the gap, and -1 behind each sequence.
    n_tokens, longest : int
        Tokens of the text, and of its longest sequence in the stream.
    """
    from ._kernels import ids as kernel

    kind = {"line": kernel.BY_LINE, "none": kernel.BY_FILE, "blank": kernel.BY_BLANK}[boundary]
    maps = [np.ascontiguousarray(ids_of_types[one]) for one in scanned.maps]
    empty = np.empty(0, dtype=np.uint64)
    limits = [empty if thresholds is None else np.ascontiguousarray(thresholds[one]) for one in scanned.maps]
    stream = Stream(scanned.pieces.length, path)
    pieces = scanned.pieces.drain() if last else iter(scanned.pieces)

    def remap(raw: np.ndarray, table: int, out: np.ndarray, state: np.ndarray) -> np.ndarray:
        return out[: kernel.ids_remap(raw, maps[table], rejected, kind, limits[table], seed, out, state)]

    if n_threads > 1 and thresholds is None and boundary != "blank":
        n_tokens, longest = _remap_ahead(pieces, remap, stream, n_threads, own=last)
    else:
        state = np.zeros(kernel.STATE_SIZE, dtype=np.int64)
        for raw, table in pieces:
            stream.append(remap(raw, table, stream.room(len(raw)), state))
        n_tokens, longest = int(state[3]), int(state[1])
    return stream, n_tokens, longest


def _remap_ahead(
    pieces: Iterator[tuple[np.ndarray, int]],
    remap: Callable[..., np.ndarray],
    stream: Stream,
    n_threads: int,
    own: bool,
) -> tuple[int, int]:
    """Remap pieces on several threads and join them in order; pieces that are our own are overwritten.

    A piece must know whether a sequence is open where it begins. Behind the end of a file none is; elsewhere one is taken
    to be (blocks are cut between words, seldom between lines), and what that made wrong is put right when it is joined.
    """
    from ._kernels.ids import END, FILE_END, STATE_SIZE

    def guessed() -> Iterator[tuple[np.ndarray, int, int]]:
        guess = 0
        for raw, table in pieces:
            ends = bool(len(raw)) and raw[-1] == FILE_END  # before the piece is overwritten
            yield raw, table, guess
            guess = int(not ends)

    def work(piece: tuple[np.ndarray, int, int], _: Any) -> tuple[np.ndarray, np.ndarray]:
        raw, table, guess = piece
        state = np.zeros(STATE_SIZE, dtype=np.int64)
        state[0] = guess
        return remap(raw, table, raw if own and raw.flags.writeable else np.empty_like(raw), state), state

    n_tokens = longest = open_tokens = 0

    def join(guess: int, ids: np.ndarray, state: np.ndarray) -> None:
        nonlocal n_tokens, longest, open_tokens
        n_tokens += int(state[3])
        if state[0] - guess == len(ids):  # nothing ended here
            open_tokens += len(ids)
        else:
            head = next(at for at in range(0, len(ids), 4096) if (ids[at : at + 4096] == END).any())
            head += int(np.argmax(ids[head : head + 4096] == END))
            if guess and not open_tokens:  # the first sequence is shorter than it was taken to be, or there is none
                inner = np.diff(np.flatnonzero(ids == END)) - 1
                longest = max(longest, head, int(inner.max(initial=0)))
                ids = ids[1:] if head == 0 else ids
            else:
                longest = max(longest, int(state[1]), open_tokens + head)
            open_tokens = int(state[0])
        stream.append(ids)

    with in_order(work, guessed(), [None] * n_threads) as remapped:
        for (_, _, guess), found in remapped:
            join(guess, *found())
    return n_tokens, longest


def encode(
    vocabulary: Vocabulary,
    source: Any = None,
    *,
    lines: Any = None,
    errors: str = "strict",
    n_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """See `Vocabulary.encode`."""
    from ._kernels.tokens import LINE_END, REJECTED

    normalization = vocabulary.normalization
    if normalization.tokenizer == "custom":
        if lines is None or isinstance(next(iter(lines), ()), str):
            raise ValueError("the words were made by a tokenizer of your own; pass token lists in place of text")
    scanned = scan_text(
        source,
        lines,
        normalization,
        function=None,
        errors=errors,
        max_token_bytes=None,
        n_threads=n_threads,
        progress=False,
    )
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


def split_lines(normalization: Normalization, lines: Iterable[str]) -> list[list[str]]:
    """See `Vocabulary.split`."""
    from ._kernels.tokens import LINE_END, WordTable

    plain = dataclasses.replace(normalization, lowercase=False, digits=None)
    if plain.tokenizer == "custom":
        raise ValueError("this vocabulary was made with a tokenizer of your own; split the lines with it")
    scanner, result = BlockScanner(plain, "surrogateescape", None), []
    for block in lines_blocks(lines):
        table = WordTable()
        raw = scanner(block, table)
        words = np.array([*table.texts(np.arange(len(table))), ""], dtype=object)
        begin = 0
        for end in np.flatnonzero(raw == LINE_END).tolist():
            result.append(words[raw[begin:end]].tolist())
            begin = end + 1
    return result


def _last(parts: list[np.ndarray]) -> int:
    return next((int(part[-1]) for part in reversed(parts) if len(part)), 0)
