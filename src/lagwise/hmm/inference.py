"""Inference in one HMM as functions of arrays: forward, backward, posteriors, Viterbi, k best paths, filtering.

Everything takes and returns natural logarithms: `log_start` (K,), `log_transition` (K, K) or (K, K, K),
`log_emission` (T, K), the log-probability of the symbol at each position under each state (0 where it is missing).
Optional `log_second` (K, K) belongs to order 2; `log_stop` (K,) or (K, K) and, of order 2, `log_stop1` (K,) are the
log-probabilities that the sequence ends after its last state(s).

alpha_k(q) = P(w_k | q) sum_q' alpha_{k-1}(q') P(q | q');  beta_k(q) = sum_q' P(q' | q) P(w_{k+1} | q') beta_{k+1}(q'),
beta_n = 1 (Rabiner 1989, equations 20 and 25).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .parameters import Parameters
from .recursions import exact_sequence, log_arrays

_SLICE = 20_000_000  # transitions worked on in one kernel call


def prepare(
    log_start: Any,
    log_transition: Any,
    log_emission: Any,
    log_second: Any = None,
    log_stop: Any = None,
    log_stop1: Any = None,
) -> dict[str, np.ndarray]:
    """Check shapes and make what the kernels take.

    Raises
    ------
    ValueError
        If shapes do not fit together or a number is NaN or +inf.
    """
    start = np.array(log_start, dtype=np.float64)
    transition = np.array(log_transition, dtype=np.float64)
    frame = np.array(log_emission, dtype=np.float64, order="C")
    K = start.size
    if start.shape != (K,) or transition.shape not in ((K, K), (K, K, K)) or frame.ndim != 2 or frame.shape[1] != K:
        raise ValueError(
            f"log_start, log_transition and log_emission have shapes {start.shape}, {transition.shape} and "
            f"{frame.shape}; expected (K,), (K, K) or (K, K, K), and (T, K)"
        )
    order = transition.ndim - 1
    optional = {
        "log_second": (log_second, (K, K)),
        "log_stop": (log_stop, (K,) * order),
        "log_stop1": (log_stop1, (K,)),
    }
    others: dict[str, np.ndarray | None] = {}
    for name, (value, shape) in optional.items():
        others[name] = None if value is None else np.array(value, dtype=np.float64)
        if value is not None and others[name].shape != shape:  # type: ignore[union-attr]
            raise ValueError(f"{name} has shape {others[name].shape}; expected {shape}")  # type: ignore[union-attr]
    if order == 2 and log_second is None:
        raise ValueError("a model of order 2 needs log_second (K, K), the transition into the second position")
    for name, array in {"log_start": start, "log_transition": transition, "log_emission": frame, **others}.items():
        if array is not None and not np.all(array < np.inf):
            raise ValueError(f"{name} holds NaN or +inf; expected logarithms of probabilities")
    exps = {name: None if array is None else np.exp(array) for name, array in others.items()}
    parameters = Parameters(
        np.exp(start), np.exp(transition), np.zeros((0, K)), exps["log_second"], exps["log_stop"], exps["log_stop1"]
    )
    logs = log_arrays(parameters, log_table=frame)
    exact = {
        "start": start,
        "transition": transition,
        "second": others["log_second"],
        "final": others["log_stop"],
        "final1": others["log_stop1"],
    }  # as given: exp may have underflowed
    exact["log_A"] = transition if order == 1 else transition.transpose(1, 0, 2)
    exact["log_back"] = transition.T if order == 1 else transition.transpose(1, 2, 0)
    logs.update({name: np.ascontiguousarray(array) for name, array in exact.items() if array is not None})
    return logs


def _rows(logs: dict[str, np.ndarray]) -> np.ndarray:
    return np.arange(logs["table"].shape[0], dtype=np.int32)


def _slices(T: int, K: int, order: int) -> list[tuple[int, int]]:
    step = max(1, _SLICE // K ** (order + 1))
    return [(t, min(t + step, T)) for t in range(0, T, step)]


def log_forward(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> np.ndarray:
    """Log forward probabilities log P(w_1..w_t, state_t).

    Returns
    -------
    ndarray of float64, shape (T, K); of order 2 (T, K, K) at [previous state, state], where time 0 uses row 0 alone.
    """
    logs = prepare(log_start, log_transition, log_emission, **others)
    return forward_rows(logs, _rows(logs))


def forward_rows(logs: dict[str, np.ndarray], rows: np.ndarray, normalized: bool = False) -> np.ndarray:
    """log_forward of prepared arrays; `normalized` leaves each row's log-scale out (its largest entry is 0)."""
    from lagwise._kernels import hmm_exact as kernel

    order, K = logs["transition"].ndim - 1, logs["start"].size
    out, scales = np.empty((rows.size, *(K,) * order)), np.empty(rows.size)
    state, scale = np.full((K,) * order, -np.inf), np.zeros(2)
    for t0, t1 in _slices(rows.size, K, order):
        if order == 1:
            kernel.log_forward1(
                logs["start"],
                logs["A"],
                logs["transition"],
                logs["table"],
                rows,
                t0,
                t1,
                state,
                scale,
                out[t0:t1],
                scales[t0:t1],
            )
        else:
            kernel.log_forward2(
                logs["start"],
                logs["linear_second"],
                logs["second"],
                logs["A"],
                logs["log_A"],
                logs["table"],
                rows,
                t0,
                t1,
                state,
                scale,
                out[t0:t1],
                scales[t0:t1],
            )
    return out if normalized else out + scales.reshape(-1, *(1,) * order)


