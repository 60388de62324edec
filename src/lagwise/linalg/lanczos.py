"""Leading eigenpairs of a symmetric operator by thick-restart block Lanczos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._validation import check_choice, check_int, check_random_state, check_real
from .basis import LanczosBasis
from .panels import Panels, fix_signs

_DENSE = 600  # up to this order the whole matrix is formed and solved exactly
_CHECK_COLUMNS = 64  # columns between two looks at the Ritz values
_EQUAL = 1e-5  # eigenvalues nearer than this, relative to the largest, are taken to be copies of one
_ROUNDS = 6  # products with all that is pending before random columns have shown what they reach
_ORTHONORMAL = 1e-3  # vectors farther from orthonormal than this are not taken as they are


class NoConvergence(RuntimeError):
    """The residual did not fall below the tolerance; `result` holds what was reached."""

    def __init__(self, message: str, result: EigenResult):
        super().__init__(message)
        self.result = result


@dataclass
class EigenResult:
    """Leading eigenpairs.

    Attributes
    ----------
    values : ndarray of float64, shape (k,)
        By falling value ("LA") or modulus ("LM").
    vectors : ndarray, shape (n, k)
        Orthonormal columns; the entry of largest modulus is positive, ties go to the first.
    residuals : ndarray of float64, shape (k,)
        ``|A v - lambda v|`` of each pair, by the Lanczos recurrence.
    residual : float
        The largest of them over the largest eigenvalue modulus.
    n_products : int
        Columns multiplied by the operator.
    n_restarts : int
    converged : bool
    opposite : ndarray of float64
        Negative eigenvalues (Ritz values) found besides; those whose modulus reaches the last kept one were followed
        like the kept ones.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    residual: float
    n_products: int
    n_restarts: int
    converged: bool
    opposite: np.ndarray = field(default_factory=lambda: np.empty(0))


