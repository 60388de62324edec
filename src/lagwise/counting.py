"""`lagwise.count`: one pass over a text, from its bytes to a count store."""

from __future__ import annotations

import dataclasses
import inspect
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from . import store as disk
from ._threads import resolve_threads
from ._validation import check_int
from .counts import CountStore
from .options import Plan, check_distances, make_plan
from .pipeline import run_count
from .segments import Checkpoint, count_stream, matrix_names
from .selection import Filter, as_words
from .spool import Stream
from .vocabulary import Vocabulary

_LARGEST_SPARSE_ID = 1 << 20  # ids below this are always taken as they are
CHECKPOINT_MEMORY = 2 * 10**9  # sets the length of segments where a checkpoint is kept without a memory cap


def count(
    source: Any = None,
    *,
    lines: Any = None,
    min_count: int = 5,
    max_size: int | None = None,
    keep: Any = (),
    vocabulary: Any = None,
    pattern: str | None = None,
    wordlist: Any = None,
    wordlist_exempt: int = 3000,
    max_lag: int | None = None,
    window: int | None = None,
    weight: Any = "flat",
    boundary: str = "line",
    oov: str = "keep",
    unk: str = "<unk>",
    merge_unk: bool = False,
    tokenizer: Any = "whitespace",
    punctuation: str = "keep",
    lowercase: bool = False,
    digits: str | None = None,
    errors: str = "strict",
    max_token_bytes: int | None = None,
    subsample: float | None = None,
    keep_ids: bool = False,
    memory: Any = None,
    tmpdir: Any = None,
    n_threads: int | None = None,
    progress: bool | None = None,
    random_state: int = 0,
) -> CountStore:
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
    return run_count(source, lines, plan)


OPTIONS = {  # of a count, with their defaults
    name: parameter.default
    for name, parameter in inspect.signature(count).parameters.items()
    if name not in ("source", "lines")
}


def count_to_store(
    path: str | os.PathLike[str],
    source: Any = None,
    *,
    lines: Any = None,
    overwrite: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    **options: Any,
) -> CountStore:
    """Count straight into a store on disk, without holding the matrices in memory.

    Parameters
    ----------
    path : str or PathLike
        The store's folder.
    source, lines, **options
        As for `count`.
    overwrite : bool
        Replace a store that is already there.
    checkpoint : path, optional
        Folder that keeps finished segments; it is removed when the store is whole.
    resume : bool
        Go on from what an earlier, killed call left in `checkpoint`.

    Returns
    -------
    CountStore
        The store on disk, memory-mapped.
    """
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    plan = make_plan(**{**OPTIONS, **options})
    if resume and checkpoint is None:
        raise ValueError("resume needs the checkpoint folder to go on from; give checkpoint= (--checkpoint)")
    with disk.store_folder(path, overwrite) as folder:
        kept = None
        if checkpoint is not None:
            kept = Checkpoint(Path(checkpoint), _fingerprint(source, lines, plan), resume)
            plan = dataclasses.replace(plan, memory=plan.memory or CHECKPOINT_MEMORY)
        run_count(source, lines, plan, folder, kept)
    if checkpoint is not None:
        shutil.rmtree(checkpoint)
    return CountStore.load(path)


def _fingerprint(source: Any, lines: Any, plan: Plan) -> dict[str, Any]:
    if lines is not None or source is None:
        raise ValueError("a checkpoint needs text in files, so that another process can find it again")
    from .sources import list_sources

    files = []
    for name in list_sources(source):
        if not isinstance(name, str) or not os.path.isfile(name):
            raise ValueError(f"a checkpoint needs text in regular files, which {name} is not")
        files.append([os.path.abspath(name), os.path.getsize(name), os.stat(name).st_mtime_ns])
    return {
        "files": files,
        "options": plan.record(),
        "normalization": plan.normalization.to_dict(),
        "memory": plan.memory,
        "fixed": None if plan.fixed is None else disk.zlib.crc32(plan.fixed.dumps()),
    }


