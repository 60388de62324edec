"""From text to a count store in three steps: scan, prepare (words and ids), finish (pairs)."""

from __future__ import annotations

import dataclasses
import platform
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import store as disk
from ._files import naming
from ._version import __version__
from .counts import CountStore
from .options import Plan
from .scanning import Scanned
from .segments import LARGEST_SEGMENT, Checkpoint, count_stream, matrix_names
from .selection import Filter, fix_words, select_words
from .spool import MappedMatrix, Stream
from .text import renumber, scan_text
from .vocabulary import Normalization, Vocabulary


@dataclasses.dataclass
class Prepared:
    """A text ready to be counted: its words, its stream of ids and what is known of it."""

    vocabulary: Vocabulary
    stream: Stream
    facts: dict[str, Any]
    run: dict[str, Any]
    ids: np.ndarray | None = None
    types: Vocabulary | None = None
    type_counts: np.ndarray | None = None


def scan_planned(source: Any, lines: Any, plan: Plan, folder: Path | None = None, memory: int | None = None) -> Scanned:
    """Scan a text under the options of a plan."""
    return scan_text(
        source,
        lines,
        plan.normalization,
        function=plan.function,
        errors=plan.errors,
        max_token_bytes=plan.max_token_bytes,
        n_threads=plan.n_threads,
        progress=plan.progress,
        folder=folder,
        memory=memory,
    )


def run_count(
    source: Any, lines: Any, plan: Plan, folder: Path | None = None, checkpoint: Checkpoint | None = None
) -> CountStore:
    """Scan, choose words, and count; the last two steps are `prepare_scanned` and `finish_count`."""
    with _work_folder(plan, folder, checkpoint) as work:
        if checkpoint is not None and checkpoint.state["scanned"]:
            prepared = _restore(checkpoint, plan)
        else:
            clock = time.perf_counter()
            scanned = scan_planned(source, lines, plan, work if plan.memory is not None else None, plan.memory)
            prepared = prepare_scanned(scanned, plan, work, {"scan": time.perf_counter() - clock})
            del scanned
            if checkpoint is not None:
                _keep(checkpoint, prepared)
        return finish_count(prepared, plan, folder, work, checkpoint)


def finish_count(
    prepared: Prepared,
    plan: Plan,
    folder: Path | None = None,
    work: Path | None = None,
    checkpoint: Checkpoint | None = None,
) -> CountStore:
    """Count a prepared text; matrices go to `folder` where one is given, else into memory (or, under a memory cap, into
    work files that live as long as the store)."""
    started = time.perf_counter()
    spilled = None
    if folder is None and plan.memory is not None:
        spilled = Path(tempfile.mkdtemp(dir=plan.tmpdir, prefix="lagwise-"))
    try:
        result = _fill_store(prepared, plan, spilled or folder, spilled is not None, work, checkpoint)
    except BaseException:
        if spilled is not None:
            shutil.rmtree(spilled, ignore_errors=True)
        raise
    if spilled is not None:
        weakref.finalize(result, shutil.rmtree, spilled, ignore_errors=True)
    result.run["seconds"]["count"] = round(time.perf_counter() - started, 4)
    if folder is not None:
        result._write_rest(folder, result.entries)
    return result


def _fill_store(
    prepared: Prepared,
    plan: Plan,
    target: Path | None,
    mapped: bool,
    work: Path | None,
    checkpoint: Checkpoint | None,
) -> CountStore:
    sinks: dict[str, Any] = {}

    def open_sink(name: str) -> Any:
        sinks[name] = disk.MatrixBuilder() if target is None else disk.MatrixWriter(target, name)
        return sinks[name]

    n_words = len(prepared.vocabulary)
    if work is None and prepared.stream.length > LARGEST_SEGMENT:
        with tempfile.TemporaryDirectory(dir=plan.tmpdir, prefix="lagwise-") as runs:
            unigrams = count_stream(prepared.stream, n_words, plan, open_sink, Path(runs))
    else:
        finished = checkpoint.state["segments"] if checkpoint else ()
        told = checkpoint.segment if checkpoint else None
        unigrams = count_stream(prepared.stream, n_words, plan, open_sink, work, finished, told)
    prepared.stream.close()
    entries: dict[str, Any] = {}
    matrices: dict[str, Any] = {}
    for name in matrix_names(plan):
        if target is None:
            matrices[name] = sinks[name].arrays()
        else:
            entries.update(sinks[name].close())
            if mapped:
                matrices[name] = MappedMatrix(target, name).arrays
    facts = {**prepared.facts, "n_in_stream": int(unigrams.sum())}
    full = (prepared.ids, prepared.types, prepared.type_counts)
    result = CountStore(prepared.vocabulary, unigrams, matrices, facts, plan.record(), *full, prepared.run)
    result.entries = entries
    return result


