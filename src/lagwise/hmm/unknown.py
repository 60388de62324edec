"""Models of P(tag | form of the word), for words that training never or rarely saw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..vocabulary import Vocabulary


class SuffixModel:
    """Tag distributions of word endings, apart for capitalised words (Brants 2000, TnT, section 2.3).

    P(t | l_1..l_m) = (f(t | l_1..l_m) + theta P(t | l_1..l_{m-1})) / (1 + theta), where theta is the standard deviation
    of the unconditional tag probabilities, learned from the words that occur at most `rare` times.

    Parameters
    ----------
    longest : int
        Characters of the longest ending.
    rare : int
        Words that occur more often do not count.
    """

    kind = "suffix"

    def __init__(self, longest: int = 10, rare: int = 10):
        self.longest, self.rare = longest, rare

    def fit(self, words: Sequence[str], counts: np.ndarray) -> SuffixModel:
        """Learn from word types and their tag counts (n_words, K)."""
        counts = np.asarray(counts, dtype=np.float64)
        totals = counts.sum(axis=1)
        use = np.nonzero((totals <= self.rare) & (totals > 0))[0]
        self.prior_ = counts.sum(axis=0) / counts.sum()
        self.theta_ = float(np.std(self.prior_, ddof=1)) if self.prior_.size > 1 else 0.0
        table: dict[str, np.ndarray] = {}
        for i in use:
            for key in self._keys(words[i]):  # type: ignore[call-overload]
                if key in table:
                    table[key] = table[key] + counts[i]
                else:
                    table[key] = counts[i]
        self._set(sorted(table), np.array([table[key] for key in sorted(table)]).reshape(-1, counts.shape[1]))
        return self

    def _set(self, keys: list[str], counts: np.ndarray) -> None:
        """`table_`: the distribution of each key, and in the last row that of words without any."""
        self.keys_, self.counts_ = Vocabulary(keys), counts
        self.table_ = np.tile(self.prior_, (len(keys) + 1, 1))
        index, lengths = self.keys_.index, np.array([len(key) for key in keys], dtype=np.int64)
        for length in range(
            1, int(lengths.max(initial=0)) + 1
        ):  # a key is case + ending; its parent's ending is shorter
            mine = np.flatnonzero(lengths == length)
            parents = [index[keys[i][0] + keys[i][2:]] if length > 1 else len(keys) for i in mine.tolist()]
            f = counts[mine]
            self.table_[mine] = f / f.sum(axis=1, keepdims=True) + self.theta_ * self.table_[parents]
            self.table_[mine] /= 1 + self.theta_
        self._tree: dict[str, Any] = {}  # character -> (row, the same of the character before it); cases first
        nodes = {"": self._tree}
        for i in np.argsort(lengths, kind="stable").tolist():
            key = keys[i]
            nodes[key] = {}
            nodes[key[0] + key[2:] if len(key) > 1 else ""][key[1] if len(key) > 1 else key] = (i, nodes[key])

    def _keys(self, word: str) -> list[str]:
        case = "C" if word[:1].isupper() else "c"
        return [case] + [case + word[-n:] for n in range(1, min(self.longest, len(word)) + 1)]

    def find(self, words: Iterable[str]) -> np.ndarray:
        """Row of `table_` of each word: that of its longest known ending, int32 (n_words,)."""
        from lagwise._kernels.strings import strings_endings

        words = list(words)
        rows = np.empty(len(words), dtype=np.int32)
        strings_endings(words, self._tree, self.longest, len(self.keys_), rows)
        return rows

    def distributions(self, words: Iterable[str]) -> np.ndarray:
        """P(tag | word), (n_words, K)."""
        return self.table_[self.find(words)]

    def to_tensors(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and metadata for a file."""
        words, meta = self.keys_.to_tensors()
        return (
            {"unknown_keys": words["vocabulary"], "unknown_counts": self.counts_, "unknown_prior": self.prior_},
            {"kind": self.kind, "longest": self.longest, "rare": self.rare, "theta": self.theta_, "keys": meta},
        )

    @classmethod
    def from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> SuffixModel:
        """The inverse of `to_tensors`."""
        model = cls(meta["longest"], meta["rare"])
        model.theta_, model.prior_ = meta["theta"], np.array(arrays["unknown_prior"])
        keys = Vocabulary.from_tensors({"vocabulary": arrays["unknown_keys"]}, meta["keys"])
        model._set(list(keys.words), np.array(arrays["unknown_counts"]))
        return model