def count_ids(
    ids: Any,
    offsets: Any = None,
    *,
    vocabulary: Any = None,
    max_lag: int | None = None,
    window: int | None = None,
    weight: Any = "flat",
    min_count: int = 0,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> CountStore:
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
        For ids that are not integers or fit no word, ids far larger than the text is long where there is no
        vocabulary, or offsets that do not rise from 0 to n.
    """
    try:
        array = np.asarray(ids)
    except ValueError:
        raise TypeError("ids is a list of lists of unequal length; expected one flat array, with offsets=") from None
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(f"ids has dtype {array.dtype} and shape {array.shape}; expected integers of shape (n,)")
    if not array.size:
        raise ValueError("no tokens: ids is empty")
    largest, least = int(array.max()), int(array.min())
    if largest < 0 and vocabulary is None:
        raise ValueError("every id is -1 (a gap), so there is no word; give vocabulary=, or ids from 0 on")
    if vocabulary is None and largest >= max(_LARGEST_SPARSE_ID, 4 * len(array)):
        raise ValueError(
            f"ids run to {largest} in a text of {len(array)} tokens; without a vocabulary every id up to the largest "
            "is a word: number the ids anew (numpy.unique(ids, return_inverse=True)), or give vocabulary="
        )
    if isinstance(vocabulary, Vocabulary):
        words = vocabulary
    else:
        names = map(str, range(largest + 1)) if vocabulary is None else as_words("vocabulary", vocabulary)
        words = Vocabulary(names)
    if largest >= len(words) or least < -1:
        raise ValueError(
            f"ids run from {least} to {largest}; expected -1 (a gap) to {len(words) - 1}, for {len(words)} words"
        )
    bounds = np.array([0, len(array)]) if offsets is None else np.asarray(offsets)
    if (
        bounds.ndim != 1
        or len(bounds) < 2
        or bounds.dtype.kind not in "iu"
        or bounds[0] != 0
        or bounds[-1] != len(array)
        or (np.diff(bounds.astype(np.int64)) < 0).any()
    ):
        raise ValueError(f"offsets must be integers that rise from 0 to {len(array)}")
    max_lag, window, weight, weights, scale = check_distances(max_lag, window, weight)
    plan = Plan(
        rule=Filter(check_int("min_count", min_count, 0)),
        normalization=words.normalization,
        fixed=words,
        function=None,
        max_lag=max_lag,
        window=window,
        weights=weights,
        weight=weight,
        scale=scale,
        boundary="line",
        oov="keep",
        merge_unk=False,
        errors="strict",
        max_token_bytes=None,
        subsample=None,
        seed=0,
        keep_ids=False,
        n_threads=resolve_threads(n_threads),
        progress=progress,
    )
    lengths = np.diff(bounds.astype(np.int64))
    stream = np.full(len(array) + len(lengths), -1, dtype=np.int32)
    stream[np.arange(len(array)) + np.repeat(np.arange(len(lengths)), lengths)] = np.where(array < 0, len(words), array)  # type: ignore[arg-type]
    if min_count > 1:
        rare = np.bincount(array[array >= 0].astype(np.int64), minlength=len(words) + 1) < min_count
        rare[-1] = False
        word = stream >= 0
        stream[word] = np.where(rare[stream[word]], len(words), stream[word])
    held = Stream(len(stream))
    held.append(stream)
    sinks: dict[str, disk.MatrixBuilder] = {name: disk.MatrixBuilder() for name in matrix_names(plan)}
    unigrams = count_stream(held, len(words), plan, sinks.__getitem__, None)
    matrices = {name: sink.arrays() for name, sink in sinks.items()}
    facts = {
        "n_tokens": len(array),
        "n_lines": len(lengths),
        "longest_line": int(lengths.max()),
        "n_in_stream": int(unigrams.sum()),
        "n_cut_types": 0,
        "n_cut_tokens": len(array) - int(unigrams.sum()),
        "n_types": int((unigrams > 0).sum()),
    }
    return CountStore(words, unigrams, matrices, facts, plan.record())
