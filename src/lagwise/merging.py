"""Stores that live: merge them, add text to them, trim them; each exact, or refused with advice."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import numpy as np

from . import store as disk
from ._threads import resolve_threads
from ._validation import check_int
from .cooccurrence import sum_rows, transpose
from .counts import CountStore
from .matrices import Matrix
from .options import Plan, make_plan
from .pipeline import finish_count, prepare_scanned, scan_planned
from .scanning import Scanned
from .spool import Pieces
from .vocabulary import Vocabulary

_RULE = ("min_count", "max_size", "keep", "pattern", "wordlist", "wordlist_exempt")
_SAME = ("max_lag", "window", "weight", "boundary", "oov", "unk", "fixed_vocabulary", "subsample", "max_token_bytes")


def is_cut(counts: CountStore) -> bool:
    """Whether words were left out of a store's vocabulary, so that sums with other stores would miss counts."""
    options = counts.options
    if options.get("inexact"):
        return True
    if options["fixed_vocabulary"]:
        return False
    filtered = any(options[name] is not None for name in ("max_size", "pattern", "wordlist"))
    return options["min_count"] > 1 or filtered or options["oov"] != "keep"


def merge(*stores: CountStore, inexact: bool = False, n_threads: int | None = None) -> CountStore:
    """Add stores: the counts of all their texts together, as if each were a file of one count.

    Parameters
    ----------
    *stores : CountStore
        With the same lags or window, normalisation, boundary and oov rule. Kept ids are not taken along.
    inexact : bool
        Also merge stores whose vocabularies were cut; counts of words that one of them lacks are then too low. The
        result records it.
    n_threads : int, optional
        Number of threads; changes no result.

    Returns
    -------
    CountStore
        The same bytes for any order and grouping of exact merges.

    Raises
    ------
    ValueError
        If the stores do not go together, or were cut and `inexact` is false.
    """
    if not stores or not all(isinstance(one, CountStore) for one in stores):
        raise TypeError("merge expects one or more count stores: merge(first, second) or merge(*stores)")
    first = stores[0]
    for other in stores[1:]:
        for name in _SAME:
            if other.options[name] != first.options[name]:
                raise ValueError(
                    f"the stores differ in {name} ({first.options[name]!r} and {other.options[name]!r}); count one of "
                    "them again with the other's"
                )
        if other.vocabulary.normalization != first.vocabulary.normalization:
            raise ValueError(
                f"the stores normalise text differently ({first.vocabulary.normalization} and "
                f"{other.vocabulary.normalization}); count one of them again with the other's options"
            )
    fixed = first.options["fixed_vocabulary"]
    same_words = all(other.vocabulary.words == first.vocabulary.words for other in stores)
    exact = same_words if fixed else not any(is_cut(one) for one in stores)
    was_inexact = any(one.options.get("inexact") for one in stores)
    if not exact and not inexact:
        raise ValueError(
            "the stores' vocabularies were cut (min_count, max_size, filters, oov) or differ, so their sum would miss "
            "counts; count with min_count=1 and trim after merging, count all over one fixed vocabulary, or pass "
            "inexact=True"
        )
    if fixed and same_words:
        vocabulary = first.vocabulary
    else:
        totals: dict[str, int] = {}
        for one in stores:
            for word, count in zip(one.vocabulary.words, one.unigrams.tolist()):
                totals[word] = totals.get(word, 0) + count
        ranked = sorted(totals, key=lambda word: (-totals[word], word.encode("utf-8", "surrogateescape")))
        vocabulary = Vocabulary(ranked, first.vocabulary.normalization)
    unigrams = np.zeros(len(vocabulary), dtype=np.int64)
    maps = []
    for one in stores:
        columns = np.array([vocabulary.index[word] for word in one.vocabulary.words], dtype=np.int32)
        rows = np.full(len(vocabulary), -1, dtype=np.int32)
        rows[columns] = np.arange(len(columns), dtype=np.int32)
        unigrams[columns] += one.unigrams
        maps.append((rows, columns))
    threads = resolve_threads(n_threads)
    matrices = {
        name: _sum([(*one._matrices[name], *pair) for one, pair in zip(stores, maps)], len(vocabulary), threads)
        for name in first._matrices
    }
    facts = _added_facts(stores, unigrams)
    options = _merged_options(stores)
    if was_inexact or not exact:
        options["inexact"] = True
    return CountStore(vocabulary, unigrams, matrices, facts, options, run={"merged": len(stores)})


