"""What a worker makes of one part of a text, and how that is added up. Nothing here knows of Dask.

Two passes over the parts give the store that one count of the whole text gives: `part_words` (word counts), then, over
the vocabulary chosen from their sum, `part_counts` (pairs). Both are pure: run again elsewhere, they give the same.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import store as disk
from ._version import __version__
from .cooccurrence import sum_rows
from .options import Plan
from .parts import Part, next_cut, opened, scan_part
from .scanning import Scanned
from .segments import count_stream, matrix_names
from .selection import fix_words
from .spool import Stream
from .vocabulary import Normalization, Vocabulary

_CONTEXT_BYTES = 1 << 16  # read at a time behind a part, for the right neighbours of its last words

Block = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]  # name of a matrix -> CSR arrays of some of its rows


@dataclasses.dataclass
class Words:
    """Distinct words and their counts, with the facts of each part they come from, in order."""

    words: list[bytes]
    counts: np.ndarray  # int64 (len(words),)
    parts: list[dict[str, Any]]


def part_words(part: Part, plan: Plan) -> Words:
    """The first pass over a part: count its words."""
    with _work(plan) as work:
        scanned = scan_part(part, plan, work)
        scanned.pieces.close()
    present = np.flatnonzero(scanned.counts > 0)
    facts = {
        "n_tokens": int(scanned.counts.sum()) + scanned.n_refused,
        "n_lines": scanned.n_lines,
        "n_refused": scanned.n_refused,
        "table_bytes": scanned.table_bytes,
        "version": __version__,
    }
    return Words([scanned.table.word(int(i)) for i in present], scanned.counts[present], [facts])


def add_words(several: list[Words]) -> Words:
    """Add word counts."""
    totals: dict[bytes, int] = {}
    for one in several:
        for word, count in zip(one.words, one.counts.tolist()):
            totals[word] = totals.get(word, 0) + count
    counts = np.fromiter(totals.values(), dtype=np.int64, count=len(totals))
    return Words(list(totals), counts, [facts for one in several for facts in one.parts])


@dataclasses.dataclass
class Chosen:
    """What the second pass needs to know of the whole text."""

    words: bytes  # Vocabulary.dumps
    normalization: Normalization
    rows: np.ndarray  # int64, where the blocks of rows begin and end
    types: bytes | None  # all words, where ids are kept or thresholds go by them
    thresholds: np.ndarray | None  # uint64 (types,)

    @property
    def n_words(self) -> int:
        return int(self.rows[-1])


@dataclasses.dataclass
class PartFacts:
    """What is known of parts once their pairs are counted: unigrams, and for each part its sequences and kept ids."""

    unigrams: np.ndarray
    parts: list[tuple[Sequences, np.ndarray | None]]


@dataclasses.dataclass
class Sequences:
    """Lengths of a part's sequences, so that parts can be joined: the one it goes on with, the one it leaves open."""

    head: int | None  # tokens before the first end, None where nothing ends
    longest: int  # of the sequences that begin and end inside
    tail: int  # tokens behind the last end


def part_counts(part: Part, plan: Plan, chosen: Chosen, tokens_before: int) -> list[Any]:
    """The second pass over a part: count its pairs.

    Parameters
    ----------
    tokens_before : int
        Tokens of the text before this part, by which subsampling draws.

    Returns
    -------
    list
        PartFacts, then for each block of rows a Block.
    """
    vocabulary = Vocabulary.loads(chosen.words, chosen.normalization)
    n_words = len(vocabulary)
    everything = None if chosen.types is None else Vocabulary.loads(chosen.types)
    with _work(plan) as work:
        scanned = scan_part(part, plan, work)
        kept = None
        if plan.keep_ids and everything is not None:
            writer = IdWriter(plan, everything, "keep")
            kept = np.concatenate([np.empty(0, np.int32), *writer.ids(scanned, part)])
        writer = IdWriter(plan, vocabulary, plan.oov, everything, chosen.thresholds, tokens_before)
        reach = plan.max_lag or plan.window or 0
        path = None if work is None else work / "stream.i32"
        stream = Stream(scanned.pieces.length + reach + 1, path)
        sequences = _SequenceLengths()
        for ids in writer.ids(scanned, part):
            stream.append(ids)
            sequences.add(ids)
        n_own = stream.length
        scanned.pieces.close()
        stream.append(_context(part, plan, writer, reach) if part.is_open else np.empty(0, np.int32))
        stream.append(np.full(1, -1, dtype=np.int32))
        sinks = {name: disk.MatrixBuilder() for name in matrix_names(plan)}
        with tempfile.TemporaryDirectory(dir=work or plan.tmpdir, prefix="lagwise-") as runs:
            unigrams = count_stream(stream, n_words, plan, sinks.__getitem__, Path(runs), n_counted=n_own)
        stream.close()
    matrices = {name: sink.arrays() for name, sink in sinks.items()}
    return [
        PartFacts(unigrams, [(sequences.result(), kept)]),
        *(_rows(matrices, int(first), int(last)) for first, last in zip(chosen.rows, chosen.rows[1:])),
    ]


def _rows(matrices: Block, first: int, last: int) -> Block:
    block = {}
    for name, (indptr, indices, data) in matrices.items():
        begin, end = int(indptr[first]), int(indptr[last])
        block[name] = indptr[first : last + 1] - begin, indices[begin:end], data[begin:end]
    return block


def add_facts(several: list[PartFacts]) -> PartFacts:
    """Join what is known of parts, in order."""
    return PartFacts(sum(one.unigrams for one in several), [part for one in several for part in one.parts])  # type: ignore[arg-type]


