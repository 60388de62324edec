"""Learning: counts -> parameters (the M step), counts of labels, and the loops of soft and hard EM."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import numpy as np

from .constraints import Constraints, normalize
from .exact import impossible_message
from .observations import EmissionRows
from .packing import Packed
from .parameters import Parameters
from .paths import best_labels, joint_score
from .plan import Plan, Workers
from .recursions import forward_backward
from .tables import column_distributions


def maximize(
    counts: Parameters, old: Parameters | None, constraints: Constraints, stop: bool, threads: int | Workers = 1
) -> tuple[Parameters, dict[str, int]]:
    """M step: the parameters that fit expected counts best. Frozen arrays are `old`'s own, bit for bit.

    Returns
    -------
    (Parameters, dict)
        The dict says how many distributions of each kind had no counts at all.
    """
    prior, fixed, empty = constraints.pseudocount, constraints.fixed, {}
    result = dataclasses.replace(old if old is not None else counts, stop=None, stop1=None)

    def take(
        name: str, with_stop: np.ndarray | None, kind: str, old_stop: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        table, previous = getattr(counts, name), None if old is None else getattr(old, name)
        mask = fixed.get(kind) if name != "second" else None
        if stop and with_stop is not None:
            table = np.concatenate((table, with_stop[..., None]), axis=-1)
            if previous is not None and old_stop is not None:
                previous = np.concatenate((previous, old_stop[..., None]), axis=-1)
            if mask is not None:
                mask = np.concatenate((mask, np.full((*mask.shape[:-1], 1), np.nan)), axis=-1)
        pseudocount = prior[kind]
        if np.ndim(pseudocount) and np.shape(pseudocount)[-1] != table.shape[-1]:
            pseudocount = np.concatenate((pseudocount, np.zeros((*np.shape(pseudocount)[:-1], 1))), axis=-1)
        if name == "second" and np.ndim(pseudocount) > 2:
            pseudocount = 0.0
        values, empty[name] = normalize(table, pseudocount, mask, previous)
        if stop and with_stop is not None:
            return np.ascontiguousarray(values[..., :-1]), np.ascontiguousarray(values[..., -1])
        return values, None

    if "s" in constraints.params:
        result.start, _ = take("start", None, "start", None)
    if "t" in constraints.params:
        result.transition, result.stop = take("transition", counts.stop, "transition", old.stop if old else None)
        if counts.order == 2:
            result.second, result.stop1 = take("second", counts.stop1, "transition", old.stop1 if old else None)
    elif old is not None:
        result.stop, result.stop1 = old.stop, old.stop1
    if "e" in constraints.params:
        pseudocount, free, columns = prior["emission"], "emission" not in fixed, None
        if free and not np.ndim(pseudocount):
            columns = column_distributions(counts.emission, pseudocount, threads)
        if columns is not None:
            result.emission, empty["emission"] = columns, 0
        else:
            result.emission, empty["emission"] = normalize(
                counts.emission,
                np.transpose(pseudocount) if np.ndim(pseudocount) else pseudocount,
                fixed.get("emission"),
                None if old is None else old.emission,
                axis=0,
            )
    return result, empty


def log_prior(parameters: Parameters, constraints: Constraints) -> float:
    """Sum of pseudocount * log parameter over the free entries of what is trained, nats."""
    total = 0.0
    parts = (
        ("s", "start", "start"),
        ("t", "transition", "transition"),
        ("t", "transition", "second"),
        ("t", "transition", "stop"),
        ("t", "transition", "stop1"),
        ("e", "emission", "emission"),
    )
    for letter, kind, name in parts:
        array, pseudocount = getattr(parameters, name), constraints.pseudocount[kind]
        if letter not in constraints.params or array is None or not np.any(pseudocount):
            continue
        if np.ndim(pseudocount):
            if name in ("stop", "stop1") or (name == "second" and np.ndim(pseudocount) > 2):
                continue  # pseudocounts given entry by entry do not speak of these
            pseudocount = np.transpose(pseudocount) if name == "emission" else pseudocount
        weight = np.broadcast_to(pseudocount, array.shape)
        mask = constraints.fixed.get(kind)
        use = weight > 0
        if mask is not None and name == kind:
            use = use & np.isnan(mask)
        with np.errstate(divide="ignore"):
            total += float(np.sum(weight[use] * np.log(array[use])))
    return total


def count_labels(
    ids: np.ndarray, labels: np.ndarray, offsets: np.ndarray, n_states: int, n_symbols: int, order: int
) -> Parameters:
    """Relative-frequency counts of labelled text; -1 among labels or ids is left out. All fields are filled."""
    K = n_states
    counts = Parameters.zeros(K, n_symbols, order, True)
    both = (labels >= 0) & (ids >= 0)
    counts.emission += np.bincount(ids[both].astype(np.int64) * K + labels[both], minlength=n_symbols * K).reshape(
        -1, K
    )
    lengths = np.diff(offsets)
    begins, ends = offsets[:-1][lengths > 0], offsets[1:][lengths > 0] - 1

    def count(columns: list[np.ndarray]) -> np.ndarray:
        stacked = np.stack([labels[c] for c in columns]).astype(np.int64)
        stacked = stacked[:, np.all(stacked >= 0, axis=0)]
        flat = np.ravel_multi_index(tuple(stacked), (K,) * len(columns))
        return np.bincount(flat, minlength=K ** len(columns)).reshape((K,) * len(columns)).astype(np.float64)

    counts.start += count([begins])
    place = np.arange(ids.size) - np.repeat(offsets[:-1], lengths)
    if order == 1:
        later = np.nonzero(place >= 1)[0]
        counts.transition += count([later - 1, later])
        counts.stop += count([ends])
    else:
        second, third = np.nonzero(place == 1)[0], np.nonzero(place >= 2)[0]
        counts.second += count([second - 1, second])
        counts.transition += count([third - 2, third - 1, third])
        single = begins == ends
        counts.stop1 += count([ends[single]])
        counts.stop += count([ends[~single] - 1, ends[~single]])
    return counts


def objective(
    parameters: Parameters,
    algorithm: str,
    data: EmissionRows,
    offsets: np.ndarray,
    constraints: Constraints,
    n_threads: int,
    stop: threading.Event | None = None,
) -> float:
    """What EM climbs, nats: log-likelihood (hard EM: joint score of the best paths) plus log-prior."""
    table = data.table(parameters.emission)
    if algorithm == "hard":
        path = best_labels(parameters, table, data.rows, offsets, n_threads, stop)
        value = joint_score(parameters, table, data.rows, offsets, path)
    else:
        plan = Plan(data.rows, offsets, parameters.n_states, data.n_rows, parameters.order)
        packed = Packed.of(parameters, table, plan, n_threads)
        value = float(np.sum(forward_backward(plan, packed, n_threads, False, stop=stop)[0]))
    return value + log_prior(parameters, constraints)


@dataclasses.dataclass
class Run:
    """What one run of EM did."""

    parameters: Parameters
    history: list[float] = dataclasses.field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    fell: bool = False
    interrupted: bool = False
    empty: dict[str, int] = dataclasses.field(default_factory=dict)
    seed: int | None = None
    final: float | None = None  # objective of `parameters`, where it was worked out

    @property
    def value(self) -> float:
        """Objective of the parameters, or of those before the last M step where only that is known."""
        return self.history[-1] if self.final is None else self.final

    def record(self, objective: float) -> None:
        """Append a monitored value; a fall beyond rounding is noted."""
        if self.history and objective < self.history[-1] - 1e-9 * max(abs(self.history[-1]), 1.0):
            self.fell = True
        self.history.append(objective)


def soft_em(
    run: Run,
    data: EmissionRows,
    offsets: np.ndarray,
    constraints: Constraints,
    n_iter: int,
    tol: float,
    n_threads: int,
    report: Callable[[Run], None],
    stop: threading.Event | None = None,
) -> None:
    """Baum-Welch. `run.history` holds log-likelihood + log-prior before each M step."""
    K, order, has_stop = run.parameters.n_states, run.parameters.order, run.parameters.stop is not None
    plan = Plan(data.rows, offsets, K, data.n_rows, order)
    n_tokens = max(data.rows.size, 1)
    with Workers(n_threads) as workers:
        while True:
            table = data.table(run.parameters.emission, workers, plan.kept("table", (data.n_rows, K)))
            packed = Packed.of(run.parameters, table, plan, workers)
            loglik, counts, _ = forward_backward(plan, packed, workers, stop=stop)
            if np.any(loglik == -np.inf):
                i = int(np.argmax(loglik == -np.inf))
                raise ValueError(impossible_message(packed.logs, data.rows[offsets[i] : offsets[i + 1]], i))
            run.record(float(np.sum(loglik)) + log_prior(run.parameters, constraints))
            # tol=0 asks for every iteration: a gain that is lost in rounding does not stop it
            if tol > 0 and len(run.history) > 1 and (run.history[-1] - run.history[-2]) / n_tokens < tol:
                run.converged = True
                return
            assert counts is not None
            run.parameters, run.empty = maximize(
                dataclasses.replace(counts, emission=data.fold(counts.emission)),
                run.parameters,
                constraints,
                has_stop,
                workers,
            )
            run.n_iter += 1
            report(run)
            if run.n_iter >= n_iter:
                return


def hard_em(
    run: Run,
    ids: np.ndarray,
    data: EmissionRows,
    offsets: np.ndarray,
    constraints: Constraints,
    n_iter: int,
    n_threads: int,
    report: Callable[[Run], None],
    stop: threading.Event | None = None,
) -> np.ndarray:
    """Viterbi training. `run.history` holds joint Viterbi score + log-prior of each round; returns the last labels."""
    K, order, has_stop = run.parameters.n_states, run.parameters.order, run.parameters.stop is not None
    labels: np.ndarray | None = None
    while True:
        table = data.table(run.parameters.emission)
        new = best_labels(run.parameters, table, data.rows, offsets, n_threads, stop)
        run.record(joint_score(run.parameters, table, data.rows, offsets, new) + log_prior(run.parameters, constraints))
        if labels is not None and np.array_equal(labels, new):
            run.converged = True
            return new
        labels = new
        if run.n_iter >= n_iter:
            return labels
        counts = count_labels(ids, labels, offsets, K, data.n_symbols, order)
        run.parameters, run.empty = maximize(counts, run.parameters, constraints, has_stop)
        run.n_iter += 1
        report(run)