def _merged_options(stores: tuple[CountStore, ...]) -> dict[str, Any]:
    """What the options of a merged store are; the order of the stores does not matter."""
    first = stores[0].options
    found = {name: [one.options[name] for one in stores] for name in first if name != "inexact"}
    options = {
        name: values[0] if all(value == values[0] for value in values) else None for name, values in found.items()
    }
    errors = {value for value in found["errors"] if value != "strict"}  # strict text reads the same under any policy
    if len(errors) > 1:
        raise ValueError(
            f"the stores differ in errors ({' and '.join(sorted(errors))}); count one of them again with the other's"
        )
    for name in ("min_count", "max_size", "wordlist_exempt"):
        options[name] = max_or_none(stores, name)
    return {
        **options,
        "errors": errors.pop() if errors else "strict",
        "merge_unk": any(found["merge_unk"]),
        "keep_ids": False,
        "keep": None
        if first["fixed_vocabulary"]
        else sorted({word for words in found["keep"] for word in words or ()}),
    }


def max_or_none(stores: tuple[CountStore, ...], name: str) -> int | None:
    """The largest value of a numeric option among stores that have it."""
    values = [one.options[name] for one in stores if one.options[name] is not None]
    return max(values) if values else None


def _added_facts(stores: tuple[CountStore, ...], unigrams: np.ndarray) -> dict[str, Any]:
    names = ("n_tokens", "n_lines", "n_in_stream", "n_cut_types", "n_cut_tokens")
    facts = {name: sum(one._facts[name] for one in stores) for name in names}
    facts["longest_line"] = max(one.longest_line for one in stores)
    facts["n_types"] = int((unigrams > 0).sum()) + facts["n_cut_types"]
    return facts


def _sum(matrices: list[Any], n_words: int, n_threads: int) -> Matrix:
    builder = disk.MatrixBuilder()
    for lengths, pieces in sum_rows(matrices, np.ones(len(matrices), dtype=np.uint64), (n_words, n_words), n_threads):
        builder.append(lengths, pieces)
    return builder.arrays()


def trim(
    counts: CountStore, *, min_count: int | None = None, max_size: int | None = None, n_threads: int | None = None
) -> CountStore:
    """Raise `min_count` or lower `max_size` without the text; see `CountStore.trim`."""
    options = counts.options
    if options["fixed_vocabulary"]:
        raise ValueError("this store has a fixed vocabulary; count again with a shorter one")
    lowest = max(check_int("min_count", min_count if min_count is not None else options["min_count"], 0), 0)
    largest = options["max_size"] if max_size is None else check_int("max_size", max_size, 1)
    if lowest < options["min_count"] or (options["max_size"] is not None and (largest or 0) > options["max_size"]):
        raise ValueError(
            f"the store was cut at min_count={options['min_count']}, max_size={options['max_size']}; trimming can only "
            "cut more: count again for less"
        )
    changed = {**options, "min_count": lowest, "max_size": largest}
    if options["oov"] == "drop" and is_cut_by_trim(counts, lowest, largest):
        if counts.ids is None:
            raise ValueError(
                'words cut from a store with oov="drop" would change distances; count again, or count with '
                "keep_ids=True, from which trimming is exact"
            )
        return _recount(counts, changed, None, n_threads)
    stay = _staying(counts, lowest, largest)
    n_words = int(stay.sum())
    if not n_words:
        raise ValueError(
            f"no word is left at min_count={lowest}; the most frequent occurs {int(counts.unigrams.max())} times"
        )
    new = np.full(len(stay), -1, dtype=np.int32)
    words = [word for word, keeps in zip(counts.vocabulary.words, stay) if keeps]
    unigrams = counts.unigrams[stay].copy()
    order = np.arange(n_words)
    threads = resolve_threads(n_threads)
    if options["oov"] == "unk":
        unk = words.index(options["unk"])
        unigrams[unk] += counts.unigrams[~stay].sum()
        order = np.array(
            sorted(range(n_words), key=lambda i: (-unigrams[i], words[i].encode("utf-8", "surrogateescape")))
        )
    place = np.empty(n_words, dtype=np.int32)
    place[order] = np.arange(n_words, dtype=np.int32)
    new[stay] = place
    if options["oov"] == "unk":
        new[~stay] = place[unk]
        matrices = {name: _fold(matrix, new, n_words, threads) for name, matrix in counts._matrices.items()}
    else:
        rows = np.flatnonzero(stay).astype(np.int32)
        matrices = {name: _sum([(*matrix, rows, new)], n_words, threads) for name, matrix in counts._matrices.items()}
    vocabulary = Vocabulary([words[i] for i in order], counts.vocabulary.normalization)
    unigrams = unigrams[order]
    gone = counts.unigrams[~stay]
    facts = {
        **counts._facts,
        "n_cut_types": counts._facts["n_cut_types"] + int((gone > 0).sum()),
        "n_cut_tokens": counts._facts["n_cut_tokens"] + int(gone.sum()),
        "n_in_stream": int(unigrams.sum()),
    }
    return CountStore(
        vocabulary, unigrams, matrices, facts, changed, counts.ids, counts.types, counts.type_counts, {"trimmed": True}
    )


