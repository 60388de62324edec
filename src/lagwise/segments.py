"""From a stream to matrices: at once where memory allows, else segment by segment into runs that are then merged."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from . import store as disk
from ._files import naming
from ._progress import Progress
from .cooccurrence import BATCH_ENTRIES, Index, follow, index_stream, lag_rows, sum_rows, window_rows
from .options import Plan
from .spool import MappedMatrix, Stream

LARGEST_SEGMENT = 1 << 31  # positions within a segment are 32-bit, and so are sums of ones
_FIXED_BYTES = 80 * 10**6  # interpreter, libraries and blocks of text


def matrix_names(plan: Plan) -> list[str]:
    """Names of the matrices that a store of this plan holds."""
    return [f"lag{k}" for k in range(1, plan.max_lag + 1)] if plan.max_lag else ["window"]


def segment_length(plan: Plan, n_words: int) -> int:
    """Tokens of the stream that are counted at a time: all that fit the memory cap."""
    if plan.memory is None:
        return LARGEST_SEGMENT
    lags = plan.max_lag or 1
    scratch = plan.n_threads * (n_words + 1) * (4 * lags + 8 + 1) + BATCH_ENTRIES * 20 + n_words * 40
    free = plan.memory - _FIXED_BYTES - scratch
    return int(np.clip(free // 10, 1 << 16, LARGEST_SEGMENT))


def count_stream(
    stream: Stream,
    n_words: int,
    plan: Plan,
    open_sink: Callable[[str], Any],
    work: Path | None,
    finished: Iterable[int] = (),
    on_finished: Callable[[int], None] | None = None,
    n_counted: int | None = None,
) -> np.ndarray:
    """Count a stream into sinks, one for each matrix, which are opened by name and closed by the caller.

    Parameters
    ----------
    work : Path or None
        Folder for runs, needed where the stream is longer than one segment.
    finished : iterable of int
        Segments whose runs an earlier process left in `work`.
    on_finished : callable, optional
        Told of each segment whose run is whole.
    n_counted : int, optional
        Count pairs whose left word is among the first `n_counted` ids only; those behind serve as right neighbours.

    Returns
    -------
    unigrams : ndarray of int64, shape (n_words,)
    """
    length, reach = segment_length(plan, n_words), plan.max_lag or plan.window or 0
    n_counted = stream.length if n_counted is None else n_counted
    n_segments = max(1, -(-n_counted // length))
    unigrams = np.zeros(n_words, dtype=np.int64)
    names = matrix_names(plan)
    with Progress(plan.progress, "counting pairs", n_counted, "tokens") as bar:
        if n_segments == 1 and on_finished is None:
            ids = stream.read(0, min(n_counted + reach, stream.length))
            index = index_stream(ids[:n_counted] if n_counted < stream.length else ids, n_words, plan.n_threads)
            index.stream = ids
            _fill([open_sink(name) for name in names], index, plan, lambda done: bar.update(done))
            return np.diff(index.starts)
        assert work is not None
        done = set(finished)
        for number in range(n_segments):
            begin, end = number * length, min((number + 1) * length, n_counted)
            run = work / f"run{number:05}"
            if number not in done:
                ids = stream.read(begin, end + reach)
                index = index_stream(ids[: end - begin], n_words, plan.n_threads)
                index.stream = ids
                run.mkdir(exist_ok=True)
                sinks = [disk.MatrixWriter(run, name) for name in names]
                _fill(sinks, index, plan, lambda done, begin=begin: bar.update(begin + done))  # type: ignore[misc]
                for sink in sinks:
                    sink.close()
                with naming(run):
                    np.save(run / "unigrams.npy", np.diff(index.starts))
                del index, ids
                if on_finished is not None:
                    on_finished(number)
            unigrams += np.load(run / "unigrams.npy")
    runs = [work / f"run{number:05}" for number in range(n_segments)]
    with Progress(plan.progress, "merging runs", len(names), "matrices") as bar:
        for number, name in enumerate(names):
            merge_runs([MappedMatrix(run, name) for run in runs], n_words, open_sink(name), plan.n_threads)
            bar.update(number + 1)
            if on_finished is None:
                for run in runs:
                    for part in ("indptr", "indices", "data"):
                        (run / f"{name}.{part}.npy").unlink()
    return unigrams


def _fill(sinks: list[Any], index: Index, plan: Plan, report: Callable[[int], None]) -> None:
    row = 0

    def advance(rows: int) -> None:
        nonlocal row
        row += rows
        report(int(index.starts[row]))

    def take_lags(lengths: np.ndarray, lags: list[Any]) -> None:
        for sink, row_lengths, pieces in zip(sinks, lengths, lags):
            sink.append(row_lengths, pieces)
        advance(lengths.shape[1])

    def take_window(lengths: np.ndarray, pieces: list[Any]) -> None:
        sinks[0].append(lengths, pieces)
        advance(len(lengths))

    if plan.max_lag:
        follow(lag_rows(index, plan.max_lag, plan.n_threads), take_lags, plan.n_threads)
    else:
        follow(window_rows(index, plan.weights, plan.n_threads), take_window, plan.n_threads)


def merge_runs(runs: list[MappedMatrix], n_words: int, sink: Any, n_threads: int) -> None:
    """Add runs row by row into a sink, letting their pages go as they are passed."""

    def take(lengths: np.ndarray, pieces: list[Any]) -> None:
        sink.append(lengths, pieces)
        for run in runs:
            run.release()

    factors = np.ones(len(runs), dtype=np.uint64)
    follow(sum_rows([run.arrays for run in runs], factors, (n_words, n_words), n_threads), take, n_threads)


class Checkpoint:
    """A folder that keeps what a count has finished, so that another process can go on.

    Parameters
    ----------
    folder : Path
    fingerprint : dict
        What must be the same for the work to be taken up: options and sources.
    resume : bool
        Take up what is there; without it the folder must be new or empty.
    """

    def __init__(self, folder: Path, fingerprint: dict[str, Any], resume: bool):
        self.folder, self.file = folder, folder / "checkpoint.json"
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"checkpoint: {folder} is a file; expected a folder, or a name for a new one")
        folder.mkdir(parents=True, exist_ok=True)
        self.state: dict[str, Any] = {"fingerprint": fingerprint, "scanned": None, "segments": []}
        if not resume:
            if any(folder.iterdir()):
                raise FileExistsError(
                    f"{folder} is not empty; pass resume=True (--resume) to go on from it, or choose "
                    "another checkpoint folder"
                )
            self._write()
            return
        if not self.file.exists():
            if any(folder.iterdir()):
                raise ValueError(f"{folder} is no checkpoint folder: it holds no checkpoint.json")
            warnings.warn(f"{folder} holds no finished work; the count begins at the beginning", stacklevel=4)
            self._write()
            return
        state = json.loads(self.file.read_text(encoding="utf-8"))
        if state["fingerprint"] != json.loads(json.dumps(fingerprint)):
            changed = [
                name
                for name in fingerprint
                if state["fingerprint"].get(name) != json.loads(json.dumps(fingerprint[name]))
            ]
            raise ValueError(
                f"{folder} belongs to another count ({', '.join(changed)} differ); choose another checkpoint "
                "folder, or give the same text and options"
            )
        self.state = state

    def _write(self) -> None:
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.state, sort_keys=True, indent=1), encoding="utf-8")
        os.replace(temporary, self.file)

    def scanned(self, facts: dict[str, Any]) -> None:
        self.state["scanned"] = facts
        self._write()

    def segment(self, number: int) -> None:
        self.state["segments"].append(number)
        self._write()
