"""Best paths of one sequence, without back-pointers: a slice of score rows is kept and the path is read back from it.

Shapes as in hmm_exact: `table` (R, K) log emissions, position t uses table[rows[t]]. Each row of scores has its largest
entry taken out. The predecessor on the path is the lowest state that reaches the row's value: ties go to the lowest.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

_FAST = {"nnan", "nsz"}  # no NaN arises from sums of finite numbers and -inf; lets maxima become vector instructions


@jit(fastmath=_FAST)
def _best(scores, weights, out):
    # out[j] = max_i scores[i] + weights[i, j], four predecessors at a time
    n, m = weights.shape
    for j in range(m):
        out[j] = -np.inf
    i = 0
    while i + 4 <= n:
        a, b, c, d = scores[i], scores[i + 1], scores[i + 2], scores[i + 3]
        for j in range(m):
            x = max(a + weights[i, j], b + weights[i + 1, j])
            y = max(c + weights[i + 2, j], d + weights[i + 3, j])
            out[j] = max(out[j], max(x, y))
        i += 4
    while i < n:
        a = scores[i]
        for j in range(m):
            out[j] = max(out[j], a + weights[i, j])
        i += 1


@jit(fastmath=_FAST)
def _settle(row, emission):
    # row += emission with the largest entry taken out
    top = -np.inf
    for j in range(row.size):
        row[j] += emission[j]
        top = max(top, row[j])
    if top > -np.inf:
        for j in range(row.size):
            row[j] -= top
    return top


@jit()
def viterbi_forward1(log_start, log_transition, table, rows, t0, t1, state, out):
    """IN/OUT state (K,) of time t0 - 1 -> t1 - 1; OUT out (t1 - t0, K). Returns the first impossible time or -1."""
    for t in range(t0, t1):
        row = out[t - t0]
        if t == 0:
            row[:] = log_start
        elif t == t0:
            _best(state, log_transition, row)
        else:
            _best(out[t - t0 - 1], log_transition, row)
        if _settle(row, table[rows[t]]) == -np.inf:
            return t
    state[:] = out[t1 - t0 - 1]
    return -1


@jit()
def _lowest_best(scores, weights, column):
    best = -np.inf
    where = 0
    for i in range(scores.size):
        value = scores[i] + weights[i, column]
        if value > best:
            best = value
            where = i
    return where


@jit()
def viterbi_backward1(log_transition, t0, t1, state, scores, path):
    """Fill path[t0 - 1 .. t1 - 2] given path[t1 - 1]; IN state (K,) scores of t0 - 1, scores (t1 - t0, K)."""
    for t in range(t1 - 1, t0 - 1, -1):
        if t == 0:
            break
        previous = state if t == t0 else scores[t - t0 - 1]
        path[t - 1] = _lowest_best(previous, log_transition, path[t])


@jit()
def viterbi_forward2(log_start, log_second, log_middle, table, rows, t0, t1, state, out):
    """Order 2: state (K, K), out (t1 - t0, K, K) at [previous, state]; log_middle[b] = log A[:, b, :]."""
    K = log_start.size
    column = np.empty(K)
    for t in range(t0, t1):
        row = out[t - t0]
        previous = state if t == t0 else out[t - t0 - 1]
        if t == 0:
            row[:] = -np.inf
            row[0] = log_start
        elif t == 1:
            for b in range(K):
                for c in range(K):
                    row[b, c] = previous[0, b] + log_second[b, c]
        else:
            for b in range(K):
                for a in range(K):
                    column[a] = previous[a, b]
                _best(column, log_middle[b], row[b])
        top = -np.inf
        for b in range(K):
            for c in range(K):
                row[b, c] += table[rows[t], c]
                top = max(top, row[b, c])
        if top == -np.inf:
            return t
        row -= top
    state[:] = out[t1 - t0 - 1]
    return -1


@jit()
def viterbi_backward2(log_middle, t0, t1, state, scores, path):
    """Fill path[t0 - 2 .. t1 - 3] given path[t1 - 2], path[t1 - 1]; scores (t1 - t0, K, K), state of time t0 - 1."""
    for t in range(t1 - 1, t0 - 1, -1):
        if t < 2:
            break
        previous = state if t == t0 else scores[t - t0 - 1]
        path[t - 2] = _lowest_best(previous[:, path[t - 1]], log_middle[path[t - 1]], path[t])


@jit()
def _merge(scores, weights, k, heads, best, origin):
    """The k largest of scores[i, r] + weights[i], falling in r for each i; ties: lower i, then lower r. OUT best, origin (k,).

    origin is i * k + r, or -1 where there are fewer; heads (K,) is scratch.
    """
    heads[:] = 0
    for place in range(k):
        top, chosen = -np.inf, -1
        for i in range(heads.size):
            if heads[i] < k:
                value = scores[i, heads[i]] + weights[i]
                if value > top:
                    top, chosen = value, i
        best[place] = top
        origin[place] = -1 if chosen < 0 else chosen * k + heads[chosen]
        if chosen < 0:
            best[place:] = -np.inf
            origin[place:] = -1
            return
        heads[chosen] += 1


@jit()
def top_paths1(log_start, log_back, table, rows, t0, t1, k, scores, origin):
    """Times t0 .. t1 - 1 of the k best scores into each state; log_back[j, i] = log A[i, j].

    IN/OUT scores (2, K, k): half t & 1 holds time t    OUT origin (T, K, k) int32 = state * k + rank before, or -1
    Ties: lower predecessor, then better rank, first.
    """
    K = log_start.size
    heads = np.empty(K, dtype=np.int64)
    for t in range(t0, t1):
        now = t & 1
        for j in range(K):
            if t == 0:
                scores[now, j, :] = -np.inf
                origin[t, j, :] = -1
                scores[now, j, 0] = log_start[j]
            else:
                _merge(scores[1 - now], log_back[j], k, heads, scores[now, j], origin[t, j])
            scores[now, j] += table[rows[t], j]


@jit()
def top_paths2(log_start, log_second, log_middle, table, rows, t0, t1, k, scores, origin):
    """Order 2: log_middle[b, c, a] = log A[a, b, c]; scores (2, K, K, k), state before first, and origin (T, K, K, k) =
    state before that * k + rank."""
    K = log_start.size
    heads, ranked = np.empty(K, dtype=np.int64), np.empty((K, k))
    for t in range(t0, t1):
        now = t & 1
        if t < 2:
            scores[now] = -np.inf
            origin[t] = -1
        for b in range(K):
            if t == 0:
                scores[now, 0, b, 0] = log_start[b] + table[rows[t], b]
                continue
            for a in range(K):
                ranked[a] = scores[1 - now, a, b]
            for c in range(K):
                if t == 1:
                    scores[now, b, c, 0] = ranked[0, 0] + log_second[b, c]
                    origin[t, b, c, 0] = 0
                else:
                    _merge(ranked, log_middle[b, c], k, heads, scores[now, b, c], origin[t, b, c])
                scores[now, b, c] += table[rows[t], c]