def add_blocks(blocks: list[Block], n_words: int) -> Block:
    """Add the counts of the same rows."""
    result = {}
    for name in blocks[0]:
        given = [block[name] for block in blocks]
        builder = disk.MatrixBuilder()
        ones = np.ones(len(given), dtype=np.uint64)
        for lengths, pieces in sum_rows(given, ones, (len(given[0][0]) - 1, n_words), 1):
            builder.append(lengths, pieces)
        result[name] = builder.arrays()
    return result


class IdWriter:
    """Turns scanned text into stream ids over a given vocabulary, piece after piece of one part.

    Parameters
    ----------
    oov : {"keep", "drop", "unk"}
    everything, thresholds, tokens_before
        Of subsampling, where there is any: all words, the largest hash at which each stays, the tokens of earlier parts.
    """

    def __init__(
        self,
        plan: Plan,
        vocabulary: Vocabulary,
        oov: str,
        everything: Vocabulary | None = None,
        thresholds: np.ndarray | None = None,
        tokens_before: int = 0,
    ):
        from ._kernels import ids as kernel

        self.plan, self.vocabulary, self.oov = plan, vocabulary, oov
        self.everything, self.thresholds = everything, thresholds
        self.state = np.zeros(kernel.STATE_SIZE, dtype=np.int64)
        self.state[3] = tokens_before
        self.kind = {"line": kernel.BY_LINE, "none": kernel.BY_FILE, "blank": kernel.BY_BLANK}[plan.boundary]

    def ids(self, scanned: Scanned, part: Part) -> Iterator[np.ndarray]:
        """The ids of a part's pieces, END behind each sequence; a part that goes on a file may begin with END."""
        from ._kernels import ids as kernel

        if part.start and self.state[0] == 0:
            self.state[0] = 1  # as if a token were before: what ends the sequence it may belong to is written
        ids, rejected = self._map(scanned, self.vocabulary, self.oov)
        maps = [np.ascontiguousarray(ids[one]) for one in scanned.maps]
        limits = [np.empty(0, dtype=np.uint64)] * len(maps)
        if self.thresholds is not None and self.everything is not None:
            full, _ = self._map(scanned, self.everything, "keep")
            of_type = np.append(self.thresholds, np.uint64(2**64 - 1))[full]
            limits = [np.ascontiguousarray(of_type[one]) for one in scanned.maps]
        for raw, table in scanned.pieces:
            if part.is_open and len(raw) and raw[-1] == kernel.FILE_END:
                raw = raw[:-1]
            out = np.empty(len(raw), dtype=np.int32)
            written = kernel.ids_remap(
                np.ascontiguousarray(raw),
                maps[table],
                rejected,
                self.kind,
                limits[table],
                self.plan.seed,
                out,
                self.state,
            )
            yield out[:written]

    def _map(self, scanned: Scanned, vocabulary: Vocabulary, oov: str) -> tuple[np.ndarray, int]:
        if not scanned.counts.sum() + scanned.n_refused:
            return np.zeros(len(scanned.counts), dtype=np.int32), 0
        selection = fix_words(scanned, vocabulary, oov, True)
        return selection.ids, selection.rejected


def _context(part: Part, plan: Plan, writer: IdWriter, reach: int) -> np.ndarray:
    """The ids behind a part: right neighbours of its last words, to the end of their sequence or out of reach."""
    found: list[np.ndarray] = []
    if plan.boundary == "line" or part.end is None:
        return np.empty(0, np.int32)
    with opened(part.names[0]) as handle:
        size = handle.seek(0, os.SEEK_END)
        begin, step = part.end, _CONTEXT_BYTES
        while begin < size and sum(map(len, found)) < reach:
            end = next_cut(handle, min(begin + step, size), size)
            behind = Part(part.names, begin, end if end < size else None)
            ids = np.concatenate([np.empty(0, np.int32), *writer.ids(scan_part(behind, plan), behind)])
            stop = np.flatnonzero(ids == -1)
            if len(stop):
                found.append(ids[: stop[0]])
                break
            found.append(ids)
            begin, step = end, 2 * step
    return np.concatenate([np.empty(0, np.int32), *found])[:reach]


class _SequenceLengths:
    """Measures the sequences of a stream that comes in pieces."""

    def __init__(self) -> None:
        self.head: int | None = None
        self.longest = self.open = 0

    def add(self, ids: np.ndarray) -> None:
        ends = np.flatnonzero(ids == -1)
        if not len(ends):
            self.open += len(ids)
            return
        first = self.open + int(ends[0])
        if self.head is None:
            self.head, first = first, 0
        self.longest = max(self.longest, first, int(np.diff(ends).max(initial=1)) - 1)
        self.open = len(ids) - int(ends[-1]) - 1

    def result(self) -> Sequences:
        return Sequences(self.head, self.longest, self.open)


def join_sequences(parts: Iterable[Sequences]) -> int:
    """The longest sequence of a text whose parts are given in order."""
    longest = carried = 0
    for part in parts:
        if part.head is None:
            carried += part.tail
        else:
            longest = max(longest, carried + part.head, part.longest)
            carried = part.tail
    return max(longest, carried)


def join_ids(parts: Iterable[np.ndarray]) -> np.ndarray:
    """One stream from those of the parts: an END that closes nothing is left out."""
    joined: list[np.ndarray] = [np.empty(0, np.int32)]
    is_open = False
    for ids in parts:
        ids = ids[1:] if len(ids) and ids[0] == -1 and not is_open else ids
        if len(ids):
            is_open = ids[-1] != -1
        joined.append(ids)
    return np.concatenate(joined)


@contextmanager
def _work(plan: Plan) -> Iterator[Path | None]:
    """A worker's own folder of work files, where a memory cap asks for one."""
    if plan.memory is None:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=plan.tmpdir, prefix="lagwise-") as name:
        yield Path(name)
