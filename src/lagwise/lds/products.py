"""Stand-in for the sparse-minus-low-rank product until lagwise.operators is merged."""

from __future__ import annotations

from typing import Any

import numpy as np


class SparseMinusLowRank:
    """Y = scale * row_scale * (N (col_scale * X)) - U (Z'X) by SciPy."""

    def __init__(self, matrix: Any, scale: float, row_scale: np.ndarray, col_scale: np.ndarray, U: np.ndarray,
                 Z: np.ndarray, dtype: Any = np.float64, n_threads: int | None = None):
        from scipy.sparse import csr_array

        N = csr_array(matrix).astype(dtype)
        rows = np.repeat(np.arange(N.shape[0]), np.diff(N.indptr))
        N.data *= (scale * row_scale[rows] * col_scale[N.indices]).astype(dtype)
        self.N, self.NT = N, csr_array(N.T)
        self.U, self.Z = U.astype(dtype), Z.astype(dtype)

    def matmat(self, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        result = self.N @ X - self.U @ (self.Z.T @ X)
        if out is None:
            return result
        out[...] = result
        return out

    def rmatmat(self, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        result = self.NT @ X - self.Z @ (self.U.T @ X)
        if out is None:
            return result
        out[...] = result
        return out
