"""Text and ids given to a fitted model, in every form, as flat ids with offsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sources import list_sources
from ..vocabulary import Vocabulary


def as_ids(X: Any, lengths: Any, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Ids int32 (T,), -1 for words the model does not know, and offsets int64 (n + 1,).

    Parameters
    ----------
    X : str, list of str, list of lists of str, array of int, or list of arrays of int
        A str is text: each of its lines, which end with newlines alone, is a sequence, split as the model's own text
        was. A list of str is one sequence of tokens. Ids are rows of the model's vocabulary, -1 an unknown word.
    lengths : array_like of int or None
        Cuts one sequence into several; they add up to its length.
    """
    if isinstance(X, str):
        if lengths is not None:
            raise ValueError("lengths go with tokens or ids; each line of a text is a sequence")
        return _bounded(vocabulary.encode(lines=X.removesuffix("\n").split("\n")))
    _refuse_mask(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "UT" and X.ndim == 1:
        X = X.tolist()
    if isinstance(X, np.ndarray) and X.dtype != object:
        return _cut(_check_ids(X, vocabulary), lengths)
    if not hasattr(X, "__iter__") or isinstance(X, (bytes, dict, set)):
        raise TypeError(f"got a {type(X).__name__}; expected a text, tokens, ids, or a list of token lists")
    rows = list(X)
    if all(isinstance(row, str) for row in rows):
        return _cut(_lookup(rows, vocabulary), lengths)
    if all(_whole(row) for row in rows):
        return _cut(_check_ids(np.array(rows, dtype=object), vocabulary), lengths)
    if lengths is not None:
        raise ValueError("lengths go with one flat sequence; a list of sequences has its own")
    parts = []
    for number, row in enumerate(rows):
        if isinstance(row, (str, bytes)) or not hasattr(row, "__iter__"):
            raise TypeError(
                f"row {number} is {row!r} ({type(row).__name__}); expected all rows to be tokens, all to be ids, "
                "or all to be lists of them"
            )
        _refuse_mask(row)
        if isinstance(row, np.ndarray) and row.dtype.kind not in "UTO":
            parts.append(_check_ids(row, vocabulary))
            continue
        tokens = list(row)
        if all(isinstance(token, str) for token in tokens):
            parts.append(_lookup(tokens, vocabulary))
            continue
        wrong = [token for token in tokens if not _whole(token)]
        if wrong:
            raise TypeError(
                f"row {number} holds {wrong[0]!r:.80} ({type(wrong[0]).__name__}); expected all its tokens to be words, "
                "or all ids"
            )
        parts.append(_check_ids(np.array(tokens, dtype=object), vocabulary))
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate([np.zeros(0, np.int32), *parts]), offsets


def _bounded(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    ids, offsets = pair
    return ids, offsets if offsets[-1] == len(ids) else np.append(offsets, len(ids))


def _lookup(tokens: list[str], vocabulary: Vocabulary) -> np.ndarray:
    return vocabulary.lookup(vocabulary.normalize(token) for token in tokens)


def _refuse_mask(values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError("ids are a masked array, whose mask would be lost; give -1 for what is not known")


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_ids(ids: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Checked ids of an array of numbers, or of an object array of Python's whole numbers, which may be of any size."""
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.ndim != 1:
        raise ValueError(f"ids have shape {ids.shape}; expected (T,)")
    if ids.size == 0:
        return np.zeros(0, np.int32)
    if ids.dtype.kind not in "iuO":
        raise TypeError(f"ids have dtype {ids.dtype}; expected whole numbers, rows of the vocabulary")
    low, high = int(ids.min()), int(ids.max())
    if low < -1 or high >= len(vocabulary):
        raise ValueError(
            f"id {low if low < -1 else high} is outside the vocabulary of {len(vocabulary)} words; "
            "expected 0 .. n_words - 1, or -1 for an unknown word"
        )
    return ids.astype(np.int32)


def _cut(ids: np.ndarray, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    return ids, cut_lengths(lengths, len(ids))


def cut_lengths(lengths: Any, total: int) -> np.ndarray:
    """Offsets from lengths that add up to `total`; one sequence without them."""
    if lengths is None:
        return np.array([0, total], dtype=np.int64)
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or (sizes.size and sizes.dtype.kind not in "iu"):
        raise ValueError(
            f"lengths have shape {sizes.shape} and dtype {sizes.dtype}; expected whole numbers, one a sequence"
        )
    if sizes.size and (int(sizes.min()) < 0 or int(sizes.max()) > total):
        raise ValueError(
            f"lengths run from {sizes.min()} to {sizes.max()}; expected 0 to {total}, the number of tokens"
        )
    if sum(sizes.tolist()) != total:  # whole numbers without end
        raise ValueError(f"lengths add up to {sum(sizes.tolist())}, the sequence has {total} tokens")
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def file_sequences(
    vocabulary: Vocabulary, source: Any, boundary: str, errors: str, n_threads: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Ids int32 (T,) of files and the lengths int64 of their sequences that are not empty.

    A sequence ends with its line ("line"), its file ("none"), or a line without tokens and the file ("blank").
    """
    ids, lengths = [], []
    for one in list_sources(source):
        found, offsets = vocabulary.encode(one, errors=errors, n_threads=n_threads)
        lines = np.diff(np.append(offsets, len(found)))
        if boundary == "none":
            lines = np.array([len(found)])
        elif boundary == "blank":
            lines = np.bincount(np.cumsum(lines == 0), weights=lines).astype(np.int64)
        ids.append(found)
        lengths.append(lines[lines > 0])
    return np.concatenate(ids), np.concatenate(lengths).astype(np.int64)
