"""Word vectors as an object of their own: look up, compare, query, save."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._validation import check_choice, check_int, unknown_word_message
from .vocabulary import Vocabulary

_DTYPES = ("float16", "float32", "float64")
_BLOCK = 1 << 22  # numbers of one block of cosines


class WordVectors:
    """Vectors of the words of a vocabulary.

    Parameters
    ----------
    vocabulary : Vocabulary or iterable of str
        Distinct words; with a Vocabulary its normalisation is kept.
    vectors : array_like of float, shape (n_words, n_dimensions)
        float16, float32 and float64 are kept as they are.
    counts : array_like of int, shape (n_words,), optional
        How often each word occurred.
    meta : dict, optional
        JSON values about their making; saved with them.

    Raises
    ------
    ValueError
        If shapes do not fit or a number is not finite.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | Iterable[str],
        vectors: Any,
        counts: Any = None,
        meta: dict[str, Any] | None = None,
    ):
        self.vocabulary = vocabulary if isinstance(vocabulary, Vocabulary) else _as_vocabulary(vocabulary)
        for word in self.vocabulary:
            if not isinstance(word, str):
                raise TypeError(f"the words hold {word!r} ({type(word).__name__}); expected str")
        array = _real_numbers("vectors", vectors)
        if array.ndim != 2 or len(array) != len(self.vocabulary):
            raise ValueError(
                f"vectors have shape {array.shape}; expected one row for each of {len(self.vocabulary)} words"
            )
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise ValueError(f"the vector of {self.vocabulary[row]!r} holds NaN or infinity; vectors must be finite")
        self.vectors = array
        self.counts = None if counts is None else _counts(counts, len(array))
        self.meta = _json(meta)
        self._unit: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.n_dimensions} dimensions)"

    @property
    def words(self) -> list[str]:
        """The words, in the order of the rows."""
        return self.vocabulary.words

    @property
    def n_dimensions(self) -> int:
        """Length of each vector."""
        return int(self.vectors.shape[1])

    @property
    def unit(self) -> np.ndarray:
        """Rows scaled to length one (zero rows stay zero), float32 or float64, shape (n_words, n_dimensions)."""
        if self._unit is None:
            rows = self.vectors.astype(np.float32 if self.vectors.dtype != np.float64 else np.float64)
            largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
            rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # safe from under- and overflow
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            self._unit = np.divide(rows, lengths, out=rows, where=lengths > 0)
            self._unit.flags.writeable = False
        return self._unit

    def id(self, word: str) -> int:
        """Row of a word, as given or folded like the text was; KeyError with close spellings if it is unknown."""
        index = self.vocabulary.index
        if not isinstance(word, str):
            raise TypeError(f"got {word!r} ({type(word).__name__}); expected a word")
        if word in index:
            return index[word]
        folded = self.vocabulary.normalize(word)
        if folded in index:
            return index[folded]
        raise KeyError(unknown_word_message(str(word), self.words))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and (word in self.vocabulary or self.vocabulary.normalize(word) in self.vocabulary)

    def __getitem__(self, word: str | Sequence[str]) -> np.ndarray:
        """Vector of a word (n_dimensions,), or of several (n, n_dimensions)."""
        if isinstance(word, str):
            return np.array(self.vectors[self.id(word)])
        rows = [self.id(one) for one in _several(word)]
        return np.array(self.vectors[rows]).reshape(len(rows), self.n_dimensions)

    def similarity(self, first: str, second: str) -> float:
        """Cosine of two words; 0 where one of them has no direction."""
        return float(self.unit[self.id(first)] @ self.unit[self.id(second)])

    def most_similar(self, positive: Any = (), negative: Any = (), top: int = 10) -> list[tuple[str, float]]:
        """The words nearest to a sum of directions.

        Parameters
        ----------
        positive, negative : str, array_like of float of shape (n_dimensions,), or sequence of these
            Added and subtracted, each at length one; the words themselves are left out of the answer.
        top : int
            How many.

        Returns
        -------
        list of (word, cosine)
            Falling; ties in the order of the vocabulary.

        Raises
        ------
        KeyError
            For an unknown word, with close spellings.
        """
        top = check_int("top", top, 0)
        target = np.zeros(self.n_dimensions)
        excluded = []
        for items, sign in ((_listed(positive), 1), (_listed(negative), -1)):
            for item in items:
                if isinstance(item, str):
                    excluded.append(self.id(item))
                    target += sign * self.unit[excluded[-1]].astype(np.float64)
                else:
                    vector = _real_numbers("a vector", item).astype(np.float64)
                    if vector.shape != (self.n_dimensions,):
                        raise ValueError(
                            f"got {item!r}, of shape {vector.shape}; expected a word or {self.n_dimensions} finite numbers"
                        )
                    if not np.isfinite(vector).all():
                        raise ValueError("a vector holds NaN or infinity; expected finite numbers")
                    vector = vector / (np.abs(vector).max(initial=0) or 1.0)  # safe from under- and overflow
                    target += sign * vector / (np.linalg.norm(vector) or 1.0)
        if not _listed(positive) and not _listed(negative):
            raise ValueError("no words given; name at least one")
        length = np.linalg.norm(target)
        scores = self.unit @ (target / (length or 1.0)).astype(self.unit.dtype)
        return self._best(scores, excluded, top)

    def _best(self, scores: np.ndarray, excluded: Iterable[int], top: int) -> list[tuple[str, float]]:
        scores = np.array(scores)
        scores[list(excluded)] = -np.inf
        order = best_first(scores, top)
        return [(self.words[i], float(scores[i])) for i in order if scores[i] > -np.inf]

    def neighbors(self, words: Iterable[str], top: int = 10) -> dict[str, list[tuple[str, float]]]:
        """`most_similar` of many single words at once."""
        listed, top = _listed(words), check_int("top", top, 0)
        rows = [self.id(word) for word in listed]
        result = {}
        step = max(1, _BLOCK // max(len(self), 1))
        for start in range(0, len(rows), step):
            scores = self.unit[rows[start : start + step]] @ self.unit.T
            for word, row, line in zip(listed[start:], rows[start : start + step], scores):
                result[word] = self._best(line, [row], top)
        return result

    def analogy(self, a: str, b: str, c: str, top: int = 10, method: str = "add") -> list[tuple[str, float]]:
        """Words that are to `c` as `b` is to `a`.

        Parameters
        ----------
        a, b, c : str
        top : int
        method : {"add", "mul"}
            3CosAdd, cos(x, b) - cos(x, a) + cos(x, c); 3CosMul (Levy & Goldberg 2014), with cosines moved to [0, 1].

        Returns
        -------
        list of (word, score)
        """
        check_choice("method", method, ("add", "mul"))
        rows = [self.id(word) for word in (a, b, c)]
        cosines = self.unit @ self.unit[rows].T
        return self._best(combine(cosines[:, 0], cosines[:, 1], cosines[:, 2], method), rows, check_int("top", top, 0))

    def doesnt_match(self, words: Iterable[str]) -> str:
        """The word farthest from the mean direction of all."""
        listed = _several(words)
        if not listed:
            raise ValueError("no words given; name at least one")
        rows = self.unit[[self.id(word) for word in listed]].astype(np.float64)
        return listed[int(np.argmin(rows @ rows.mean(axis=0)))]

    def subset(self, words: Iterable[str]) -> WordVectors:
        """The vectors of some words, in the order given."""
        listed = list(dict.fromkeys(_several(words)))
        rows = [self.id(word) for word in listed]
        vocabulary = Vocabulary((self.words[row] for row in dict.fromkeys(rows)), self.vocabulary.normalization)
        rows = list(dict.fromkeys(rows))
        return WordVectors(
            vocabulary, self.vectors[rows], None if self.counts is None else self.counts[rows], self.meta
        )

    def normalized(self) -> WordVectors:
        """The same with rows of length one."""
        return WordVectors(self.vocabulary, self.unit, self.counts, self.meta)

    def save(self, path: str | os.PathLike[str], dtype: str | None = None, overwrite: bool = False) -> None:
        """Write a safetensors file, whole or not at all.

        Parameters
        ----------
        path : str or PathLike
        dtype : {"float16", "float32", "float64"}, optional
            Storage type; by default the vectors' own, which is exact.
        overwrite : bool
            Replace a file that is already there.

        Raises
        ------
        FileExistsError
            If `path` exists and `overwrite` is false.
        ValueError
            If a number does not fit `dtype`.
        """
        from ._files import save_tensors

        array = self.vectors if dtype is None else self.vectors.astype(check_choice("dtype", dtype, _DTYPES))
        if not np.isfinite(array).all():
            raise ValueError(f"the vectors do not fit {dtype}; save them as float32")
        tensors, meta = self.vocabulary.to_tensors()
        tensors["vectors"] = array
        if self.counts is not None:
            tensors["counts"] = self.counts
        save_tensors(path, "word-vectors", tensors, {**meta, "about": self.meta}, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> WordVectors:
        """Read vectors; lagwise's own files are memory-mapped.

        Parameters
        ----------
        path : str or PathLike
        format : {None, "lagwise", "word2vec", "word2vec-binary", "glove", "numpy"}
            None reads lagwise's own files.
        **options
            As for `lagwise.export.read_vectors`.
        """
        if format in (None, "lagwise"):
            if options:
                raise TypeError(f"lagwise's own files take no options, but {', '.join(options)} was given")
            from ._files import load_tensors
            from ._load import rebuild

            return rebuild(cls, *load_tensors(path, "word-vectors")[1:], path)
        from .export import read_vectors

        return read_vectors(path, format, **options)

    @classmethod
    def _from_tensors(cls, tensors: dict[str, np.ndarray], meta: dict[str, Any]) -> WordVectors:
        vocabulary = Vocabulary.from_tensors(tensors, meta)
        return cls(vocabulary, tensors["vectors"], tensors.get("counts"), meta["about"])

    def to_gensim(self) -> Any:
        """The vectors as gensim KeyedVectors (needs gensim)."""
        try:
            from gensim.models import KeyedVectors
        except ImportError:
            raise ImportError("KeyedVectors are gensim's; install it with: pip install gensim") from None

        keyed = KeyedVectors(self.n_dimensions, dtype=self.vectors.dtype)
        keyed.add_vectors(self.words, np.array(self.vectors))
        if self.counts is not None:
            for word, count in zip(self.words, self.counts.tolist()):
                keyed.set_vecattr(word, "count", count)
        return keyed

    @classmethod
    def from_gensim(cls, keyed: Any) -> WordVectors:
        """Vectors of a gensim KeyedVectors."""
        words = list(keyed.index_to_key)
        counts = [keyed.get_vecattr(word, "count") for word in words] if "count" in keyed.expandos else None
        return cls(words, np.array(keyed.vectors), counts)


def _as_vocabulary(words: Any) -> Vocabulary:
    if isinstance(words, (str, bytes)) or not isinstance(words, Iterable):
        raise TypeError(f"the words are {words!r}; expected a Vocabulary or an iterable of str")
    return Vocabulary(words)


def _several(words: Any) -> list[Any]:
    if isinstance(words, (str, bytes)) or not isinstance(words, Iterable):
        raise TypeError(f"got {words!r} ({type(words).__name__}); expected several words")
    return list(words)


def _counts(counts: Any, n_words: int) -> np.ndarray:
    array = np.asarray(counts)
    if array.dtype.kind not in "iu" and not (array.dtype.kind == "f" and (array == np.floor(array)).all()):
        raise TypeError(f"counts hold {array.dtype} values that are no whole numbers; expected integers")
    if array.shape != (n_words,):
        raise ValueError(f"counts have shape {array.shape}; expected ({n_words},)")
    if array.size and not 0 <= array.min() <= array.max() < 2.0**63:
        raise ValueError(f"counts run from {array.min()} to {array.max()}; expected 0 to 2**63 - 1")
    return array.astype(np.int64)


def _json(meta: Any) -> dict[str, Any]:
    """Metadata as it will be read back."""
    import json

    if not isinstance(meta, (dict, type(None))):
        raise TypeError(f"meta is {meta!r}; expected a dict of JSON values")
    try:
        return json.loads(json.dumps(meta or {}, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"meta cannot be saved as JSON ({error}); use str, finite numbers, lists and dicts") from None


def _real_numbers(name: str, values: Any) -> np.ndarray:
    """An array of float16, float32 or float64; other real numbers become float64."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: rows of unequal length ({error})") from None
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} hold masked values; fill or leave them out first")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} hold {array.dtype} values; expected real numbers")
    return array if array.dtype.name in _DTYPES else array.astype(np.float64)


def _listed(items: Any) -> list[Any]:
    """Words and vectors given as one or as several."""
    if isinstance(items, str) or (isinstance(items, np.ndarray) and items.ndim == 1):
        return [items]
    if not isinstance(items, Iterable):
        raise TypeError(f"got {items!r} ({type(items).__name__}); expected a word, a vector or a sequence of these")
    listed = list(items)
    return [listed] if listed and all(isinstance(item, (int, float, np.number)) for item in listed) else listed


def best_first(scores: np.ndarray, top: int) -> np.ndarray:
    """Places of the `top` largest scores, falling; ties go to the lower place."""
    top = min(top, len(scores))
    if top == 0:
        return np.empty(0, dtype=np.int64)
    floor = np.partition(scores, len(scores) - top)[len(scores) - top]
    places = np.flatnonzero(scores >= floor)
    return places[np.argsort(-scores[places], kind="stable")][:top]


def combine(a: np.ndarray, b: np.ndarray, c: np.ndarray, method: str) -> np.ndarray:
    """3CosAdd or 3CosMul of the cosines with a, b and c (a is to b as c is to the answer)."""
    if method == "add":
        return b - a + c
    a, b, c = (1 + a) / 2, (1 + b) / 2, (1 + c) / 2
    return b * c / (a + 0.001)
