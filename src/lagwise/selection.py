"""Which words make the vocabulary, in which order, and what becomes of the others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .text import Scanned
from .vocabulary import Normalization, Vocabulary, encode_word, fold_token

DROP = -4  # as in ext/ids.pyx: a token that leaves no trace


@dataclass(frozen=True)
class Filter:
    """The rule that keeps a word: frequent enough, of the right form, known, or asked for."""

    min_count: int = 5
    max_size: int | None = None
    keep: tuple[str, ...] = ()
    pattern: str | None = None
    wordlist: frozenset[str] | None = None
    wordlist_exempt: int = 3000

    @property
    def cuts(self) -> bool:
        """Whether this filter can leave words out."""
        return self.min_count > 1 or self.max_size is not None or self.pattern is not None or self.wordlist is not None


@dataclass
class Selection:
    """The chosen words and the id of every type."""

    vocabulary: Vocabulary
    counts: np.ndarray  # int64 (n_words,)
    ids: np.ndarray  # int32 (types,): word id, n_words for a gap, or DROP
    rejected: int  # what a token that was refused for its length becomes
    n_cut_types: int
    n_cut_tokens: int


def select_words(scanned: Scanned, rule: Filter, normalization: Normalization, oov: str, merge_unk: bool) -> Selection:
    """Choose the vocabulary by true counts; ties go by byte order.

    Raises
    ------
    ValueError
        If no word is left, the text holds the unknown symbol, or `keep` is larger than `max_size`.
    """
    table = scanned.table
    unk = normalization.unk if oov == "unk" else None
    unk_raw = b"" if unk is None else unk.encode("utf-8", "surrogateescape")
    unk_type = -1 if unk is None else table.find(unk_raw)
    if unk_type >= 0 and scanned.counts[unk_type] and not merge_unk:
        raise ValueError(
            f"the text itself holds the unknown symbol {unk!r} ({scanned.counts[unk_type]} times); choose another "
            "with unk=, or pass merge_unk=True to count both as one"
        )
    kept = {fold_token(word, normalization).encode("utf-8", "surrogateescape") for word in rule.keep} - {unk_raw}
    if rule.max_size is not None and len(kept) > rule.max_size:
        raise ValueError(f"keep names {len(kept)} words, more than max_size={rule.max_size}; raise max_size")
    held = np.array(sorted(table.add(raw, 0) for raw in kept), dtype=np.int64)
    if unk is not None:
        unk_type = table.add(unk_raw, 0)
    _grow(scanned)
    counts = scanned.counts.copy()
    types = np.flatnonzero(counts >= max(rule.min_count, 1))
    types = types[~np.isin(types, np.append(held, unk_type))]
    if rule.pattern is not None or rule.wordlist is not None:
        words = zip(table.texts(types), counts[types].tolist())
        types = types[np.fromiter((_allowed(word, count, rule) for word, count in words), dtype=bool, count=len(types))]
    table.rank(types, counts)
    if rule.max_size is not None:
        types = types[: rule.max_size - len(held)]
    types = np.concatenate([types, held])
    n_all = int(counts.sum()) + scanned.n_refused
    if not n_all:
        raise ValueError("no tokens: the text is empty")
    if not len(types) and not (unk_type >= 0 and counts[unk_type]):
        raise ValueError(
            f"no word is left: none of the {int((counts > 0).sum())} distinct words ({n_all} tokens) passes "
            f"min_count={rule.min_count} and the filters; lower min_count or loosen them"
        )
    if unk is not None:
        counts[unk_type] = n_all - int(counts[types].sum())
        types = np.append(types, unk_type)
    table.rank(types, counts)
    vocabulary = Vocabulary(table.texts(types), normalization)
    return _number(scanned, vocabulary, types, counts[types], oov, unk_type)


def fix_words(scanned: Scanned, vocabulary: Vocabulary, oov: str, merge_unk: bool) -> Selection:
    """Use a given vocabulary, in its own order."""
    unk = vocabulary.normalization.unk if oov == "unk" else None
    table = scanned.table
    types = np.array([table.add(word.encode("utf-8", "surrogateescape"), 0) for word in vocabulary.words], np.int64)
    _grow(scanned)
    counts, unk_type = scanned.counts[types], -1
    if unk is not None:
        if unk not in vocabulary:
            raise ValueError(
                f'oov="unk" needs the unknown symbol {unk!r} in the fixed vocabulary; add it, or use another oov'
            )
        number = vocabulary.id(unk)
        if counts[number] and not merge_unk:
            raise ValueError(
                f"the text itself holds the unknown symbol {unk!r} ({counts[number]} times); choose "
                "another with unk=, or pass merge_unk=True to count both as one"
            )
        unk_type = int(types[number])
        counts[number] += int(scanned.counts.sum()) + scanned.n_refused - int(counts.sum())
    if not int(scanned.counts.sum()) + scanned.n_refused:
        raise ValueError("no tokens: the text is empty")
    return _number(scanned, vocabulary, types, counts, oov, unk_type)


def _grow(scanned: Scanned) -> None:
    """Make room for the counts of types entered since the scan."""
    more = len(scanned.table) - len(scanned.counts)
    scanned.counts = np.concatenate([scanned.counts, np.zeros(more, dtype=np.int64)])


def _allowed(word: str, count: int, rule: Filter) -> bool:
    if rule.pattern is not None and not re.fullmatch(rule.pattern, word):
        return False
    return rule.wordlist is None or word in rule.wordlist or count > rule.wordlist_exempt


def _number(
    scanned: Scanned, vocabulary: Vocabulary, types: np.ndarray, counts: np.ndarray, oov: str, unk_type: int
) -> Selection:
    """Give the chosen types the ids 0, 1, ... and every other the gap, nothing, or the unknown symbol's id."""
    n_words = len(types)
    other = n_words if oov == "keep" else DROP
    if unk_type >= 0:
        other = int(np.flatnonzero(types == unk_type)[0])
    ids = np.full(len(scanned.counts), other, dtype=np.int32)
    ids[types] = np.arange(n_words, dtype=np.int32)
    is_cut = (scanned.counts > 0) & (ids == other)
    if unk_type >= 0:
        is_cut[unk_type] = False
    n_cut_tokens = int(scanned.counts[is_cut].sum()) + scanned.n_refused
    return Selection(vocabulary, counts, ids, other, int(is_cut.sum()), n_cut_tokens)


def as_words(name: str, value: Any) -> tuple[str, ...]:
    """A list of words given as an iterable, or a file with one word a line."""
    if isinstance(value, (str, os.PathLike)):
        if not os.path.isfile(value):
            raise FileNotFoundError(f"{name}: {os.fspath(value)} is not a file; expected a file with one word a line")
        data = Path(value).read_bytes()
        if b"\0" in data:
            raise ValueError(f"{name}: {os.fspath(value)} is not a text (it holds NUL bytes); expected one word a line")
        lines = data.decode("utf-8-sig", "surrogateescape").split("\n")
        words = tuple(word for word in (line.rstrip("\r") for line in lines) if word)
        if not words:
            raise ValueError(f"{name}: {os.fspath(value)} holds no words; expected one word a line")
        return words
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} is {value!r}; expected an iterable of str, or a file with one word a line")
    words = tuple(value)
    for word in words:
        if not isinstance(word, str) or not word:
            raise ValueError(f"{name} holds {word!r}; expected non-empty str words")
        encode_word(word, f"a word of {name}")
    return words
