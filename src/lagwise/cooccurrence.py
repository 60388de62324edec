"""From a stream of ids to rows of counts: tasks of rows, scratch for the kernels, and batches that Ctrl-C can break."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

TASK_ENTRIES = 1 << 17  # most nonzeros one task of rows may yield
BATCH_ENTRIES = 1 << 21  # most nonzeros one kernel call may yield
_EXACT = 1 << 16  # whole weights up to this are summed as integers
BATCH_WORK = 1 << 25  # most additions of one kernel call, about a tenth of a second


@dataclass
class Index:
    """Positions of each word in a stream."""

    stream: np.ndarray  # int32 (n,)
    starts: np.ndarray  # int64 (n_words + 1,)
    positions: np.ndarray  # uint32 (starts[-1],)

    @property
    def n_words(self) -> int:
        return len(self.starts) - 1


def index_stream(stream: np.ndarray, n_words: int, n_threads: int) -> Index:
    """Sort the positions of a stream by word."""
    from ._kernels.ids import ids_index

    starts = np.zeros(n_words + 1, dtype=np.int64)
    positions = np.empty(len(stream), dtype=np.uint32)
    ids_index(stream, n_words, starts, positions, np.empty((n_threads, max(n_words, 1)), dtype=np.int64), n_threads)
    return Index(stream, starts, positions[: starts[-1]])


def cut_rows(entries: np.ndarray, work: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Cut rows into tasks, and tasks into batches of one kernel call each.

    Parameters
    ----------
    entries, work : ndarray of int64, shape (rows,)
        The most nonzeros a row can yield, and the additions it costs.

    Yields
    ------
    tasks : (m + 1,) row numbers, places : (m,) where each task writes, room : places needed in all
    """
    rows = len(entries)
    first = 0
    ends_entries, ends_work = np.cumsum(entries), np.cumsum(work)
    while first < rows:
        base_entries = ends_entries[first] - entries[first]
        base_work = ends_work[first] - work[first]
        last = min(
            int(np.searchsorted(ends_entries, base_entries + BATCH_ENTRIES, "right")),
            int(np.searchsorted(ends_work, base_work + BATCH_WORK, "right")),
        )
        last = max(last, first + 1)
        tasks, place, places, row = [first], 0, [], first
        while row < last:
            start = ends_entries[row] - entries[row]
            start_work = ends_work[row] - work[row]
            stop = min(
                int(np.searchsorted(ends_entries, start + TASK_ENTRIES, "right")),
                int(np.searchsorted(ends_work, start_work + BATCH_WORK // 8, "right")),
            )
            stop = min(max(stop, row + 1), last)
            places.append(place)
            place += int(ends_entries[stop - 1] - start) + 1
            tasks.append(stop)
            row = stop
        yield np.array(tasks, dtype=np.int64), np.array(places, dtype=np.int64), place + 1
        first = last


class Buffers:
    """Output arrays of kernel calls, in two sets used in turn: one batch can be written while the next is counted."""

    def __init__(self, dtypes: tuple[Any, ...], leading: tuple[int, ...] = ()):
        self._dtypes, self._leading = dtypes, leading
        self._sets: list[list[np.ndarray]] = [[], []]

    def next(self, room: int) -> list[np.ndarray]:
        """Arrays with at least this much room; those of the call before stay as they are."""
        self._sets.reverse()
        if not self._sets[0] or self._sets[0][0].shape[-1] < room:
            self._sets[0] = []  # let the old go before the new are made
            self._sets[0] = [np.empty((*self._leading, room), dtype=dtype) for dtype in self._dtypes]
        return self._sets[0]


def follow(batches: Iterable[Any], consume: Callable[..., None], n_threads: int) -> None:
    """Call `consume(*batch)` for each batch, in order; with several threads while the next batch is counted."""
    if n_threads == 1:
        for batch in batches:
            consume(*batch)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="lagwise-write") as pool:
        pending: Future[None] | None = None
        for batch in batches:
            if pending is not None:
                pending.result()
            pending = pool.submit(consume, *batch)
        if pending is not None:
            pending.result()


def window_rows(index: Index, weights: np.ndarray, n_threads: int) -> Iterator[tuple[np.ndarray, list[Any]]]:
    """Count the one-sided weighted window; yields (row lengths, pieces) batch by batch, pieces being (indices, values).

    Parameters
    ----------
    weights : ndarray of uint64, shape (window,)
        Integer weights of the distances 1 .. window.
    """
    from ._kernels.lags import LINE, marks_size, windows_count

    n_words, window = index.n_words, len(weights)
    occurrences = np.diff(index.starts)
    largest = int(occurrences.max(initial=0)) * int(weights.sum(dtype=object))
    if largest >= 2**63:
        raise OverflowError(
            f"weighted counts could reach {largest}, beyond 64 bits; count with a smaller window or flat "
            "weights, or use max_lag"
        )
    number = np.uint32 if largest < 2**32 else np.uint64
    weights = weights.astype(number)
    sums = np.zeros((n_threads, n_words + LINE), dtype=number)
    marks = np.zeros((n_threads, marks_size(n_words // LINE + 1)), dtype=np.uint8)
    buffers = Buffers((np.int32, number))
    work = occurrences * window
    for tasks, places, needed in cut_rows(np.minimum(work, n_words), work + 1 + n_words // 256):
        indices, values = buffers.next(needed)
        lengths = np.empty(tasks[-1] - tasks[0], dtype=np.int64)
        task_lengths = np.empty(len(places), dtype=np.int64)
        windows_count(
            index.stream,
            index.starts,
            index.positions,
            weights,
            tasks,
            places,
            sums,
            marks,
            lengths,
            task_lengths,
            indices,
            values,
            n_threads,
        )
        yield lengths, [(indices[p : p + n], values[p : p + n]) for p, n in zip(places.tolist(), task_lengths.tolist())]


def lag_rows(index: Index, max_lag: int, n_threads: int) -> Iterator[tuple[np.ndarray, list[list[Any]]]]:
    """Count every lag 1 .. max_lag at once; yields (row lengths (max_lag, rows), pieces of each lag) batch by batch."""
    from ._kernels.lags import lags_count, marks_size

    n_words = index.n_words
    occurrences = np.diff(index.starts)
    sums = np.zeros((n_threads, (n_words + 1) * max_lag), dtype=np.uint32)
    marks = np.zeros((n_threads, marks_size(n_words + 1)), dtype=np.uint8)
    entries = np.minimum(occurrences, n_words)
    buffers = Buffers((np.int32, np.uint32), (max_lag,))
    for tasks, places, needed in cut_rows(entries * max_lag, occurrences * max_lag + 1 + n_words // 256):
        bounds = np.concatenate([[0], np.cumsum(entries[tasks[0] : tasks[-1]])])
        places = bounds[tasks[:-1] - tasks[0]] + np.arange(len(places))
        needed = int(bounds[-1]) + len(places) + 1
        indices, values = buffers.next(needed)
        lengths = np.empty((max_lag, tasks[-1] - tasks[0]), dtype=np.int64)
        task_lengths = np.empty((len(places), max_lag), dtype=np.int64)
        lags_count(
            index.stream,
            index.starts,
            index.positions,
            tasks,
            places,
            sums,
            marks,
            lengths,
            task_lengths,
            indices,
            values,
            n_threads,
        )
        yield (
            lengths,
            [
                [
                    (indices[k, p : p + n], values[k, p : p + n])
                    for p, n in zip(places.tolist(), task_lengths[:, k].tolist())
                ]
                for k in range(max_lag)
            ],
        )


def sum_rows(
    matrices: list[Any], factors: np.ndarray, shape: tuple[int, int], n_threads: int
) -> Iterator[tuple[np.ndarray, list[Any]]]:
    """Add CSR matrices row by row; yields like `window_rows`.

    Parameters
    ----------
    matrices : list of (indptr, indices, data) or (indptr, indices, data, rows, columns)
        Unsigned data; the maps as `ext/rows.pyx` documents.
    factors : ndarray of uint64 or float64, shape (len(matrices),)
    shape : (rows, columns) of the sum
    """
    from ._kernels.lags import marks_size
    from ._kernels.rows import rows_sum

    given = [_as_kernel_csr(*matrix) for matrix in matrices]
    bound = np.zeros(shape[0], dtype=np.int64)
    for indptr, _, _, rows, _ in given:
        lengths = np.diff(indptr)
        bound += (
            lengths if rows is None else np.where(rows >= 0, lengths[np.maximum(rows, 0)] if len(lengths) else 0, 0)
        )
    sums = np.zeros((n_threads, max(shape[1], 1)), dtype=factors.dtype)
    marks = np.zeros((n_threads, marks_size(shape[1])), dtype=np.uint8)
    buffers = Buffers((np.int32, factors.dtype))
    for tasks, places, needed in cut_rows(np.minimum(bound, shape[1]), bound + 1 + shape[1] // 256):
        indices, values = buffers.next(needed)
        lengths = np.empty(tasks[-1] - tasks[0], dtype=np.int64)
        task_lengths = np.empty(len(places), dtype=np.int64)
        rows_sum(
            given, factors, shape[1], tasks, places, sums, marks, lengths, task_lengths, indices, values, n_threads
        )
        yield lengths, [(indices[p : p + n], values[p : p + n]) for p, n in zip(places.tolist(), task_lengths.tolist())]


def _as_kernel_csr(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    rows: np.ndarray | None = None,
    columns: np.ndarray | None = None,
) -> tuple[Any, ...]:
    return (
        np.ascontiguousarray(indptr, dtype=np.int64),
        indices,
        data.view(np.uint8).reshape(len(data), data.itemsize),
        rows,
        columns,
    )


def transpose(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, n_columns: int, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The transpose of a CSR matrix with unsigned data."""
    from ._kernels.rows import csr_transpose

    out = (np.zeros(n_columns + 1, dtype=np.int64), np.empty(len(indices), dtype=np.int32), np.empty_like(data))
    csr_transpose(
        np.ascontiguousarray(indptr, dtype=np.int64),
        indices,
        data,
        n_columns,
        *out,
        np.empty((n_threads, max(n_columns, 1)), dtype=np.int64),
        n_threads,
    )
    return out


def window_weights(size: int, weight: Any) -> tuple[np.ndarray, int]:
    """Integer weights of the distances 1 .. size and the scale to divide sums by.

    Parameters
    ----------
    size : int
    weight : {"flat", "harmonic", "linear"} or array_like of float, shape (size,)
        Flat 1, harmonic 1/k, linear (size - k + 1)/size.

    Returns
    -------
    weights : ndarray of uint64 (exact: true weight = weights / scale), or float64 with scale 1 for a given array that
        holds other than whole numbers
    scale : int

    Raises
    ------
    ValueError
        For an unknown name, an array of another length, or harmonic beyond distance 20.
    """
    if isinstance(weight, str):
        if weight == "flat":
            return np.ones(size, dtype=np.uint64), 1
        if weight == "linear":
            return np.arange(size, 0, -1).astype(np.uint64), size
        if weight == "harmonic":
            if size > 20:
                raise ValueError(
                    f"harmonic weights are exact only up to window 20, not {size}; count with "
                    f"max_lag={size} and ask for window(size, 'harmonic') from that store"
                )
            scale = math.lcm(*range(1, size + 1))
            return np.array([scale // k for k in range(1, size + 1)], dtype=np.uint64), scale
        raise ValueError(f"weight is {weight!r}; expected 'flat', 'harmonic', 'linear' or an array g(1..size)")
    try:
        values = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"weight is {weight!r}; expected 'flat', 'harmonic', 'linear' or {size} numbers") from None
    if np.abs(values).max(initial=0) > 1e100:
        raise ValueError(f"weight holds {np.abs(values).max():g}; expected numbers of at most 1e100")
    if values.shape != (size,) or not np.isfinite(values).all():
        raise ValueError(f"weight has shape {values.shape}; expected {size} finite numbers g(1), ..., g({size})")
    if ((values >= 0) & (values <= _EXACT) & (values == np.floor(values))).all():
        return values.astype(np.uint64), 1
    return values, 1