_URL = re.compile(r"^(https?://|www\.)|\.(com|org|net|edu|gov|html?|co\.uk)(/|$)", re.IGNORECASE)
_EMAIL = re.compile(r"^[^@\s]+@[^@\s]+\.[A-Za-z]+$")
_NUMBER = re.compile(r"^[+\-#$£€]?\d[\d.,:/%\-]*$")
_EMOTICON = re.compile(r"^[<>]?[:;=8xX][\-o*']?[)\](\[dDpP/\\:}{@|]+$")


def shape(word: str, longest: int = 6) -> str:
    """Classes of characters with runs cut to two: ``McDonald`` is ``XxXxx``, ``A-4`` is ``X-d``."""
    classes = ["d" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in word]
    kept: list[str] = []
    for c in classes:
        if kept[-2:] != [c, c]:
            kept.append(c)
    return "".join(kept[:longest])


def word_features(word: str, known: dict[str, Any], longest: int = 5) -> list[str]:
    """Names of the features that a word form has: endings, beginnings, shape, parts, kind, and its form in lower case."""
    low = word.lower()
    features = ["bias", "shape=" + shape(word)]
    features += [f"s={low[-n:]}" for n in range(1, min(longest, len(low)) + 1)]
    features += [f"p={low[:n]}" for n in range(1, min(4, len(low)) + 1)]
    if word[:1].isupper():
        features += ["capital", *(f"S={low[-n:]}" for n in range(1, min(3, len(low)) + 1))]
    if word.isupper() and len(word) > 1:
        features.append("upper")
    if any(c.isdigit() for c in word):
        features.append("digit")
    if not any(c.isalnum() for c in word):
        features += ["symbols", "c=" + word[:1]]
    features.append(f"length={min(len(word), 8)}")
    for name, pattern in (("url", _URL), ("email", _EMAIL), ("number", _NUMBER), ("emoticon", _EMOTICON)):
        if pattern.search(word):
            features.append(name)
    if "-" in word[1:-1]:
        head, _, tail = low.rpartition("-")
        features += [
            "hyphen",
            "h=" + tail,
            *(f"t={tag}" for tag in known.get(tail, ())),
            *(f"b={tag}" for tag in known.get(head, ())),
        ]
    for prefix, rest in (
        ("lower", low if low != word else None),
        ("title", low.title() if low.title() != word else None),
        ("plural", low[:-1] if low.endswith("s") else None),
        ("un", low[2:] if low.startswith("un") else None),
        ("re", low[2:] if low.startswith("re") else None),
        ("ly", low[:-2] if low.endswith("ly") else None),
        ("ed", low[:-2] if low.endswith("ed") else None),
        ("d", low[:-1] if low.endswith("ed") else None),
        ("ing", low[:-3] if low.endswith("ing") else None),
        ("ing+e", low[:-3] + "e" if low.endswith("ing") else None),
        ("er", low[:-2] if low.endswith("er") else None),
        ("+s", low + "s"),
    ):
        if rest:
            features += [f"{prefix}:{tag}" for tag in known.get(rest, ())]
    return features


