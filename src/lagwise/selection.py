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
from .vocabulary import Normalization, Vocabulary, fold_token

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
    table, counts = scanned.table, scanned.counts.copy()
    unk = normalization.unk if oov == "unk" else None
    unk_type = -1 if unk is None else table.find(unk.encode("utf-8", "surrogateescape"))
    if unk_type >= 0 and counts[unk_type] and not merge_unk:
        raise ValueError(
            f"the text itself holds the unknown symbol {unk!r} ({counts[unk_type]} times); choose another "
            "with unk=, or pass merge_unk=True to count both as one"
        )
    enough = np.flatnonzero(counts >= max(rule.min_count, 1))
    words = {int(i): table.word(int(i)) for i in enough if i != unk_type}
    if rule.pattern is not None or rule.wordlist is not None:
        words = {i: word for i, word in words.items() if _allowed(_text(word), int(counts[i]), rule)}
    kept: dict[bytes, int] = {}
    for word in rule.keep:
        raw = fold_token(word, normalization).encode("utf-8", "surrogateescape")
        place = table.find(raw)
        kept[raw] = int(counts[place]) if place >= 0 else 0
        words.pop(place, None)
    kept.pop((unk or "").encode(), None)
    if rule.max_size is not None and len(kept) > rule.max_size:
        raise ValueError(f"keep names {len(kept)} words, more than max_size={rule.max_size}; raise max_size")
    ranked = _ranked([(word, int(counts[i])) for i, word in words.items()])
    if rule.max_size is not None:
        ranked = ranked[: rule.max_size - len(kept)]
    chosen = [*ranked, *kept.items()]
    n_all = int(scanned.counts.sum()) + scanned.n_refused
    if not n_all:
        raise ValueError("no tokens: the text is empty")
    if not chosen and not (unk_type >= 0 and counts[unk_type]):
        raise ValueError(
            f"no word is left: none of the {int((counts > 0).sum())} distinct words ({n_all} tokens) passes "
            f"min_count={rule.min_count} and the filters; lower min_count or loosen them"
        )
    if unk is not None:
        named = {word for word, _ in chosen}
        n_unk = n_all - sum(count for _, count in chosen)
        if unk.encode() in named:
            raise ValueError(f"the unknown symbol {unk!r} is in keep; choose another")
        chosen.append((unk.encode("utf-8", "surrogateescape"), n_unk))
    return _number(scanned, _ranked(chosen), normalization, oov, unk)


def fix_words(scanned: Scanned, vocabulary: Vocabulary, oov: str, merge_unk: bool) -> Selection:
    """Use a given vocabulary, in its own order."""
    unk = vocabulary.normalization.unk if oov == "unk" else None
    find = scanned.table.find
    raws = [word.encode("utf-8", "surrogateescape") for word in vocabulary.words]
    places = [find(raw) for raw in raws]
    chosen = [(raw, int(scanned.counts[place]) if place >= 0 else 0) for raw, place in zip(raws, places)]
    if unk is not None:
        if unk not in vocabulary:
            raise ValueError(
                f'oov="unk" needs the unknown symbol {unk!r} in the fixed vocabulary; add it, or use another oov'
            )
        number = vocabulary.id(unk)
        if chosen[number][1] and not merge_unk:
            raise ValueError(
                f"the text itself holds the unknown symbol {unk!r} ({chosen[number][1]} times); choose "
                "another with unk=, or pass merge_unk=True to count both as one"
            )
        others = sum(count for i, (_, count) in enumerate(chosen) if i != number)
        chosen[number] = (raws[number], int(scanned.counts.sum()) + scanned.n_refused - others)
    if not int(scanned.counts.sum()) + scanned.n_refused:
        raise ValueError("no tokens: the text is empty")
    return _number(scanned, chosen, vocabulary.normalization, oov, unk)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _allowed(word: str, count: int, rule: Filter) -> bool:
    if rule.pattern is not None and not re.fullmatch(rule.pattern, word):
        return False
    return rule.wordlist is None or word in rule.wordlist or count > rule.wordlist_exempt


def _ranked(words: Iterable[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    by_bytes = sorted(words)
    return sorted(by_bytes, key=lambda pair: -pair[1])


def _number(
    scanned: Scanned, chosen: list[tuple[bytes, int]], normalization: Normalization, oov: str, unk: str | None
) -> Selection:
    n_words = len(chosen)
    numbers = {raw: number for number, (raw, _) in enumerate(chosen)}
    other: int = n_words if oov == "keep" else DROP if unk is None else numbers[unk.encode("utf-8", "surrogateescape")]
    ids = np.full(len(scanned.counts), other, dtype=np.int32)
    for raw, number in numbers.items():
        place = scanned.table.find(raw)
        if place >= 0:
            ids[place] = number
    counts = np.array([count for _, count in chosen], dtype=np.int64)
    present = scanned.counts > 0
    is_cut = present & (ids == other)
    if unk is not None:
        place = scanned.table.find(unk.encode("utf-8", "surrogateescape"))
        if place >= 0:
            is_cut[place] = False
    vocabulary = Vocabulary((_text(raw) for raw, _ in chosen), normalization)
    return Selection(
        vocabulary, counts, ids, other, int(is_cut.sum()), int(scanned.counts[is_cut].sum()) + scanned.n_refused
    )


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
    return words
