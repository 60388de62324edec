"""Smoothed states as the sum of a forward and a backward recursion, each driven by the words alone.

A filter followed by the smoother's xbar_t = J xbar_{t+1} + F xhat_t takes 6 h^2 flops a token. With P = J P H + F, which
is Sigma_s Sigma_0^{-1}, and u_t = K w_t the same states are

    xbar_t = f_t + J b_{t+1},   f_t = (P H P^{-1}) f_{t-1} + P u_t,   b_t = J b_{t+1} + P u_t,

4 h^2 flops, and 2 h^2 where both matrices are triangles, as a fit of text leaves them (`coordinates`): substitute
f_t = P xhat_t into the smoother. A sequence ends with xbar_T = xhat_T, that is J b_{T+1} = (P^{-1} - 1) f_T. P says how
much of the filter's uncertainty later words leave; its condition is 2 to 14 for models of text, and where it is large
the plain pair of recursions serves better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..linalg.stein import solve_stein
from .kalman import SteadyState
from .pieces import Pieces, groups, padded, run
from .recurrence import Recurrence

WORST_CONDITION = 64.0  # two digits of float32


class TwoSided(NamedTuple):
    """Coefficients of the two recursions; arrays of shape (h, h) in the dtype of the states, P in float64."""

    R: np.ndarray
    J: np.ndarray
    E: np.ndarray
    P: np.ndarray

    @classmethod
    def of(cls, state: SteadyState, dtype: Any) -> TwoSided | None:
        """R = P H P^{-1} and E = P^{-1} - 1; None where P is too badly conditioned."""
        P = solve_stein(state.J, state.H, state.F)
        if not np.linalg.cond(P) <= WORST_CONDITION:
            return None
        inverse = np.linalg.inv(P)
        scale = np.sqrt(np.maximum(np.diag(state.Sigma_s), 0))
        R, J = (without_dust(X, scale, dtype) for X in (P @ state.H @ inverse, state.J))
        return cls(R, J, (inverse - np.eye(len(P))).astype(dtype), P)


def without_dust(X: np.ndarray, scale: np.ndarray, dtype: Any) -> np.ndarray:
    """X (h, h) in the dtype, zero where it is less than rounding of the largest: exact triangles in their coordinates.

    Entries are compared in the units `scale` (h,) of the coordinates. The steady state itself is good to 1e-13.
    """
    if scale.all():
        size = np.abs(X) * (scale / scale[:, None])
        X = np.where(size > max(np.finfo(dtype).eps, 1e-13) * size.max(), X, 0)
    return X.astype(dtype)


def smooth_words(
    coefficients: TwoSided,
    table: np.ndarray,
    ids: np.ndarray,
    offsets: np.ndarray,
    out: np.ndarray,
    n_threads: int | None = None,
    piece_length: int | None = None,
) -> None:
    """Smoothed states of every sequence.

    Parameters
    ----------
    coefficients : TwoSided
    table : ndarray, shape (n, h)
        P u of each id.
    ids : ndarray of int32 or int64, shape (T,)
        Rows of `table`; none may be missing.
    offsets : ndarray of int64, shape (n_sequences + 1,)
    out : ndarray, shape (T, h)
        Written in place; may be a memory map.
    """
    h, dtype = out.shape[1], out.dtype
    forward, backward = Recurrence(coefficients.R, dtype), Recurrence(coefficients.J, dtype)
    pieces, ids = Pieces.cut(offsets, piece_length), np.ascontiguousarray(ids, dtype=np.int32)
    whole = pieces.first & pieces.last
    place = np.cumsum(~whole) - 1  # of the pieces that owe something to others
    ahead, back = np.zeros((2, int(place[-1]) + 1 if len(place) else 0, h), dtype)
    ET = coefficients.E.T

    def both_ways(lanes: np.ndarray, stopped: Callable[[], bool]) -> None:
        """Both recursions from zero, one after the other while the rows are in the cache."""
        begins, lengths, alone = pieces.begins[lanes], pieces.lengths[lanes], whole[lanes]
        x = padded(len(lanes), out)
        own = x[: len(lanes)]
        forward.walk(table, ids, begins, lengths, 1, x, out, stopped)
        ahead[place[lanes[~alone]]] = own[~alone]
        end = begins[alone] + lengths[alone] - 1
        turned = own[alone] @ ET
        out[end] += turned
        own[:] = 0
        own[alone] = turned + table[ids[end]]
        backward.walk(table, ids, begins, lengths - alone, -1, x, out, stopped, add=True)
        back[place[lanes[~alone]]] = own[~alone]

    order = np.lexsort((whole, -pieces.lengths))  # so that the lengths fall both with and without the last rows
    run(both_ways, groups(order), n_threads)
    if not len(ahead):
        return
    heirs = np.flatnonzero(~pieces.first)
    forward.settle(pieces, heirs, ahead[place[heirs - 1]], 1, out, n_threads)
    # The last row of a piece that ends its sequence holds f_T by now: nothing comes to it from behind yet.
    ends = ~whole & pieces.last
    rows = pieces.begins[ends] + pieces.lengths[ends] - 1
    turned = out[rows] @ ET
    out[rows] += turned
    heirs = np.flatnonzero(~whole)
    owed = np.zeros((len(heirs), h), dtype)
    inner = ~pieces.last[heirs]
    owed[~inner] = turned
    owed[inner] = back[place[heirs[inner] + 1]]
    shorter = pieces._replace(lengths=pieces.lengths - ends)
    backward.settle(shorter, heirs, owed, -1, out, n_threads)