class FeatureModel:
    """A log-linear model of the tag given features of the word form, fitted to rarely seen words.

    Maximises sum over types of weight * log P(tag | features) - penalty / 2 |W|^2 by L-BFGS; a type that occurs n times
    counts as its tag frequencies times n ** 0.5, as types and not tokens are what new words resemble.

    Parameters
    ----------
    rare : int
        Words that occur more often do not count.
    penalty : float
    """

    kind = "features"

    def __init__(self, rare: int = 10, penalty: float = 2.0, n_iter: int = 120):
        self.rare, self.penalty, self.n_iter = rare, penalty, n_iter

    def fit(self, words: Sequence[str], counts: np.ndarray) -> FeatureModel:
        """Learn from word types and their tag counts (n_words, K)."""
        from scipy.optimize import minimize

        counts = np.asarray(counts, dtype=np.float64)
        totals = counts.sum(axis=1)
        self.known_ = {word: _main_tags(row) for word, row in zip(words, counts) if row.sum() > 0}
        use = np.nonzero((totals <= self.rare) & (totals > 0))[0]
        lists = [word_features(words[i], self.known_) for i in use]  # type: ignore[call-overload]
        seen: dict[str, int] = {}
        for features in lists:
            for name in features:
                seen[name] = seen.get(name, 0) + 1
        self.features_ = Vocabulary(sorted(name for name, n in seen.items() if n > 1 or name == "bias"))
        matrix = self._matrix(lists)
        target = counts[use] / np.sqrt(totals[use])[:, None]
        weight = target.sum(axis=1)
        F, K = len(self.features_), counts.shape[1]

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            W = flat.reshape(F, K)
            scores = matrix @ W
            scores -= scores.max(axis=1, keepdims=True)
            log_total = np.log(np.exp(scores).sum(axis=1, keepdims=True))
            value = -np.sum(target * (scores - log_total)) + 0.5 * self.penalty * np.sum(W * W)
            gradient = matrix.T @ (np.exp(scores - log_total) * weight[:, None] - target) + self.penalty * W
            return float(value), np.asarray(gradient).reshape(-1)

        found = minimize(objective, np.zeros(F * K), jac=True, method="L-BFGS-B", options={"maxiter": self.n_iter})
        self.weights_ = found.x.reshape(F, K)
        return self

    def _matrix(self, lists: Sequence[Sequence[str]]) -> Any:
        from scipy.sparse import csr_array

        index = self.features_.index
        rows = [[index[name] for name in features if name in index] for features in lists]
        indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
        flat = np.array([i for row in rows for i in row], dtype=np.int64)
        return csr_array((np.ones(flat.size), flat, indptr), shape=(len(rows), len(self.features_)))

    def distributions(self, words: Iterable[str]) -> np.ndarray:
        """P(tag | word), (n_words, K)."""
        lists = [word_features(word, self.known_) for word in words]
        if not lists:
            return np.zeros((0, self.weights_.shape[1]))
        scores = self._matrix(lists) @ self.weights_
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def to_tensors(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and metadata for a file; the tags of known words come from the tagger's counts."""
        names, meta = self.features_.to_tensors()
        return (
            {"unknown_keys": names["vocabulary"], "unknown_weights": self.weights_},
            {"kind": self.kind, "rare": self.rare, "penalty": self.penalty, "n_iter": self.n_iter, "keys": meta},
        )

    @classmethod
    def from_tensors(
        cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], words: Sequence[str], counts: np.ndarray
    ) -> FeatureModel:
        """The inverse of `to_tensors`, with the words and counts that `fit` had."""
        model = cls(meta["rare"], meta["penalty"], meta["n_iter"])
        model.features_ = Vocabulary.from_tensors({"vocabulary": arrays["unknown_keys"]}, meta["keys"])
        model.weights_ = np.array(arrays["unknown_weights"])
        model.known_ = {word: _main_tags(row) for word, row in zip(words, counts) if row.sum() > 0}
        return model


def _main_tags(row: np.ndarray) -> list[int]:
    return [int(k) for k in np.nonzero(row >= 0.2 * row.sum())[0]]
