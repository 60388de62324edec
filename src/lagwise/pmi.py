"""PMI matrices straight from counts: logs, smoothing, threshold and shift, in the counts' memory where it fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._estimator import Estimator
from ._threads import resolve_threads
from ._validation import check_choice, check_real

_SLICE = 1 << 22  # entries of one kernel call
NEGATIVES_PER_POSITIVE = 2 / 3  # the paper's rule of thumb, kept by alpha="auto"


@dataclass
class Counts:
    """Symmetric counts as CSR arrays, to be divided by `scale`, with their words where known."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    scale: float
    owned: bool  # whether the arrays may be overwritten
    vocabulary: Any = None

    @property
    def n_words(self) -> int:
        return len(self.indptr) - 1


@dataclass
class PMIMatrix:
    """A thresholded PMI matrix in CSR form, and what the threshold left."""

    matrix: Any
    n_observed: int
    n_positive: int
    n_negative: int
    alpha: float | None
    row_sums: np.ndarray = field(repr=False)
    # The count of a kept pair is 2^(entry + row_log[i] + column_log[j]); None where the entries are no PMI.
    row_log: np.ndarray | None = field(default=None, repr=False)
    column_log: np.ndarray | None = field(default=None, repr=False)


def window_counts(counts: Any, window: int | None = None, weight: Any = None, n_threads: int | None = None) -> Counts:
    """Symmetric window counts of a store, or of a symmetric matrix that is given as it is.

    Parameters
    ----------
    counts : CountStore, or sparse or dense symmetric matrix of counts
    window, weight :
        As for `CountStore.window`: None is 5 and flat, or a windowed store's own. A matrix is taken as it is.

    Raises
    ------
    TypeError
        If it is neither a store nor a matrix.
    ValueError
        If it holds no co-occurrences, a negative or not finite count, or is not symmetric.
    """
    if hasattr(counts, "window") and hasattr(counts, "vocabulary"):
        if hasattr(counts, "window_arrays"):
            indptr, indices, data, scale = counts.window_arrays(window, weight, n_threads)
            owned = indices.flags.writeable and indices.flags.owndata and data.flags.writeable
        else:
            asked = {"size": window, "weight": weight}
            matrix = counts.window(**{name: value for name, value in asked.items() if value is not None})
            indptr, indices, data, scale, owned = matrix.indptr, matrix.indices, matrix.data, 1, False
        result = Counts(np.asarray(indptr, dtype=np.int64), indices, data, float(scale), owned, counts.vocabulary)
    else:
        result = _matrix_counts(counts)
    if result.data.dtype.kind == "f" and len(result.data) and result.data.min() < 0:
        raise ValueError(f"weight={weight!r} gives negative sums; weights of PMI must not be negative")
    if len(result.indices) == 0 or not result.data.any():
        raise ValueError(
            "there are no co-occurrences: no two words of the vocabulary stand within the window; "
            "count longer lines, or with boundary='none'"
        )
    return result


def _matrix_counts(matrix: Any) -> Counts:
    from scipy import sparse

    if not sparse.issparse(matrix) and not isinstance(matrix, np.ndarray):
        raise TypeError(f"counts is a {type(matrix).__name__}; expected a CountStore or a symmetric matrix of counts")
    given = matrix
    matrix = sparse.csr_array(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"counts have shape {matrix.shape}; expected a square matrix, words by words")
    if matrix.data.dtype.kind not in "biuf":
        raise ValueError(f"counts hold {matrix.data.dtype}; expected numbers")
    if not matrix.has_canonical_format:
        matrix = (
            matrix.copy()
            if matrix is given or np.shares_memory(matrix.data, getattr(given, "data", matrix.data))
            else matrix
        )
        matrix.sum_duplicates()
    if matrix.data.dtype.kind == "f" and not np.isfinite(matrix.data).all():
        raise ValueError("counts hold values that are not finite")
    if len(matrix.data) and matrix.data.min() < 0:
        raise ValueError(f"counts hold {matrix.data.min()}; expected numbers that are not negative")
    turned = matrix.T.tocsr()
    turned.sort_indices()
    if not (
        np.array_equal(matrix.indptr, turned.indptr)
        and np.array_equal(matrix.indices, turned.indices)
        and np.allclose(matrix.data, turned.data, rtol=1e-9)
    ):
        raise ValueError("the count matrix is not symmetric; give W + W' for one-sided counts W")
    data = matrix.data
    if data.dtype.name not in ("uint8", "uint16", "uint32", "uint64", "int64", "float32", "float64"):
        data = data.astype(np.float32 if data.dtype.kind == "f" else np.int64)
    if matrix.indices.dtype not in (np.int32, np.int64):
        matrix.indices = matrix.indices.astype(np.int64)
    return Counts(matrix.indptr.astype(np.int64), matrix.indices, data, 1.0, False)