def log_backward(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> np.ndarray:
    """Log backward probabilities log P(w_{t+1}..w_T, end | state_t), shapes as of `log_forward`."""
    from lagwise._kernels import hmm_exact as kernel

    logs = prepare(log_start, log_transition, log_emission, **others)
    order, K, rows = logs["transition"].ndim - 1, logs["start"].size, _rows(logs)
    out, scales = np.empty((rows.size, *(K,) * order)), np.empty(rows.size)
    state, scale = np.empty((K,) * order), np.zeros(2)
    for t0, t1 in reversed(_slices(rows.size, K, order)):
        if order == 1:
            kernel.log_backward1(
                logs["final"],
                logs["back"],
                logs["log_back"],
                logs["table"],
                rows,
                t0,
                t1,
                rows.size,
                state,
                scale,
                out[t0:t1],
                scales[t0:t1],
            )
        else:
            kernel.log_backward2(
                logs["final1"],
                logs["final"],
                logs["linear_second"],
                logs["second"],
                logs["back"],
                logs["log_back"],
                logs["table"],
                rows,
                t0,
                t1,
                rows.size,
                state,
                scale,
                out[t0:t1],
                scales[t0:t1],
            )
    return out + scales.reshape(-1, *(1,) * order)


def log_likelihood(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> float:
    """log P(w_1..w_T), nats; -inf where the sequence is impossible, 0 where it is empty."""
    logs = prepare(log_start, log_transition, log_emission, **others)
    return exact_sequence(logs, _rows(logs), None, None) if logs["table"].shape[0] else 0.0


def posteriors(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> np.ndarray:
    """P(state_t | w), shape (T, K).

    Raises
    ------
    ValueError
        If the sequence is impossible, naming the position.
    """
    logs = prepare(log_start, log_transition, log_emission, **others)
    out = np.empty(logs["table"].shape)
    if out.shape[0] and exact_sequence(logs, _rows(logs), None, out) == -np.inf:  # type: ignore[misc]
        raise ValueError(impossible_message(logs, _rows(logs)))
    return out


def expected_counts(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> Parameters:
    """Expected counts of one sequence; `emission` of shape (T, K) holds the posteriors.

    Returns
    -------
    Parameters
        `start`, `transition` (expected number of times state i is followed by j; order 2 also `second`), `emission`
        and `stop` (the last state, whether or not there is a stop probability).
    """
    logs = prepare(log_start, log_transition, log_emission, **others)
    T, K = logs["table"].shape
    counts = Parameters.zeros(K, T, logs["transition"].ndim - 1, True)
    if T and exact_sequence(logs, _rows(logs), counts, None) == -np.inf:
        raise ValueError(impossible_message(logs, _rows(logs)))
    return counts


def impossible_message(logs: dict[str, np.ndarray], rows: np.ndarray, sequence: int | None = None) -> str:
    """Say where a sequence of probability 0 becomes impossible."""
    alpha = forward_rows(logs, rows, normalized=True)
    dead = np.nonzero(~np.any(np.isfinite(alpha.reshape(rows.size, -1)), axis=1))[0]
    where = f"position {int(dead[0])}" if dead.size else "its end"
    name = "the sequence" if sequence is None else f"sequence {sequence}"
    return (
        f"{name} is impossible under this model: no state path has a positive probability up to {where}; "
        "use pseudocounts, or check masks and symbols that training never saw"
    )


def viterbi(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> tuple[float, np.ndarray]:
    """The best path and its log joint probability with the sequence; ties go to the lowest state.

    Returns
    -------
    (float, ndarray of int64, shape (T,))

    Raises
    ------
    ValueError
        If no path is possible, naming the position.
    """
    logs = prepare(log_start, log_transition, log_emission, **others)
    path = viterbi_path(logs, _rows(logs))
    return path_score(logs, _rows(logs), path), path.astype(np.int64)


def viterbi_path(logs: dict[str, np.ndarray], rows: np.ndarray, sequence: int | None = None) -> np.ndarray:
    """Best path of one sequence of any length in memory for a slice of scores and a checkpoint a slice; int32 (T,)."""
    from lagwise._kernels import hmm_viterbi as kernel

    order, K, T = logs["transition"].ndim - 1, logs["start"].size, rows.size
    path = np.zeros(T, dtype=np.int32)
    if T == 0:
        return path
    step = max(1, min(4_000_000 // K**order, 200_000_000 // K ** (order + 1)))
    slices = [(t, min(t + step, T)) for t in range(0, T, step)]
    scores, state, befores = np.empty((min(step, T), *(K,) * order)), np.full((K,) * order, -np.inf), []

    def forward(t0: int, t1: int, state: np.ndarray) -> int:
        if order == 1:
            return kernel.viterbi_forward1(logs["start"], logs["log_A"], logs["table"], rows, t0, t1, state, scores)
        return kernel.viterbi_forward2(
            logs["start"], logs["second"], logs["log_A"], logs["table"], rows, t0, t1, state, scores
        )

    for t0, t1 in slices:
        befores.append(state.copy())
        if forward(t0, t1, state) >= 0:
            raise ValueError(impossible_message(logs, rows, sequence))
    ends = state + logs["final"] if order == 1 or T > 1 else state[0] + logs["final1"]
    if ends.max() == -np.inf:
        raise ValueError(impossible_message(logs, rows, sequence))
    last = np.unravel_index(int(np.argmax(ends)), ends.shape)
    path[T - len(last) :] = last
    for number in range(len(slices) - 1, -1, -1):
        t0, t1 = slices[number]
        if number < len(slices) - 1:
            forward(t0, t1, befores[number].copy())
        if order == 1:
            kernel.viterbi_backward1(logs["log_A"], t0, t1, befores[number], scores, path)
        else:
            kernel.viterbi_backward2(logs["log_A"], t0, t1, befores[number], scores, path)
    return path


def path_score(logs: dict[str, np.ndarray], rows: np.ndarray, path: np.ndarray) -> float:
    """log P(w, path), nats."""
    T, order = rows.size, logs["transition"].ndim - 1
    if T == 0:
        return 0.0
    total = logs["start"][path[0]] + float(np.sum(logs["table"][rows, path]))
    if order == 1:
        total += float(np.sum(logs["transition"][path[:-1], path[1:]])) + logs["final"][path[-1]]
    else:
        if T > 1:
            total += logs["second"][path[0], path[1]] + logs["final"][path[-2], path[-1]]
        else:
            total += logs["final1"][path[0]]
        total += float(np.sum(logs["transition"][path[:-2], path[1:-1], path[2:]]))
    return float(total)


def top_k_paths(
    log_start: Any, log_transition: Any, log_emission: Any, k: int, **others: Any
) -> list[tuple[float, np.ndarray]]:
    """The k best paths with their log joint probabilities, best first; fewer where fewer are possible."""
    logs = prepare(log_start, log_transition, log_emission, **others)
    return best_paths(logs, _rows(logs), k)


def best_paths(logs: dict[str, np.ndarray], rows: np.ndarray, k: int) -> list[tuple[float, np.ndarray]]:
    """top_k_paths of prepared arrays (list Viterbi)."""
    from lagwise._kernels import hmm_viterbi as kernel

    order, K, T = logs["transition"].ndim - 1, logs["start"].size, rows.size
    if T == 0:
        return [(0.0, np.zeros(0, dtype=np.int64))]
    k = min(k, K ** min(T, 20))
    scores = np.full((2, *(K,) * order, k), -np.inf)
    origin = np.full((T, *(K,) * order, k), -1, dtype=np.int32)
    if order == 1:
        now = kernel.top_paths1(logs["start"], logs["transition"], logs["table"], rows, k, scores, origin)
        ends = scores[now] + logs["final"][:, None]
    else:
        now = kernel.top_paths2(
            logs["start"], logs["second"], logs["transition"], logs["table"], rows, k, scores, origin
        )
        ends = scores[now] + (logs["final"] if T > 1 else np.broadcast_to(logs["final1"], (K, K)))[..., None]
    found = []
    for flat in np.argsort(-ends.reshape(-1), kind="stable")[:k]:
        if ends.reshape(-1)[flat] == -np.inf:
            break
        *pair, rank = (int(x) for x in np.unravel_index(int(flat), ends.shape))
        path = np.empty(T, dtype=np.int64)
        for t in range(T - 1, -1, -1):
            path[t] = pair[-1]
            came = int(origin[(t, *pair, rank)])
            if t > 0:
                before, rank = divmod(came, k)
                pair = [before] if order == 1 else [before, pair[0]]
        found.append((path_score(logs, rows, path), path))
    return found
