"""Steady-state filter and smoother where some words are missing: lanes side by side, one matrix product a time step.

A lane is a stretch of tokens, ``begins[b] .. begins[b] + lengths[b]`` (rows of `ids` and of `states`), lanes sorted by
falling length. It is walked from its first row on (direction +1: filter) or from its last row back (-1: smoother). A
call advances all lanes from step `t0` to `t1`, so that long work can be cut into slices. Numba; no Python objects; the
caller holds BLAS at one thread.
"""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit()
def advance_lanes(table, ids, missing, begins, lengths, direction, RT, AT, t0, t1, X, Y, states):
    """x <- R x + table[id], or x <- A x where the id is `missing`, each x written to its row.

    IN      table (n, h): what an id adds; ids (T,) int32/int64, or (0,): every row adds table[row]
            begins (B,) int64, lengths (B,) int64 falling; RT, AT (h, h): transposes of R and A, C order
    IN/OUT  X (B, h): states of the lanes before t0, after t1
    OUT     Y (B, h): scratch;  states (T, h), which may be `table`
    """
    n, h = len(begins), X.shape[1]
    for t in range(t0, t1):
        while n > 0 and lengths[n - 1] <= t:
            n -= 1
        if n == 0:
            break
        np.dot(X[:n], RT, Y[:n])
        for b in range(n):
            at = begins[b] + (t if direction > 0 else lengths[b] - 1 - t)
            word = np.int64(ids[at]) if len(ids) > 0 else at
            if word == missing:
                Y[b] = np.dot(X[b], AT)
            else:
                for j in range(h):
                    Y[b, j] += table[word, j]
            for j in range(h):
                X[b, j] = Y[b, j]
                states[at, j] = Y[b, j]


@jit()
def add_carries(ids, missing, begins, lengths, direction, RT, AT, t0, t1, Z, Y, states):
    """z <- R z, or z <- A z where the id is `missing`, added to its row: what a lane owes to the state before it.

    IN      as for `advance_lanes`
    IN/OUT  Z (B, h): carries;  states (T, h)
    OUT     Y (B, h): scratch
    """
    n, h = len(begins), Z.shape[1]
    for t in range(t0, t1):
        while n > 0 and lengths[n - 1] <= t:
            n -= 1
        if n == 0:
            break
        np.dot(Z[:n], RT, Y[:n])
        for b in range(n):
            at = begins[b] + (t if direction > 0 else lengths[b] - 1 - t)
            if len(ids) > 0 and ids[at] == missing:
                Y[b] = np.dot(Z[b], AT)
            for j in range(h):
                Z[b, j] = Y[b, j]
                states[at, j] += Y[b, j]
