"""Products of tall arrays in fixed row panels: the same bits for any number of threads, float64 sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._threads import resolve_threads, single_threaded_blas

PANEL = 2048  # rows; a float32 sum never runs longer than this


class Tall:
    """A pool of threads for work on row panels; BLAS stays on one thread inside.

    Parameters
    ----------
    n_threads : int or None
        As everywhere in lagwise; results never depend on it.
    """

    def __init__(self, n_threads: int | None = None):
        self.n_threads = resolve_threads(n_threads)
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def running(self) -> Iterator[Tall]:
        """Hold the threads for a stretch of work (nested calls share them)."""
        if self._pool is not None or self.n_threads == 1:
            with single_threaded_blas():
                yield self
            return
        with single_threaded_blas(), ThreadPoolExecutor(self.n_threads) as pool:
            self._pool = pool
            try:
                yield self
            finally:
                self._pool = None

    def rows(self, work: Callable[[slice], None], n_rows: int) -> None:
        """Call `work` on every panel of rows."""
        self.tasks(work, [slice(start, min(start + PANEL, n_rows)) for start in range(0, n_rows, PANEL)])

    def tasks(self, work: Callable[[Any], None], items: Sequence[Any]) -> None:
        """Call `work` on every item, in the threads held; no thread spins while it waits for the others."""
        if self._pool is None or len(items) < 2:
            for item in items:
                work(item)
        else:
            list(self._pool.map(work, items))

    def gram(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """X'Y in float64. X (V, a), Y (V, b) of one dtype -> (a, b).

        Where X is Y products are float64 too, so that the result is positive semidefinite to float64 rounding.
        """
        n_rows = X.shape[0]
        parts = np.empty((-(-n_rows // PANEL), X.shape[1], Y.shape[1]))

        def work(panel: slice) -> None:
            left = X[panel].astype(np.float64, copy=False) if X is Y else X[panel]
            parts[panel.start // PANEL] = left.T @ (left if X is Y else Y[panel])

        self.rows(work, n_rows)
        return parts.sum(axis=0)

    def mix(self, X: np.ndarray, M: np.ndarray, out: np.ndarray | None = None, add: bool = False) -> np.ndarray:
        """X M, or out += X M. X (V, a) and out (V, b) of one dtype, M (a, b) float64. `out` may be X."""
        small = np.ascontiguousarray(M, dtype=X.dtype)
        if out is None:
            out = np.empty((X.shape[0], M.shape[1]), dtype=X.dtype)

        def work(panel: slice) -> None:
            if add:
                out[panel] += X[panel] @ small
            else:
                out[panel] = X[panel] @ small

        self.rows(work, X.shape[0])
        return out

    def row_forms(self, X: np.ndarray, M: np.ndarray) -> np.ndarray:
        """diag(X M X') in float64, shape (V,)."""
        out = np.empty(X.shape[0])

        def work(panel: slice) -> None:
            block = X[panel].astype(np.float64)
            out[panel] = np.einsum("ij,ij->i", block @ M, block)

        self.rows(work, X.shape[0])
        return out