def is_cut_by_trim(counts: CountStore, min_count: int, max_size: int | None) -> bool:
    """Whether these limits would cut any word of the store."""
    return not bool(_staying(counts, min_count, max_size).all())


def _staying(counts: CountStore, min_count: int, max_size: int | None) -> np.ndarray:
    """Which words stay; the vocabulary is in falling order already."""
    keep = set(counts.options["keep"] or ())
    unk = counts.options["unk"]
    safe = np.array([word in keep or word == unk for word in counts.vocabulary.words])
    stay = safe | (counts.unigrams >= min_count)
    if max_size is not None:
        room = max_size - sum(1 for word in counts.vocabulary.words if word in keep)
        others = stay & ~safe
        stay = safe | (others & (np.cumsum(others) <= room))
    return stay


def _fold(matrix: Matrix, new: np.ndarray, n_words: int, n_threads: int) -> Matrix:
    """Add up rows and columns that share a new id."""
    n_old = len(new)
    for _ in range(2):
        rows = len(matrix[0]) - 1
        builder = disk.MatrixBuilder()
        for lengths, pieces in sum_rows(
            [(*matrix, None, new)], np.ones(1, dtype=np.uint64), (rows, n_words), n_threads
        ):
            builder.append(lengths, pieces)
        matrix = transpose(*builder.arrays(), n_words, n_threads)
    assert len(matrix[0]) - 1 == n_words and n_old >= n_words
    data = matrix[2].astype(disk.narrowest(matrix[2].max(initial=0)))
    return matrix[0], matrix[1], data


