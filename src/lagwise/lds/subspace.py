"""Subspace identification: A, C and G_x from the block Hankel matrix of the lagged covariances (n4sid).

H_r has r x r blocks, block (i, j) = Psi_{i+r-j}; H_r = Gamma Delta with Gamma = [C; CA; ...; CA^{r-1}] and
Delta = [A^{r-1}G_x ... A G_x  G_x], G_x = E[x_{t+1} w_t']. Panels are word-major, (V, r, b): the r blocks of one word
lie side by side, so that one walk over Psi_k serves all its blocks and a panel is a (V r, b) matrix as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .parameters import clip_radius

SSID_RADIUS = 0.98
POWER_ITERATIONS = 8
RELATIVE_RANK = 1e-3


class Rescaled:
    """The covariances of raw, unwhitened indicators: diag(sqrt(mu)) Psi_k diag(sqrt(mu))."""

    def __init__(self, covariances: Any):
        self.whitened = covariances
        self.tall, self.dtype = covariances.tall, covariances.dtype
        self.n_features, self.n_dimensions = covariances.n_features, covariances.n_dimensions
        self.noise_floor = covariances.noise_floor
        self.text = covariances.q is not None
        self.factor = covariances.q[:, None].astype(self.dtype) if self.text else covariances.factor

    def _scale(self, X: np.ndarray, transpose: bool = False) -> np.ndarray:
        flat = X.reshape(self.n_features, -1)
        scaled = self.factor * flat if self.text else (self.factor.T if transpose else self.factor) @ flat
        return scaled.reshape(X.shape)

    def clean(self, X: np.ndarray) -> None:
        """Take the mean direction out of raw panels: a sum of zero."""
        if self.text:
            X -= X.mean(axis=0, dtype=np.float64).astype(X.dtype)

    def add_hankel(self, r: int, X: np.ndarray, out: np.ndarray, transpose: bool = False) -> None:
        """As `Covariances.add_hankel`."""
        self.whitened.add_hankel(r, self._scale(X, True), out, transpose)
        out[...] = self._scale(out)

    def restore(self, X: np.ndarray) -> np.ndarray:
        """Whitened coordinates of raw V x h arrays."""
        X = X / self.factor if self.text else np.linalg.solve(self.factor, X)
        self.whitened.clean(X)
        return X


class Subspace(NamedTuple):
    """Attributes: A (h, h); C (V, h); Gx (V, h), the transpose of G_x; values, the Hankel singular values found."""

    A: np.ndarray
    C: np.ndarray
    Gx: np.ndarray
    values: np.ndarray


def hankel_blocks(r: int, k: int) -> tuple[slice, slice]:
    """Block rows and block columns of H_r in which Psi_k stands: (i, j) with i - j = k - r, counted from 0."""
    shift = k - r
    return slice(max(shift, 0), r + min(shift, 0)), slice(max(-shift, 0), r - max(shift, 0))


def orthonormalise(X: np.ndarray, tall: Any) -> np.ndarray:
    """Orthonormal columns spanning those of X (m, b), by two rounds of Gram-matrix whitening, in place.

    Directions below the reach of the arithmetic are dropped, so fewer columns may come back.
    """
    tiny = (np.finfo(X.dtype).eps * 8) ** 2 if X.dtype == np.float32 else 1e-26
    for _ in range(2):
        if X.shape[1] == 0:
            return X
        values, vectors = np.linalg.eigh(tall.gram(X, X))
        keep = values > max(tiny * values[-1], np.finfo(np.float64).tiny)
        if not keep.any():
            return X[:, :0]
        basis = vectors[:, keep] / np.sqrt(values[keep])
        X = tall.mix(X, basis, out=X if keep.all() else None)
    return X


def hankel_svd(
    covariances: Any,
    r: int,
    rank: int,
    rng: np.random.Generator,
    n_power: int = POWER_ITERATIONS,
    report: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Largest singular values and vectors of H_r by randomised power iteration, re-orthonormalised at every step.

    Parameters
    ----------
    rank : int
        How many are wanted.
    n_power : int
        Power iterations; each walks every Psi_k once forward and once transposed.

    Returns
    -------
    left : ndarray, shape (V, r, m)
        Left vectors times singular values.
    values : ndarray of float64, shape (m,)
        Falling; m is at most `rank` plus an oversampling margin.
    right : ndarray, shape (V, r, m)
        Orthonormal right vectors.
    """
    tall, V = covariances.tall, covariances.n_features
    width = min(rank + max(10, rank // 10), r * V)
    with tall.running():
        X = rng.standard_normal((V * r, width), dtype=np.float64).astype(covariances.dtype, copy=False)
        covariances.clean(X.reshape(V, r * width))
        X = orthonormalise(X, tall)
        for step in range(n_power):
            Y = orthonormalise(_walk(covariances, r, X, False), tall)
            X = orthonormalise(_walk(covariances, r, Y, True), tall)
            if report:
                report(step + 1)
            if X.shape[1] == 0:  # no dynamics at all
                return X.reshape(V, r, 0), np.zeros(0), X.reshape(V, r, 0)
        Y = _walk(covariances, r, X, False)
        squares, vectors = np.linalg.eigh(tall.gram(Y, Y))
        order = np.argsort(-squares, kind="stable")
        values = np.sqrt(np.maximum(squares[order], 0))
        left, right = tall.mix(Y, vectors[:, order], out=Y), tall.mix(X, vectors[:, order], out=X)
        top = np.abs(left).argmax(axis=0) if left.size else np.zeros(0, dtype=int)
        signs = np.where(left[top, np.arange(left.shape[1])] < 0, -1, 1).astype(left.dtype)
        left *= signs
        right *= signs
    return left.reshape(V, r, -1), values, right.reshape(V, r, -1)


def _walk(covariances: Any, r: int, X: np.ndarray, transpose: bool) -> np.ndarray:
    V = covariances.n_features
    if X.shape[1] == 0:
        return X
    out = np.empty((V, r, X.shape[1]), dtype=X.dtype)
    covariances.add_hankel(r, X.reshape(V, r, -1), out, transpose)
    return out.reshape(V * r, -1)


def numerical_rank(values: np.ndarray, dtype: Any, relative: float = RELATIVE_RANK) -> int:
    """How many Hankel values stand out: above `relative` times the first, which itself is above rounding."""
    least = 1e-5 if np.dtype(dtype) == np.float32 else 1e-10
    if not len(values) or values[0] <= least:
        return 0
    return int(np.sum(values > max(relative * values[0], least)))


def identify(
    covariances: Any,
    h: int,
    r: int,
    rng: np.random.Generator,
    c_from: str = "block",
    n_power: int = POWER_ITERATIONS,
    report: Callable[[int], None] | None = None,
) -> Subspace:
    """Estimate A, C and G_x.

    Parameters
    ----------
    h, r : int
        State size, and block rows: lags 1..2r-1 are used.
    c_from : {"block", "regression"}
        C is the first block of Gamma, or the least squares solution of Gamma_i = C A^{i-1} over all blocks.

    Raises
    ------
    ValueError
        If the Hankel matrix has a numerical rank below h.
    """
    left, values, right = hankel_svd(covariances, r, h, rng, n_power, report)
    rank = numerical_rank(values, covariances.dtype)
    if rank < h:
        raise ValueError(
            f"Hankel rank {rank} < {h}: the lagged counts or covariances carry {rank} "
            f"direction{'s' * (rank != 1)} of dynamics; use n_components={rank} or less, or more data"
            if rank
            else f"Hankel rank 0 < {h}: what comes is independent of what came before (or the pseudocount drowns the "
            "counts), there are no dynamics to learn"
        )
    tall, root = covariances.tall, np.sqrt(values[:h])
    with tall.running():
        right = right[:, :, :h]
        crossed, squared = np.zeros((h, h)), np.zeros((h, h))
        for j in range(r - 1):  # Delta_j = A Delta_{j+1}
            crossed += tall.gram(right[:, j], right[:, j + 1])
            squared += tall.gram(right[:, j + 1], right[:, j + 1])
        if r > 1:
            shift = np.linalg.lstsq(squared, crossed.T, rcond=1e-13)[0].T
            A = root[:, None] * shift / root
        A, _ = clip_radius(A, SSID_RADIUS)
        if c_from == "block":
            C = tall.mix(left[:, 0, :h], np.diag(1 / root))
        else:
            powers = [np.eye(h)]
            for _ in range(r - 1):
                powers.append(powers[-1] @ A)
            inverse = np.linalg.inv(sum(P @ P.T for P in powers))
            C = tall.mix(left[:, 0, :h], (powers[0].T @ inverse) / root[:, None])
            for i in range(1, r):
                tall.mix(left[:, i, :h], (powers[i].T @ inverse) / root[:, None], C, add=True)
        Gx = tall.mix(right[:, r - 1], np.diag(root))
    return Subspace(A, C, Gx, values)
