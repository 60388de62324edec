"""Sequences of symbols in any of the forms users have them in, as one flat array with offsets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..vocabulary import Vocabulary
from .plan import Workers
from .tables import each_part

if TYPE_CHECKING:
    from ..counts import CountStore


@dataclasses.dataclass
class Sequences:
    """Symbol ids of all sequences; -1 is a missing symbol.

    Attributes
    ----------
    ids : ndarray of int32, shape (n,)
    offsets : ndarray of int64, shape (n_sequences + 1,)
    listed : bool
        The sequences came as a list, so results are given as a list.
    vocabulary : Vocabulary or None
        Made from, or used for, sequences of words.
    """

    ids: np.ndarray
    offsets: np.ndarray
    listed: bool
    vocabulary: Vocabulary | None = None

    @classmethod
    def of_counts(cls, counts: CountStore) -> Sequences:
        """The text of a store that kept its ids; words outside its vocabulary are missing symbols."""
        if counts.ids is None or counts.types is None:
            raise ValueError("the store holds no text; count with keep_ids=True")
        stream = np.asarray(counts.ids)
        ids_of_types = np.append(counts.vocabulary.lookup(counts.types), np.int32(-1))
        is_word = stream >= 0
        ends = np.flatnonzero(~is_word)
        ends = ends - np.arange(len(ends))  # words before each
        offsets = np.concatenate(([0], ends[np.diff(ends, prepend=0) > 0])).astype(np.int64)
        return cls(ids_of_types[stream[is_word]].astype(np.int32), offsets, True, counts.vocabulary)

    @property
    def lengths(self) -> np.ndarray:
        """Length of each sequence."""
        return np.diff(self.offsets)

    def split(self, flat: np.ndarray) -> Any:
        """An array over all positions in the form in which the sequences came."""
        if not self.listed:
            return flat
        return np.split(flat, self.offsets[1:-1]) if self.lengths.size else []


def read_sequences(
    X: Any, lengths: Any = None, vocabulary: Vocabulary | None = None, unknown: str = "ignore"
) -> Sequences:
    """Take ids or words apart into sequences.

    Parameters
    ----------
    X : array of integers (T,) or (T, 1), list of such arrays, list of lists of words, or path of a text file
        A text file has one sequence a line. Masked entries of a masked array are missing symbols.
    lengths : array of integers, optional
        Lengths of the sequences that an array is made of, as hmmlearn takes them.
    vocabulary : Vocabulary, optional
        For words; without it, the words found make one, in the order of their first appearance.
    unknown : {"ignore", "error", "unk"}
        What words outside the vocabulary are: missing symbols, an error, or the word "<unk>".

    Raises
    ------
    TypeError
        For a one-shot iterator (EM needs several passes), a list of strings, or numbers that are not integers.
    ValueError
        If lengths do not add up, or the array's shape is not that of a sequence.
    """
    if isinstance(X, Sequences):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _read_file(X, lengths, vocabulary, unknown)
    if isinstance(X, Iterator):
        raise TypeError(f"X is a one-shot iterator ({type(X).__name__}); EM reads the data many times: pass list(X)")
    if not isinstance(X, np.ndarray) and not isinstance(X, (list, tuple)) and hasattr(X, "__array__"):
        X = np.asarray(X)
    if isinstance(X, np.ndarray) and X.dtype == object:
        X = list(X)
    if isinstance(X, np.ndarray):
        return _from_array(X, lengths)
    if not isinstance(X, Sequence):
        raise TypeError(f"X is a {type(X).__name__}; expected an array of integers, a list of sequences, or a path")
    if all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in X):
        return _from_array(np.asarray(X, dtype=np.int64 if not len(X) else None), lengths)
    if lengths is not None:
        raise ValueError(
            "lengths was given with a list of sequences; it belongs to one flat array, and labels go in y="
        )
    return _from_list(X, vocabulary, unknown)


def _from_array(X: np.ndarray, lengths: Any) -> Sequences:
    if X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]
    elif X.ndim == 2 and X.shape[0] == 1:
        raise ValueError(
            f"X has shape {X.shape}: one time step of {X.shape[1]} columns; did you mean ({X.shape[1]}, 1)? "
            "Pass X.T or X[0]"
        )
    if X.ndim != 1:
        raise ValueError(f"X has shape {X.shape}; expected (T,) or (T, 1), or a list of sequences")
    ids = _to_ids(X, "X")
    if lengths is None:
        sizes = np.array([ids.size], dtype=np.int64)
    else:
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or (sizes.size and not np.issubdtype(sizes.dtype, np.integer)) or np.any(sizes < 0):
            raise ValueError(f"lengths is {lengths!r}; expected a list of non-negative integers")
        if sizes.sum() != ids.size:
            raise ValueError(f"lengths add up to {int(sizes.sum())}, but X has {ids.size} symbols")
    return Sequences(ids, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64), False)


def _filled(values: Any) -> np.ndarray:
    """An array in which the masked entries of a masked array of integers are -1: a missing symbol, no label."""
    if not np.ma.isMaskedArray(values):
        return np.asarray(values)
    plain, mask = np.asarray(values.data), np.ma.getmaskarray(values)
    if not np.issubdtype(plain.dtype, np.integer) or not np.any(mask):
        return plain
    return np.where(mask, np.int64(-1), plain.astype(np.int64))


def _to_ids(array: Any, name: str) -> np.ndarray:
    values = _filled(array)
    if values.size == 0:
        return np.zeros(0, dtype=np.int32)
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"{name} holds {values.dtype} values; expected integer symbol ids (or lists of words)")
    if int(values.min()) < -1 or int(values.max()) >= 2**31 - 1:
        wrong = int(values.min()) if int(values.min()) < -1 else int(values.max())
        raise ValueError(f"{name} holds the symbol id {wrong}; expected ids from 0, and -1 for a missing symbol")
    return np.array(values, dtype=np.int32)


def _from_list(X: Sequence[Any], vocabulary: Vocabulary | None, unknown: str) -> Sequences:
    for number, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes)):
            raise TypeError(
                f"X is a list of strings (item {number} is {sequence!r:.60}); expected a list of sequences: "
                '[["the", "dog"], ...], so split lines into words or wrap a single sentence in a list'
            )
        if sequence is None or isinstance(sequence, (int, float)):
            raise TypeError(f"item {number} of X is {sequence!r}; expected a sequence of ids or words")
        if isinstance(sequence, Iterator):
            raise TypeError(f"item {number} of X is a one-shot iterator; pass lists or arrays")
    words = next((isinstance(s[0], str) for s in X if len(s)), False)
    offsets = np.concatenate(([0], np.cumsum([len(s) for s in X]))).astype(np.int64)
    if not words:
        parts = []
        for number, sequence in enumerate(X):
            part = _filled(sequence)
            if part.ndim == 2 and part.shape[1] == 1:
                part = part[:, 0]
            if part.ndim != 1:
                raise ValueError(f"item {number} of X has shape {part.shape}; expected (T,) or (T, 1)")
            parts.append(_to_ids(part, f"item {number} of X"))
        ids = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
        return Sequences(ids, offsets, True)
    tokens = [token for sequence in X for token in sequence]
    wrong = next((i for i, token in enumerate(tokens) if not isinstance(token, str)), None)
    if wrong is not None:
        where = int(np.searchsorted(offsets, wrong, side="right")) - 1
        raise TypeError(f"item {where} of X holds {tokens[wrong]!r} among words; expected strings only")
    if vocabulary is None:
        found = dict.fromkeys(tokens)
        if unknown == "unk":
            found.setdefault("<unk>")
        vocabulary = Vocabulary(found)
    return Sequences(_lookup(vocabulary, tokens, unknown), offsets, True, vocabulary)


def _lookup(vocabulary: Vocabulary, tokens: Sequence[str], unknown: str) -> np.ndarray:
    if unknown == "unk":
        missing = vocabulary.index.get("<unk>", vocabulary.unknown_id)
        if missing < 0:
            raise ValueError('unknown="unk", but the vocabulary has no "<unk>"; fit with unknown="unk" or use "ignore"')
    else:
        missing = vocabulary.unknown_id
    get = vocabulary.index.get
    if unknown == "error":
        outside = next((token for token in tokens if token not in vocabulary.index), None)
        if outside is not None:
            raise ValueError(
                f'the word {outside!r} is not in the model\'s vocabulary; unknown="ignore" takes it as missing'
            )
    return np.fromiter((get(token, missing) for token in tokens), dtype=np.int32, count=len(tokens))


def _read_file(path: Any, lengths: Any, vocabulary: Vocabulary | None, unknown: str) -> Sequences:
    if lengths is not None:
        raise ValueError("lengths was given with a text file; each line of the file is a sequence")
    if isinstance(path, str) and not os.path.exists(path) and path != "-" and "://" not in path:
        raise FileNotFoundError(f"{path} does not exist (X as a str is the name of a text file; pass words as lists)")
    if vocabulary is None:
        from ..counting import count

        vocabulary = count(path, min_count=1, max_lag=1).vocabulary
    ids, offsets = vocabulary.encode(path)
    ids = np.array(ids, dtype=np.int32)
    if unknown == "unk" and np.any(ids < 0):
        ids[ids < 0] = _lookup(vocabulary, ["<unk>"], unknown)[0]
    elif unknown == "error" and np.any(ids < 0):
        raise ValueError(
            f'{os.fspath(path)} holds words outside the model\'s vocabulary; unknown="ignore" takes them as missing'
        )
    keep = np.concatenate(([True], np.diff(offsets) > 0))  # empty lines are no sequences
    return Sequences(ids, np.asarray(offsets, dtype=np.int64)[keep], True, vocabulary)


def check_symbols(ids: np.ndarray, n_symbols: int) -> None:
    """Raise ValueError naming an id that the model does not have."""
    if ids.size and int(ids.max()) >= n_symbols:
        raise ValueError(
            f"X holds the symbol id {int(ids.max())}; the model has n_symbols={n_symbols} (ids 0..{n_symbols - 1})"
        )


def read_labels(y: Any, sequences: Sequences, n_states: int, name: str = "y") -> np.ndarray | None:
    """Labels for every position, int32 with -1 for unlabelled ones; None in a list leaves out a whole sequence."""
    if y is None:
        return None
    lengths = sequences.lengths
    if (
        isinstance(y, (list, tuple))
        and len(y) == lengths.size
        and (sequences.listed or any(part is None or np.ndim(part) > 0 for part in y))
    ):
        parts = []
        for number, (part, length) in enumerate(zip(y, lengths)):
            labels = np.full(length, -1) if part is None else _filled(part)
            labels = labels if length else labels.astype(np.int32)
            if labels.shape != (length,):
                raise ValueError(f"item {number} of {name} has shape {labels.shape}; its sequence has {length} symbols")
            parts.append(labels)
        flat = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
    else:
        flat = _filled(y)
        if flat.ndim == 2 and flat.shape[1] == 1:  # type: ignore[misc]
            flat = flat[:, 0]
        if flat.shape != sequences.ids.shape:
            raise ValueError(
                f"{name} has shape {flat.shape}; X has {sequences.ids.size} symbols in {lengths.size} sequences"
            )
    if flat.size and not np.issubdtype(flat.dtype, np.integer):
        raise TypeError(f"{name} holds {flat.dtype} values; expected states as integers, -1 where unknown")
    if flat.size and (int(flat.max()) >= n_states or int(flat.min()) < -1):
        wrong = int(flat.max()) if int(flat.max()) >= n_states else int(flat.min())
        raise ValueError(f"{name} holds the state {wrong}; expected 0..{n_states - 1}, or -1 where unknown")
    return flat.astype(np.int32)


@dataclasses.dataclass
class EmissionRows:
    """Which row of an emission table each position uses: a symbol's, the row of ones, or one cut down to a label.

    The first V rows are the symbols', row V is a missing symbol's, and further rows belong to (symbol, label) pairs.
    """

    rows: np.ndarray  # (n,) int32
    symbols: np.ndarray  # (extra,) symbol of each further row, -1 for none
    labels: np.ndarray  # (extra,) its label
    n_symbols: int

    @classmethod
    def of(cls, ids: np.ndarray, labels: np.ndarray | None, n_symbols: int, n_states: int) -> EmissionRows:
        rows = np.where(ids < 0, n_symbols, ids).astype(np.int32)
        none = np.zeros(0, dtype=np.int64)
        if labels is None or not np.any(labels >= 0):
            return cls(rows, none, none, n_symbols)
        known = labels >= 0
        pairs, inverse = np.unique(rows[known].astype(np.int64) * n_states + labels[known], return_inverse=True)
        rows[known] = n_symbols + 1 + inverse.reshape(-1)
        symbols = pairs // n_states
        return cls(rows, np.where(symbols == n_symbols, -1, symbols), pairs % n_states, n_symbols)

    @property
    def n_rows(self) -> int:
        """R."""
        return self.n_symbols + 1 + self.symbols.size

    def table(self, emission: np.ndarray, threads: int | Workers = 1, out: np.ndarray | None = None) -> np.ndarray:
        """Emission rows (R, K) for the emissions (V, K)."""
        V, K = emission.shape
        table = np.empty((self.n_rows, K)) if out is None else out

        def copy(part: slice) -> None:
            table[part] = emission[part]

        each_part(copy, V, threads)
        table[V] = 1.0
        if self.symbols.size:
            values = np.where(self.symbols < 0, 1.0, emission[self.symbols, self.labels])
            table[V + 1 :] = 0.0
            table[np.arange(V + 1, self.n_rows), self.labels] = values
        return table

    def fold(self, counts: np.ndarray) -> np.ndarray:
        """Expected emissions (V, K) from expected uses of the rows (R, K)."""
        V = self.n_symbols
        folded = counts[:V]
        real = self.symbols >= 0
        if np.any(real):
            folded = folded.copy()
            np.add.at(folded, (self.symbols[real], self.labels[real]), counts[V + 1 :][real, self.labels[real]])
        return folded
