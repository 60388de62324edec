"""Filtered, smoothed and predicted states of many sequences, or of one long one cut into pieces.

Pieces run side by side as lanes of one matrix product a step. A piece starts from zero; what the state before it adds
is H^t times a carry, which dies out: it is added until it no longer changes a digit, and handed on to the next piece
where it lives longer than the piece. The result does not depend on the cut beyond rounding, nor on threads at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .._threads import resolve_threads, single_threaded_blas
from .kalman import SteadyState

LANES = 512
SLICE_FLOPS = 2e9  # about a tenth of a second: how long a kernel may run before it lets Ctrl-C in
MISSING = -2
CHECK_EVERY = 16
ROWS = 8192  # rows of one plain product


class Recursion(NamedTuple):
    """Coefficients of the recursions in the dtype of the states; arrays of shape (h, h)."""

    A: np.ndarray
    H: np.ndarray
    J: np.ndarray
    F: np.ndarray

    @classmethod
    def of(cls, A: np.ndarray, state: SteadyState, dtype: Any) -> Recursion:
        return cls(*(np.ascontiguousarray(X, dtype=dtype) for X in (A, state.H, state.J, state.F)))


class Pieces(NamedTuple):
    """Sequences cut into pieces; int64 arrays of shape (n_pieces,), in the order of the text.

    `first` and `last` say whether a piece begins or ends its sequence.
    """

    begins: np.ndarray
    lengths: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def cut(cls, offsets: np.ndarray, length: int | None = None) -> Pieces:
        total = int(offsets[-1])
        if length is None:
            length = int(np.clip(-(-total // (2 * LANES)), 64, 8192))
        sizes = np.diff(offsets)
        counts = -(-sizes // length)
        owner = np.repeat(np.arange(len(sizes)), counts)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = offsets[:-1][owner] + number * length
        return cls(begins, np.minimum(length, offsets[1:][owner] - begins), number == 0, number == counts[owner] - 1)


def filter_sequences(
    recursion: Recursion,
    table: np.ndarray,
    ids: np.ndarray,
    offsets: np.ndarray,
    out: np.ndarray,
    n_threads: int | None = None,
    piece_length: int | None = None,
) -> None:
    """Filtered states xhat_t = H xhat_{t-1} + table[id_t], each sequence from zero.

    Parameters
    ----------
    recursion : Recursion
    table : ndarray, shape (n, h)
        What each id adds to the state, K w.
    ids : ndarray of int32 or int64, shape (T,)
        Rows of `table`; `MISSING` leaves the prediction xhat_t = A xhat_{t-1}.
    offsets : ndarray of int64, shape (n_sequences + 1,)
    out : ndarray, shape (T, h)
        Written in place; may be a memory map.
    """
    starts = np.zeros((0, out.shape[1]), out.dtype)
    _walk(recursion.H, recursion.A, table, ids, offsets, +1, starts, out, n_threads, piece_length)


def smooth_sequences(
    recursion: Recursion,
    offsets: np.ndarray,
    states: np.ndarray,
    n_threads: int | None = None,
    piece_length: int | None = None,
) -> None:
    """Turn filtered states into smoothed ones in place: xbar_t = J xbar_{t+1} + F xhat_t, xbar_T = xhat_T."""
    ends = offsets[1:][np.diff(offsets) > 0] - 1
    starts = states[ends] @ recursion.A.T  # so that the last row stays: J A x + F x = x
    FT = np.ascontiguousarray(recursion.F.T)

    def turn(rows: slice, stopped: Callable[[], bool]) -> None:
        if not stopped():
            states[rows] = states[rows] @ FT

    _run(turn, [slice(first, first + ROWS) for first in range(0, len(states), ROWS)], n_threads)
    everything = np.zeros(0, dtype=np.int32)
    _walk(recursion.J, recursion.A, states, everything, offsets, -1, starts, states, n_threads, piece_length)


def _walk(
    R: np.ndarray,
    A: np.ndarray,
    table: np.ndarray,
    ids: np.ndarray,
    offsets: np.ndarray,
    direction: int,
    starts: np.ndarray,
    states: np.ndarray,
    n_threads: int | None,
    piece_length: int | None,
) -> None:
    """x <- R x + table[id] along every sequence, forwards or backwards, into `states`.

    `starts` holds the x before the first step of each sequence that is not empty, in their order; none means zero.
    """
    from lagwise._kernels import kalman_blocks as kernels

    pieces = Pieces.cut(offsets, piece_length)
    RT, AT = np.ascontiguousarray(R.T), np.ascontiguousarray(A.T)
    h, leads = states.shape[1], pieces.first if direction > 0 else pieces.last
    order = np.cumsum(leads) - 1

    def local(lanes: np.ndarray, stopped: Callable[[], bool]) -> None:
        begins, lengths, leading = pieces.begins[lanes], pieces.lengths[lanes], leads[lanes]
        X = np.zeros((len(lanes), h), states.dtype)
        if len(starts):
            X[leading] = starts[order[lanes[leading]]]
        Y = np.empty_like(X)
        for t0, t1 in _slices(len(lanes), lengths[0], 2 * h * h):
            if stopped():
                return
            kernels.advance_lanes(table, ids, MISSING, begins, lengths, direction, RT, AT, t0, t1, X, Y, states)

    def advance(lanes: np.ndarray, t0: int, t1: int, Z: np.ndarray, Y: np.ndarray) -> None:
        kernels.add_carries(
            ids, MISSING, pieces.begins[lanes], pieces.lengths[lanes], direction, RT, AT, t0, t1, Z, Y, states
        )

    _run(local, _groups(pieces.lengths), n_threads)
    heirs = np.flatnonzero(~leads)
    before = heirs - direction
    owed = states[pieces.begins[before] + (pieces.lengths[before] - 1 if direction > 0 else 0)]
    _settle(advance, pieces, heirs, owed, direction, n_threads)


def predict_from_filtered(recursion: Recursion, offsets: np.ndarray, states: np.ndarray) -> None:
    """Turn filtered states into one-step predictions in place: row t becomes A xhat_{t-1}, zero at a beginning."""
    step = max(1, int(SLICE_FLOPS / (2 * states.shape[1] ** 2)) // 4)
    starts = offsets[:-1][np.diff(offsets) > 0]
    for stop in range(len(states), 0, -step):  # from the end, so that what is read has not been written
        start = max(stop - step, 0)
        source = states[max(start - 1, 0) : stop - 1] @ recursion.A.T
        states[max(start, 1) : stop] = source
    states[starts] = 0


def _groups(lengths: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(-lengths, kind="stable")
    return [order[i : i + LANES] for i in range(0, len(order), LANES)]


def _slices(n_lanes: int, longest: int, flops: int) -> list[tuple[int, int]]:
    step = max(CHECK_EVERY, int(SLICE_FLOPS / (flops * max(n_lanes, 1))))
    return [(t, min(t + step, int(longest))) for t in range(0, int(longest), step)]


def _run(work: Callable[[Any, Callable[[], bool]], None], groups: list[Any], n_threads: int | None) -> None:
    """Run `work` on every group (lanes or rows); an interrupt stops the others at their next slice."""
    with single_threaded_blas():
        threads = min(resolve_threads(n_threads), len(groups))
        if threads < 2:
            for lanes in groups:
                work(lanes, lambda: False)
            return
        stop = threading.Event()
        pool = ThreadPoolExecutor(threads)
        try:
            for future in [pool.submit(work, lanes, stop.is_set) for lanes in groups]:
                future.result()
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _settle(
    advance: Callable[[np.ndarray, int, int, np.ndarray, np.ndarray], None],
    pieces: Pieces,
    heirs: np.ndarray,
    carries: np.ndarray,
    direction: int,
    n_threads: int | None,
) -> None:
    """Add the carries to the pieces `heirs`; what outlives a piece goes on to the piece after (before) it."""
    carries = np.array(carries)
    if len(heirs) == 0:
        return
    negligible = 0.01 * np.finfo(carries.dtype).eps * max(float(np.abs(carries).max()), np.finfo(carries.dtype).tiny)
    while len(heirs):
        left = np.zeros_like(carries)

        def work(
            part: np.ndarray,
            stopped: Callable[[], bool],
            heirs: np.ndarray = heirs,
            carries: np.ndarray = carries,
            left: np.ndarray = left,
        ) -> None:
            Z = np.ascontiguousarray(carries[part])
            Y = np.empty_like(Z)
            lanes, t = heirs[part], 0
            lengths = pieces.lengths[lanes]
            while t < lengths[0] and not stopped():
                advance(lanes, t, t + CHECK_EVERY, Z, Y)
                t += CHECK_EVERY
                if np.abs(Z).max() <= negligible:
                    return
            left[part] = Z

        _run(work, _groups(pieces.lengths[heirs]), n_threads)
        alive = np.abs(left).max(axis=1) > negligible
        alive &= ~(pieces.last if direction > 0 else pieces.first)[heirs]
        heirs, carries = heirs[alive] + direction, left[alive]