def append(
    counts: CountStore,
    source: Any = None,
    *,
    lines: Any = None,
    wordlist: Any = None,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> CountStore:
    """Add text to a store: the result equals one count of the old text and the new together.

    Parameters
    ----------
    counts : CountStore
        With kept ids (``keep_ids=True``), or uncut, or over a fixed vocabulary; others are refused.
    source, lines
        The new text, as for `lagwise.count`; the store's own options apply to it.
    wordlist : iterable of str or file, optional
        The word list again, where the store was counted with one.
    n_threads, progress
        As for `lagwise.count`.

    Raises
    ------
    ValueError
        If the store was cut and holds no ids.
    """
    if counts.ids is None and is_cut(counts):
        raise ValueError(
            "this store's vocabulary was cut and its ids were not kept, so added text cannot be counted exactly; count "
            "with keep_ids=True (--keep-ids) or min_count=1, or count both texts again"
        )
    plan = _plan(counts, counts.options, wordlist, n_threads, progress)
    if plan.function is not None or plan.normalization.tokenizer == "custom":
        raise ValueError(
            "this store was counted with a tokenizer of your own; append token lists made by it through lines="
        )
    if counts.ids is None:
        seconds = time.perf_counter()
        scanned = scan_planned(source, lines, plan)
        new = finish_count(prepare_scanned(scanned, plan, None, {"scan": time.perf_counter() - seconds}), plan)
        return merge(counts, new, n_threads=n_threads)
    return _recount(counts, counts.options, scan_planned(source, lines, plan), n_threads, wordlist, progress)


def _plan(
    counts: CountStore, options: dict[str, Any], wordlist: Any, n_threads: int | None, progress: bool | None
) -> Plan:
    normalization = counts.vocabulary.normalization
    rule = {name: options[name] for name in _RULE}
    if rule["wordlist"] is not None:
        if wordlist is None:
            raise ValueError(
                "this store was counted with a word list, which it does not hold; give it again as wordlist="
            )
        rule["wordlist"] = wordlist
    if options["fixed_vocabulary"]:
        rule = {**dict.fromkeys(_RULE), "min_count": 5, "keep": (), "wordlist_exempt": 3000}
    plan = make_plan(
        **rule,
        vocabulary=counts.vocabulary if options["fixed_vocabulary"] else None,
        max_lag=options["max_lag"],
        window=options["window"],
        weight=options["weight"] if options["window"] else "flat",
        boundary=options["boundary"],
        oov=options["oov"],
        unk=options["unk"] or "<unk>",
        merge_unk=options["merge_unk"],
        tokenizer="whitespace" if normalization.tokenizer == "custom" else normalization.tokenizer,
        punctuation=normalization.punctuation,
        lowercase=normalization.lowercase,
        digits=normalization.digits,
        errors=options["errors"],
        max_token_bytes=options["max_token_bytes"],
        subsample=options["subsample"],
        keep_ids=options["keep_ids"],
        memory=None,
        tmpdir=None,
        n_threads=n_threads,
        progress=progress,
        random_state=options["seed"] or 0,
    )
    plan = dataclasses.replace(
        plan, normalization=dataclasses.replace(plan.normalization, tokenizer=normalization.tokenizer)
    )
    if plan.record()["wordlist"] != options["wordlist"]:
        raise ValueError("the word list given is not the one this store was counted with")
    return plan


def _recount(
    counts: CountStore,
    options: dict[str, Any],
    added: Scanned | None,
    n_threads: int | None,
    wordlist: Any = None,
    progress: bool | None = None,
) -> CountStore:
    """Count again from kept ids, with more text where some is added."""
    from ._kernels.ids import FILE_END
    from ._kernels.tokens import REJECTED, WordTable

    assert counts.ids is not None and counts.types is not None and counts.type_counts is not None
    plan = _plan(counts, options, wordlist, n_threads, progress)
    table = WordTable()
    types = [table.add(word.encode("utf-8", "surrogateescape"), 0) for word in counts.types.words]
    old = np.array(types, dtype=np.int32)
    raw = np.array(counts.ids)
    raw[raw == len(types)] = REJECTED
    raw[raw == -1] = FILE_END
    pieces = Pieces()
    pieces.append(raw, 0)
    maps, n_lines, refused = [old], counts.n_lines, int(np.count_nonzero(raw == REJECTED))
    moved = np.empty(0, dtype=np.int32)
    if added is not None:
        moved = np.empty(len(added.table), dtype=np.int32)
        table.absorb(added.table, moved)
        for piece, number in added.pieces.drain():
            pieces.append(piece, number + 1)
        maps += [moved[one] for one in added.maps]
        n_lines, refused = n_lines + added.n_lines, refused + added.n_refused
    totals = np.zeros(len(table), dtype=np.int64)
    np.add.at(totals, old, counts.type_counts)
    if added is not None:
        np.add.at(totals, moved, added.counts)
    scanned = Scanned(table, totals, pieces, maps, n_lines, refused, table.nbytes)
    return finish_count(prepare_scanned(scanned, plan, None, {}), plan)


def load_store(path: str | os.PathLike[str]) -> CountStore:
    """A store that a command names; anything else is an error that says so."""
    from ._load import load

    found = load(path)
    if not isinstance(found, CountStore):
        raise ValueError(f"{os.fspath(path)} holds a {type(found).__name__}; expected a count store")
    return found
