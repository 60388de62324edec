"""Steady-state filter and smoother over blocks of sequences: lanes side by side, one matrix product a time step.

A lane is a stretch of tokens, ``begins[b] .. begins[b] + lengths[b]`` (rows of `ids` and of `states`), lanes sorted by
falling length. A call advances all lanes from step `t0` to `t1`, so that long work can be cut into slices. Numba; no
Python objects; the caller holds BLAS at one thread.
"""

from __future__ import annotations

import numpy as np

from lagwise._jit import njit


@njit
def filter_lanes(table, ids, begins, lengths, missing, HT, AT, t0, t1, X, Y, states):
    """x_t = H x_{t-1} + table[id_t]; x_t = A x_{t-1} where the id is `missing`.

    IN      table (n, h), ids (T,) int32/int64, begins (B,) int64, lengths (B,) int64 falling, missing int
            HT, AT (h, h): transposes of H and A, C order
    IN/OUT  X (B, h): states of the lanes before t0, after t1
    OUT     Y (B, h): scratch;  states (T, h): rows begins[b] + t0 .. t1 are written
    """
    n, h = len(begins), X.shape[1]
    for t in range(t0, t1):
        while n > 0 and lengths[n - 1] <= t:
            n -= 1
        if n == 0:
            break
        np.dot(X[:n], HT, Y[:n])
        for b in range(n):
            at = begins[b] + t
            word = ids[at]
            if word == missing:
                Y[b] = np.dot(X[b], AT)
            else:
                for j in range(h):
                    Y[b, j] += table[word, j]
            for j in range(h):
                X[b, j] = Y[b, j]
                states[at, j] = Y[b, j]


@njit
def smooth_lanes(begins, lengths, JT, FT, u0, u1, X, Y, W, states):
    """xbar_t = J xbar_{t+1} + F xhat_t, backwards; step u of a lane is its row lengths[b] - 1 - u.

    IN      begins (B,) int64, lengths (B,) int64 falling; JT, FT (h, h): transposes of J and F, C order
    IN/OUT  X (B, h): smoothed states of the lanes after their last row, then of row u1 - 1
            states (T, h): filtered states, replaced by smoothed ones
    OUT     Y, W (B, h): scratch
    """
    n, h = len(begins), X.shape[1]
    for u in range(u0, u1):
        while n > 0 and lengths[n - 1] <= u:
            n -= 1
        if n == 0:
            break
        for b in range(n):
            at = begins[b] + lengths[b] - 1 - u
            for j in range(h):
                W[b, j] = states[at, j]
        np.dot(X[:n], JT, Y[:n])
        np.dot(W[:n], FT, X[:n])
        for b in range(n):
            at = begins[b] + lengths[b] - 1 - u
            for j in range(h):
                X[b, j] += Y[b, j]
                states[at, j] = X[b, j]


@njit
def add_carries_forward(ids, begins, lengths, missing, HT, AT, t0, t1, Z, Y, states):
    """z_t = H z_{t-1} (A where missing) added to the states: what a lane owes to the state before its first row.

    IN/OUT  Z (B, h): carries;  states (T, h)
    OUT     Y (B, h): scratch
    """
    n, h = len(begins), Z.shape[1]
    for t in range(t0, t1):
        while n > 0 and lengths[n - 1] <= t:
            n -= 1
        if n == 0:
            break
        np.dot(Z[:n], HT, Y[:n])
        for b in range(n):
            at = begins[b] + t
            if ids[at] == missing:
                Y[b] = np.dot(Z[b], AT)
            for j in range(h):
                Z[b, j] = Y[b, j]
                states[at, j] += Y[b, j]


@njit
def add_carries_backward(begins, lengths, JT, u0, u1, Z, Y, states):
    """z_t = J z_{t+1} added to the states: what a lane owes to the smoothed state after its last row.

    IN/OUT  Z (B, h): carries;  states (T, h)
    OUT     Y (B, h): scratch
    """
    n, h = len(begins), Z.shape[1]
    for u in range(u0, u1):
        while n > 0 and lengths[n - 1] <= u:
            n -= 1
        if n == 0:
            break
        np.dot(Z[:n], JT, Y[:n])
        for b in range(n):
            at = begins[b] + lengths[b] - 1 - u
            for j in range(h):
                Z[b, j] = Y[b, j]
                states[at, j] += Y[b, j]