def row_sums(counts: Counts, n_threads: int | None = None) -> np.ndarray:
    """Row sums of the raw data in float64, not yet divided by the scale."""
    from ._kernels.pmi import csr_row_sums

    sums = np.zeros(counts.n_words)
    csr_row_sums(counts.data, counts.indptr, sums, resolve_threads(n_threads))
    return sums


def pmi_matrix(
    counts: Counts,
    alpha: float | str | None = None,
    shift: float = 0.0,
    smoothing: float = 1.0,
    smooth: str = "both",
    dtype: Any = np.float32,
    n_threads: int | None = None,
) -> PMIMatrix:
    """Base-2 PMI of the observed pairs above a threshold (Soleimani & Matwin 2018, eq. 5).

    Parameters
    ----------
    counts : Counts
        Used up: where they are `owned`, their memory becomes the result's.
    alpha : float, "auto" or None
        Threshold in bits; kept are the pairs with PMI > alpha. None keeps every observed pair; "auto" takes the
        threshold at which negative entries are two thirds of the positive ones (every pair, where they are fewer).
    shift : float
        Added to every kept entry, in bits.
    smoothing : float
        Exponent a of the marginals, r^a / sum r^a.
    smooth : {"both", "context"}
        Smooth both marginals, or those of the columns only (the result is then not symmetric).

    Returns
    -------
    PMIMatrix
    """
    from scipy.sparse import csr_array

    from ._kernels.pmi import csr_compact, pmi_values, rows_above

    threads = resolve_threads(n_threads)
    n = counts.n_words
    sums = row_sums(counts, threads)
    total = float(sums.sum())
    smoothed = _log_marginals(sums, smoothing)
    columns = -smoothed
    rows = (columns if smooth == "both" else -_log_marginals(sums, 1.0)) - math.log2(total)
    dtype = np.dtype(dtype)
    data, indices, indptr = counts.data, counts.indices, counts.indptr
    in_place = counts.owned and data.itemsize == dtype.itemsize and data.flags.writeable
    values = data.view(dtype) if in_place else np.empty(len(data), dtype=dtype)
    with np.errstate(divide="ignore"):
        logs = np.log2(np.arange(256 if data.dtype == np.uint8 else 4096, dtype=np.float64))
    for begin, end in _row_slices(indptr, _SLICE * threads):
        pmi_values(data, indices, indptr, rows, columns, logs, values, begin, end, threads)
    if not counts.owned or not indices.flags.writeable:
        indices = indices.copy()
    n_observed = len(values) - int(np.count_nonzero(np.isneginf(values))) if data.dtype.kind == "f" else len(values)
    counts.data = data = np.empty(0, data.dtype)
    counts.indices = np.empty(0, indices.dtype)
    if alpha == "auto":
        alpha = _balanced_threshold(values)
    cut = -math.inf if alpha is None else float(alpha)
    kept, positive, negative = (np.empty(n, dtype=np.int64) for _ in range(3))
    rows_above(values, indptr, cut, kept, positive, negative, threads)
    place = 0
    for begin, end in _row_slices(indptr, 4 * _SLICE):
        place = csr_compact(values, indices, indptr, cut, shift, place, begin, end)
    new_indptr = np.concatenate([[0], np.cumsum(kept)])
    if place < 2**31:
        new_indptr = new_indptr.astype(np.int32)
    matrix = csr_array((values[:place], indices[:place], new_indptr), shape=(n, n))
    return PMIMatrix(
        matrix,
        n_observed,
        int(positive.sum()),
        int(negative.sum()),
        None if alpha is None else cut,
        sums / counts.scale,
        -rows - shift - math.log2(counts.scale),
        -columns,
    )


def _log_marginals(sums: np.ndarray, smoothing: float) -> np.ndarray:
    """log2 of r^a / sum r^a; 0 for words that occur with no other (they have no entries)."""
    present = sums > 0
    logs = np.zeros(len(sums))
    powers = smoothing * np.log2(sums[present])
    top = powers.max()
    logs[present] = powers - (top + math.log2(float(np.exp2(powers - top).sum())))
    return logs


