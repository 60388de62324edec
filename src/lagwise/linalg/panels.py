"""Products and QR of tall dense blocks, cut into fixed row panels so that the result never depends on threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np

from .._kernels import tall
from .._threads import resolve_threads, single_threaded_blas

PANEL_ROWS = 2048
_WORST_INVERSE = 1e3  # entries of the inverse of the scaled Cholesky factor: columns are dependent to about 1e-3


class Panels:
    """Tall dense algebra over panels of `PANEL_ROWS` rows, shared among threads.

    Narrow blocks go to kernels of our own, wide ones to BLAS. Use it as a context: inside, BLAS is held at one thread.
    Each panel is computed by one thread, sums over panels run in float64 in the order of the panels, so results are
    bitwise equal for any number of threads.

    Parameters
    ----------
    n_rows : int
        Rows of every tall block.
    n_threads : int or None
    """

    def __init__(self, n_rows: int, n_threads: int | None = None):
        self.n_rows = n_rows
        self.n_threads = resolve_threads(n_threads)
        self.slices = [slice(first, min(first + PANEL_ROWS, n_rows)) for first in range(0, n_rows, PANEL_ROWS)]
        self._kernel_threads = min(self.n_threads, max(1, len(self.slices) // 2))  # starting them for less does not pay
        self._stack: ExitStack | None = None
        self._pool: Any = None

    def __enter__(self) -> Panels:
        self._stack = ExitStack()
        self._stack.enter_context(single_threaded_blas())
        if self.n_threads > 1 and len(self.slices) > 1:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = self._stack.enter_context(ThreadPoolExecutor(self.n_threads, "lagwise-panels"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._stack is not None
        self._pool = None
        self._stack.close()

    def _map(self, work: Callable[[slice], Any]) -> list[Any]:
        if self._pool is None:
            return [work(rows) for rows in self.slices]
        return list(self._pool.map(work, self.slices))

    def inner(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """A'B, float64 of shape (p, q), for A (n, p) and B (n, q)."""
        shape = A.shape[1], B.shape[1]
        if not _narrow(B, A):
            return _total(self._map(lambda rows: A[rows].T @ B[rows]), shape)
        parts = np.empty((len(self.slices), *shape))
        tall.tall_inner(A, B, PANEL_ROWS, np.empty(parts.shape, dtype=B.dtype), parts, self._kernel_threads)
        return _total(parts, shape)

    def subtract(self, X: np.ndarray, Q: np.ndarray, C: np.ndarray) -> None:
        """X -= Q C in place, for X (n, b), Q (n, m), C (m, b)."""
        C = np.ascontiguousarray(C, dtype=X.dtype)
        if _narrow(X, Q):
            tall.tall_subtract(X, Q, C, PANEL_ROWS, self._kernel_threads)
            return

        def work(rows: slice) -> None:
            X[rows] -= Q[rows] @ C

        self._map(work)

    def multiply(self, Q: np.ndarray, C: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Q C of shape (n, b); `out` may be the first columns of Q itself."""
        C = np.ascontiguousarray(C, dtype=Q.dtype)
        if out is None:
            out = np.empty((Q.shape[0], C.shape[1]), dtype=Q.dtype)

        def work(rows: slice) -> None:
            out[rows] = Q[rows] @ C

        self._map(work)
        return out

    def norms(self, X: np.ndarray) -> np.ndarray:
        """Euclidean norms of the columns, float64."""
        total = np.zeros(X.shape[1])
        for part in self._map(lambda rows: np.einsum("ij,ij->j", X[rows], X[rows], dtype=np.float64)):
            total += part
        return np.sqrt(total)

    def qr(self, X: np.ndarray) -> np.ndarray:
        """Replace X (n, b) by orthonormal columns of the same span and return R (b, b), float64, so that X_old = Q R.

        By the Cholesky factor of X'X, summed in float64, while X is well enough conditioned; otherwise by Householder
        reflections, where columns that depend on earlier ones come out as arbitrary directions with a (nearly) zero on
        R's diagonal.
        """
        n, b = X.shape
        if n < b:
            raise ValueError(f"cannot orthonormalise {b} columns of {n} rows")
        R = self._cholesky_step(X)
        if R is None:
            return self._householder_qr(X)
        if X.dtype == np.float64:  # the error of one step, eps cond(X)^2, is below the rounding of float32 only
            again = self._cholesky_step(X)
            R = R if again is None else again @ R
        return R

    def _cholesky_step(self, X: np.ndarray) -> np.ndarray | None:
        """X R^-1 in place, R'R = X'X; None, with X untouched, if X is too near to dependent columns."""
        gram = self._gram(X)
        scale = np.sqrt(np.diag(gram))
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            return None
        try:
            unit = np.linalg.cholesky(gram / np.outer(scale, scale)).T
        except np.linalg.LinAlgError:
            return None
        inverse = np.linalg.inv(unit)
        if np.abs(inverse).max() > _WORST_INVERSE:
            return None
        inverse /= scale[:, None]
        if _narrow(X):
            tall.tall_scale(X, inverse, PANEL_ROWS, self._kernel_threads)
        else:

            def work(rows: slice) -> None:
                X[rows] = X[rows].astype(np.float64) @ inverse

            self._map(work)
        return unit * scale

    def _gram(self, X: np.ndarray) -> np.ndarray:
        """X'X, products and sums in float64."""
        shape = (X.shape[1],) * 2
        if _narrow(X):
            parts = np.empty((len(self.slices), *shape))
            tall.tall_gram(X, PANEL_ROWS, parts, self._kernel_threads)
            return _total(parts, shape)

        def product(rows: slice) -> np.ndarray:
            part = X[rows].astype(np.float64)
            return part.T @ part

        return _total(self._map(product), shape)

    def _householder_qr(self, X: np.ndarray) -> np.ndarray:
        """QR of each panel in float64, then of the stacked triangles: as stable as QR of the whole."""
        factors = self._map(lambda rows: np.linalg.qr(X[rows].astype(np.float64)))
        top, R = np.linalg.qr(np.concatenate([triangle for _, triangle in factors]))
        starts = np.cumsum([0, *(triangle.shape[0] for _, triangle in factors)])
        by_start = {rows.start: number for number, rows in enumerate(self.slices)}

        def work(rows: slice) -> None:
            number = by_start[rows.start]
            X[rows] = factors[number][0] @ top[starts[number] : starts[number + 1]]

        self._map(work)
        return R


def _narrow(block: np.ndarray, wide: np.ndarray | None = None) -> bool:
    """Whether the kernels take this block, and what it meets: few columns, whole vectors of them, row by row."""
    n, q = block.shape
    mate = block if wide is None else wide
    return (
        n > 0
        and 0 < q <= tall.MAX_WIDTH
        and q * block.itemsize % tall.VECTOR_BYTES == 0
        and mate.dtype == block.dtype
        and mate.shape[1] > 0
        and mate.strides[1] == block.strides[1] == block.itemsize
    )


def _total(parts: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Sum of the panels' parts in their order, float64."""
    total = np.zeros(shape)
    for part in parts:
        total += part
    return total


def fix_signs(vectors: np.ndarray) -> np.ndarray:
    """Signs, float64, that make the entry of largest modulus of each column positive; ties go to the first."""
    signs = np.ones(vectors.shape[1])
    if vectors.shape[0]:
        for column in range(vectors.shape[1]):  # one at a time: no copy of the whole block
            values = np.abs(vectors[:, column])
            signs[column] = -1.0 if vectors[np.argmax(values), column] < 0 else 1.0
    return signs
