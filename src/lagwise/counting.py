"""`lagwise.count`: one pass over a text, from its bytes to a count store."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import store as disk
from ._progress import Progress
from ._threads import resolve_threads
from ._validation import check_bool, check_choice, check_int, check_real
from .cooccurrence import Index, index_stream, lag_rows, window_rows, window_weights
from .counts import CountStore
from .selection import Filter, as_words, fix_words, select_words
from .text import ERRORS, Scanned, as_function, renumber, scan_text
from .vocabulary import Normalization, Vocabulary

DEFAULT_LAG = 7  # serves SENS at any window up to 7, SSID with r = 4 (lags 1..7) and EM with r = 7


@dataclasses.dataclass(frozen=True)
class Plan:
    """A count's options, checked."""

    rule: Filter
    normalization: Normalization
    fixed: Vocabulary | None
    function: Any
    max_lag: int | None
    window: int | None
    weights: np.ndarray
    weight: Any
    scale: int
    boundary: str
    oov: str
    merge_unk: bool
    errors: str
    max_token_bytes: int | None
    subsample: float | None
    seed: int
    keep_ids: bool
    n_threads: int
    progress: bool | None

    def record(self) -> dict[str, Any]:
        """All that changes the result, as JSON values."""
        rule = dataclasses.asdict(self.rule)
        if rule["wordlist"] is not None:
            listed = "\n".join(sorted(rule["wordlist"])).encode("utf-8", "surrogateescape")
            rule["wordlist"] = {"words": len(rule["wordlist"]), "sha256": hashlib.sha256(listed).hexdigest()}
        rule["keep"] = sorted(rule["keep"])
        if self.fixed is not None:
            rule = {name: None for name in rule}
        return {**rule, "fixed_vocabulary": self.fixed is not None, "max_lag": self.max_lag, "window": self.window,
                "weight": self.weight, "weight_scale": self.scale, "boundary": self.boundary, "oov": self.oov,
                "unk": self.normalization.unk, "merge_unk": self.merge_unk, "errors": self.errors,
                "max_token_bytes": self.max_token_bytes, "subsample": self.subsample,
                "seed": self.seed if self.subsample else None, "keep_ids": self.keep_ids}