@contextmanager
def _work_folder(plan: Plan, folder: Path | None, checkpoint: Checkpoint | None) -> Iterator[Path | None]:
    """Where runs and spooled ids go: the checkpoint folder, beside the store, or a temporary one; None if unneeded."""
    if checkpoint is not None:
        yield checkpoint.folder
    elif plan.memory is None:
        yield None
    elif folder is not None and plan.tmpdir is None:
        work = folder / "work"
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    else:
        with tempfile.TemporaryDirectory(dir=plan.tmpdir, prefix="lagwise-") as name:
            yield Path(name)


def prepare_scanned(scanned: Scanned, plan: Plan, work: Path | None, seconds: dict[str, float]) -> Prepared:
    """Choose the words of a scanned text and renumber its ids."""
    clock = time.perf_counter()
    if plan.fixed is not None:
        chosen = fix_words(scanned, plan.fixed, plan.oov, plan.merge_unk)
    else:
        chosen = select_words(scanned, plan.rule, plan.normalization, plan.oov, plan.merge_unk)
    if scanned.n_refused:
        warnings.warn(
            f"{scanned.n_refused} tokens longer than max_token_bytes={plan.max_token_bytes} count as words "
            "outside the vocabulary",
            stacklevel=5,
        )
    full = _full_ids(scanned, plan) if plan.keep_ids else (None, None, None)
    thresholds = _thresholds(scanned, plan.subsample) if plan.subsample else None
    path = None if work is None else work / "stream.i32"
    stream, n_tokens, longest = renumber(
        scanned,
        chosen.ids,
        chosen.rejected,
        plan.boundary,
        thresholds,
        plan.seed,
        path,
        n_threads=plan.n_threads,
    )
    seconds = {**seconds, "words and ids": time.perf_counter() - clock}
    facts = {
        "n_tokens": n_tokens,
        "n_lines": int(scanned.n_lines),
        "longest_line": longest,
        "n_cut_types": chosen.n_cut_types,
        "n_cut_tokens": chosen.n_cut_tokens,
        "n_types": int((scanned.counts > 0).sum()),
    }
    return Prepared(chosen.vocabulary, stream, facts, _run_record(plan, seconds, scanned), *full)


def _keep(checkpoint: Checkpoint, prepared: Prepared) -> None:
    """Write down all that a later process needs to go on without the text."""
    prepared.stream.flush()
    (checkpoint.folder / "vocabulary.txt").write_bytes(prepared.vocabulary.dumps())
    if prepared.ids is not None and prepared.types is not None and prepared.type_counts is not None:
        with naming(checkpoint.folder):
            np.save(checkpoint.folder / "ids.npy", prepared.ids)
            np.save(checkpoint.folder / "type_counts.npy", prepared.type_counts)
        (checkpoint.folder / "types.txt").write_bytes(prepared.types.dumps())
    checkpoint.scanned(
        {
            "facts": prepared.facts,
            "run": prepared.run,
            "length": prepared.stream.length,
            "normalization": prepared.vocabulary.normalization.to_dict(),
        }
    )


def _restore(checkpoint: Checkpoint, plan: Plan) -> Prepared:
    folder, known = checkpoint.folder, checkpoint.state["scanned"]
    normalization = Normalization(**known["normalization"])
    vocabulary = Vocabulary.loads((folder / "vocabulary.txt").read_bytes(), normalization)
    stream = Stream.reopen(folder / "stream.i32")
    if stream.length != known["length"]:
        raise ValueError(
            f"{folder} is damaged: its stream holds {stream.length} ids, not {known['length']}; start anew"
        )
    full: tuple[Any, ...] = ()
    if plan.keep_ids:
        full = (
            np.load(folder / "ids.npy", mmap_mode="r"),
            Vocabulary.loads((folder / "types.txt").read_bytes(), dataclasses.replace(normalization, unk=None)),
            np.load(folder / "type_counts.npy"),
        )
    return Prepared(vocabulary, stream, known["facts"], known["run"], *full)


def _full_ids(scanned: Scanned, plan: Plan) -> tuple[np.ndarray, Vocabulary, np.ndarray]:
    normalization = dataclasses.replace(plan.normalization, unk=None)
    everything = select_words(scanned, Filter(min_count=1), normalization, "keep", True)
    stream, *_ = renumber(scanned, everything.ids, everything.rejected, plan.boundary, last=False)
    return stream.read(0, stream.length), everything.vocabulary, everything.counts


def _thresholds(scanned: Scanned, subsample: float) -> np.ndarray:
    """For each type the largest hash at which a token stays (word2vec's rule, sqrt(t/f) + t/f)."""
    share = scanned.counts / max(int(scanned.counts.sum()), 1)
    with np.errstate(divide="ignore"):
        stay = np.where(scanned.counts > 0, np.sqrt(subsample / share) + subsample / share, 1.0)
    certain = stay >= 1.0
    limits = np.where(certain, 0.0, stay) * 2.0**64
    return np.where(certain, np.uint64(2**64 - 1), limits.clip(max=2.0**64 - 4096).astype(np.uint64))


def _run_record(plan: Plan, seconds: dict[str, float], scanned: Scanned) -> dict[str, Any]:
    return {
        "threads": plan.n_threads,
        "memory": plan.memory,
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "table_bytes": scanned.table_bytes,
        "versions": {"lagwise": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }
