"""Forward-backward of one sequence in log space, exact where numbers underflow.

Each row is kept as logarithms with largest entry 0 and its own log-scale, summed with compensation. A step is a product
of probabilities where that loses nothing, and a log-sum-exp over the predecessors for each entry where it would.

Shapes: K states; T symbols; `table` (R, K) log emissions, position t uses table[rows[t]]; pairs of order-2 states lie
at [previous, state]. A slice of times t0 .. t1 - 1 is worked on in one call, so that a caller can stop between calls.
Rows are set to -inf once a sequence is impossible.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import jit

_SAFE = 1e-280  # a sum of products above this has lost less than K * 1e-28 of itself to underflow


@jit()
def _accumulate(scale, amount):
    # Neumaier's sum in scale[0] with its error in scale[1]; -inf stays -inf.
    if amount == -np.inf or scale[0] == -np.inf:
        scale[0] = -np.inf
        scale[1] = 0.0
        return
    total = scale[0] + amount
    if abs(scale[0]) >= abs(amount):
        scale[1] += (scale[0] - total) + amount
    else:
        scale[1] += (amount - total) + scale[0]
    scale[0] = total


@jit()
def _normalize(row, scale):
    # Take the largest entry out of a row of logarithms.
    top = row.max()
    _accumulate(scale, top)
    if top > -np.inf:
        for k in range(row.size):
            row[k] -= top


@jit()
def _sum_rows(logs, weights, log_weights, out):
    # out[j] = log sum_i exp(logs[i]) weights[i, j];  logs (n,), weights (n, m), out (m,)
    n, m = weights.shape
    out[:] = 0.0
    for i in range(n):
        if logs[i] > -700.0:
            p = math.exp(logs[i])
            for j in range(m):
                out[j] += p * weights[i, j]
    for j in range(m):
        if out[j] > _SAFE:
            out[j] = math.log(out[j])
            continue
        top = -np.inf
        for i in range(n):
            top = max(top, logs[i] + log_weights[i, j])
        if top > -np.inf:
            total = 0.0
            for i in range(n):
                total += math.exp(logs[i] + log_weights[i, j] - top)
            top += math.log(total)
        out[j] = top


@jit()
def log_forward1(log_start, transition, log_transition, table, rows, t0, t1, state, scale, out, scales):
    """IN/OUT state (K,) of time t0 - 1 -> t1 - 1, scale (2,); OUT out (t1 - t0, K), scales (t1 - t0,) cumulative."""
    for t in range(t0, t1):
        row = out[t - t0]
        if t == 0:
            row[:] = log_start
        else:
            _sum_rows(state, transition, log_transition, row)
        row += table[rows[t]]
        _normalize(row, scale)
        scales[t - t0] = scale[0] + scale[1]
        state[:] = row


@jit()
def log_backward1(log_final, transposed, log_transposed, table, rows, t0, t1, length, state, scale, out, scales):
    """IN/OUT state (K,) beta of time t1 -> t0, scale (2,); OUT out, scales as in log_forward1."""
    for t in range(t1 - 1, t0 - 1, -1):
        row = out[t - t0]
        if t == length - 1:
            row[:] = log_final
        else:
            state += table[rows[t + 1]]
            top = state.max()
            if top > -np.inf:
                state -= top
            _accumulate(scale, top)
            _sum_rows(state, transposed, log_transposed, row)
        _normalize(row, scale)
        scales[t - t0] = scale[0] + scale[1]
        state[:] = row


@jit()
def log_forward2(log_start, second, log_second, middle, log_middle, table, rows, t0, t1, state, scale, out, scales):
    """Order 2: state (K, K), out (t1 - t0, K, K); middle[b] = A[:, b, :]. Time 0 uses row 0 of its pair matrix alone."""
    K = log_start.size
    column = np.empty(K)
    for t in range(t0, t1):
        row = out[t - t0]
        if t == 0:
            row[:] = -np.inf
            row[0] = log_start
        elif t == 1:
            for b in range(K):
                for c in range(K):
                    row[b, c] = state[0, b] + log_second[b, c]
        else:
            for b in range(K):
                for a in range(K):
                    column[a] = state[a, b]
                top = column.max()
                if top > -np.inf:
                    column -= top
                    _sum_rows(column, middle[b], log_middle[b], row[b])
                    row[b] += top
                else:
                    row[b] = -np.inf
        for b in range(K):
            row[b] += table[rows[t]]
        _normalize(row.reshape(K * K), scale)
        scales[t - t0] = scale[0] + scale[1]
        state[:] = row


@jit()
def log_backward2(
    log_final1,
    log_final,
    second,
    log_second,
    flipped,
    log_flipped,
    table,
    rows,
    t0,
    t1,
    length,
    state,
    scale,
    out,
    scales,
):
    """Order 2: state (K, K) beta of time t1 -> t0; flipped[b] = A[:, b, :]' ; second is not transposed."""
    K = log_final1.size
    values = np.empty(K)
    line = np.empty(K)
    for t in range(t1 - 1, t0 - 1, -1):
        row = out[t - t0]
        if t == length - 1:
            if t == 0:
                row[:] = -np.inf
                row[0] = log_final1
            else:
                row[:] = log_final
        else:
            for b in range(K):
                state[b] += table[rows[t + 1]]
            top = state.max()
            if top > -np.inf:
                state -= top
            _accumulate(scale, top)
            if t == 0:
                row[:] = -np.inf
            for b in range(K):
                if t == 0:
                    best = -np.inf
                    for c in range(K):
                        best = max(best, state[b, c] + log_second[b, c])
                    if best > -np.inf:
                        total = 0.0
                        for c in range(K):
                            total += math.exp(state[b, c] + log_second[b, c] - best)
                        best += math.log(total)
                    row[0, b] = best
                    continue
                top = state[b].max()
                if top == -np.inf:
                    row[:, b] = -np.inf
                    continue
                for c in range(K):
                    values[c] = state[b, c] - top
                _sum_rows(values, flipped[b], log_flipped[b], line)
                for a in range(K):
                    row[a, b] = line[a] + top
        _normalize(row.reshape(K * K), scale)
        scales[t - t0] = scale[0] + scale[1]
        state[:] = row


@jit()
def _weights(left, right, out):
    # out = exp(left + right) over its sum; the sum is positive for a possible sequence
    top = -np.inf
    for k in range(left.size):
        top = max(top, left[k] + right[k])
    total = 0.0
    for k in range(left.size):
        out[k] = math.exp(left[k] + right[k] - top)
        total += out[k]
    for k in range(left.size):
        out[k] /= total


@jit()
def add_counts1(
    log_transition,
    table,
    rows,
    t0,
    t1,
    length,
    before,
    alpha,
    beta,
    with_sums,
    start,
    transition,
    final,
    emission,
    posterior,
):
    """Add expected counts of times t0 .. t1 - 1; IN before (K,) alpha of t0 - 1, alpha, beta (t1 - t0, K) log rows.

    IN/OUT start (K,), transition (K, K), final (K,), emission (R, K); OUT posterior (t1 - t0, K).
    """
    K = before.size
    joint = np.empty((K, K))
    flat = joint.reshape(K * K)
    zero = np.zeros(K * K)
    for t in range(t0, t1):
        gamma = posterior[t - t0]
        _weights(alpha[t - t0], beta[t - t0], gamma)
        if not with_sums:
            continue
        emission[rows[t]] += gamma
        if t == 0:
            start += gamma
        if t == length - 1:
            final += gamma
        if t > 0:
            previous = before if t == t0 else alpha[t - t0 - 1]
            for i in range(K):
                for j in range(K):
                    joint[i, j] = previous[i] + log_transition[i, j] + table[rows[t], j] + beta[t - t0, j]
            _weights(flat, zero, flat)
            transition += joint


@jit()
def add_counts2(
    log_second,
    log_transition,
    table,
    rows,
    t0,
    t1,
    length,
    before,
    alpha,
    beta,
    with_sums,
    start,
    second,
    transition,
    final1,
    final,
    emission,
    posterior,
):
    """Order 2: before (K, K), alpha, beta (t1 - t0, K, K); transition (K, K, K), final1 (K,), final (K, K)."""
    K = log_second.shape[0]
    pair = np.empty((K, K))
    triple = np.empty((K, K, K))
    flat = triple.reshape(K * K * K)
    zero = np.zeros(K * K * K)
    for t in range(t0, t1):
        _weights(alpha[t - t0].reshape(K * K), beta[t - t0].reshape(K * K), pair.reshape(K * K))
        gamma = posterior[t - t0]
        gamma[:] = 0.0
        for a in range(K):
            gamma += pair[a]
        if not with_sums:
            continue
        emission[rows[t]] += gamma
        if t == 0:
            start += gamma
        elif t == 1:
            second += pair
        if t == length - 1:
            if t == 0:
                final1 += gamma
            else:
                final += pair
        if t > 1:
            previous = before if t == t0 else alpha[t - t0 - 1]
            for a in range(K):
                for b in range(K):
                    for c in range(K):
                        triple[a, b, c] = (
                            previous[a, b] + log_transition[a, b, c] + table[rows[t], c] + beta[t - t0, b, c]
                        )
            _weights(flat, zero, flat)
            transition += triple
