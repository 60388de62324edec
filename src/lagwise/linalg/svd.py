"""Singular triplets of a rectangular or unsymmetric operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._validation import check_int, check_random_state, check_real
from .lanczos import EigenResult, check_operator, eigsh
from .panels import Panels, fix_signs

_HALVES = 2**0.5  # an eigenvector's residual is the root mean square of those of its halves, made of length 1


@dataclass
class SVDResult:
    """Leading singular triplets: U (n, k) and V (m, k) with orthonormal columns, values (k,) float64 falling.

    The entry of largest modulus of each column of U is positive (ties go to the first); `residual` is the largest
    ``|A v - s u|`` or ``|A' u - s v|`` over the largest singular value; `n_products` counts columns multiplied by A
    or A'.
    """

    U: np.ndarray
    values: np.ndarray
    V: np.ndarray
    residual: float
    n_products: int
    converged: bool


class SymmetricEmbedding:
    """The symmetric operator [[0, A], [A', 0]], whose positive eigenvalues are A's singular values."""

    def __init__(self, operator: Any):
        self.operator = operator
        self.n, self.m = operator.shape
        self.shape = (self.n + self.m,) * 2
        self.dtype = operator.dtype

    def matmat(self, X: np.ndarray) -> np.ndarray:
        """The embedding times a block of shape (n + m, k)."""
        top = self.operator.matmat(np.ascontiguousarray(X[self.n :]))
        return np.concatenate([top, self.operator.rmatmat(np.ascontiguousarray(X[: self.n]))])

    rmatmat = matmat


def golub_kahan(
    operator: Any,
    k: int,
    tol: float = 1e-4,
    block: int = 16,
    random_state: Any = 0,
    n_threads: int | None = None,
    dtype: Any = None,
    max_products: int | None = None,
    callback: Callable[[int, int, float], Any] | None = None,
) -> SVDResult:
    """The k leading singular triplets to a residual, by block Lanczos on the symmetric embedding.

    Parameters
    ----------
    operator : object with matmat, rmatmat, shape, dtype
    k : int
    tol, block, random_state, n_threads, dtype, max_products, callback :
        As for `eigsh`.

    Returns
    -------
    SVDResult
        Its residual is a bound on both kinds. On Ctrl-C the KeyboardInterrupt has the one reached as `partial`, or None.
    """
    check_operator(operator, "rmatmat")
    n, m = (int(size) for size in operator.shape)
    k = check_int("k", k, 1, min(n, m))
    try:
        found = eigsh(
            SymmetricEmbedding(operator),
            k,
            "LA",
            tol=check_real("tol", tol, minimum=0) / _HALVES,
            block=block,
            random_state=random_state,
            n_threads=n_threads,
            dtype=dtype,
            max_products=max_products,
            callback=callback,
        )
    except KeyboardInterrupt as stop:
        partial = getattr(stop, "partial", None)
        stop.partial = None if partial is None else _triplets(partial, n, n_threads)  # type: ignore[attr-defined]
        raise
    return _triplets(found, n, n_threads)


def _triplets(found: EigenResult, n: int, n_threads: int | None) -> SVDResult:
    """Singular triplets of eigenpairs of the embedding."""
    U, V = _split(found.vectors, n, n_threads)
    # A zero singular value leaves the halves of its eigenvector undetermined: complete them.
    signs = fix_signs(U).astype(U.dtype)
    values = np.maximum(found.values, 0.0)
    return SVDResult(U * signs, values, V * signs, _HALVES * found.residual, 2 * found.n_products, found.converged)


def _split(vectors: np.ndarray, n: int, n_threads: int | None) -> tuple[np.ndarray, np.ndarray]:
    halves = []
    for part in (np.ascontiguousarray(vectors[:n]), np.ascontiguousarray(vectors[n:])):
        with Panels(len(part), n_threads) as panels:
            R = panels.qr(part)
        halves.append(part * np.where(np.diag(R) < 0, -1, 1).astype(part.dtype))
    return halves[0], halves[1]


def randomized_svd(
    operator: Any,
    k: int,
    oversample: int = 10,
    n_iter: int = 4,
    random_state: Any = 0,
    n_threads: int | None = None,
    dtype: Any = None,
    callback: Callable[[int], Any] | None = None,
) -> SVDResult:
    """Randomised subspace iteration, re-orthonormalised after every product (Halko, Martinsson & Tropp 2011, alg. 4.4).

    Good where singular values fall off quickly, as for the Hankel operator of the LDS; for slowly falling spectra use
    `golub_kahan`. The number of products is fixed: the residual is measured, and `converged` is always True.

    Parameters
    ----------
    operator : object with matmat, rmatmat, shape, dtype
    k : int
    oversample : int
        Columns beyond k.
    n_iter : int
        Power iterations (a product with A' and one with A each).
    random_state, n_threads, dtype :
        As for `eigsh`.
    callback : callable(products done), optional

    Returns
    -------
    SVDResult
    """
    check_operator(operator, "rmatmat")
    n, m = (int(size) for size in operator.shape)
    k = check_int("k", k, 1, min(n, m))
    width = min(k + check_int("oversample", oversample, 0), n, m)
    n_iter = check_int("n_iter", n_iter, 0)
    dtype = np.dtype(operator.dtype if dtype is None else dtype)
    X = check_random_state(random_state).standard_normal((m, width)).astype(dtype)
    with Panels(n, n_threads) as tall, Panels(m, n_threads) as wide:
        done = 0

        def multiply(product: Callable[[np.ndarray], np.ndarray], block: np.ndarray) -> np.ndarray:
            nonlocal done
            result = np.ascontiguousarray(product(block), dtype=dtype)
            if not np.isfinite(result).all():
                raise ValueError("the operator's products are not finite; look for NaN or infinite entries")
            done += width
            if callback is not None:
                callback(done)
            return result

        Q = multiply(operator.matmat, X)
        tall.qr(Q)
        for _ in range(n_iter):
            P = multiply(operator.rmatmat, Q)
            wide.qr(P)
            Q = multiply(operator.matmat, P)
            tall.qr(Q)
        B = multiply(operator.rmatmat, Q)  # A'Q = P R, so A is about Q R' P'
        R = wide.qr(B)
        left, values, right = np.linalg.svd(R.T)
        U, V = tall.multiply(Q, left[:, :k]), wide.multiply(B, right[:k].T)
        values = values[:k]
        signs = fix_signs(U).astype(dtype)
        U *= signs
        V *= signs
        gap = multiply(operator.matmat, V) - U * values.astype(dtype)
        scale = float(values[0]) or 1.0
        residual = float(tall.norms(gap).max()) / scale
    return SVDResult(U, values, V, residual, done, True)