def count(source: Any = None, *, lines: Any = None, min_count: int = 5, max_size: int | None = None, keep: Any = (),
          vocabulary: Any = None, pattern: str | None = None, wordlist: Any = None, wordlist_exempt: int = 3000,
          max_lag: int | None = None, window: int | None = None, weight: Any = "flat", boundary: str = "line",
          oov: str = "keep", unk: str = "<unk>", merge_unk: bool = False, tokenizer: Any = "whitespace",
          punctuation: str = "keep", lowercase: bool = False, digits: str | None = None, errors: str = "strict",
          max_token_bytes: int | None = None, subsample: float | None = None, keep_ids: bool = False, memory: Any = None,
          tmpdir: Any = None, n_threads: int | None = None, progress: bool | None = None,
          random_state: int = 0) -> CountStore:
    """Count words and lagged co-occurrences of a text in one pass.

    Parameters
    ----------
    source : path, list of paths or open binary file, optional
        A file, folder or glob ("-" is standard input), or several of them; .gz, .bz2, .xz and .zst are recognised by
        content. Folders and globs are read in byte order of path.
    lines : iterable of str or of token lists, optional
        Text in memory instead: each str is a line (or several, where it holds newlines).
    min_count : int
        Words that occur less often are outside the vocabulary.
    max_size : int, optional
        Keep at most this many words, the most frequent by true counts, ties by byte order.
    keep : iterable of str, or a file with one word a line
        Words that are always in the vocabulary, also at count 0.
    vocabulary : Vocabulary, CountStore or iterable of str, optional
        A fixed vocabulary in its own order; a Vocabulary brings its normalisation with it.
    pattern : str, optional
        A regular expression that whole words must match.
    wordlist : iterable of str or file, optional
    wordlist_exempt : int
        Words outside `wordlist` stay only if they occur more often than this.
    max_lag : int, optional
        Hold each lag 1 .. max_lag (default 7 when no window is given).
    window : int, optional
        Hold one weighted window instead: smaller, and counted faster.
    weight : {"flat", "harmonic", "linear"} or sequence of int, shape (window,)
        Weights of the distances 1 .. window (with `window` only).
    boundary : {"line", "none", "blank"}
        What ends a sequence: each line, only the end of a file, or a line of white space.
    oov : {"keep", "drop", "unk"}
        Words outside the vocabulary leave a gap that distances count, or leave no trace, or become one word `unk`.
    unk : str
        The unknown symbol. It is always in an "unk" vocabulary and does not count towards `max_size`.
    merge_unk : bool
        Accept a text that already holds the unknown symbol.
    tokenizer : {"whitespace", "words"}, callable or tokenizers.Tokenizer
        ASCII white space; Unicode-aware words and punctuation; or a function from a line to its tokens.
    punctuation : {"keep", "drop"}
        Of the "words" tokenizer: tokens that are a lone punctuation character.
    lowercase : bool
    digits : {None, "0", "NUM"}
        Map each decimal digit to 0, or each run of digits to NUM.
    errors : {"strict", "replace", "surrogateescape"}
        Bytes that are not UTF-8: an error naming file, line and byte; U+FFFD; or kept as they are.
    max_token_bytes : int, optional
        Refuse longer tokens: they count as words outside the vocabulary, with a warning.
    subsample : float, optional
        Drop frequent words at random as word2vec does, with this threshold (1e-3 to 1e-5).
    keep_ids : bool
        Keep the text itself as ids of the full vocabulary.
    memory : int or str, optional
        Cap on memory, such as "2GB".
    tmpdir : path, optional
        Where work files go under a memory cap.
    n_threads : int, optional
        Number of threads; changes no result.
    progress : bool, optional
        Show progress on standard error.
    random_state : int
        Seed of `subsample`.

    Returns
    -------
    CountStore

    Raises
    ------
    ValueError, TypeError
        For options that are wrong or do not go together, an empty text, or a vocabulary without words.
    FileNotFoundError, OSError, UnicodeError
        For text that cannot be read; nothing is left behind.
    """
    plan = make_plan(**{name: value for name, value in locals().items() if name not in ("source", "lines")})
    return run_count(source, lines, plan, None)


def make_plan(*, min_count: Any, max_size: Any, keep: Any, vocabulary: Any, pattern: Any, wordlist: Any,
              wordlist_exempt: Any, max_lag: Any, window: Any, weight: Any, boundary: Any, oov: Any, unk: Any,
              merge_unk: Any, tokenizer: Any, punctuation: Any, lowercase: Any, digits: Any, errors: Any,
              max_token_bytes: Any, subsample: Any, keep_ids: Any, memory: Any, tmpdir: Any, n_threads: Any,
              progress: Any, random_state: Any) -> Plan:
    """Check the options of `count` before any text is read."""
    if memory is not None or tmpdir is not None:
        raise NotImplementedError("memory= and tmpdir= are not built yet")
    check_choice("boundary", boundary, ("line", "none", "blank"))
    check_choice("oov", oov, ("keep", "drop", "unk"))
    check_choice("errors", errors, ERRORS)
    if isinstance(tokenizer, str):
        check_choice("tokenizer", tokenizer, ("whitespace", "words"))
    function = as_function(tokenizer)
    if not isinstance(unk, str) or not unk:
        raise ValueError(f"unk is {unk!r}; expected a non-empty word")
    fixed = None
    if vocabulary is not None:
        given = (min_count, max_size, tuple(keep) if not isinstance(keep, (str, os.PathLike)) else keep, pattern, wordlist)
        if given[1:] != (None, (), None, None) or min_count not in (0, 1, 5):
            raise ValueError("vocabulary= is fixed: it does not go together with min_count, max_size, keep, pattern or "
                             "wordlist")
        fixed = vocabulary.vocabulary if isinstance(vocabulary, CountStore) else vocabulary
    if isinstance(fixed, Vocabulary):
        asked = Normalization(tokenizer if function is None else "custom", punctuation, bool(lowercase), digits)
        own = dataclasses.replace(fixed.normalization, unk=None)
        if asked not in (Normalization(), own):
            raise ValueError(f"the vocabulary was made with {own}, which differs from the options given; leave them out")
        if own.tokenizer == "custom" and function is None:
            raise ValueError("the vocabulary was made with a tokenizer of your own; give it as tokenizer=")
        base = dataclasses.replace(own, unk=(fixed.normalization.unk or unk) if oov == "unk" else None)
        fixed = Vocabulary(fixed.words, base)
    else:
        base = Normalization(tokenizer if function is None else "custom", punctuation, check_bool("lowercase", lowercase),
                             digits, unk if oov == "unk" else None)
        if fixed is not None:
            fixed = Vocabulary(as_words("vocabulary", fixed), base)
    if pattern is not None:
        re.compile(pattern)
    rule = Filter(check_int("min_count", min_count, 0), None if max_size is None else check_int("max_size", max_size, 1),
                  as_words("keep", keep), pattern,
                  None if wordlist is None else frozenset(as_words("wordlist", wordlist)),
                  check_int("wordlist_exempt", wordlist_exempt, 0))
    max_lag, window, weight, weights, scale = _distances(max_lag, window, weight)
    return Plan(rule, base, fixed, function, max_lag, window, weights, weight, scale, boundary, oov,
                check_bool("merge_unk", merge_unk), errors,
                None if max_token_bytes is None else check_int("max_token_bytes", max_token_bytes, 1),
                None if subsample is None else check_real("subsample", subsample, above=0),
                check_int("random_state", random_state, 0), check_bool("keep_ids", keep_ids), resolve_threads(n_threads),
                progress)


