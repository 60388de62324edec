"""Measure word vectors: rank correlation with human similarity, and analogies."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._validation import check_choice, check_int, check_random_state
from .vectors import WordVectors, combine

_BLOCK = 1 << 24  # cosines computed at a time


@dataclass(frozen=True)
class SimilarityResult:
    """Agreement of cosines with human scores on one set.

    Attributes
    ----------
    name : str
    rho : float
        Spearman's rank correlation, average ranks for ties; 0 where it is not defined (see `defined`).
    low, high : float
        95 % bootstrap interval over pairs.
    n_pairs, n_used : int
        Pairs in the file, and pairs that were scored.
    defined : bool
        Whether there is a correlation: two pairs or more were scored, and neither side is constant over them.
    """

    name: str
    rho: float
    low: float
    high: float
    n_pairs: int
    n_used: int
    defined: bool = True

    @property
    def coverage(self) -> float:
        """Share of pairs with both words known."""
        return self.n_used / self.n_pairs if self.n_pairs else 0.0


@dataclass(frozen=True)
class AnalogyResult:
    """Right answers by section; `correct` and `asked` count questions with all words known (all with oov="zero").

    Attributes
    ----------
    sections : dict from section to (correct, asked, unknown)
    """

    name: str
    method: str
    sections: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def accuracy(self, kind: str = "all") -> float:
        """Share of right answers: "all", "syntactic" (sections whose names begin with "gram", as in Google's file),
        "semantic" (all other sections), or of one section; 0 where nothing was asked (see `total`)."""
        correct, asked, _ = self.total(kind)
        return correct / asked if asked else 0.0

    def total(self, kind: str = "all") -> tuple[int, int, int]:
        """(correct, asked, unknown) summed over a kind of sections."""
        check_choice("kind", kind, ("all", "semantic", "syntactic", *self.sections))
        chosen = [
            counts
            for section, counts in self.sections.items()
            if kind in ("all", section) or kind == ("syntactic" if section.startswith("gram") else "semantic")
        ]
        return tuple(int(n) for n in np.sum(chosen, axis=0)) if chosen else (0, 0, 0)  # type: ignore[return-value]


def _folder_case(vectors: WordVectors, case: str) -> Any:
    check_choice("case", case, ("auto", "lower", "keep"))
    if case == "lower":
        return lambda word: word.lower()
    return vectors.vocabulary.normalize if case == "auto" else lambda word: word


def _lookup(vectors: WordVectors, words: list[str], case: str) -> np.ndarray:
    fold, index = _folder_case(vectors, case), vectors.vocabulary.index
    return np.array([index.get(fold(word), -1) for word in words], dtype=np.int64)


def _lines(path: str | os.PathLike[str]) -> list[tuple[int, str]]:
    """Numbered lines that are not empty."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is a {type(path).__name__}; expected the path of a file")
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _check_vectors(vectors: Any) -> None:
    if not isinstance(vectors, WordVectors):
        raise TypeError(f"vectors is a {type(vectors).__name__}; expected WordVectors")


def read_pairs(path: str | os.PathLike[str]) -> tuple[list[str], list[str], np.ndarray]:
    """Word, word, score: one pair a line, separated by white space.

    Raises
    ------
    ValueError
        If a line is not of this form or its score is not finite (naming file and line), there is no pair, or all
        scores are equal, so that there is nothing to correlate with.
    """
    first, second, scores = [], [], []
    for number, line in _lines(path):
        fields = line.split()
        try:
            a, b, score = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            score = np.nan
        if not np.isfinite(score):
            raise ValueError(
                f"{os.fspath(path)}, line {number}: expected word, word, finite score; found {line[:60]!r}"
            )
        first.append(a)
        second.append(b)
        scores.append(score)
    if not scores:
        raise ValueError(f"{os.fspath(path)} holds no pairs; expected lines of word, word, score")
    if len(scores) > 1 and min(scores) == max(scores):
        raise ValueError(f"{os.fspath(path)}: all {len(scores)} scores are {scores[0]:g}; nothing to correlate with")
    return first, second, np.array(scores)


def evaluate_similarity(
    vectors: WordVectors,
    path: str | os.PathLike[str],
    oov: str = "skip",
    case: str = "auto",
    n_bootstrap: int = 1000,
    random_state: int = 0,
) -> SimilarityResult:
    """Spearman correlation of cosines with human scores.

    Parameters
    ----------
    vectors : WordVectors
    path : str or PathLike
        Lines of word, word, score, separated by white space.
    oov : {"skip", "zero"}
        Pairs with an unknown word are left out, or scored 0.
    case : {"auto", "lower", "keep"}
        Fold the words as the vectors' text was, lower-case them, or take them as they are.
    n_bootstrap : int
        Resamples of the 95 % interval; 0 gives none.
    random_state : int

    Returns
    -------
    SimilarityResult
    """
    check_choice("oov", oov, ("skip", "zero"))
    first, second, scores, cosines = _scored(vectors, path, oov, case)
    rho = _spearman(cosines[None], scores[None])[0]
    low, high = rho, rho
    if check_int("n_bootstrap", n_bootstrap, 0) and len(scores) > 2:
        picks = check_random_state(random_state).integers(0, len(scores), (n_bootstrap, len(scores)))
        low, high = np.quantile(_spearman(cosines[picks], scores[picks]), [0.025, 0.975])
    defined = len(scores) > 1 and bool(np.ptp(scores) > 0) and bool(np.ptp(cosines) > 0)
    return SimilarityResult(Path(path).stem, float(rho), float(low), float(high), first, second, defined)


