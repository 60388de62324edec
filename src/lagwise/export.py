"""Word vectors in the formats of other programs: word2vec text and binary, GloVe text, NumPy."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ._files import atomic_path
from ._validation import check_bool, check_choice
from .vectors import WordVectors

FORMATS = ("word2vec", "word2vec-binary", "glove", "numpy")
_CHUNK = 4096  # words written at a time


def write(vectors: WordVectors, path: str | os.PathLike[str], format: str = "word2vec", precision: int | None = None,
          overwrite: bool = False) -> None:
    """Write vectors for other programs, whole or not at all.

    Parameters
    ----------
    vectors : WordVectors
    path : str or PathLike
    format : {"word2vec", "word2vec-binary", "glove", "numpy"}
        word2vec: a line "n d", then "word v1 ... vd" lines; glove: the same without the first line; numpy: an .npy
        matrix, with the words beside it, one a line and escaped, as ``<path without .npy>.vocabulary.txt``.
    precision : int, optional
        Significant digits of numbers in text; by default as many as read back the same number.
    overwrite : bool

    Raises
    ------
    ValueError
        If a word holds white space and the format is text or binary: it could not be read back. A word with a space
        goes into the numpy and lagwise formats.
    """
    check_choice("format", format, FORMATS)
    if format == "numpy":
        _write_numpy(vectors, path, overwrite)
        return
    words = [_plain(word, format) for word in vectors.words]
    with atomic_path(path, overwrite) as temporary, open(temporary, "wb") as handle:
        if format != "glove":
            handle.write(b"%d %d\n" % (len(vectors), vectors.n_components))
        for first in range(0, len(words), _CHUNK):
            rows = np.asarray(vectors.vectors[first:first + _CHUNK])
            if format == "word2vec-binary":
                raw = rows.astype("<f4")
                handle.write(b"".join(word + b" " + row.tobytes() + b"\n" for word, row in zip(words[first:], raw)))
            else:
                handle.write(b"".join(
                    word + b" " + " ".join(_numbers(row, precision)).encode("ascii") + b"\n"
                    for word, row in zip(words[first:], rows)))


def _numbers(row: np.ndarray, precision: int | None) -> list[str]:
    if precision is not None:
        return [f"{float(value):.{precision}g}" for value in row]
    if row.dtype == np.float64:
        return [repr(value) for value in row.tolist()]
    return [np.format_float_positional(value, unique=True, trim="0") if 1e-4 <= abs(value) < 1e6 or value == 0
            else np.format_float_scientific(value, unique=True, trim="0") for value in row]


def _plain(word: str, format: str) -> bytes:
    raw = word.encode("utf-8", "surrogateescape")
    if not word or any(character in " \t\n\r\v\f" for character in word):
        raise ValueError(f"the word {word!r} holds white space, which the {format} format cannot hold; use format='numpy' "
                         "or WordVectors.save")
    return raw


def _write_numpy(vectors: WordVectors, path: str | os.PathLike[str], overwrite: bool) -> None:
    names = _words_file(path)
    if names.exists() and not overwrite:
        raise FileExistsError(f"{names} exists; remove it, choose another name or pass overwrite=True (--force)")
    with atomic_path(names, overwrite) as temporary:
        temporary.write_bytes(vectors.vocabulary.dumps())
        with atomic_path(path, overwrite) as matrix, open(matrix, "wb") as handle:
            np.save(handle, np.asarray(vectors.vectors), allow_pickle=False)


def _words_file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    stem = path.name.removesuffix(".npy")
    return path.with_name(f"{stem}.vocabulary.txt")


def read(path: str | os.PathLike[str], format: str = "auto", dtype: Any = "float32", strict: bool = True) -> WordVectors:
    """Read vectors of other programs.

    Parameters
    ----------
    path : str or PathLike
    format : {"auto", "lagwise", "word2vec", "word2vec-binary", "glove", "numpy"}
        "auto" looks at the file: safetensors, .npy, and for text whether the first line is two whole numbers.
    dtype : {"float32", "float64"}
        Of the numbers read from text.
    strict : bool
        Refuse a file with fewer or more rows than its first line says, or a word twice. Otherwise a warning gives the
        numbers, the rows that are there are read, and of a repeated word the first is kept.

    Returns
    -------
    WordVectors
        The words are taken as they are: their normalisation is not known.

    Raises
    ------
    ValueError
        If the file is not in the format; the message names the line.
    """
    check_choice("format", format, ("auto", "lagwise", *FORMATS))
    check_bool("strict", strict)
    dtype = np.dtype(check_choice("dtype", np.dtype(dtype).name, ("float32", "float64")))
    name = os.fspath(path)
    if os.path.isdir(name):
        raise ValueError(f"{name} is a folder; expected a file of word vectors")
    if format == "auto":
        format = _guess(name)
    if format == "lagwise":
        return WordVectors.load(path)
    if format == "numpy":
        return _read_numpy(path)
    with open(name, "rb") as handle:
        if format == "word2vec-binary":
            words, vectors, promised = _read_binary(handle, name)
            vectors = vectors.astype(dtype, copy=False)
        else:
            words, vectors, promised = _read_text(handle, name, format == "word2vec", dtype)
    if promised is not None and promised != len(words):
        _complain(f"{name}: its first line says {promised} words, the file holds {len(words)}", strict,
                  "pass strict=False to read what is there")
    return _without_repeats(words, vectors, name, strict)


def _complain(text: str, strict: bool, advice: str) -> None:
    if strict:
        raise ValueError(f"{text}; {advice}")
    warnings.warn(text, stacklevel=3)


def _without_repeats(words: list[bytes], vectors: np.ndarray, name: str, strict: bool) -> WordVectors:
    first: dict[bytes, int] = {}
    for place, word in enumerate(words):
        first.setdefault(word, place)
    if len(first) < len(words):
        twice = next(word for place, word in enumerate(words) if first[word] != place)
        _complain(f"{name}: {len(words) - len(first)} words occur again, such as {twice.decode('utf-8', 'replace')!r}",
                  strict, "pass strict=False to keep the first of each")
        vectors = vectors[list(first.values())]
    return WordVectors(vectors, [word.decode("utf-8", "surrogateescape") for word in first])


def _guess(name: str) -> str:
    with open(name, "rb") as handle:
        head = handle.read(4096)
        size = os.path.getsize(name)
    if head[:6] == b"\x93NUMPY":
        return "numpy"
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size:
        return "lagwise"
    if head[:1] == b"\x80":
        raise ValueError(f"{name} is a pickle; lagwise never unpickles: export it as word2vec text or safetensors")
    first, _, rest = head.partition(b"\n")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        # In text the first word is followed by numbers in ASCII; a zero byte or a byte above ASCII behind it is binary.
        numbers = rest.partition(b" ")[2].split(b"\n")[0]
        text = all(character in b"0123456789+-.eE naifNAIFty\r\t" for character in numbers)
        return "word2vec" if text and numbers or not rest else "word2vec-binary"
    return "glove"


def _read_text(handle: BinaryIO, name: str, header: bool, dtype: np.dtype) -> tuple[list[bytes], np.ndarray, int | None]:
    promised = d = None
    if header:
        fields = handle.readline().split()
        if len(fields) != 2 or not all(field.isdigit() for field in fields):
            raise ValueError(f"{name}: the first line is not two whole numbers; it has no header: pass format='glove'")
        promised, d = int(fields[0]), int(fields[1])
    words: list[bytes] = []
    rows: list[np.ndarray] = []
    for number, line in enumerate(handle, 2 if header else 1):
        fields = line.rstrip(b"\r\n ").split(b" ") if line.strip() else []
        if not fields:
            continue
        if d is None:
            d = len(fields) - 1
        if len(fields) != d + 1 or d < 1:
            raise ValueError(f"{name}, line {number}: {len(fields) - 1} numbers; expected {d}")
        try:
            # float() knows no locale: 0,5 is an error everywhere.
            row = np.array([float(field) for field in fields[1:]])
        except ValueError:
            raise ValueError(f"{name}, line {number}: a value is not a number such as 0.5 ({fields[1][:20]!r} ...)") from None
        if not np.isfinite(row).all():
            raise ValueError(f"{name}, line {number}: a value is not finite")
        words.append(fields[0])
        rows.append(row.astype(dtype))
    return words, np.array(rows, dtype=dtype).reshape(len(rows), d or 0), promised


def _read_binary(handle: BinaryIO, name: str) -> tuple[list[bytes], np.ndarray, int]:
    fields = handle.readline(200).split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        raise ValueError(f"{name} is not word2vec binary: its first line is not two whole numbers")
    promised, d = int(fields[0]), int(fields[1])
    words, rows = [], []
    data = handle.read()
    place = 0
    while place < len(data):
        while data[place:place + 1] == b"\n":
            place += 1
        if place >= len(data):
            break
        end = data.find(b" ", place)
        if end < 0 or end + 1 + 4 * d > len(data):
            raise ValueError(f"{name} ends inside word {len(words) + 1} of {promised}")
        words.append(data[place:end])
        rows.append(np.frombuffer(data, dtype="<f4", count=d, offset=end + 1))
        place = end + 1 + 4 * d
    vectors = np.array(rows, dtype=np.float32).reshape(len(rows), d)
    if not np.isfinite(vectors).all():
        raise ValueError(f"{name} holds values that are not finite; is it word2vec binary?")
    return words, vectors, promised


def _read_numpy(path: str | os.PathLike[str]) -> WordVectors:
    from .vocabulary import Vocabulary

    names = _words_file(path)
    if not names.exists():
        raise FileNotFoundError(f"{names} with the words of {os.fspath(path)} does not exist")
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not a plain .npy matrix ({error})") from None
    return WordVectors(matrix, Vocabulary.loads(names.read_bytes()))
