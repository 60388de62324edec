"""Word vectors in other programs' formats: word2vec text and binary, GloVe text, NumPy."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from ._files import atomic_path
from ._validation import check_choice, check_int
from .vectors import WordVectors

FORMATS = ("word2vec", "word2vec-binary", "glove", "numpy")


def write_vectors(
    vectors: WordVectors, path: str | os.PathLike[str], format: str, digits: int | None = None, overwrite: bool = False
) -> None:
    """Write vectors for another program, whole or not at all.

    Parameters
    ----------
    vectors : WordVectors
    path : str or PathLike
    format : {"word2vec", "word2vec-binary", "glove", "numpy"}
        Text with a header "words dimensions"; the same in binary (float32); text without a header; or PATH as .npy
        with the words beside it in PATH.vocab.txt.
    digits : int, optional
        Significant digits of text; by default as many as bring back the very same number.
    overwrite : bool
        Replace a file that is already there.

    Raises
    ------
    FileExistsError
        If `path` exists and `overwrite` is false.
    ValueError
        If a word holds what the format cannot (a newline, or a space in word2vec binary).

    Warns
    -----
    UserWarning
        If words hold spaces, which most readers of text formats take for the end of the word.
    """
    check_choice("format", format, FORMATS)
    raws = [word.encode("utf-8", "surrogateescape") for word in vectors.words]
    bad = b"\n" if format != "word2vec-binary" else b" \n"
    for word, raw in zip(vectors.words, raws):
        if any(byte in raw for byte in bad):
            raise ValueError(f"the word {word!r} holds a byte that {format} files cannot: leave it out with subset()")
    if digits is not None:
        check_int("digits", digits, 1, 17)
    spaced = [word for word, raw in zip(vectors.words, raws) if len(raw.split()) != 1 or raw != raw.strip()]
    if spaced and format in ("word2vec", "glove"):
        warnings.warn(
            f"{len(spaced)} words hold white space (the first is {spaced[0]!r}), which few programs read back from "
            f"{format} files; leave them out with subset()",
            stacklevel=2,
        )
    array = vectors.vectors
    if format == "numpy":
        with atomic_path(path, overwrite) as temporary, atomic_path(f"{os.fspath(path)}.vocab.txt", overwrite) as words:
            with open(temporary, "wb") as handle:
                np.save(handle, array, allow_pickle=False)
            words.write_bytes(vectors.vocabulary.dumps())
        return
    if format == "word2vec-binary" and np.abs(array).max(initial=0) > np.finfo(np.float32).max:
        raise ValueError("the vectors do not fit float32, which word2vec binary files hold; scale them, or use text")
    with atomic_path(path, overwrite) as temporary, open(temporary, "wb") as handle:
        if format != "glove":
            handle.write(b"%d %d\n" % array.shape)
        if format == "word2vec-binary":
            for raw, row in zip(raws, array.astype("<f4")):
                handle.write(raw + b" " + row.tobytes() + b"\n")
            return
        exact = {"float16": "%.5g", "float32": "%.9g", "float64": "%r"}[array.dtype.name]
        line = b" ".join([(exact if digits is None else f"%.{digits}g").encode()] * array.shape[1])
        for raw, row in zip(raws, array):
            handle.write(raw + b" " + line % tuple(row.tolist()) + b"\n")


def read_vectors(
    path: str | os.PathLike[str],
    format: str,
    dtype: str = "float32",
    strict: bool = True,
    dimensions: int | None = None,
) -> WordVectors:
    """Read vectors of another program.

    Parameters
    ----------
    path : str or PathLike
    format : {"word2vec", "word2vec-binary", "glove", "numpy"}
        It is never guessed: a header-less file can look like one with a header.
    dtype : {"float32", "float64"}
        Of the vectors read from text.
    strict : bool
        Raise where the header and the file disagree or a word comes twice; False warns, keeps the first vector of a
        word and goes by what is there.
    dimensions : int, optional
        Numbers behind each word of a GloVe file; by default as many as most lines have, which goes wrong where most
        words hold spaces.

    Returns
    -------
    WordVectors

    Raises
    ------
    ValueError
        If the file is not of this format; the message names file and line.
    """
    check_choice("format", format, FORMATS)
    check_choice("dtype", dtype, ("float32", "float64"))
    name = os.fspath(path)
    if format == "numpy":
        from .vocabulary import read_words

        words = read_words(Path(f"{name}.vocab.txt").read_bytes())
        try:
            rows = np.load(name, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError):
            raise ValueError(f"{name} is not a whole .npy file of numbers") from None
        if rows.ndim == 2 and len(words) != len(rows):
            _complain(f"{name}: {len(rows)} rows, but {len(words)} words in {name}.vocab.txt", strict)
            words, rows = words[: len(rows)], rows[: len(words)]
        return _with_words(name, words, rows, strict)
    data = Path(name).read_bytes()
    if format == "word2vec-binary":
        words, rows, told = _read_binary(name, data)
    else:
        words, rows, told = _read_text(name, data, format == "word2vec", dtype, dimensions)
    if told is not None and told != len(words):
        _complain(f"{name}: the header says {told} words, the file holds {len(words)}", strict)
    return _with_words(name, words, rows, strict)


def _with_words(name: str, words: list[str], rows: np.ndarray, strict: bool) -> WordVectors:
    first: dict[str, int] = {}
    for number, word in enumerate(words):
        first.setdefault(word, number)
    if len(first) != len(words):
        twice = next(word for number, word in enumerate(words) if first[word] != number)
        _complain(f"{name}: {len(words) - len(first)} words come again (the first of them {twice!r})", strict)
        rows = rows[list(first.values())]
    return WordVectors(list(first), rows)


def _complain(message: str, strict: bool) -> None:
    if strict:
        raise ValueError(f"{message}; pass strict=False to read what is there")
    warnings.warn(message, stacklevel=3)


def _header(name: str, line: bytes) -> tuple[int, int]:
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 10 for field in fields):
        raise ValueError(
            f"{name}, line 1: expected a header 'words dimensions', found {line[:40]!r}; a file without one is "
            'format="glove"'
        )
    return int(fields[0]), int(fields[1])


def _read_text(
    name: str, data: bytes, has_header: bool, dtype: str, dimensions: int | None
) -> tuple[list[str], np.ndarray, int | None]:
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    told, offset = None, 1
    if has_header:
        if not lines:
            raise ValueError(f"{name} is empty")
        told, dimensions = _header(name, lines[0])
        lines, offset = lines[1:], 2
    elif dimensions is None:
        dimensions = _dimensions(name, lines)
    else:
        check_int("dimensions", dimensions, 1)
    words, rows = [], []
    for number, line in enumerate(lines, offset):
        line = line.rstrip(b"\r ")
        fields = line.rsplit(b" ", dimensions)
        if len(fields) != dimensions + 1:
            raise ValueError(
                f"{name}, line {number}: expected a word and {dimensions} numbers, found {len(fields)} fields"
            )
        try:
            if b"_" in line[len(fields[0]) :]:
                raise ValueError  # Python's own spelling of numbers, which no file has
            rows.append(np.array([float(field) for field in fields[1:]], dtype=dtype))
        except ValueError:
            wrong = next(field for field in fields[1:] if not _is_number(field))
            raise ValueError(f"{name}, line {number}: {wrong.decode(errors='replace')!r} is not a number") from None
        words.append(fields[0].decode("utf-8", "surrogateescape"))
    shape = (len(words), dimensions or 0)
    return words, (np.array(rows, dtype=dtype).reshape(shape)), told


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _dimensions(name: str, lines: list[bytes]) -> int:
    """How many numbers follow each word: as many as most lines have (those with more hold a word with spaces)."""
    if not lines:
        raise ValueError(f"{name} is empty")
    spaces = np.array([line.rstrip(b"\r ").count(b" ") for line in lines])
    header = lines[0].split()
    if len(header) == 2 and all(field.isdigit() for field in header) and int(header[0]) == len(lines) - 1 > 0:
        if int(header[1]) > 1 and (spaces[1:] >= int(header[1])).all():
            raise ValueError(f'{name} begins with a header {lines[0][:40]!r}; such a file is format="word2vec"')
    found, times = np.unique(spaces, return_counts=True)
    dimensions = int(found[times == times.max()].max())
    if dimensions == 0:
        raise ValueError(f"{name}, line 1: expected a word and numbers, found {lines[0][:40]!r}")
    return dimensions


def _read_binary(name: str, data: bytes) -> tuple[list[str], np.ndarray, int | None]:
    end = data.find(b"\n")
    told, dimensions = _header(name, data[: max(end, 0)])
    words: list[str] = []
    rows: list[np.ndarray] = []
    place = end + 1
    size = 4 * dimensions
    while place < len(data):
        if data[place : place + 1] == b"\n":
            place += 1
            continue
        space = data.find(b" ", place)
        if space < 0 or space + 1 + size > len(data):
            raise ValueError(f"{name} is cut short in word {len(words) + 1} of {told}")
        words.append(data[place:space].decode("utf-8", "surrogateescape"))
        rows.append(np.frombuffer(data, dtype="<f4", count=dimensions, offset=space + 1))
        place = space + 1 + size
    return words, np.array(rows, dtype=np.float32).reshape(len(words), dimensions), told
