"""Word vectors fitted anew to their rows of a PMI matrix, frequent pairs weighing more."""

from __future__ import annotations

import math

import numpy as np

from ._threads import resolve_threads
from .pmi import PMIMatrix

_SLICE = 1 << 23  # nonzeros of one kernel call times passes over them, about a tenth of a second
_PARTS = 64  # parts of a slice, handed to threads as they come free
_LANES = 16  # floats of a cache line


def refit_words(
    built: PMIMatrix,
    contexts: np.ndarray,
    values: np.ndarray,
    steps: int,
    pair_weight: float = 10.0,
    pair_max: float = 100.0,
    scale: np.ndarray | None = None,
    n_threads: int | None = None,
) -> np.ndarray:
    """Coefficients of each word on fixed contexts by weighted least squares.

    An eigenvector pair gives every cell of the matrix M the same weight. Here each word's row a minimises::

        sum_j w_ij (a . c_j - m_ij)^2,    w_ij = 1 + pair_weight * sqrt(min(x_ij, pair_max))

    over all words j, where x_ij is the weighted count of the pair and 0 for pairs that were not observed or lie below
    the threshold (m_ij is 0 there). It starts from the unweighted optimum ``c_i * value`` and goes `steps` conjugate
    gradient steps. The saturating weights are those of GloVe (Pennington et al. 2014, eq. 9) on top of 1 for all.

    Parameters
    ----------
    built : PMIMatrix
        As `pmi_matrix` makes it, float32; the counts are taken back from its entries.
    contexts : ndarray of shape (n_words, d)
        Orthonormal columns: the eigenvectors, or the right singular vectors.
    values : ndarray of shape (n_words, d)
        Where to start from: for eigenvectors ``contexts * eigenvalues``, for singular ones ``U * s``.
    steps : int
    pair_weight, pair_max : float
        `pair_max` in occurrences.
    scale : ndarray of float32, shape (n_words,), optional
        g of the matrix D^g M D^g that was factorised: the targets are scaled alike.
    n_threads : int or None

    Returns
    -------
    ndarray of float32, shape (n_words, d)
        The same for any number of threads.

    Raises
    ------
    ValueError
        If the matrix is none of PMI, so that the counts are not to be had.
    KeyboardInterrupt
        On Ctrl-C, within about a tenth of a second.
    """
    from ._kernels.refit import words_refit
    from .operators import aligned_empty

    if built.row_log is None or built.column_log is None:
        raise ValueError("the matrix holds no PMI; a refit takes the count of each pair from its PMI")
    row_log, column_log = built.row_log.astype(np.float32), built.column_log.astype(np.float32)
    threads = resolve_threads(n_threads)
    n, d = contexts.shape
    width = -(-d // _LANES) * _LANES
    fixed, words = _padded(contexts, width), _padded(values, width)
    matrix = built.matrix
    indptr = np.asarray(matrix.indptr, dtype=np.int64)
    longest = int(np.diff(indptr).max(initial=0))
    scales = np.empty(0, np.float32) if scale is None else np.ascontiguousarray(scale, dtype=np.float32)
    extra, target = np.empty((threads, longest + 1), np.float32), np.empty((threads, longest + 1), np.float32)
    blocks = aligned_empty((threads, 3 * width), np.float32)
    for cuts in _row_cuts(indptr, _SLICE * threads // (steps + 1)):
        words_refit(
            matrix.data,
            matrix.indices,
            indptr,
            cuts,
            row_log,
            column_log,
            pair_weight,
            math.log2(pair_max),
            scales,
            scales,
            fixed,
            words,
            steps,
            extra,
            target,
            blocks,
            threads,
        )
    return np.ascontiguousarray(words[:n, :d])


def _padded(rows: np.ndarray, width: int) -> np.ndarray:
    from .operators import aligned_empty

    out = aligned_empty((len(rows), width), np.float32)
    out[:, : rows.shape[1]] = rows
    out[:, rows.shape[1] :] = 0
    return out


def _row_cuts(indptr: np.ndarray, size: int) -> list[np.ndarray]:
    """Row numbers that cut the matrix into slices of about `size` nonzeros, each into parts."""
    n = len(indptr) - 1
    load = indptr + np.arange(n + 1)  # empty rows are shared out as well
    n_slices = max(1, -(-int(load[-1]) // max(size, 1)))
    edges = np.searchsorted(load, np.linspace(0, load[-1], n_slices * _PARTS + 1).astype(np.int64))
    edges[0], edges[-1] = 0, n
    return [edges[first : first + _PARTS + 1].astype(np.int64) for first in range(0, n_slices * _PARTS, _PARTS)]