def _scored(vectors: WordVectors, path: Any, oov: str, case: str) -> tuple[int, int, np.ndarray, np.ndarray]:
    _check_vectors(vectors)
    a, b, scores = read_pairs(path)
    rows, columns = _lookup(vectors, a, case), _lookup(vectors, b, case)
    known = (rows >= 0) & (columns >= 0)
    cosines = np.zeros(len(scores))
    unit = vectors.unit
    cosines[known] = np.einsum(
        "ij,ij->i", unit[rows[known]].astype(np.float64), unit[columns[known]].astype(np.float64)
    )
    used = known if oov == "skip" else np.ones_like(known)
    return len(scores), int(used.sum()), scores[used], cosines[used]


def _spearman(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Spearman correlation of the rows of two arrays; 0 where one of them is constant."""
    from scipy.stats import rankdata

    if a.shape[1] < 2:
        return np.zeros(len(a))
    x, y = (rankdata(values, axis=1) for values in (a, b))
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    return np.divide((x * y).sum(axis=1), scale, out=np.zeros(len(a)), where=scale > 0)


def compare_similarity(
    first: WordVectors,
    second: WordVectors,
    path: str | os.PathLike[str],
    case: str = "auto",
    n_bootstrap: int = 2000,
    random_state: int = 0,
) -> dict[str, float]:
    """Difference of two models on one set, over pairs that both know.

    Returns
    -------
    dict
        difference (first minus second), low and high of its 95 % bootstrap interval, p (two-sided), n.
    """
    a, b, scores = read_pairs(path)
    cosines, known = [], np.ones(len(scores), dtype=bool)
    for vectors in (first, second):
        rows, columns = _lookup(vectors, a, case), _lookup(vectors, b, case)
        known &= (rows >= 0) & (columns >= 0)
        cosines.append(
            np.einsum("ij,ij->i", vectors.unit[rows].astype(np.float64), vectors.unit[columns].astype(np.float64))
        )
    x, y, z = cosines[0][known], cosines[1][known], scores[known]
    if len(z) < 3:
        raise ValueError(f"only {len(z)} pairs of {os.fspath(path)} are known to both models; nothing to compare")
    picks = check_random_state(random_state).integers(0, len(z), (n_bootstrap, len(z)))
    differences = _spearman(x[picks], z[picks]) - _spearman(y[picks], z[picks])
    low, high = np.quantile(differences, [0.025, 0.975])
    p = 2 * min((1 + (differences <= 0).sum()) / (n_bootstrap + 1), (1 + (differences >= 0).sum()) / (n_bootstrap + 1))
    rho = _spearman(x[None], z[None])[0] - _spearman(y[None], z[None])[0]
    return {"difference": float(rho), "low": float(low), "high": float(high), "p": float(min(p, 1.0)), "n": len(z)}


def read_analogies(path: str | os.PathLike[str]) -> dict[str, list[list[str]]]:
    """Questions of four words by section; sections begin with a line ": name"."""
    sections: dict[str, list[list[str]]] = {}
    current = "questions"
    for number, line in _lines(path):
        if line.startswith(":"):
            current = line[1:].strip()
            sections.setdefault(current, [])
            continue
        fields = line.split()
        if len(fields) != 4:
            raise ValueError(f"{os.fspath(path)}, line {number}: expected four words, found {line[:60]!r}")
        sections.setdefault(current, []).append(fields)
    if not any(sections.values()):
        raise ValueError(f"{os.fspath(path)} holds no questions; expected lines of four words under ': section' lines")
    return sections


def evaluate_analogies(
    vectors: WordVectors, path: str | os.PathLike[str], method: str = "add", oov: str = "skip", case: str = "auto"
) -> AnalogyResult:
    """Answer analogy questions over the whole vocabulary, the question's own words excluded.

    Parameters
    ----------
    vectors : WordVectors
    path : str or PathLike
        Lines of four words under ": section" lines; sections whose names begin with "gram" are syntactic.
    method : {"add", "mul"}
        3CosAdd or 3CosMul.
    oov : {"skip", "zero"}
        Questions with unknown words are counted but not asked, or count as wrong.
    case : {"auto", "lower", "keep"}

    Returns
    -------
    AnalogyResult
    """
    _check_vectors(vectors)
    check_choice("method", method, ("add", "mul"))
    check_choice("oov", oov, ("skip", "zero"))
    result = AnalogyResult(Path(path).stem, method)
    step = max(1, _BLOCK // max(len(vectors), 1))
    for section, questions in read_analogies(path).items():
        ids = _lookup(vectors, [word for question in questions for word in question], case).reshape(-1, 4)
        known = (ids >= 0).all(axis=1)
        asked = ids[known]
        correct = 0
        for start in range(0, len(asked), step):
            correct += _right(vectors.unit, asked[start : start + step], method)
        n_unknown = int((~known).sum())
        result.sections[section] = (correct, len(asked) + (n_unknown if oov == "zero" else 0), n_unknown)
    return result


def _right(unit: np.ndarray, asked: np.ndarray, method: str) -> int:
    a, b, c, expected = asked.T
    if method == "add":
        scores = (unit[b] - unit[a] + unit[c]) @ unit.T
    else:
        scores = combine(unit[a] @ unit.T, unit[b] @ unit.T, unit[c] @ unit.T, method)
    rows = np.arange(len(asked))
    for column in (a, b, c):
        scores[rows, column] = -np.inf
    return int((scores.argmax(axis=1) == expected).sum())