def _distances(max_lag: Any, window: Any, weight: Any) -> tuple[int | None, int | None, Any, np.ndarray, int]:
    if max_lag is not None and window is not None:
        raise ValueError("max_lag and window are both given; max_lag holds every lag (and serves every window up to it), "
                         "window holds one weighted sum: choose one")
    if window is None:
        if not isinstance(weight, str) or weight != "flat":
            raise ValueError(f"weight is {weight!r} without window=; lags are held unweighted, and "
                             "counts.window(size, weight) weighs them")
        return check_int("max_lag", DEFAULT_LAG if max_lag is None else max_lag, 1, 10**6), None, None, np.empty(0), 1
    window = check_int("window", window, 1, 10**6)
    weights, scale = window_weights(window, weight)
    if weights.dtype.kind == "f":
        if (weights != np.floor(weights)).any() or (weights < 0).any() or (weights > 2**40).any():
            raise ValueError("weights of a windowed store must be non-negative integers, so that sums are exact; count "
                             f"with max_lag={window} and ask for counts.window({window}, weight) instead")
        weights = weights.astype(np.uint64)
    return None, window, weight if isinstance(weight, str) else [int(w) for w in weights], weights, scale


def run_count(source: Any, lines: Any, plan: Plan, folder: Path | None) -> CountStore:
    """Scan, choose words, and count; matrices go to `folder` where one is given, else they stay in memory."""
    started = time.perf_counter()
    scanned = scan_text(source, lines, plan.normalization, function=plan.function, errors=plan.errors,
                        max_token_bytes=plan.max_token_bytes, n_threads=plan.n_threads, progress=plan.progress)
    seconds = {"scan": time.perf_counter() - started}
    return count_scanned(scanned, plan, folder, seconds)


