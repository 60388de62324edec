"""Filtered, smoothed and predicted states of many sequences, or of one long one cut into pieces (`lds.pieces`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .kalman import SteadyState
from .pieces import SLICE_FLOPS, Pieces, groups, longest_first, run, run_rows, settle, slices
from .recurrence import Recurrence

MISSING = -2
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
    if not np.any(ids == MISSING):
        Recurrence(recursion.H, out.dtype).run(table, ids, offsets, out, n_threads, piece_length)
        return
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

    def turn(rows: slice) -> None:
        states[rows] = states[rows] @ FT

    run_rows(turn, len(states), ROWS, n_threads)
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
        for t0, t1 in slices(len(lanes), lengths[0], 2 * h * h):
            if stopped():
                return
            kernels.advance_lanes(table, ids, MISSING, begins, lengths, direction, RT, AT, t0, t1, X, Y, states)

    def advance(lanes: np.ndarray, t0: int, t1: int, Z: np.ndarray) -> None:
        begins, lengths = pieces.begins[lanes], pieces.lengths[lanes]
        kernels.add_carries(ids, MISSING, begins, lengths, direction, RT, AT, t0, t1, Z, np.empty_like(Z), states)

    run(local, groups(longest_first(pieces.lengths)), n_threads)
    heirs = np.flatnonzero(~leads)
    before = heirs - direction
    owed = states[pieces.begins[before] + (pieces.lengths[before] - 1 if direction > 0 else 0)]
    settle(advance, pieces, heirs, owed, direction, n_threads)


def predict_from_filtered(recursion: Recursion, offsets: np.ndarray, states: np.ndarray) -> None:
    """Turn filtered states into one-step predictions in place: row t becomes A xhat_{t-1}, zero at a beginning."""
    step = max(1, int(SLICE_FLOPS / (2 * states.shape[1] ** 2)) // 4)
    starts = offsets[:-1][np.diff(offsets) > 0]
    for stop in range(len(states), 0, -step):  # from the end, so that what is read has not been written
        start = max(stop - step, 0)
        source = states[max(start - 1, 0) : stop - 1] @ recursion.A.T
        states[max(start, 1) : stop] = source
    states[starts] = 0
