"""`HMMTagger`: a supervised trigram (or bigram) tagger with a model of unknown words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from .._estimator import Estimator
from .._threads import resolve_threads
from .._validation import check_choice, check_fitted, check_int, check_real
from ..vocabulary import Vocabulary
from .candidates import dominance_margins, undominated
from .lexicon import Lexicon
from .packing import Packed
from .parameters import Parameters
from .paths import Candidates, PairDecoder, best_labels
from .plan import Plan, run_in_threads
from .recursions import forward_backward
from .smoothing import interpolated_transitions, interpolation_weights, tag_ngrams
from .tagged import check_tagged, listed, not_words
from .unknown import FeatureModel, SuffixModel

_PART = 1 << 15  # tokens that a thread takes at once


class HMMTagger(Estimator):
    """Part-of-speech tagger: interpolated tag n-grams with boundaries, and word forms where counts are few.

    ``HMMTagger(unknown="suffix", backoff=0)`` is TnT (Brants, TnT, a statistical part-of-speech tagger, 2000).

    Parameters
    ----------
    order : {1, 2}
        Bigram or trigram transitions.
    unknown : {"features", "suffix"}
        Model of P(tag | word form): log-linear over endings, beginnings, shape, hyphens, digits, URLs and the word in
        other case (some ten seconds of learning for 200,000 words); or TnT's endings (a second), less exact.
    rare : int
        The word-form model learns from words that occur at most so often.
    longest_suffix : int
        Of "suffix".
    backoff : float
        Strength of the word-form model for known words: P(tag | word) of a word seen n times is
        (count + backoff * form) / (n + backoff). 0 takes known words at their counts, as TnT does.
    penalty : float
        L2 penalty of "features".
    n_threads : int or None

    Attributes
    ----------
    tags_ : list of str
        Sorted; arrays over tags are in this order.
    vocabulary_ : Vocabulary
    counts_ : ndarray of int64, shape (n_words, K)
        Tag counts of the training words.
    interpolation_ : ndarray, shape (order + 1,)
        Weights of uni-, bi- (and tri-)gram estimates.
    """

    def __init__(
        self,
        order: int = 2,
        unknown: str = "features",
        rare: int = 10,
        longest_suffix: int = 10,
        backoff: float = 1.0,
        penalty: float = 2.0,
        n_threads: int | None = None,
    ):
        self.order = order
        self.unknown = unknown
        self.rare = rare
        self.longest_suffix = longest_suffix
        self.backoff = backoff
        self.penalty = penalty
        self.n_threads = n_threads

    def fit(self, X: Iterable[Sequence[str]], y: Iterable[Sequence[str]]) -> HMMTagger:
        """Learn from sentences (lists of words) and their tags (lists of str of the same lengths).

        Raises
        ------
        ValueError
            If lengths differ or there is nothing to learn from.
        """
        check_choice("order", self.order, (1, 2))
        check_choice("unknown", self.unknown, ("features", "suffix"))
        check_real("backoff", self.backoff, minimum=0.0)
        check_real("penalty", self.penalty, above=0.0)
        check_int("rare", self.rare, 1)
        check_int("longest_suffix", self.longest_suffix, 1)
        sentences, tags = check_tagged(X, y)
        self.tags_ = sorted({tag for sentence in tags for tag in sentence})
        words = sorted({word for sentence in sentences for word in sentence})
        self.vocabulary_ = Vocabulary(words)
        tag_index, K = {tag: k for k, tag in enumerate(self.tags_)}, len(self.tags_)
        numbers = [np.array([tag_index[tag] for tag in sentence], dtype=np.int64) for sentence in tags]
        ids = np.fromiter((self.vocabulary_.index[w] for s in sentences for w in s), dtype=np.int64)
        self.counts_ = np.bincount(ids * K + np.concatenate(numbers), minlength=len(words) * K).reshape(-1, K)
        self.trigrams_ = tag_ngrams(numbers, K)
        self.form_model_: SuffixModel | FeatureModel = (
            SuffixModel(self.longest_suffix, self.rare)
            if self.unknown == "suffix"
            else FeatureModel(self.rare, self.penalty)
        )
        self.form_model_.fit(words, self.counts_)
        self._prepare()
        return self

    def _prepare(self) -> None:
        K = len(self.tags_)
        self.interpolation_ = interpolation_weights(self.trigrams_, self.order)
        table = interpolated_transitions(self.trigrams_, self.interpolation_)
        tag_totals = self.counts_.sum(axis=0).astype(np.float64)
        if self.backoff > 0:
            n = self.counts_.sum(axis=1, keepdims=True)
            given = self.counts_ + self.backoff * self.form_model_.distributions(self.vocabulary_.words)
            emission = given / (n + self.backoff) * n / tag_totals  # P(w | t) = P(t | w) P(w) / P(t), P(w) = n / N
        else:
            emission = self.counts_ / tag_totals
        self._table = emission  # of known words and, of "suffix", of endings; the others' rows are made when met
        if isinstance(self.form_model_, SuffixModel):
            self._table = np.concatenate((emission, self.form_model_.table_ / tag_totals))
        if self.order == 1:
            self._parameters = Parameters(
                start_part(table[K, :K]), table[:K, :K].copy(), emission, stop=table[:K, K].copy()
            )
            return
        self._parameters = Parameters(
            start_part(table[K, K, :K]),
            table[:K, :K, :K].copy(),
            emission,
            table[K, :K, :K].copy(),
            table[:K, :K, K].copy(),
            table[K, :K, K].copy(),
        )
        self._decoder = PairDecoder(self._parameters)
        self._margins = dominance_margins(self._decoder.logs)
        self._known = self._candidates(self._table)

    def _candidates(self, emission: np.ndarray) -> Candidates:
        """The tags that can be on a best path, by emission row."""
        with np.errstate(divide="ignore"):
            logs = np.log(emission)
        return Candidates.of(logs, undominated(logs, self._margins))

    def _lexicon(self) -> Lexicon:
        """Emission rows: those of `_table`, and for "features" one for each new word, up to P(w), the same for all tags."""
        model = self.form_model_
        if isinstance(model, SuffixModel):
            words = len(self.vocabulary_)
            find, make = lambda new: words + model.find(new), None
        else:
            tag_totals = self.counts_.sum(axis=0)
            find, make = None, lambda new: model.distributions(new) / tag_totals
        if self.order == 1:
            return Lexicon(find, make, self._table)
        return Lexicon(find, make, self._table, self._known, self._candidates)

    def _rows(self, sentences: list[list[str]], n_words: int, lexicon: Lexicon, first: int = 0) -> np.ndarray:
        """Emission row of each word, int32 (n_words,); `first` is the number of the first of these sentences."""
        from lagwise._kernels.strings import strings_number

        rows, new = np.empty(n_words, dtype=np.int32), dict[str, int]()
        wrong = strings_number(sentences, self.vocabulary_.index, new, rows)
        if wrong >= 0:
            raise TypeError(not_words(first + wrong, sentences[wrong]))
        if new:
            unknown = np.flatnonzero(rows < 0)
            rows[unknown] = lexicon.add(list(new))[-1 - rows[unknown]]
        return rows

    def _paths(self, rows: np.ndarray, offsets: np.ndarray, lexicon: Lexicon, stop: threading.Event) -> np.ndarray:
        """Best tags of each position as numbers, int32 (n_words,)."""
        if self.order == 1:
            used, numbers = np.unique(rows, return_inverse=True)
            return best_labels(
                self._parameters, lexicon.table[used], numbers.reshape(-1).astype(np.int32), offsets, 1, stop
            )
        return self._decoder.paths(lexicon.candidates, rows, offsets, 1, stop)

    def predict(self, X: Iterable[Sequence[str]]) -> list[list[str]]:
        """The best tag sequence of each sentence; ties go to the tag that sorts first."""
        from lagwise._kernels.strings import strings_name

        check_fitted(self, "form_model_")
        sentences, offsets = listed(X)
        lexicon, stop = self._lexicon(), threading.Event()

        def tag(part: slice) -> list[list[str]]:
            if stop.is_set():
                raise KeyboardInterrupt
            places = offsets[part.start : part.stop + 1] - offsets[part.start]
            rows = self._rows(sentences[part], int(places[-1]), lexicon, part.start)
            return strings_name(self._paths(rows, places, lexicon, stop), places, self.tags_)

        edges = np.unique(np.searchsorted(offsets, np.arange(0, offsets[-1] + _PART, _PART)))
        parts = [slice(a, b) for a, b in zip(edges.tolist(), [*edges.tolist()[1:], len(sentences)]) if b > a]
        return list(chain.from_iterable(run_in_threads(tag, parts, resolve_threads(self.n_threads), stop)))

    def tag_file(
        self,
        source: Any,
        output: str | os.PathLike[str] | BinaryIO,
        layout: str = "lines",
        *,
        errors: str = "strict",
        overwrite: bool = False,
        verbose: bool = False,
    ) -> dict[str, int]:
        """Tag text files, a sentence a line with white space between words, without a Python object for each word.

        Parameters
        ----------
        source : path, list of paths or open binary file
            As for `lagwise.count`; compressed files and standard input ("-") too.
        output : path or binary file
            What to write; a path is written as a whole or not at all.
        layout : {"lines", "pairs"}
            A line ``word TAB tag`` for each word with a blank line behind each sentence (`read_tagged` reads it), or a
            line ``word/tag word/tag`` for each sentence. Lines without words leave nothing.
        errors : {"strict", "replace", "surrogateescape"}
            What to do about bytes that are not UTF-8.

        Returns
        -------
        dict
            n_sentences and n_tokens.
        """
        from .._files import atomic_path, write_all
        from .._progress import Progress
        from .tagging import MARKS, bytes_to_read, tag_text

        check_fitted(self, "form_model_")
        check_choice("layout", layout, MARKS)
        check_choice("errors", errors, ("strict", "replace", "surrogateescape"))

        def run(file: BinaryIO, name: Any) -> dict[str, int]:
            with Progress(verbose, "tagging", bytes_to_read(source), "B") as bar:
                report = lambda size, words: bar.update(size, f"{words / 1e6:.1f}M tokens")  # noqa: E731
                sentences, words = tag_text(
                    self, source, partial(write_all, file, path=name), MARKS[layout], errors, report
                )
            return {"n_sentences": sentences, "n_tokens": words}

        if hasattr(output, "write"):
            return run(output, getattr(output, "name", "the output"))  # type: ignore[arg-type]
        with atomic_path(output, overwrite) as path, open(path, "wb") as file:
            return run(file, output)

    def predict_proba(self, X: Iterable[Sequence[str]]) -> list[np.ndarray]:
        """P(tag | whole sentence) of each word, a list of arrays (T, K) over `tags_`."""
        check_fitted(self, "form_model_")
        sentences, offsets = listed(X)
        lexicon = self._lexicon()
        used, rows = np.unique(self._rows(sentences, int(offsets[-1]), lexicon), return_inverse=True)
        table = lexicon.table[used]
        plan = Plan(rows.reshape(-1).astype(np.int32), offsets, len(self.tags_), table.shape[0], self.order)
        gamma = forward_backward(
            plan, Packed.of(self._parameters, table, plan), resolve_threads(self.n_threads), False, True
        )[2]
        assert gamma is not None
        return np.split(gamma, offsets[1:-1])

    def score(self, X: Iterable[Sequence[str]], y: Iterable[Sequence[str]]) -> float:
        """Share of words tagged right."""
        return float(self.evaluate(X, y)["accuracy"])

    def evaluate(self, X: Iterable[Sequence[str]], y: Iterable[Sequence[str]]) -> dict[str, Any]:
        """Accuracy on tagged text.

        Returns
        -------
        dict
            accuracy, known, unknown (accuracy of words in and outside the training vocabulary, None where there are
            none), unknown_share, n_tokens, n_sentences, tags (list of str) and confusion (ndarray of int64: row true
            tag, column predicted tag; tags that training never saw come after `tags_`).
        """
        sentences, tags = check_tagged(X, y)
        predicted = list(chain.from_iterable(self.predict(sentences)))
        truth = [tag for sentence in tags for tag in sentence]
        right = np.fromiter((p == t for p, t in zip(predicted, truth)), dtype=bool, count=len(truth))
        known = np.fromiter(
            (word in self.vocabulary_.index for s in sentences for word in s), dtype=bool, count=len(truth)
        )
        names = self.tags_ + sorted(set(truth) - set(self.tags_))
        index = {tag: k for k, tag in enumerate(names)}
        confusion = np.zeros((len(names), len(names)), dtype=np.int64)
        np.add.at(confusion, ([index[t] for t in truth], [index[p] for p in predicted]), 1)
        return {
            "accuracy": float(right.mean()),
            "known": float(right[known].mean()) if known.any() else None,
            "unknown": float(right[~known].mean()) if not known.all() else None,
            "unknown_share": float(1 - known.mean()),
            "n_tokens": len(truth),
            "n_sentences": len(sentences),
            "tags": names,
            "confusion": confusion,
        }

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the tagger to one safetensors file, read again by `lagwise.load`."""
        from .._files import save_tensors

        check_fitted(self, "form_model_")
        form, form_meta = self.form_model_.to_tensors()
        words, vocabulary = self.vocabulary_.to_tensors()
        params = {name: value for name, value in self.get_params().items() if name != "n_threads"}
        save_tensors(
            path,
            "hmm-tagger",
            {**form, **words, "counts": self.counts_, "trigrams": self.trigrams_},
            {"params": params, "tags": self.tags_, "form": form_meta, "vocabulary": vocabulary},
            overwrite,
        )

    @classmethod
    def _from_tensors(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> HMMTagger:
        model = cls(**meta["params"])
        model.tags_, model.vocabulary_ = meta["tags"], Vocabulary.from_tensors(arrays, meta["vocabulary"])
        model.counts_, model.trigrams_ = np.array(arrays["counts"]), np.array(arrays["trigrams"])
        if meta["form"]["kind"] == "suffix":
            model.form_model_ = SuffixModel.from_tensors(arrays, meta["form"])
        else:
            model.form_model_ = FeatureModel.from_tensors(arrays, meta["form"], model.vocabulary_.words, model.counts_)
        model._prepare()
        return model


def start_part(row: np.ndarray) -> np.ndarray:
    """First tags, given that a sentence is not empty."""
    return row / row.sum()
