"""Weighted least squares of rows on fixed contexts, dense."""

import numpy as np


def pair_weights(counts, kept, pair_weight, pair_max):
    """1 + pair_weight * sqrt(min(count, pair_max)) at kept pairs, 1 elsewhere."""
    return np.where(kept, 1 + pair_weight * np.sqrt(np.minimum(np.asarray(counts, dtype=np.float64), pair_max)), 1.0)


def refit_dense(M, weights, contexts):
    """Row i solves (C' diag(w_i) C) a = C' diag(w_i) m_i."""
    return np.array([np.linalg.solve((contexts.T * w) @ contexts, contexts.T @ (w * m)) for m, w in zip(M, weights)])


def refit_steps(M, weights, contexts, start, steps):
    """As `refit_dense`, but so many conjugate gradient steps from a start."""
    words = np.array(start, dtype=np.float64)
    for i, (m, w) in enumerate(zip(M, weights)):
        A = (contexts.T * w) @ contexts
        residual = contexts.T @ (w * m) - A @ words[i]
        direction = residual.copy()
        for _ in range(steps):
            along = residual @ residual / (direction @ A @ direction)
            words[i] += along * direction
            after = residual - along * A @ direction
            direction = after + direction * (after @ after) / (residual @ residual)
            residual = after
    return words
