"""The options of a count, checked before any text is read."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ._threads import resolve_threads
from ._validation import check_bool, check_choice, check_int, check_real
from .cooccurrence import window_weights
from .counts import CountStore
from .selection import Filter, as_words
from .spool import parse_memory
from .text import ERRORS, as_function
from .vocabulary import Normalization, Vocabulary, encode_word

MAX_LAG = 100  # each lag is a matrix of its own, read as three memory maps; windows may be wider
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
    memory: int | None = None
    tmpdir: Path | None = None

    def record(self) -> dict[str, Any]:
        """All that changes the result, as JSON values."""
        rule = dataclasses.asdict(self.rule)
        if rule["wordlist"] is not None:
            import hashlib

            listed = "\n".join(sorted(rule["wordlist"])).encode("utf-8", "surrogateescape")
            rule["wordlist"] = {"words": len(rule["wordlist"]), "sha256": hashlib.sha256(listed).hexdigest()}
        rule["keep"] = sorted(rule["keep"])
        if self.fixed is not None:
            rule = {name: None for name in rule}
        return {
            **rule,
            "fixed_vocabulary": self.fixed is not None,
            "max_lag": self.max_lag,
            "window": self.window,
            "weight": self.weight,
            "weight_scale": self.scale,
            "boundary": self.boundary,
            "oov": self.oov,
            "unk": self.normalization.unk,
            "merge_unk": self.merge_unk,
            "errors": self.errors,
            "max_token_bytes": self.max_token_bytes,
            "subsample": self.subsample,
            "seed": self.seed if self.subsample else None,
            "keep_ids": self.keep_ids,
        }


def make_plan(
    *,
    min_count: Any,
    max_size: Any,
    keep: Any,
    vocabulary: Any,
    pattern: Any,
    wordlist: Any,
    wordlist_exempt: Any,
    max_lag: Any,
    window: Any,
    weight: Any,
    boundary: Any,
    oov: Any,
    unk: Any,
    merge_unk: Any,
    tokenizer: Any,
    punctuation: Any,
    lowercase: Any,
    digits: Any,
    errors: Any,
    max_token_bytes: Any,
    subsample: Any,
    keep_ids: Any,
    memory: Any,
    tmpdir: Any,
    n_threads: Any,
    progress: Any,
    random_state: Any,
) -> Plan:
    """Check the options of `count` before any text is read."""
    if tmpdir is not None and not os.path.isdir(tmpdir):
        raise FileNotFoundError(f"tmpdir is {os.fspath(tmpdir)!r}, which is not a folder")
    check_choice("boundary", boundary, ("line", "none", "blank"))
    check_choice("oov", oov, ("keep", "drop", "unk"))
    check_choice("errors", errors, ERRORS)
    if isinstance(tokenizer, str):
        check_choice("tokenizer", tokenizer, ("whitespace", "words"))
    function = as_function(tokenizer)
    if not isinstance(unk, str) or not unk:
        raise ValueError(f"unk is {unk!r}; expected a non-empty word")
    encode_word(unk, "unk")
    _check_tokens("unk", [unk])
    fixed = given_fixed = None
    kept = as_words("keep", keep)
    if vocabulary is not None:
        given = (
            min_count,
            max_size,
            kept,
            pattern,
            wordlist,
        )
        if given[1:] != (None, (), None, None) or min_count not in (0, 1, 5):
            raise ValueError(
                "vocabulary= is fixed: it does not go together with min_count, max_size, keep, pattern or wordlist"
            )
        fixed = vocabulary.vocabulary if isinstance(vocabulary, CountStore) else vocabulary
    if isinstance(fixed, Vocabulary):
        asked = Normalization(tokenizer if function is None else "custom", punctuation, bool(lowercase), digits)
        own = dataclasses.replace(fixed.normalization, unk=None)
        if asked not in (Normalization(), own):
            raise ValueError(
                f"the vocabulary was made with {own}, which differs from the options given; leave them out"
            )
        if own.tokenizer == "custom" and function is None:
            raise ValueError("the vocabulary was made with a tokenizer of your own; give it as tokenizer=")
        base = dataclasses.replace(own, unk=(fixed.normalization.unk or unk) if oov == "unk" else None)
        fixed = Vocabulary(fixed.words, base)
    else:
        base = Normalization(
            tokenizer if function is None else "custom",
            punctuation,
            check_bool("lowercase", lowercase),
            digits,
            unk if oov == "unk" else None,
        )
        if fixed is not None:
            fixed = given_fixed = Vocabulary(as_words("vocabulary", fixed), base)
            if not len(fixed):
                raise ValueError("vocabulary= is empty; give the words to count, or leave it out")
    if pattern is not None:
        _check_pattern(pattern)
    if function is None:
        for name, listed in (("keep", kept), ("vocabulary", () if given_fixed is None else given_fixed.words)):
            _check_tokens(name, listed)
    rule = Filter(
        check_int("min_count", min_count, 0),
        None if max_size is None else check_int("max_size", max_size, 1),
        kept,
        pattern,
        None if wordlist is None else frozenset(as_words("wordlist", wordlist)),
        check_int("wordlist_exempt", wordlist_exempt, 0),
    )
    max_lag, window, weight, weights, scale = check_distances(max_lag, window, weight)
    return Plan(
        rule=rule,
        normalization=base,
        fixed=fixed,
        function=function,
        max_lag=max_lag,
        window=window,
        weights=weights,
        weight=weight,
        scale=scale,
        boundary=boundary,
        oov=oov,
        merge_unk=check_bool("merge_unk", merge_unk),
        errors=errors,
        max_token_bytes=None
        if max_token_bytes is None
        else check_int("max_token_bytes", max_token_bytes, 1, 2**31 - 1),
        subsample=None if subsample is None else check_real("subsample", subsample, above=0),
        seed=check_int("random_state", random_state, 0, 2**64 - 1),
        keep_ids=check_bool("keep_ids", keep_ids),
        n_threads=resolve_threads(n_threads),
        progress=progress,
        memory=parse_memory(memory),
        tmpdir=None if tmpdir is None else Path(tmpdir),
    )


def _check_pattern(pattern: Any) -> None:
    if not isinstance(pattern, str):
        raise ValueError(f"pattern is {pattern!r}; expected a regular expression as a str")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern is {pattern!r}, which is no regular expression: {error}") from None


def _check_tokens(name: str, words: Iterable[str]) -> None:
    """Refuse words that no named tokenizer ever makes of a text."""
    for word in words:
        if re.search(r"[ \t\n\v\f\r]", word):
            raise ValueError(
                f"{name} holds {word!r}; tokens hold no white space, so it would never be found: leave it out, or "
                "give a tokenizer that makes it"
            )


def check_distances(max_lag: Any, window: Any, weight: Any) -> tuple[int | None, int | None, Any, np.ndarray, int]:
    if max_lag is not None and window is not None:
        raise ValueError(
            "max_lag and window are both given; max_lag holds every lag (and serves every window up to it), "
            "window holds one weighted sum: choose one"
        )
    if window is None:
        if not isinstance(weight, str) or weight != "flat":
            raise ValueError(
                f"weight is {weight!r} without window=; lags are held unweighted, and "
                "counts.window(size, weight) weighs them"
            )
        return check_int("max_lag", DEFAULT_LAG if max_lag is None else max_lag, 1, MAX_LAG), None, None, np.empty(0), 1
    window = check_int("window", window, 1, 10**6)
    weights, scale = window_weights(window, weight)
    if weights.dtype.kind == "f":
        if (weights != np.floor(weights)).any() or (weights < 0).any() or (weights > 2**40).any():
            raise ValueError(
                "weights of a windowed store must be non-negative integers, so that sums are exact; count "
                f"with max_lag={window} and ask for counts.window({window}, weight) instead"
            )
        weights = weights.astype(np.uint64)
    return None, window, weight if isinstance(weight, str) else [int(w) for w in weights], weights, scale
