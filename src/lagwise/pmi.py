"""Association matrices of counts: thresholded PMI and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._estimator import Estimator
from ._threads import resolve_threads
from ._validation import check_choice, check_fitted, check_real

_LOG_TABLE = 1 << 16


def marginals(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column sums of a CSR matrix, float64 (exact below 2**53)."""
    ends = np.concatenate([[0], np.cumsum(data, dtype=np.float64 if data.dtype.kind == "f" else np.uint64)])
    rows = (ends[indptr[1:]] - ends[indptr[:-1]]).astype(np.float64)
    columns = np.bincount(indices, weights=data, minlength=len(indptr) - 1)
    return rows, columns


def log_marginal(sums: np.ndarray, smoothing: float) -> np.ndarray:
    """log2 of r^a / sum r^a; words that never occur get 0 (they have no entries to use it)."""
    shares = np.where(sums > 0, sums, 0.0) / (sums.sum() or 1.0)
    powered = np.where(shares > 0, shares**smoothing, 0.0)
    powered /= powered.sum() or 1.0
    return np.log2(powered, out=np.zeros_like(powered), where=powered > 0)


def pmi_arrays(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    *,
    alpha: float | None,
    shift: float = 0.0,
    smoothing: float = 1.0,
    smooth: str = "both",
    units: str = "bits",
    dtype: Any = np.float32,
    n_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """PMI_ij = log2(X_ij S / (r_i r_j)) of a symmetric count matrix; entries above `alpha` bits stay, plus `shift`.

    Parameters
    ----------
    indptr, indices, data : ndarray
        X as CSR, unsigned or float64 data; a common scale of all counts does not matter.
    alpha : float or None
        Threshold in bits (strictly above); None keeps every observed pair.
    shift : float
        Added to every kept entry, bits.
    smoothing : float
        Exponent of the marginals.
    smooth : {"both", "context"}
        Smooth the marginals of words and contexts (symmetric), or of contexts only.
    units : {"bits", "nats"}
        Of the values.

    Returns
    -------
    indptr (int64), indices (int32), data (dtype), n_observed

    References
    ----------
    Soleimani & Matwin (AAAI 2018), equation for M^alpha; Levy, Goldberg & Dagan (TACL 2015) for smoothing.
    """
    from ._kernels.pmi import pmi_fill, pmi_lengths

    threads = resolve_threads(n_threads)
    if data.dtype.kind == "i":
        data = data.astype(np.uint64)
    rows, columns = marginals(indptr, indices, data)
    total = np.log2(rows.sum()) if rows.sum() > 0 else 0.0
    column_log = -log_marginal(columns, smoothing)
    row_log = -log_marginal(rows, smoothing if smooth == "both" else 1.0) - total
    if smooth == "both":  # the same number on both sides, so that the matrix is symmetric to the last bit
        row_log, column_log = column_log - total / 2, column_log - total / 2
    logs = np.zeros(_LOG_TABLE)
    logs[1:] = np.log2(np.arange(1, _LOG_TABLE))
    indptr = np.ascontiguousarray(indptr, dtype=np.int64)
    lengths = np.empty(len(indptr) - 1, dtype=np.int64)
    everything, threshold = alpha is None, 0.0 if alpha is None else float(alpha)
    given = (indptr, indices, data, logs, row_log, column_log, threshold, everything)
    pmi_lengths(*given, lengths, threads)
    out_indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    out_indices = np.empty(out_indptr[-1], dtype=np.int32)
    out_data = np.empty(out_indptr[-1], dtype=dtype)
    unit = 1.0 if units == "bits" else float(np.log(2.0))
    pmi_fill(*given, float(shift), unit, out_indptr, out_indices, out_data, threads)
    return out_indptr, out_indices, out_data, len(indices)


def as_csr(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> Any:
    """A square csr_array without copies."""
    from scipy.sparse import csr_array

    n = len(indptr) - 1
    if len(indices) < 2**31:
        indptr = indptr.astype(np.int32)
    matrix = csr_array((data, indices, indptr), shape=(n, n))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


class PMI(Estimator):
    """The PMI matrix of a count store, as a transformer.

    Parameters
    ----------
    alpha : float or None
        Threshold in bits; entries not above it are not stored. None keeps every observed pair.
    shift : float
        Added to every kept entry, bits.
    window, weight
        As for `CountStore.window`; None takes the store's own (5 and flat for a store of lags).
    smoothing : float
        Exponent of the marginals, 1 for none.
    smooth : {"both", "context"}
    units : {"bits", "nats"}
        Of the values returned; `alpha` and `shift` are bits in any case.
    n_threads : int, optional

    Attributes
    ----------
    n_observed_, n_kept_, n_positive_, n_negative_ : int
        Nonzeros of the counts and of the matrix, by sign before the shift.

    References
    ----------
    Church & Hanks (1990); Soleimani & Matwin (AAAI 2018).
    """

    def __init__(
        self,
        alpha: float | None = 0.0,
        shift: float = 0.0,
        window: int | None = None,
        weight: Any = None,
        smoothing: float = 1.0,
        smooth: str = "both",
        units: str = "bits",
        n_threads: int | None = None,
    ):
        self.alpha, self.shift, self.window, self.weight = alpha, shift, window, weight
        self.smoothing, self.smooth, self.units, self.n_threads = smoothing, smooth, units, n_threads

    def fit(self, counts: Any, y: Any = None) -> PMI:
        """Compute the matrix of a CountStore."""
        self._fit(counts)
        return self

    def fit_transform(self, counts: Any, y: Any = None) -> Any:
        """The matrix of a CountStore, csr_array of float64, shape (n_words, n_words)."""
        return self._fit(counts)

    def transform(self, counts: Any) -> Any:
        """The matrix of a CountStore with the same parameters."""
        check_fitted(self, "n_kept_")
        return self._fit(counts)

    def _fit(self, counts: Any) -> Any:
        alpha = None if self.alpha is None else check_real("alpha", self.alpha)
        check_choice("smooth", self.smooth, ("both", "context"))
        check_choice("units", self.units, ("bits", "nats"))
        indptr, indices, data, _ = counts.window_arrays(self.window, self.weight, self.n_threads)
        shift = check_real("shift", self.shift)
        *arrays, self.n_observed_ = pmi_arrays(
            indptr,
            indices,
            data,
            alpha=alpha,
            shift=shift,
            smoothing=check_real("smoothing", self.smoothing, minimum=0),
            smooth=self.smooth,
            units=self.units,
            dtype=np.float64,
            n_threads=self.n_threads,
        )
        unit = 1.0 if self.units == "bits" else float(np.log(2.0))
        self.n_kept_ = len(arrays[1])
        self.n_positive_ = int((arrays[2] > shift * unit).sum())
        self.n_negative_ = int((arrays[2] < shift * unit).sum())
        return as_csr(*arrays)