def count_scanned(scanned: Scanned, plan: Plan, folder: Path | None, seconds: dict[str, float]) -> CountStore:
    """From provisional ids to the store."""
    clock = time.perf_counter()
    scanned.n_refused = sum(int(np.count_nonzero(raw == -2)) for raw, _ in scanned.pieces) if plan.max_token_bytes else 0
    if plan.fixed is not None:
        chosen = fix_words(scanned, plan.fixed, plan.oov, plan.merge_unk)
    else:
        chosen = select_words(scanned, plan.rule, plan.normalization, plan.oov, plan.merge_unk)
    if scanned.n_refused:
        warnings.warn(f"{scanned.n_refused} tokens longer than max_token_bytes={plan.max_token_bytes} count as words "
                      "outside the vocabulary", stacklevel=4)
    ids = types = type_counts = None
    if plan.keep_ids:
        ids, types, type_counts = _full_ids(scanned, plan)
    seconds["select"] = time.perf_counter() - clock
    clock = time.perf_counter()
    thresholds = _thresholds(scanned, plan.subsample) if plan.subsample else None
    stream, state = renumber(scanned, chosen.ids, chosen.rejected, plan.boundary, thresholds, plan.seed)
    n_words = len(chosen.vocabulary)
    index = index_stream(stream, n_words, plan.n_threads)
    seconds["index"] = time.perf_counter() - clock
    clock = time.perf_counter()
    unigrams = np.diff(index.starts)
    entries, matrices = _count_rows(index, plan, folder)
    seconds["count"] = time.perf_counter() - clock
    facts = {"n_tokens": int(state[3]), "n_lines": int(scanned.n_lines), "longest_line": int(state[1]),
             "n_in_stream": int(unigrams.sum()), "n_cut_types": chosen.n_cut_types, "n_cut_tokens": chosen.n_cut_tokens,
             "n_types": int((scanned.counts > 0).sum())}
    result = CountStore(chosen.vocabulary, unigrams, matrices, facts, plan.record(), ids, types, type_counts,
                        _run_record(plan, seconds, scanned))
    if folder is not None:
        result._write_rest(folder, entries)
    return result


