"""The model's parameters, the algebra of its noise, and the guards that keep them inside the cone.

    x_{t+1} = A x_t + eta, eta ~ N(0, Q);    w_t = C x_t + eps, eps ~ N(0, D)

Everything is in whitened coordinates, where Psi_0 is P = I - q q' (text) or I (numeric series). The noise covariance
is written as ``D = B - C M C'`` with a base B that is easy to invert: B = P and M an h x h matrix for "full" noise
(diagonal minus low rank in word space); M = 0 and B = d P, diag(delta) or Boehning's bound for the simpler kinds.
With N = B^+ C, G = C'N and Phi = M - Sigma_1 one set of formulas serves them all:

    S = C Sigma_1 C' + D = B - C Phi C'          S^+ = B^+ + N Omega N',  Omega = Phi (I - G Phi)^{-1}
    K = L N',  L = Sigma_1 (I - G Phi)^{-1}      log det S = log det B + log det(I - G Phi)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LEAD_LIMIT = 1 - 1e-6  # EM's floor on D: fitted models do come within 2e-5 of the boundary
RADIUS_LIMIT = 1 - 1e-6
Q_FLOOR = 1e-8
DELTA_FLOOR = 1e-6
NOISE_KINDS = ("full", "diagonal", "spherical", "bohning")


class Parameters(NamedTuple):
    """Parameters of the model in whitened coordinates.

    Attributes
    ----------
    A : ndarray of float64, shape (h, h)
        Transition matrix.
    C : ndarray, shape (V, h)
        Emission matrix, orthogonal to q.
    Q : ndarray of float64, shape (h, h)
        Transition noise covariance.
    M : ndarray of float64, shape (h, h)
        The state covariance taken out of Psi_0: D = Psi_0 - C M C' for full noise. For the simpler kinds it is the
        state covariance that the noise was last set from.
    noise : {"full", "diagonal", "spherical", "bohning"}
    scale : ndarray of float64 or None
        None (full, bohning), shape () (spherical: d) or shape (V,) (diagonal: delta).
    """

    A: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    M: np.ndarray
    noise: str = "full"
    scale: np.ndarray | None = None


class Observation(NamedTuple):
    """What inference needs of C and D: N = B^+ C and its h x h products.

    Attributes
    ----------
    N : ndarray, shape (V, h)
        B^+ C (the same object as C for full noise).
    G : ndarray of float64, shape (h, h)
        C'N.
    M : ndarray of float64, shape (h, h)
        D = B - C M C'; zero for the simpler kinds.
    B0 : ndarray of float64, shape (h, h)
        N' Psi_0 N.
    Nq : ndarray of float64, shape (h,)
        N'q (zero for full and spherical noise).
    trace : float
        tr(B^+ Psi_0).
    logdet : float
        log det of B over its own dimensions.
    dimensions : int
        The number of dimensions in which the density lives: n, or V for diagonal and Boehning noise.
    baseline : float
        Log-likelihood a token, in nats, of the same kind of noise without any state.
    """

    N: np.ndarray
    G: np.ndarray
    M: np.ndarray
    B0: np.ndarray
    Nq: np.ndarray
    trace: float
    logdet: float
    dimensions: int
    baseline: float


def sym(X: np.ndarray) -> np.ndarray:
    """The symmetric part (X + X')/2."""
    return 0.5 * (X + X.T)


def observe(parameters: Parameters, covariances: Any) -> Observation:
    """Work out B^+ C and its products for the kind of noise (design: D as diagonal minus low rank)."""
    tall, C = covariances.tall, parameters.C
    V, n, mu, q = covariances.n_features, covariances.n_dimensions, covariances.mu, covariances.q
    h, kind = C.shape[1], parameters.noise
    iid = -0.5 * n * (1 + np.log(2 * np.pi))
    if kind == "full":
        G = sym(tall.gram(C, C))
        return Observation(C, G, parameters.M, G, np.zeros(h), float(n), 0.0, n, iid)
    zero = np.zeros((h, h))
    if kind == "spherical":
        d = float(np.asarray(parameters.scale))
        N = (C / d).astype(C.dtype)
        G = sym(tall.gram(C, N))
        return Observation(N, G, zero, G / d, np.zeros(h), n / d, n * np.log(d), n, iid)
    if kind == "diagonal":
        delta = np.asarray(parameters.scale)
        N = (C / delta[:, None]).astype(C.dtype)
        variances = covariances.variances
        trace, logdet = float(np.sum(variances / delta)), float(np.sum(np.log(delta)))
        own = np.maximum(variances, DELTA_FLOOR)
        base = -0.5 * (V * np.log(2 * np.pi) + np.sum(np.log(own)) + np.sum(variances / own))
    else:
        N = (2 * mu[:, None] * C).astype(C.dtype)
        trace = float(2 * np.sum(mu * (1 - mu)))
        logdet = float(-V * np.log(2) - np.log(V + 1) - np.sum(np.log(mu)))
        base = -0.5 * (V * np.log(2 * np.pi) + logdet + trace)
    G = sym(tall.gram(C, N))
    Nq = np.zeros(h) if q is None else tall.gram(N, q[:, None].astype(N.dtype))[:, 0]
    B0 = sym(tall.gram(N, N)) - np.outer(Nq, Nq)
    return Observation(N, G, zero, B0, Nq, trace, logdet, V, float(base))


def noise_scale(kind: str, C: np.ndarray, M: np.ndarray, covariances: Any) -> np.ndarray | None:
    """The M step of the simpler noise: d = 1 - tr(C'C M)/n; delta_i = (Psi_0 - C M C')_ii, floored at 1e-6."""
    if kind == "spherical":
        d = 1 - np.sum(covariances.tall.gram(C, C) * M) / covariances.n_dimensions
        return np.asarray(max(float(d), DELTA_FLOOR))
    if kind == "diagonal":
        return np.maximum(covariances.variances - covariances.tall.row_forms(C, M), DELTA_FLOOR)
    return None


# --- guards ---------------------------------------------------------------------------------------------------------


def psd_root(M: np.ndarray) -> np.ndarray:
    """A square root R with R R' = M for a symmetric M, negative eigenvalues taken as zero."""
    values, vectors = np.linalg.eigh(sym(M))
    return vectors * np.sqrt(np.maximum(values, 0))


def lead(G: np.ndarray, M: np.ndarray) -> float:
    """Largest eigenvalue of M^{1/2} G M^{1/2}; D = P - C M C' is positive semidefinite iff it is at most 1."""
    root = psd_root(M)
    return float(np.linalg.eigvalsh(sym(root.T @ G @ root))[-1])


def clip_lead(G: np.ndarray, M: np.ndarray, limit: float = LEAD_LIMIT) -> tuple[np.ndarray, int]:
    """Lower the eigenvalues of M^{1/2} G M^{1/2} to at most `limit`; returns (M, how many were lowered)."""
    root = psd_root(M)
    values, vectors = np.linalg.eigh(sym(root.T @ G @ root))
    above = values > limit
    if not above.any():
        return M, 0
    side = root @ vectors
    return sym((side * np.where(above, limit / np.where(above, values, 1), 1)) @ side.T), int(above.sum())


def floor_psd(Q: np.ndarray, floor: float = Q_FLOOR) -> tuple[np.ndarray, int]:
    """Raise the eigenvalues of a symmetric matrix to `floor` times its largest; returns (Q, how many were raised)."""
    values, vectors = np.linalg.eigh(sym(Q))
    least = floor * max(values[-1], np.finfo(np.float64).tiny / floor)
    low = values < least
    if not low.any():
        return sym(Q), 0
    return sym((vectors * np.maximum(values, least)) @ vectors.T), int(low.sum())


def clip_radius(A: np.ndarray, limit: float = RADIUS_LIMIT) -> tuple[np.ndarray, int]:
    """Scale the diagonal blocks of the real Schur form whose eigenvalues exceed `limit` in modulus.

    Returns
    -------
    (A, how many eigenvalues were moved)
    """
    if np.abs(np.linalg.eigvals(A)).max() <= limit:
        return A, 0
    from scipy.linalg import schur

    T, Z = schur(A, output="real")
    moved, i = 0, 0
    while i < len(T):
        size = 2 if i + 1 < len(T) and T[i + 1, i] != 0 else 1
        block = T[i : i + size, i : i + size]
        modulus = np.abs(np.linalg.eigvals(block)).max()
        if modulus > limit:
            T[i : i + size, i : i + size] = block * (limit / modulus)
            moved += size
        i += size
    return Z @ T @ Z.T, moved