def eigsh(
    operator: Any,
    k: int,
    which: str = "LA",
    tol: float = 1e-4,
    block: int = 16,
    basis: int | None = None,
    max_products: int | None = None,
    start: np.ndarray | None = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    dtype: Any = None,
    callback: Callable[[int, int, float], Any] | None = None,
    strict: bool = False,
) -> EigenResult:
    """The k algebraically largest (or largest by modulus) eigenpairs of a symmetric operator.

    Thick-restart block Lanczos with full re-orthogonalisation after the recurrence; a basis of about 4 k columns is
    restarted with 1.25 k Ritz vectors. Coefficients are summed in float64 whatever the dtype of the basis; the same seed gives
    the same bits for any number of threads. Small matrices (order up to 600 or the size of the basis) are formed and
    solved exactly, which also serves those with many equal eigenvalues.

    Parameters
    ----------
    operator : object with matmat, shape, dtype
        Symmetric; `lagwise.operators.Operator`, or a SciPy LinearOperator.
    k : int
    which : {"LA", "LM"}
        Algebraically largest, or largest by modulus.
    tol : float
        Bound on the largest residual over the largest modulus of an eigenvalue.
    block : int
        Columns of one product.
    basis : int, optional
        Columns of the basis before a restart; default 4 k and at least k + 6 blocks.
    max_products : int, optional
        Columns multiplied at most; default 40 (k + block) + 1000.
    start : ndarray of shape (n, block), optional
        First block; default random normal.
    random_state : int, Generator, RandomState or None
    n_threads : int or None
    dtype : {"float32", "float64"}, optional
        Of the basis; default float32 where the operator's is and tol is at least 1e-6.
    callback : callable(n_products, n_converged, residual), optional
        Called after every product.
    strict : bool
        Raise NoConvergence instead of returning what was reached.

    Returns
    -------
    EigenResult

    Raises
    ------
    ValueError
        For a shape that is not square or k out of range, or products that are not finite.
    NoConvergence
        With `strict`, when `max_products` did not suffice.
    KeyboardInterrupt
        On Ctrl-C; its attribute `partial` is the EigenResult reached, or None.
    """
    check_operator(operator)
    n = int(operator.shape[0])
    if len(operator.shape) != 2 or operator.shape[1] != n:
        raise ValueError(f"the operator has shape {tuple(operator.shape)}; expected a square one")
    k = check_int("k", k, 1, n)
    check_choice("which", which, ("LA", "LM"))
    tol = check_real("tol", tol, minimum=0)
    block = min(check_int("block", block, 1), max(1, n // 2))
    basis = max(4 * k, k + 6 * block) if basis is None else check_int("basis", basis, k + block)
    if n <= max(_DENSE, basis + 2 * block):
        return _dense(operator, k, which)
    if dtype is not None:
        check_choice("dtype", np.dtype(dtype).name, ("float32", "float64"))
    else:
        dtype = np.float32 if operator.dtype == np.float32 and tol >= 1e-6 else np.float64
    limit = 40 * (k + block) + 1000 if max_products is None else check_int("max_products", max_products, k + block)
    rng, panels = check_random_state(random_state), Panels(n, n_threads)
    space = LanczosBasis(operator, -(-basis // block) * block, block, np.dtype(dtype), rng, panels)
    state = _Lanczos(space, k, which)
    try:
        with panels:
            space.begin(rng.standard_normal((n, block)) if start is None else _checked_start(start, (n, block)))
            result = state.run(tol, limit, callback)
    except KeyboardInterrupt as stop:
        stop.partial = None  # type: ignore[attr-defined]
        if space.size >= k:
            with panels:
                stop.partial = state.extract(*state.ritz(), tol)  # type: ignore[attr-defined]
        raise
    if strict and not result.converged:
        reached = int(np.sum(result.residuals <= tol * np.abs(result.values).max()))
        raise NoConvergence(
            f"{reached} of {k} eigenpairs converged to {tol:g} in {result.n_products} products; raise "
            "max_products or tol",
            result,
        )
    return result


def block_krylov(
    operator: Any,
    k: int,
    passes: int = 8,
    block: int | None = None,
    which: str = "LA",
    random_state: Any = 0,
    n_threads: int | None = None,
    dtype: Any = None,
) -> EigenResult:
    """The cheap mode: one block Krylov space of a fixed number of passes, no restart; its residual is reported.

    Of an eigenvalue with more copies than a block has columns some may be missing; `eigsh` looks for them.

    Parameters
    ----------
    operator, k, which, random_state, n_threads, dtype :
        As for `eigsh`.
    passes : int
        Products of the operator with a block.
    block : int, optional
        Columns of a block; default enough that the space holds 1.25 k columns.

    Returns
    -------
    EigenResult
    """
    passes = check_int("passes", passes, 1)
    block = -(-5 * check_int("k", k, 1) // (4 * passes)) if block is None else check_int("block", block, 1)
    size = passes * block
    if size < k:
        raise ValueError(f"{passes} passes of {block} columns hold fewer than {k} eigenvectors; raise passes or block")
    return eigsh(
        operator,
        k,
        which,
        tol=0.0,
        block=block,
        basis=max(size, k + block),
        max_products=max(size, k + block),
        random_state=random_state,
        n_threads=n_threads,
        dtype=(dtype or (np.float32 if operator.dtype == np.float32 else np.float64)),
    )


def check_operator(operator: Any, *others: str) -> None:
    """TypeError for what is no real operator: matrices themselves, complex ones."""
    missing = [name for name in ("matmat", "shape", "dtype", *others) if not hasattr(operator, name)]
    if missing:
        raise TypeError(
            f"operator is a {type(operator).__name__} without {', '.join(missing)}; wrap a matrix in "
            "lagwise.operators.SparseMinusLowRank or scipy.sparse.linalg.aslinearoperator"
        )
    if operator.dtype is not None and np.dtype(operator.dtype).kind == "c":
        raise TypeError(f"operator has dtype {operator.dtype}; expected real numbers")


def _checked_start(start: Any, shape: tuple[int, int]) -> np.ndarray:
    X = np.array(start)
    if X.shape != shape:
        raise ValueError(f"start has shape {X.shape}; expected {shape}")
    return X


def _dense(operator: Any, k: int, which: str) -> EigenResult:
    n = operator.shape[0]
    matrix = np.asarray(operator.matmat(np.eye(n)), dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise ValueError("the operator's products are not finite; look for NaN or infinite entries")
    matrix = (matrix + matrix.T) / 2
    values, vectors = np.linalg.eigh(matrix)
    opposite = values[values < 0]
    order = _leading(values, which)[:k]
    values, vectors = values[order], vectors[:, order]
    vectors = vectors * fix_signs(vectors)
    residuals = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
    scale = float(np.abs(values).max(initial=0)) or 1.0
    return EigenResult(
        values, np.ascontiguousarray(vectors), residuals, float(residuals.max() / scale), n, 0, True, opposite
    )


def _leading(values: np.ndarray, which: str) -> np.ndarray:
    """Order of the Ritz values, leading first; equal ones keep their order."""
    return np.argsort(-(np.abs(values) if which == "LM" else values), kind="stable")


class _Lanczos:
    """When to look at the Ritz values, what to keep at a restart, when to look for more copies, when to stop."""

    def __init__(self, basis: LanczosBasis, k: int, which: str):
        self.basis, self.k, self.which = basis, k, which
        self.n_restarts = 0
        self._steps = 0  # since a start from random columns

    def run(self, tol: float, limit: int, callback: Callable[[int, int, float], Any] | None) -> EigenResult:
        basis = self.basis
        residual, n_converged, blocks_since = float("inf"), 0, 0
        every = max(1, _CHECK_COLUMNS // basis.block)
        known, first = np.full(self.k, np.inf), 0  # steps to the first k pairs
        while True:
            basis.extend()
            self._steps += 1
            spent = basis.n_products + basis.block > limit
            blocks_since += 1
            if basis.full or spent or (blocks_since >= every and basis.size >= 2 * self.k):
                blocks_since = 0
                values, Y = self.ritz()
                residuals = basis.residuals(Y)
                scale = float(np.abs(values).max()) or 1.0
                residual = float(residuals.max()) / scale
                n_converged = int(np.sum(residuals <= tol * scale))
                complete = residual <= tol
                if complete and not spent and self._crowded(values, scale):
                    rounds, shown = max(_ROUNDS, first // 4), self._steps * basis.block / basis.pending
                    first = first or self._steps
                    if shown < rounds:  # not all that the random columns reach has shown yet
                        complete = False
                    elif np.abs(values - known).max() > _EQUAL * scale and self._look_for_more():
                        known = values
                        continue
                if complete or spent:
                    if callback is not None:
                        callback(basis.n_products, n_converged, residual)
                    return self.extract(values, Y, tol)
                if basis.full:
                    self._restart()
            if callback is not None:
                callback(basis.n_products, n_converged, residual)

    def _crowded(self, values: np.ndarray, scale: float) -> bool:
        """Whether an eigenvalue has as many copies as a block has columns: there may be more that it cannot reach."""
        if self.basis.block == 1:
            return True
        ordered = np.sort(values)
        apart = self.basis.block - 1
        return bool(apart and np.any(ordered[apart:] - ordered[:-apart] <= _EQUAL * scale)) if apart < self.k else False

    def _look_for_more(self) -> bool:
        """Go on from as many random columns again as are pending: they reach copies that those did not. False: no room."""
        basis = self.basis
        if self._n_kept() + 2 * basis.pending + basis.block > basis.capacity:
            return False
        self._restart(negative=False)
        basis.widen(basis.pending)
        self._steps = 0
        return True

    def ritz(self) -> tuple[np.ndarray, np.ndarray]:
        """The k leading Ritz values and the coordinates of their vectors in the basis."""
        size = self.basis.size
        values, Y = np.linalg.eigh(self.basis.T[:size, :size])
        self._all = values, Y
        order = _leading(values, self.which)[: self.k]
        return values[order], Y[:, order]

    def _n_kept(self) -> int:
        return min(self.k + max(self.k // 4, self.basis.block), self.basis.size - self.basis.block)

    def _restart(self, negative: bool = True) -> None:
        """Go on from the leading Ritz vectors, and with `negative` from those that reach the modulus of the k-th."""
        values, Y = self._all
        keep = self._n_kept()
        order = _leading(values, self.which)[:keep]
        if self.which == "LA" and negative:
            low = np.flatnonzero(values[: len(values) - keep] <= -0.95 * abs(values[order[self.k - 1]]))
            order = np.concatenate([order, low[: max(0, self.basis.capacity // 2 - keep)]])
        self.basis.keep(values[order], Y[:, order])
        self.n_restarts += 1

    def extract(self, values: np.ndarray, Y: np.ndarray, tol: float) -> EigenResult:
        basis, panels = self.basis, self.basis.panels
        residuals = basis.residuals(Y)
        vectors = panels.multiply(basis.Q[:, : basis.size], Y)
        if np.abs(panels.inner(vectors, vectors) - np.eye(self.k)).max() > _ORTHONORMAL:
            values, vectors, residuals = self._again(vectors)
        vectors *= fix_signs(vectors).astype(basis.dtype)
        scale = float(np.abs(values).max()) or 1.0
        residual = float(residuals.max()) / scale
        return EigenResult(
            values,
            vectors,
            residuals,
            residual,
            basis.n_products,
            self.n_restarts,
            residual <= tol,
            self._all[0][self._all[0] < 0],
        )

    def _again(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values, vectors and true residuals in the space of vectors that are not orthonormal, by products of their own."""
        basis, panels = self.basis, self.basis.panels
        panels.qr(vectors)
        panels.qr(vectors)
        products = np.asarray(basis.operator.matmat(np.ascontiguousarray(vectors)), dtype=basis.dtype)
        basis.n_products += vectors.shape[1]
        small = panels.inner(vectors, products)
        values, Y = np.linalg.eigh((small + small.T) / 2)
        order = _leading(values, self.which)
        values, Y = values[order], Y[:, order]
        vectors, products = panels.multiply(vectors, Y), panels.multiply(products, Y)
        return values, vectors, np.linalg.norm(products - vectors * values.astype(basis.dtype), axis=0)
