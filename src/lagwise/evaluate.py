"""Measure word vectors: word similarity, analogies, and whether two models differ."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ._validation import check_choice, check_int, check_random_state
from .vectors import WordVectors

_BATCH = 256  # questions of one matrix product


@dataclass
class SimilarityResult:
    """Agreement with human scores on one set.

    Attributes
    ----------
    name : str
    spearman : float
        Rank correlation of cosine and score; nan where fewer than two pairs or no variation is left.
    low, high : float
        95 % bootstrap interval.
    n_pairs, n_used : int
        Pairs of the file; pairs that entered.
    coverage : float
        Share of pairs whose words are both known.
    cosines, scores : ndarray
        Of the pairs that entered.
    """

    name: str
    spearman: float
    low: float
    high: float
    n_pairs: int
    n_used: int
    coverage: float
    cosines: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    used: np.ndarray = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, without the pairs; nan becomes None."""
        kept = {key: value for key, value in vars(self).items() if key not in ("cosines", "scores", "used")}
        return {key: None if isinstance(value, float) and np.isnan(value) else value for key, value in kept.items()}


@dataclass
class AnalogyResult:
    """Accuracy on analogy questions.

    Attributes
    ----------
    sections : dict of name to SectionResult
    semantic, syntactic, total : SectionResult
        Sums over sections; sections whose name begins with "gram" are syntactic.
    """

    sections: dict[str, SectionResult]
    semantic: SectionResult
    syntactic: SectionResult
    total: SectionResult

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {"sections": {name: part.to_dict() for name, part in self.sections.items()},
                **{name: getattr(self, name).to_dict() for name in ("semantic", "syntactic", "total")}}


@dataclass
class SectionResult:
    """Questions of one section: asked (all words known, or all with oov="zero"), right, and with unknown words."""

    correct: int = 0
    asked: int = 0
    unknown: int = 0

    @property
    def accuracy(self) -> float:
        """Right answers over questions asked; nan where none was."""
        return self.correct / self.asked if self.asked else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {**asdict(self), "accuracy": self.accuracy if self.asked else None}


def evaluate_similarity(vectors: WordVectors, path: str | os.PathLike[str], oov: str = "skip", case: str = "auto",
                        n_bootstrap: int = 1000, random_state: Any = 0) -> SimilarityResult:
    """Spearman correlation of cosines with human scores.

    Parameters
    ----------
    vectors : WordVectors
    path : str or PathLike
        Lines of word, word, score, separated by tabs, white space or commas; CR, blank lines and lines that begin
        with # are ignored, and so is a header without a number.
    oov : {"skip", "zero"}
        Leave pairs with an unknown word out, or score them 0.
    case : {"auto", "keep", "lower"}
        "auto" folds words as the text of the vectors was folded (case and digits), and tries lower case where the
        word is unknown and the vectors hold no upper-case word.
    n_bootstrap : int
        Resamples of the interval; 0 for none.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    SimilarityResult

    Raises
    ------
    ValueError
        If a line cannot be read (its number is named) or there are no pairs.
    """
    check_choice("oov", oov, ("skip", "zero"))
    find = _Finder(vectors, case)
    pairs = read_similarity(path)
    rows = np.array([[find(a), find(b)] for a, b, _ in pairs])
    scores = np.array([score for _, _, score in pairs])
    known = (rows >= 0).all(axis=1)
    cosines = np.zeros(len(pairs))
    a, b = (vectors._unit_rows(rows[known, column]) for column in (0, 1))
    cosines[known] = np.einsum("ij,ij->i", a, b)
    used = known if oov == "skip" else np.ones(len(pairs), dtype=bool)
    x, y = cosines[used], scores[used]
    value = spearman(x, y)
    low, high = _interval(x, y, check_int("n_bootstrap", n_bootstrap, 0), check_random_state(random_state))
    name = os.path.splitext(os.path.basename(os.fspath(path)))[0]
    return SimilarityResult(name, value, low, high, len(pairs), int(used.sum()), float(known.mean()), x, y, used)


def evaluate_analogies(vectors: WordVectors, path: str | os.PathLike[str], method: str = "3CosAdd", oov: str = "skip",
                       case: str = "auto", restrict: int | None = None) -> AnalogyResult:
    """Accuracy on questions "a b c d": is d the best word for a : b = c : ?

    Parameters
    ----------
    vectors : WordVectors
    path : str or PathLike
        Questions of four words, after ": section" lines; CR and blank lines are ignored.
    method : {"3CosAdd", "3CosMul"}
        Over all words of the vocabulary but the three of the question.
    oov : {"skip", "zero"}
        Questions with an unknown word do not count, or count as wrong; their number is always reported.
    case : {"auto", "keep", "lower"}
        As for `evaluate_similarity`.
    restrict : int, optional
        Answer among the first (most frequent) words only.

    Returns
    -------
    AnalogyResult
    """
    check_choice("oov", oov, ("skip", "zero"))
    check_choice("method", method, ("3CosAdd", "3CosMul"))
    find = _Finder(vectors, case)
    sections: dict[str, SectionResult] = {}
    asked: dict[str, list[list[int]]] = {}
    for name, words in read_analogies(path):
        part = sections.setdefault(name, SectionResult())
        rows = [find(word) for word in words]
        if min(rows) < 0:
            part.unknown += 1
            part.asked += oov == "zero"
        else:
            asked.setdefault(name, []).append(rows)
    for name, questions in asked.items():
        part = sections[name]
        part.asked += len(questions)
        for first in range(0, len(questions), _BATCH):
            batch = np.array(questions[first:first + _BATCH])
            scores = vectors.analogy_scores(batch[:, :3], method)
            if restrict is not None:
                scores = scores[:, :check_int("restrict", restrict, 1)]
            part.correct += int(np.sum(np.argmax(scores, axis=1) == batch[:, 3]))
    semantic, syntactic, total = SectionResult(), SectionResult(), SectionResult()
    for name, part in sections.items():
        for group in (total, syntactic if name.startswith("gram") else semantic):
            group.correct, group.asked = group.correct + part.correct, group.asked + part.asked
            group.unknown += part.unknown
    return AnalogyResult(sections, semantic, syntactic, total)


