"""One sequence in exact log space, of any length: slices of rows, with a checkpoint each.

`logs` is what `lagwise.hmm.packing.log_arrays` makes; position t uses ``logs["table"][rows[t]]``. A recursion's state is
its row at one time, (K,) or (K, K), with a compensated log-scale (2,).
"""

from __future__ import annotations

import threading

import numpy as np

from .checkpoints import go_back, go_forward, slices_of
from .parameters import Parameters

_CALL = 20_000_000  # transitions worked on in one kernel call, so that Ctrl-C is seen
_KEPT = 1_000_000  # numbers of rows kept at a time
_CALL_VITERBI, _KEPT_VITERBI = 200_000_000, 4_000_000  # maxima are cheaper than sums of exponentials

Logs = dict[str, np.ndarray]
State = tuple[np.ndarray, np.ndarray]


def _shape(logs: Logs) -> tuple[int, ...]:
    """(K,) or (K, K): of a row."""
    return logs["transition"].shape[:-1]


def _step(logs: Logs, call: int = _CALL, kept: int | None = None) -> int:
    K, size = logs["start"].size, int(np.prod(_shape(logs)))
    return max(1, min(call // (size * K), call if kept is None else kept // size))


def _first_state(logs: Logs) -> State:
    return np.full(_shape(logs), -np.inf), np.zeros(2)


def _forward(
    logs: Logs, rows: np.ndarray, t0: int, t1: int, state: State, out: np.ndarray, scales: np.ndarray
) -> State:
    """Rows of times t0 .. t1 - 1 into `out`; the state after them."""
    from lagwise._kernels import hmm_exact as kernel

    row, scale = state[0].copy(), state[1].copy()
    table = logs["table"]
    if row.ndim == 1:
        kernel.log_forward1(logs["start"], logs["A"], logs["transition"], table, rows, t0, t1, row, scale, out, scales)
    else:
        first, second, middle = logs["start"], (logs["linear_second"], logs["second"]), (logs["A"], logs["log_A"])
        kernel.log_forward2(first, *second, *middle, table, rows, t0, t1, row, scale, out, scales)
    return row, scale


def _backward(
    logs: Logs, rows: np.ndarray, t0: int, t1: int, state: State, out: np.ndarray, scales: np.ndarray
) -> None:
    """Rows of times t1 - 1 .. t0 into `out`; `state` is moved to time t0."""
    from lagwise._kernels import hmm_exact as kernel

    table, back, final, T = logs["table"], (logs["back"], logs["log_back"]), logs["final"], rows.size
    if state[0].ndim == 1:
        kernel.log_backward1(final, *back, table, rows, t0, t1, T, *state, out, scales)
    else:
        second = (logs["linear_second"], logs["second"])
        kernel.log_backward2(logs["final1"], final, *second, *back, table, rows, t0, t1, T, *state, out, scales)


def _add_counts(
    logs: Logs,
    rows: np.ndarray,
    t0: int,
    t1: int,
    before: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    counts: Parameters | None,
    posterior: np.ndarray,
) -> None:
    """Expected counts of times t0 .. t1 - 1, and their posteriors (t1 - t0, K)."""
    from lagwise._kernels import hmm_exact as kernel

    K, order = logs["start"].size, before.ndim
    c = Parameters.zeros(K, 1, order, True) if counts is None else counts
    span = (logs["table"], rows, t0, t1, rows.size, before, alpha, beta, counts is not None)
    if order == 1:
        kernel.add_counts1(logs["transition"], *span, c.start, c.transition, c.stop, c.emission, posterior)
    else:
        sums = (c.start, c.second, c.transition, c.stop1, c.stop, c.emission)
        kernel.add_counts2(logs["second"], logs["transition"], *span, *sums, posterior)


def exact_sequence(
    logs: Logs,
    rows: np.ndarray,
    counts: Parameters | None,
    posterior: np.ndarray | None,
    stop: threading.Event | None = None,
) -> float:
    """Log-likelihood of one sequence, nats; adds to `counts` and sets `posterior` (T, K) where they are given."""
    T, shape = rows.size, _shape(logs)
    step = _step(logs, kept=_KEPT)
    slices, kept = slices_of(T, step), min(step, T)
    alpha, beta, scales = np.empty((kept, *shape)), np.empty((kept, *shape)), np.empty(kept)

    def forward(t0: int, t1: int, state: State, again: bool) -> State:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        return _forward(logs, rows, t0, t1, state, alpha, scales)

    states = go_forward(slices, forward, _first_state(logs))
    last, scale = states[-1]
    ends = last + logs["final"] if T > 1 or last.ndim == 1 else last[0] + logs["final1"]
    top = ends.max()
    if top == -np.inf:
        if posterior is not None:
            posterior[:] = 0.0
        return -np.inf
    if counts is not None or posterior is not None:
        moving, spare = (np.empty(shape), np.zeros(2)), np.empty((kept, logs["start"].size))

        def backward(t0: int, t1: int, before: State) -> None:
            _backward(logs, rows, t0, t1, moving, beta, scales)
            out = spare if posterior is None else posterior[t0:t1]
            _add_counts(logs, rows, t0, t1, before[0], alpha, beta, counts, out)

        go_back(slices, states, forward, backward)
    return float(scale[0] + scale[1] + top + np.log(np.sum(np.exp(ends - top))))


def forward_rows(logs: Logs, rows: np.ndarray, normalized: bool = False) -> np.ndarray:
    """All log forward rows; `normalized` leaves each row's log-scale out (its largest entry is 0)."""
    out, scales = np.empty((rows.size, *_shape(logs))), np.empty(rows.size)

    def forward(t0: int, t1: int, state: State, again: bool) -> State:
        return _forward(logs, rows, t0, t1, state, out[t0:t1], scales[t0:t1])

    go_forward(slices_of(rows.size, _step(logs)), forward, _first_state(logs))
    return out if normalized else out + scales.reshape(-1, *(1,) * (out.ndim - 1))


def backward_rows(logs: Logs, rows: np.ndarray) -> np.ndarray:
    """All log backward rows."""
    out, scales = np.empty((rows.size, *_shape(logs))), np.empty(rows.size)
    moving = np.empty(_shape(logs)), np.zeros(2)
    for t0, t1 in reversed(slices_of(rows.size, _step(logs))):
        _backward(logs, rows, t0, t1, moving, out[t0:t1], scales[t0:t1])
    return out + scales.reshape(-1, *(1,) * (out.ndim - 1))


def impossible_message(logs: Logs, rows: np.ndarray, sequence: int | None = None) -> str:
    """Say where a sequence of probability 0 becomes impossible."""
    alpha = forward_rows(logs, rows, normalized=True)
    dead = np.nonzero(~np.any(np.isfinite(alpha.reshape(rows.size, -1)), axis=1))[0]
    where = f"position {int(dead[0])}" if dead.size else "its end"
    name = "the sequence" if sequence is None else f"sequence {sequence}"
    return (
        f"{name} is impossible under this model: no state path has a positive probability up to {where}; "
        "use pseudocounts, or check masks and symbols that training never saw"
    )


def viterbi_path(
    logs: Logs, rows: np.ndarray, sequence: int | None = None, stop: threading.Event | None = None
) -> np.ndarray:
    """Best path of one sequence in memory for a slice of scores and a checkpoint a slice; int32 (T,).

    Raises
    ------
    ValueError
        If no path is possible, naming the sequence and the position.
    """
    from lagwise._kernels import hmm_viterbi as kernel

    shape, T = _shape(logs), rows.size
    path = np.zeros(T, dtype=np.int32)
    if T == 0:
        return path
    step = _step(logs, _CALL_VITERBI, _KEPT_VITERBI)
    slices, scores = slices_of(T, step), np.empty((min(step, T), *shape))
    start, table, A, order = logs["start"], logs["table"], logs["log_A"], len(shape)

    def forward(t0: int, t1: int, state: np.ndarray, again: bool) -> np.ndarray:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        after = state.copy()
        if order == 1:
            failed = kernel.viterbi_forward1(start, A, table, rows, t0, t1, after, scores)
        else:
            failed = kernel.viterbi_forward2(start, logs["second"], A, table, rows, t0, t1, after, scores)
        if failed >= 0:
            raise ValueError(impossible_message(logs, rows, sequence))
        return after

    def backward(t0: int, t1: int, before: np.ndarray) -> None:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        fill = kernel.viterbi_backward1 if order == 1 else kernel.viterbi_backward2
        fill(A, t0, t1, before, scores, path)

    states = go_forward(slices, forward, np.full(shape, -np.inf))
    ends = states[-1] + logs["final"] if order == 1 or T > 1 else states[-1][0] + logs["final1"]
    if ends.max() == -np.inf:
        raise ValueError(impossible_message(logs, rows, sequence))
    last = np.unravel_index(int(np.argmax(ends)), ends.shape)
    path[T - len(last) :] = last
    go_back(slices, states, forward, backward)
    return path
