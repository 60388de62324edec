"""Changes of a PMI matrix: random negative pairs, and a diagonal that makes it positive semi-definite."""

from __future__ import annotations

from typing import Any

import numpy as np


def dominate_diagonal(matrix: Any) -> Any:
    """m_ii = max(m_ii, sum over j != i of |m_ij|): diagonally dominant, so positive semi-definite.

    Parameters
    ----------
    matrix : csr_array, symmetric

    Returns
    -------
    csr_array of the same dtype
    """
    from scipy.sparse import dia_array

    n = matrix.shape[0]
    diagonal = matrix.diagonal().astype(np.float64)
    sums = np.asarray(abs(matrix).sum(axis=1), dtype=np.float64).ravel() - np.abs(diagonal)
    wanted = np.maximum(diagonal, sums)
    # Rounded up, so that a stored sum never falls below the true one.
    raised = np.where(wanted > diagonal, np.nextafter(wanted.astype(matrix.dtype), np.inf).astype(np.float64), diagonal)
    change = dia_array(((raised - diagonal).astype(matrix.dtype)[None], [0]), shape=(n, n))
    return (matrix + change).tocsr()


def add_random_negatives(
    matrix: Any, indptr: np.ndarray, indices: np.ndarray, fraction: float, value: float, rng: np.random.Generator
) -> Any:
    """Set randomly drawn unobserved pairs i < j, and their mirror images, to `value`.

    Parameters
    ----------
    matrix : csr_array
        The thresholded matrix.
    indptr, indices : ndarray
        Pattern of the observed pairs, symmetric, also of those below the threshold.
    fraction : float
        Pairs to draw over observed off-diagonal pairs; drawn uniformly without replacement.
    value : float
    rng : Generator

    Returns
    -------
    csr_array of the same dtype

    Raises
    ------
    ValueError
        If there are fewer unobserved pairs than asked for.
    """
    from scipy.sparse import coo_array

    n = matrix.shape[0]
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(indptr))
    upper = rows < indices
    observed = np.sort(rows[upper] * n + indices[upper])
    del rows, upper
    n_pairs = n * (n - 1) // 2
    wanted = round(fraction * len(observed))
    if wanted > n_pairs - len(observed):
        raise ValueError(
            f"random_negatives={fraction:g} asks for {wanted} unobserved pairs; there are only "
            f"{n_pairs - len(observed)}"
        )
    drawn = _draw_pairs(n, observed, wanted, rng)
    i, j = np.divmod(drawn, n)
    values = np.full(2 * len(drawn), value, dtype=matrix.dtype)
    extra = coo_array((values, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n)).tocsr()
    return (matrix + extra).tocsr()


def _draw_pairs(n: int, observed: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct keys i * n + j, i < j, none of them observed, in the order drawn."""
    n_pairs = n * (n - 1) // 2
    if n_pairs <= 4 * (wanted + len(observed)):  # few are left: choose among all of them
        i, j = np.triu_indices(n, 1)
        free = np.setdiff1d(i.astype(np.int64) * n + j, observed, assume_unique=True)
        return rng.choice(free, size=wanted, replace=False)
    found = np.empty(0, dtype=np.int64)
    while len(found) < wanted:
        i, j = rng.integers(0, n, size=(2, 2 * (wanted - len(found)) + 64))
        keys = np.minimum(i, j) * n + np.maximum(i, j)
        keys = keys[i != j]
        place = np.searchsorted(observed, keys)
        keys = keys[(place == len(observed)) | (observed[np.minimum(place, len(observed) - 1)] != keys)]
        keys = np.concatenate([found, keys])
        _, first = np.unique(keys, return_index=True)
        found = keys[np.sort(first)][:wanted]
    return found