def compare_similarity(a: WordVectors, b: WordVectors, path: str | os.PathLike[str], n_bootstrap: int = 2000,
                       random_state: Any = 0, case: str = "auto") -> dict[str, Any]:
    """Whether two models differ on one similarity set, on the pairs both know, by a paired bootstrap.

    Returns
    -------
    dict
        first, second (Spearman of each), difference, low, high (95 % interval of the difference), p_value (two-sided:
        twice the share of resamples on the other side of zero, at least 1/n_bootstrap), n_used.
    """
    n_bootstrap = check_int("n_bootstrap", n_bootstrap, 1)
    results = [evaluate_similarity(model, path, case=case, n_bootstrap=0) for model in (a, b)]
    both = results[0].used & results[1].used
    x, y = (_spread(result)[both] for result in results)
    scores = np.array([score for _, _, score in read_similarity(path)])[both]
    rng = check_random_state(random_state)
    differences = []
    for _ in range(n_bootstrap):
        sample = rng.integers(0, len(scores), size=len(scores)) if len(scores) else []
        differences.append(spearman(x[sample], scores[sample]) - spearman(y[sample], scores[sample]))
    found = np.array(differences)
    found = found[np.isfinite(found)]
    first, second = spearman(x, scores), spearman(y, scores)
    if len(found) == 0:
        return {"first": first, "second": second, "difference": float("nan"), "low": float("nan"),
                "high": float("nan"), "p_value": float("nan"), "n_used": len(scores)}
    low, high = np.quantile(found, [0.025, 0.975])
    side = min(float(np.mean(found <= 0)), float(np.mean(found >= 0)))
    return {"first": first, "second": second, "difference": first - second, "low": float(low), "high": float(high),
            "p_value": min(1.0, max(2 * side, 1 / len(found))), "n_used": len(scores)}


def _spread(result: SimilarityResult) -> np.ndarray:
    full = np.full(result.n_pairs, np.nan)
    full[result.used] = result.cosines
    return full


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson correlation of ranks, ties sharing their mean rank; nan for fewer than two or constant values."""
    if len(x) < 2:
        return float("nan")
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(np.clip((a @ b) / size, -1, 1)) if size > 0 else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[inverse.ravel()]


def _interval(x: np.ndarray, y: np.ndarray, n_bootstrap: int, rng: np.random.Generator) -> tuple[float, float]:
    if n_bootstrap == 0 or len(x) < 3:
        return float("nan"), float("nan")
    found = []
    for _ in range(n_bootstrap):
        sample = rng.integers(0, len(x), size=len(x))
        value = spearman(x[sample], y[sample])
        if np.isfinite(value):
            found.append(value)
    if not found:
        return float("nan"), float("nan")
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


class _Finder:
    """Row of a word of a test file, or -1."""

    def __init__(self, vectors: WordVectors, case: str):
        self.case = check_choice("case", case, ("auto", "keep", "lower"))
        self.vocabulary = vectors.vocabulary
        self.lower_only = case == "auto" and (
            self.vocabulary.normalization.lowercase or all(word == word.lower() for word in self.vocabulary.words))

    def __call__(self, word: str) -> int:
        if self.case == "lower":
            word = word.lower()
        elif self.case == "auto":
            word = self.vocabulary.normalize(word)
            word = word.lower() if self.lower_only else word
        return self.vocabulary.index.get(word, -1)


def read_similarity(path: str | os.PathLike[str]) -> list[tuple[str, str, float]]:
    """Word, word, score of each line; ValueError naming the line that cannot be read."""
    pairs: list[tuple[str, str, float]] = []
    started = False
    for number, line in _lines(path):
        fields = line.split("\t") if line.count("\t") >= 2 else line.split(",") if line.count(",") >= 2 else line.split()
        fields = [part.strip() for part in fields]
        try:
            if len(fields) < 3:
                raise ValueError
            score = float(fields[2])
            if not np.isfinite(score):
                raise ValueError
            pairs.append((fields[0], fields[1], score))
        except ValueError:
            if not started and len(fields) >= 3:
                started = True
                continue  # a header
            raise ValueError(f"{os.fspath(path)}, line {number}: {line[:60]!r} is not word, word, score") from None
        started = True
    if not pairs:
        raise ValueError(f"{os.fspath(path)} holds no pairs of words")
    return pairs


def read_analogies(path: str | os.PathLike[str]) -> list[tuple[str, list[str]]]:
    """Section and four words of each question; ValueError naming the line that cannot be read."""
    questions, section = [], "questions"
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise ValueError(f"{os.fspath(path)}, line {number}: {line[:60]!r} has {len(words)} words; a question has 4")
        questions.append((section, words))
    if not questions:
        raise ValueError(f"{os.fspath(path)} holds no analogy questions")
    return questions


def _lines(path: str | os.PathLike[str]) -> list[tuple[int, str]]:
    with open(path, encoding="utf-8-sig", newline=None) as handle:
        lines = [(number, line.strip()) for number, line in enumerate(handle, 1)]
    return [(number, line) for number, line in lines if line and not line.startswith("#")]
