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

from .exact import backward_rows, exact_sequence, forward_rows, impossible_message, viterbi_path
from .packing import log_arrays
from .parameters import Parameters

_CALL_SCORES = 100_000_000  # comparisons of one call that finds the k best paths


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


def log_forward(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> np.ndarray:
    """Log forward probabilities log P(w_1..w_t, state_t).

    Returns
    -------
    ndarray of float64, shape (T, K); of order 2 (T, K, K) at [previous state, state], where time 0 uses row 0 alone.
    """
    logs = prepare(log_start, log_transition, log_emission, **others)
    return forward_rows(logs, _rows(logs))


def log_backward(log_start: Any, log_transition: Any, log_emission: Any, **others: Any) -> np.ndarray:
    """Log backward probabilities log P(w_{t+1}..w_T, end | state_t), shapes as of `log_forward`."""
    logs = prepare(log_start, log_transition, log_emission, **others)
    return backward_rows(logs, _rows(logs))


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
    back = np.ascontiguousarray(np.moveaxis(logs["transition"], 0, -1))
    step = max(1, _CALL_SCORES // (K ** (order + 1) * k))  # so that Ctrl-C is seen
    for t0 in range(0, T, step):
        times = t0, min(t0 + step, T)
        if order == 1:
            kernel.top_paths1(logs["start"], back, logs["table"], rows, *times, k, scores, origin)
        else:
            kernel.top_paths2(logs["start"], logs["second"], back, logs["table"], rows, *times, k, scores, origin)
    final = logs["final"] if order == 1 or T > 1 else np.broadcast_to(logs["final1"], (K, K))
    ends = (scores[(T - 1) & 1] + final[..., None]).reshape(-1)
    last = np.argsort(-ends, kind="stable")[:k]
    last = last[ends[last] > -np.inf]
    *states, ranks = np.unravel_index(last, (*(K,) * order, k))
    paths = np.empty((T, last.size), dtype=np.int64)
    for t in range(T - 1, -1, -1):
        paths[t] = states[-1]
        if t > 0:
            before, ranks = np.divmod(origin[(t, *states, ranks)], k)
            states = [before] if order == 1 else [before, states[0]]
    return [(path_score(logs, rows, path), path) for path in np.ascontiguousarray(paths.T)]
