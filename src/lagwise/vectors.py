"""Word vectors: look up, compare, find neighbours, save; independent of what trained them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ._files import load_tensors, save_tensors
from ._validation import check_choice, check_int, unknown_word_message
from .vocabulary import Vocabulary

_BLOCK = 512  # queries of one matrix product


class WordVectors:
    """A matrix of vectors with one word a row.

    Parameters
    ----------
    vectors : ndarray of float16, float32 or float64, shape (n_words, d)
        Kept as they are; never changed.
    words : Vocabulary or iterable of str
        Distinct.
    meta : dict, optional
        JSON values saved along, such as the settings of the estimator.

    Raises
    ------
    ValueError
        If the number of words and rows differ, a word occurs twice, or a value is not finite.
    """

    def __init__(self, vectors: Any, words: Vocabulary | Iterable[str], meta: dict[str, Any] | None = None):
        vectors = np.asarray(vectors)
        if vectors.dtype not in (np.float16, np.float32, np.float64):
            vectors = vectors.astype(np.float64)
        if vectors.ndim != 2:
            raise ValueError(f"vectors have shape {vectors.shape}; expected (n_words, d)")
        self.vocabulary = words if isinstance(words, Vocabulary) else Vocabulary(words)
        if len(self.vocabulary) != len(vectors):
            raise ValueError(f"{len(self.vocabulary)} words for {len(vectors)} rows of vectors; expected one word a row")
        self.vectors, self.meta = vectors, dict(meta or {})
        self._norms: np.ndarray | None = None

    # Reading rows.
    @property
    def words(self) -> list[str]:
        """The words in the order of the rows."""
        return self.vocabulary.words

    @property
    def n_components(self) -> int:
        """Length of the vectors."""
        return self.vectors.shape[1]

    @property
    def norms(self) -> np.ndarray:
        """Lengths of the vectors, float64 of shape (n_words,)."""
        if self._norms is None:
            norms = np.empty(len(self))
            for first in range(0, len(self), 1 << 16):
                norms[first:first + (1 << 16)] = np.linalg.norm(
                    self.vectors[first:first + (1 << 16)].astype(np.float64), axis=1)
            if not np.isfinite(norms).all():
                raise ValueError(f"the vector of {self.words[int(np.argmax(~np.isfinite(norms)))]!r} is not finite")
            self._norms = norms
        return self._norms

    def __len__(self) -> int:
        return len(self.vectors)

    def __contains__(self, word: object) -> bool:
        return word in self.vocabulary

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __getitem__(self, words: str | Sequence[str]) -> np.ndarray:
        """The vector of a word (d,), or of a list of words (n, d); KeyError with close spellings for unknown ones."""
        return self.vectors[self.id(words)] if isinstance(words, str) else self.vectors[[self.id(word) for word in words]]

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.n_components} dimensions, {self.vectors.dtype})"

    def id(self, word: str) -> int:
        """Row of a word, tried as it is and then folded as the text was; KeyError with close spellings."""
        index = self.vocabulary.index
        if word in index:
            return index[word]
        folded = self.vocabulary.normalize(word) if isinstance(word, str) else word
        if folded in index:
            return index[folded]
        raise KeyError(unknown_word_message(word, self.words))

    def get(self, word: str, default: Any = None) -> Any:
        """The vector of a word, or `default` where it is unknown."""
        return self[word] if word in self else default

    def subset(self, words: Iterable[str]) -> WordVectors:
        """The vectors of these words, in this order."""
        words = list(words)
        rows = self.vectors[[self.id(word) for word in words]]
        return WordVectors(rows, Vocabulary(words, self.vocabulary.normalization), self.meta)

    def unit(self) -> WordVectors:
        """The vectors divided by their lengths; zero vectors stay zero."""
        scale = np.divide(1.0, self.norms, out=np.zeros(len(self)), where=self.norms > 0)
        return WordVectors((self.vectors * scale[:, None]).astype(self.vectors.dtype), self.vocabulary, self.meta)

    def astype(self, dtype: Any) -> WordVectors:
        """The vectors in another dtype, such as "float16" to halve the memory."""
        dtype = np.dtype(check_choice("dtype", np.dtype(dtype).name, ("float16", "float32", "float64")))
        with np.errstate(over="ignore"):
            vectors = self.vectors.astype(dtype)
        if not np.isfinite(vectors).all():
            raise ValueError(f"some values do not fit in {dtype}; take unit() first, or another dtype")
        return WordVectors(vectors, self.vocabulary, self.meta)

    # Queries.
    def _unit_rows(self, rows: Any) -> np.ndarray:
        vectors = self.vectors[rows].astype(np.float64)
        scale = self.norms[rows]
        return vectors * np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)[..., None]

    def similarity(self, a: str, b: str) -> float:
        """Cosine of two words; 0 where one vector is zero."""
        return float(np.clip(self._unit_rows(self.id(a)) @ self._unit_rows(self.id(b)), -1.0, 1.0))

    def cosines(self, queries: np.ndarray) -> np.ndarray:
        """Cosines of unit queries (q, d) with every word, float32 of shape (q, n_words)."""
        scale = np.divide(1.0, self.norms, out=np.zeros(len(self)), where=self.norms > 0).astype(np.float32)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if self.vectors.dtype == np.float32:
            result = queries @ self.vectors.T
            result *= scale
            return result
        result = np.empty((len(queries), len(self)), dtype=np.float32)
        for first in range(0, len(self), 1 << 16):
            rows = slice(first, first + (1 << 16))
            unit = self.vectors[rows] * (np.float64(1.0) * scale[rows, None])
            np.matmul(queries, unit.T.astype(np.float32), out=result[:, rows])
        return result

    def most_similar(self, positive: str | np.ndarray | Sequence[Any] = (), negative: str | np.ndarray | Sequence[Any] = (),
                     n: int = 10, restrict: int | None = None) -> list[tuple[str, float]]:
        """Nearest words to a combination of words: the mean of unit vectors, negative ones subtracted.

        Parameters
        ----------
        positive, negative : str, vector, or lists of them
            Words among them are left out of the answer.
        n : int
            Number of words wanted.
        restrict : int, optional
            Consider only the first (most frequent) words.

        Returns
        -------
        list of (word, cosine), nearest first; equal cosines by row.
        """
        check_int("n", n, 1)
        plus, minus = _listed(positive), _listed(negative)
        if not plus and not minus:
            raise ValueError("most_similar needs at least one word or vector")
        query, left_out = np.zeros(self.n_components), []
        for sign, items in ((1.0, plus), (-1.0, minus)):
            for item in items:
                if isinstance(item, str):
                    left_out.append(self.id(item))
                    query += sign * self._unit_rows(left_out[-1])
                else:
                    query += sign * _unit(self._check_vector(item))
        return self._nearest(_unit(query)[None], [left_out], n, restrict)[0]

    def neighbours(self, words: Sequence[str], n: int = 10, restrict: int | None = None) -> list[list[tuple[str, float]]]:
        """`most_similar` of each word, in batches of matrix products."""
        check_int("n", n, 1)
        rows = [self.id(word) for word in words]
        result: list[list[tuple[str, float]]] = []
        for first in range(0, len(rows), _BLOCK):
            batch = rows[first:first + _BLOCK]
            result += self._nearest(self._unit_rows(batch), [[row] for row in batch], n, restrict)
        return result

    def similar_by_vector(self, vector: Any, n: int = 10, restrict: int | None = None) -> list[tuple[str, float]]:
        """Nearest words to a vector."""
        return self.most_similar([np.asarray(vector)], n=n, restrict=restrict)

    def _check_vector(self, vector: Any) -> np.ndarray:
        vector = np.asarray(vector, dtype=np.float64)
        if vector.shape != (self.n_components,) or not np.isfinite(vector).all():
            raise ValueError(f"the vector has shape {vector.shape}; expected ({self.n_components},) finite numbers")
        return vector

    def _nearest(self, queries: np.ndarray, left_out: list[list[int]], n: int,
                 restrict: int | None) -> list[list[tuple[str, float]]]:
        scores = self.cosines(queries)
        if restrict is not None:
            scores = scores[:, :check_int("restrict", restrict, 1)]
        results = []
        for row, out in zip(scores, left_out):
            row[[place for place in out if place < len(row)]] = -np.inf
            results.append([(self.words[place], float(row[place])) for place in _top(row, n)])
        return results

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word farthest from the mean of the unit vectors of all; ties go to the first."""
        words = list(words)
        if len(words) < 2:
            raise ValueError(f"doesnt_match got {len(words)} words; expected at least two")
        rows = self._unit_rows([self.id(word) for word in words])
        return words[int(np.argmin(rows @ _unit(rows.mean(axis=0))))]

    def analogy(self, a: str, b: str, c: str, n: int = 1, method: str = "3CosAdd",
                restrict: int | None = None) -> list[tuple[str, float]]:
        """Words d such that a is to b as c is to d; a, b, c are left out.

        Parameters
        ----------
        a, b, c : str
        n : int
        method : {"3CosAdd", "3CosMul"}
            b - a + c by cosine, or cos(d, b) cos(d, c) / cos(d, a) with cosines mapped to [0, 1] (Levy & Goldberg
            2014).
        restrict : int, optional

        Returns
        -------
        list of (word, score)
        """
        check_choice("method", method, ("3CosAdd", "3CosMul"))
        check_int("n", n, 1)
        rows = np.array([[self.id(word) for word in (a, b, c)]])
        scores = self.analogy_scores(rows, method)[0]
        if restrict is not None:
            scores = scores[:check_int("restrict", restrict, 1)]
        return [(self.words[place], float(scores[place])) for place in _top(scores, n)]

    def analogy_scores(self, questions: np.ndarray, method: str = "3CosAdd") -> np.ndarray:
        """Scores of every word for questions (q, 3) of rows a, b, c; those three get -inf. float32 (q, n_words)."""
        A, B, C = (self._unit_rows(questions[:, column]) for column in range(3))
        if method == "3CosAdd":
            query = B - A + C
            lengths = np.linalg.norm(query, axis=1, keepdims=True)
            scores = self.cosines(np.divide(query, lengths, out=np.zeros_like(query), where=lengths > 0))
        else:
            a, b, c = ((self.cosines(part) + 1) / 2 for part in (A, B, C))
            scores = b * c / (a + np.float32(1e-3))
        np.put_along_axis(scores, questions, -np.inf, axis=1)
        return scores

    # Files.
    def save(self, path: str | os.PathLike[str], overwrite: bool = False, dtype: Any = None) -> None:
        """Write a safetensors file, whole or not at all.

        Parameters
        ----------
        path : str or PathLike
        overwrite : bool
        dtype : {"float16", "float32", "float64"}, optional
            Storage type; by default as held.
        """
        held = self if dtype is None else self.astype(dtype)
        arrays, meta = held.vocabulary.to_tensors()
        save_tensors(path, "word-vectors", {**arrays, "vectors": np.asarray(held.vectors)}, {**meta, "meta": self.meta},
                     overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordVectors:
        """Open a file of `save`; the vectors are memory-mapped read-only."""
        _, arrays, meta = load_tensors(path, "word-vectors")
        return cls._from_tensors(arrays, meta)

    @classmethod
    def _from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> WordVectors:
        return cls(arrays["vectors"], Vocabulary.from_tensors(arrays, meta), meta.get("meta"))

    def export(self, path: str | os.PathLike[str], format: str = "word2vec", **options: Any) -> None:
        """Write for other programs; see `lagwise.export.write`."""
        from .export import write

        write(self, path, format, **options)

    @classmethod
    def read(cls, path: str | os.PathLike[str], format: str = "auto", **options: Any) -> WordVectors:
        """Read vectors of other programs; see `lagwise.export.read`."""
        from .export import read

        return read(path, format, **options)

    def to_gensim(self) -> Any:
        """A gensim `KeyedVectors` with the same words and vectors (float32); needs gensim."""
        from gensim.models import KeyedVectors

        result = KeyedVectors(self.n_components, count=0)
        result.add_vectors(self.words, self.vectors.astype(np.float32))
        return result

    @classmethod
    def from_gensim(cls, vectors: Any) -> WordVectors:
        """Vectors of a gensim `KeyedVectors`, or of a model that has one as ``wv``."""
        vectors = getattr(vectors, "wv", vectors)
        return cls(np.array(vectors.vectors), list(vectors.index_to_key))


def _listed(items: Any) -> list[Any]:
    if isinstance(items, str) or (isinstance(items, np.ndarray) and items.ndim == 1):
        return [items]
    return list(items)


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector


def _top(scores: np.ndarray, n: int) -> np.ndarray:
    """Places of the n largest scores, falling; equal ones by place; -inf is left out."""
    n = min(n, int(np.sum(scores > -np.inf)))
    if n == 0:
        return np.empty(0, dtype=np.int64)
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    places = np.flatnonzero(scores >= least)
    return places[np.argsort(-scores[places], kind="stable")][:n]