def _balanced_threshold(values: np.ndarray) -> float | None:
    positives = int(np.count_nonzero(values > 0))
    negatives = values[(values < 0) & np.isfinite(values)]
    wanted = int(NEGATIVES_PER_POSITIVE * positives)
    if len(negatives) <= wanted:
        return None
    place = len(negatives) - wanted - 1  # the largest value that is dropped
    return float(np.partition(negatives, place)[place])


def _row_slices(indptr: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Ranges of rows with about `size` entries each."""
    n_slices = max(1, -(-int(indptr[-1]) // size))
    edges = np.searchsorted(indptr, np.linspace(0, indptr[-1], n_slices + 1).astype(np.int64))
    edges[0], edges[-1] = 0, len(indptr) - 1
    return [(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:]) if b > a]


class PMI(Estimator):
    """Pointwise mutual information as a sparse matrix.

    Parameters
    ----------
    alpha : float, "auto" or None
        Threshold in `units`: pairs with PMI > alpha are kept; None keeps every observed pair; "auto" keeps negatives
        at two thirds of the positives.
    shift : float
        Added to every kept entry, in `units`.
    window, weight :
        As for `CountStore.window`; None is 5 and flat, or a windowed store's own.
    smoothing : float
        Exponent of the marginals, in (0, 1].
    smooth : {"both", "context"}
        Which marginals are smoothed; "context" gives a matrix that is not symmetric.
    units : {"bits", "nats"}
        Base 2 or natural logarithms.
    dtype : {"float32", "float64"}
    n_threads : int or None

    Attributes
    ----------
    n_observed_, n_kept_, n_positive_, n_negative_ : int
        Observed pairs, kept entries, and these by sign before the shift.
    alpha_ : float or None
        The threshold used, in `units`.
    row_sums_ : ndarray of float64, shape (n_words,)
        Row sums of the counts.
    """

    def __init__(
        self,
        alpha: float | str | None = None,
        shift: float = 0.0,
        window: int | None = None,
        weight: Any = None,
        smoothing: float = 1.0,
        smooth: str = "both",
        units: str = "bits",
        dtype: str = "float32",
        n_threads: int | None = None,
    ):
        self.alpha, self.shift, self.window, self.weight = alpha, shift, window, weight
        self.smoothing, self.smooth, self.units, self.dtype, self.n_threads = smoothing, smooth, units, dtype, n_threads

    def fit(self, counts: Any, y: Any = None) -> PMI:
        """Compute the matrix of `counts` and keep what it says about the threshold."""
        self.fit_transform(counts)
        return self

    def transform(self, counts: Any) -> Any:
        """The PMI matrix of `counts`."""
        return self.fit_transform(counts)

    def fit_transform(self, counts: Any, y: Any = None) -> Any:
        """The PMI matrix.

        Parameters
        ----------
        counts : CountStore or symmetric matrix of counts

        Returns
        -------
        csr_array of `dtype`, shape (n_words, n_words)
            In `units`; unobserved pairs and pairs below the threshold are not stored.
        """
        check_choice("units", self.units, ("bits", "nats"))
        check_choice("smooth", self.smooth, ("both", "context"))
        dtype = np.dtype(check_choice("dtype", str(self.dtype), ("float32", "float64")))
        unit = math.log(2) if self.units == "nats" else 1.0
        alpha = check_alpha(self.alpha)
        result = pmi_matrix(
            window_counts(counts, self.window, self.weight, self.n_threads),
            alpha / unit if isinstance(alpha, float) else alpha,
            check_real("shift", self.shift, minimum=-1e6, maximum=1e6) / unit,
            check_real("smoothing", self.smoothing, above=0, maximum=1),
            self.smooth,
            dtype,
            self.n_threads,
        )
        self.n_observed_, self.n_positive_, self.n_negative_ = result.n_observed, result.n_positive, result.n_negative
        self.alpha_ = None if result.alpha is None else result.alpha * unit
        self.row_sums_, self.n_kept_ = result.row_sums, int(result.matrix.nnz)
        if unit != 1.0:
            result.matrix.data *= dtype.type(unit)
        return result.matrix


def check_alpha(alpha: Any) -> float | str | None:
    """A threshold: a finite number, "auto" or None."""
    if alpha is None or (isinstance(alpha, str) and alpha == "auto"):
        return alpha
    if isinstance(alpha, str):
        raise ValueError(f"alpha is {alpha!r}; expected a number of bits, 'auto' or None for every observed pair")
    return check_real("alpha", alpha)
