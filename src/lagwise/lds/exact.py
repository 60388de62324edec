"""Inference one step at a time: the exact filter and smoother, and steady-state filtering of partly missing rows.

For short sequences, small problems, and as the oracle of the fast kernels. Every sequence starts from mean 0 and the
stationary covariance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .kalman import update
from .parameters import Observation, sym

Measure = Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, float]]


class Filtered(NamedTuple):
    """means (T, h), covariances (T, h, h), predicted means (T, h), log-likelihoods (T,) in whitened nats."""

    means: np.ndarray
    covariances: np.ndarray
    predicted: np.ndarray
    log_likelihoods: np.ndarray


def filter_steps(
    A: np.ndarray,
    Q: np.ndarray,
    start: np.ndarray,
    offsets: np.ndarray,
    measure: Measure,
    steady: np.ndarray | None = None,
) -> Filtered:
    """Kalman filter with any measurement: ``measure(t, x, P)`` gives the updated x and P and a log-likelihood.

    Parameters
    ----------
    start : ndarray, shape (h, h)
        Covariance of the first state.
    steady : ndarray, shape (h, h), optional
        A predictive covariance to use at every step instead of the exact one.
    """
    h, total = len(A), int(offsets[-1])
    out = Filtered(np.zeros((total, h)), np.zeros((total, h, h)), np.zeros((total, h)), np.zeros(total))
    for begin, end in itertools.pairwise(offsets):
        x, P = np.zeros(h), start
        for t in range(begin, end):
            if t > begin:
                x, P = A @ x, sym(A @ P @ A.T + Q)
            out.predicted[t] = x
            x, P, out.log_likelihoods[t] = measure(t, x, P if steady is None else steady)
            out.means[t], out.covariances[t] = x, P
    return out


def smooth_steps(A: np.ndarray, Q: np.ndarray, filtered: Filtered, offsets: np.ndarray) -> np.ndarray:
    """Rauch-Tung-Striebel smoother; means (T, h)."""
    out = filtered.means.copy()
    for begin, end in itertools.pairwise(offsets):
        for t in range(end - 2, begin - 1, -1):
            P = filtered.covariances[t]
            gain = np.linalg.solve(sym(A @ P @ A.T + Q), A @ P).T
            out[t] += gain @ (out[t + 1] - A @ filtered.means[t])
    return out


def whitened_measure(
    observation: Observation, rows: np.ndarray, scored: np.ndarray, own: np.ndarray, kinds: np.ndarray
) -> Measure:
    """Measurement of whole rows through N'w.

    Parameters
    ----------
    rows, scored : ndarray, shape (T, h)
        N'w for the filter and, as mu centres it, for the score.
    own : ndarray, shape (T,)
        w'B^+w.
    kinds : ndarray of int, shape (T,)
        0 observed, 1 a zero that is not scored, 2 missing.
    """
    G, M = observation.G, observation.M

    def measure(t: int, x: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        if kinds[t] == 2:
            return x, P, 0.0
        Phi, W, L, updated = update(P, G, M)
        mean = x + L @ (rows[t] - G @ x)
        if kinds[t] == 1:
            return mean, updated, 0.0
        e = scored[t] - G @ x
        square = own[t] - 2 * scored[t] @ x + x @ G @ x + e @ Phi @ np.linalg.solve(W, e)
        size = observation.logdet + np.linalg.slogdet(W)[1] + observation.dimensions * np.log(2 * np.pi)
        return mean, updated, float(-0.5 * (size + square))

    return measure


def partial_measure(y: np.ndarray, C: np.ndarray, R: np.ndarray) -> Measure:
    """Measurement of rows y (T, p) in the series' own centred coordinates; NaN entries are left out."""
    seen = ~np.isnan(y)

    def measure(t: int, x: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        if not seen[t].any():
            return x, P, 0.0
        rows = C[seen[t]]
        S = rows @ P @ rows.T + R[np.ix_(seen[t], seen[t])]
        e = y[t, seen[t]] - rows @ x
        solved = np.linalg.solve(S, np.column_stack([rows @ P, e]))
        size = seen[t].sum() * np.log(2 * np.pi) + np.linalg.slogdet(S)[1]
        return (
            x + P @ rows.T @ solved[:, -1],
            sym(P - P @ rows.T @ solved[:, :-1]),
            float(-0.5 * (size + e @ solved[:, -1])),
        )

    return measure
