"""The basis of a block Lanczos process: orthonormal columns, the operator projected onto them, the blocks to come."""

from __future__ import annotations

from typing import Any

import numpy as np

from .panels import Panels

_SMALLEST, _LARGEST = 1e-120, 1e120


class LanczosBasis:
    """Orthonormal columns Q of which the first `size` have been multiplied; `pending` more stand behind them.

    A Q[:, :size] = Q[:, :size + pending] T[:size + pending, :size], but for rounding. A step multiplies the first block
    that is pending, and what is new in the product joins the queue as its last block.

    Parameters
    ----------
    operator : object with matmat, shape
        Symmetric.
    capacity : int
        Columns before a restart; a multiple of block.
    block : int
        Columns of one product.
    dtype : dtype
    rng : numpy.random.Generator
    panels : Panels
    """

    def __init__(
        self, operator: Any, capacity: int, block: int, dtype: np.dtype, rng: np.random.Generator, panels: Panels
    ):
        self.operator, self.capacity, self.block, self.rng, self.panels = operator, capacity, block, rng, panels
        self.dtype = dtype
        self.Q = np.empty((operator.shape[0], capacity + block), dtype=dtype)
        self.T = np.zeros((capacity + block, capacity + block))
        self.size = self.pending = 0
        self.kept = 0  # columns taken over by the last restart
        self.n_products = 0

    @property
    def full(self) -> bool:
        """Whether there is no room for another step."""
        return self.size + self.pending > self.capacity

    def begin(self, X: np.ndarray) -> None:
        """Start from a block, made orthonormal."""
        X = X.astype(self.dtype)
        self._orthonormalise(X, 0)
        self.Q[:, : self.block] = X
        self.pending = self.block

    def extend(self) -> None:
        """Multiply the next block, project the product onto the basis, and orthonormalise what is left."""
        first, stop, end = self.size, self.size + self.block, self.size + self.pending
        basis = self.Q[:, :end]
        W = np.asarray(self.operator.matmat(np.ascontiguousarray(self.Q[:, first:stop])), dtype=self.dtype)
        self.n_products += self.block
        if first == 0:
            self._check_scale(float(np.abs(W).max(initial=0)))
        reach = first - self.pending if first - self.pending >= self.kept else 0  # columns before it are not reached
        C = np.zeros((end, self.block))
        C[reach:] = self.panels.inner(self.Q[:, reach:end], W)
        if not np.isfinite(C).all():
            raise ValueError("the operator's products are not finite; look for NaN or infinite entries")
        self.panels.subtract(W, self.Q[:, reach:end], C[reach:])
        again = self.panels.inner(basis, W)
        self.panels.subtract(W, basis, again)
        C += again
        C[first:stop] = (C[first:stop] + C[first:stop].T) / 2
        self.T[:end, first:stop] = C
        self.T[first:stop, :end] = C.T
        self.T[end : end + self.block, first:stop] = self._orthonormalise(W, end)
        self.Q[:, end : end + self.block] = W
        self.size = stop

    @staticmethod
    def _check_scale(largest: float) -> None:
        """Squares of the products must be numbers."""
        if 0 < largest < _SMALLEST or _LARGEST < largest < np.inf:
            raise ValueError(
                f"the operator's products are of the order of {largest:.0e}; multiply it by a number that brings them "
                f"between {_SMALLEST:.0e} and {_LARGEST:.0e}"
            )

    def _orthonormalise(self, W: np.ndarray, end: int) -> np.ndarray:
        """QR of W; directions that no column has are replaced by random ones orthogonal to Q[:, :end], with zeros in R.

        A column that depends on those before it leaves a zero on R's diagonal and an arbitrary direction, but columns
        behind it may have that direction: only a row of R without anything in it says that nothing is there.
        """
        R = self.panels.qr(W)
        basis = self.Q[:, :end]
        scale = max(float(np.abs(self.T).max()), float(np.abs(R).max()))
        eps, diagonal = np.finfo(self.dtype).eps, np.abs(np.diag(R))
        if end and diagonal.min() <= np.sqrt(eps) * scale:  # rounding has grown with what was taken out
            for _ in range(3):
                self.panels.subtract(W, basis, self.panels.inner(basis, W))
                again = self.panels.qr(W)
                R = again @ R
                if np.abs(np.diag(again)).min() > 0.5:
                    break
        dead = np.flatnonzero(np.linalg.norm(R, axis=1) <= 4 * eps * scale)
        if len(dead):
            R[dead] = 0
            self._randomise(W, dead, end)
        return R

    def _randomise(self, W: np.ndarray, columns: np.ndarray, end: int) -> None:
        """Put random columns into a block, which is then orthonormal and orthogonal to Q[:, :end]; the others stay."""
        W[:, columns] = self.rng.standard_normal((len(W), len(columns))).astype(self.dtype)
        basis = self.Q[:, :end]
        for _ in range(2):
            if end:
                self.panels.subtract(W, basis, self.panels.inner(basis, W))
            signs = np.diag(self.panels.qr(W))
            W *= np.where(signs < 0, -1, 1).astype(self.dtype)

    def residuals(self, Y: np.ndarray) -> np.ndarray:
        """Norms of A x - lambda x of Ritz vectors x = Q y: how strongly they are coupled to what is pending."""
        return np.linalg.norm(self._coupling(Y), axis=0)

    def _coupling(self, Y: np.ndarray) -> np.ndarray:
        return self.T[self.size : self.size + self.pending, : self.size] @ Y

    def keep(self, values: np.ndarray, Y: np.ndarray) -> None:
        """Restart: the columns become the Ritz vectors Q Y; what is pending stands behind them, coupled."""
        kept, old, pending = len(values), self.size, self.pending
        coupling = self._coupling(Y)
        self.panels.multiply(self.Q[:, :old], Y, out=self.Q[:, :kept])
        self.Q[:, kept : kept + pending] = self.Q[:, old : old + pending].copy()
        self.T[:] = 0
        self.T[np.arange(kept), np.arange(kept)] = values
        self.T[kept : kept + pending, :kept] = coupling
        self.size = self.kept = kept

    def widen(self, width: int) -> None:
        """Put random columns at the head of the queue, right after a restart; nothing that is coupled is lost."""
        size, end = self.size, self.size + self.pending
        X = np.empty((len(self.Q), width), dtype=self.dtype)
        self._randomise(X, np.arange(width), end)
        self.Q[:, size + width : end + width] = self.Q[:, size:end].copy()
        self.Q[:, size : size + width] = X
        self.T[size + width : end + width, :size] = self.T[size:end, :size].copy()
        self.T[size : size + width, :size] = 0
        self.pending += width