def _count_rows(index: Index, plan: Plan, folder: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [f"lag{k}" for k in range(1, plan.max_lag + 1)] if plan.max_lag else ["window"]
    sinks: list[Any] = [disk.MatrixBuilder() if folder is None else disk.MatrixWriter(folder, name) for name in names]
    done, occurrences = 0, np.concatenate([[0], np.cumsum(np.diff(index.starts))])
    with Progress(plan.progress, "counting pairs", len(index.positions), "tokens") as bar:
        if plan.max_lag:
            for lengths, lags in lag_rows(index, plan.max_lag, plan.n_threads):
                for sink, row_lengths, pieces in zip(sinks, lengths, lags):
                    sink.append(row_lengths, pieces)
                done += lengths.shape[1]
                bar.update(int(occurrences[done]))
        else:
            for lengths, pieces in window_rows(index, plan.weights, plan.n_threads):
                sinks[0].append(lengths, pieces)
                done += len(lengths)
                bar.update(int(occurrences[done]))
    if folder is None:
        return {}, {name: sink.arrays() for name, sink in zip(names, sinks)}
    entries: dict[str, Any] = {}
    for sink in sinks:
        entries.update(sink.close())
    return entries, {}


def count_to_store(path: str | os.PathLike[str], source: Any = None, *, lines: Any = None, overwrite: bool = False,
                   **options: Any) -> CountStore:
    """Count straight into a store on disk, without holding the matrices in memory; options as for `count`."""
    import inspect

    defaults = {name: parameter.default for name, parameter in inspect.signature(count).parameters.items()
                if name not in ("source", "lines")}
    unknown = set(options) - set(defaults)
    if unknown:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    plan = make_plan(**{**defaults, **options})
    with disk.store_folder(path, overwrite) as folder:
        run_count(source, lines, plan, folder)
    return CountStore.load(path)


def _full_ids(scanned: Scanned, plan: Plan) -> tuple[np.ndarray, Vocabulary, np.ndarray]:
    normalization = dataclasses.replace(plan.normalization, unk=None)
    everything = select_words(scanned, Filter(min_count=1), normalization, "keep", True)
    stream, _ = renumber(scanned, everything.ids, everything.rejected, plan.boundary, consume=False)
    return stream, everything.vocabulary, everything.counts


def _thresholds(scanned: Scanned, subsample: float) -> np.ndarray:
    share = scanned.counts / max(int(scanned.counts.sum()), 1)
    with np.errstate(divide="ignore"):
        stay = np.sqrt(subsample / share) + subsample / share
    limit = np.minimum(np.where(scanned.counts > 0, stay, 1.0), 1.0)
    return np.where(limit >= 1.0, np.uint64(2**64 - 1), (limit * 2.0**64).clip(max=2.0**64 - 4096).astype(np.uint64))


def _run_record(plan: Plan, seconds: dict[str, float], scanned: Scanned) -> dict[str, Any]:
    from importlib.metadata import version

    return {"threads": plan.n_threads, "seconds": {name: round(value, 4) for name, value in seconds.items()},
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "table_bytes": scanned.table.nbytes,
            "versions": {"lagwise": version("lagwise"), "numpy": np.__version__, "python": platform.python_version()}}


def count_ids(ids: Any, offsets: Any = None, *, vocabulary: Any = None, max_lag: int | None = None,
              window: int | None = None, weight: Any = "flat", min_count: int = 0, n_threads: int | None = None,
              progress: bool | None = None) -> CountStore:
    """Count co-occurrences of a text that is already integer ids.

    Parameters
    ----------
    ids : array_like of int, shape (n,)
        Any integer dtype, contiguous or not; -1 marks a token outside the vocabulary (a gap).
    offsets : array_like of int, shape (m + 1,), optional
        Sequence i is ``ids[offsets[i]:offsets[i + 1]]``; by default all ids are one sequence.
    vocabulary : Vocabulary or iterable of str, optional
        Words by id; by default the ids' decimal names, 0 .. max(ids).
    max_lag, window, weight, n_threads, progress
        As for `count`.
    min_count : int
        Ids that occur less often become gaps; they stay in the vocabulary with count 0.

    Returns
    -------
    CountStore
        Words in the order of their ids.

    Raises
    ------
    ValueError, TypeError
        For ids that are not integers or fit no word, or offsets that do not rise from 0 to n.
    """
    array = np.asarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(f"ids has dtype {array.dtype} and shape {array.shape}; expected integers of shape (n,)")
    if not array.size:
        raise ValueError("no tokens: ids is empty")
    largest, least = int(array.max()), int(array.min())
    words = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary(
        [str(i) for i in range(largest + 1)] if vocabulary is None else as_words("vocabulary", vocabulary))
    if largest >= len(words) or least < -1:
        raise ValueError(f"ids run from {least} to {largest}; expected -1 (a gap) to {len(words) - 1}, for {len(words)} words")
    bounds = np.array([0, len(array)]) if offsets is None else np.asarray(offsets)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds.dtype.kind not in "iu" or bounds[0] != 0 or \
            bounds[-1] != len(array) or (np.diff(bounds.astype(np.int64)) < 0).any():
        raise ValueError(f"offsets must be integers that rise from 0 to {len(array)}")
    max_lag, window, weight, weights, scale = _distances(max_lag, window, weight)
    plan = Plan(Filter(check_int("min_count", min_count, 0)), words.normalization, words, None, max_lag, window, weights,
                weight, scale, "line", "keep", False, "strict", None, None, 0, False, resolve_threads(n_threads), progress)
    lengths = np.diff(bounds.astype(np.int64))
    stream = np.full(len(array) + len(lengths), -1, dtype=np.int32)
    stream[np.arange(len(array)) + np.repeat(np.arange(len(lengths)), lengths)] = np.where(array < 0, len(words), array)
    if min_count > 1:
        rare = np.bincount(array[array >= 0].astype(np.int64), minlength=len(words) + 1) < min_count
        rare[-1] = False
        word = stream >= 0
        stream[word] = np.where(rare[stream[word]], len(words), stream[word])
    index = index_stream(stream, len(words), plan.n_threads)
    _, matrices = _count_rows(index, plan, None)
    unigrams = np.diff(index.starts)
    facts = {"n_tokens": len(array), "n_lines": len(lengths), "longest_line": int(lengths.max()),
             "n_in_stream": int(unigrams.sum()), "n_cut_types": 0, "n_cut_tokens": len(array) - int(unigrams.sum()),
             "n_types": int((unigrams > 0).sum())}
    return CountStore(words, unigrams, matrices, facts, plan.record())
