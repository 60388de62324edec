"""Starting points of EM: noise covariances for the A and C that subspace identification found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..linalg.stein import solve_lyapunov
from .asos import filtered_moments, log_likelihood
from .kalman import steady_state
from .parameters import Observation, Parameters, clip_lead, floor_psd, lead, noise_scale, sym
from .subspace import Subspace

START_LEAD = 0.98
LEAD_GRID = (0.3, 0.5, 0.7, 0.9, 0.98)
INITS = ("best", "innovations", "identity", "moments", "random")


def innovations(
    A: np.ndarray, G: np.ndarray, GxC: np.ndarray, GxGx: np.ndarray, max_steps: int = 2000, tol: float = 1e-12
) -> np.ndarray | None:
    """Covariance of the one-step predictor from the forward innovations Riccati equation, or None.

    Sigma <- A Sigma A' + (G_x - A Sigma C')(P - C Sigma C')^+ (G_x - A Sigma C')', from 0. None where P - C Sigma C'
    leaves the cone: there is no positive-real realisation.
    """
    h = len(A)
    Sigma = np.zeros((h, h))
    eye = np.eye(h)
    for _ in range(max_steps):
        if lead(G, Sigma) >= 1:
            return None
        AS = A @ Sigma
        first = GxGx - GxC @ AS.T - AS @ GxC.T + AS @ G @ AS.T
        second = GxC - AS @ G
        new = sym(AS @ A.T + first + second @ np.linalg.solve((eye - G @ Sigma).T, Sigma).T @ second.T)
        if not np.isfinite(new).all():
            return None
        change = np.linalg.norm(new - Sigma)
        Sigma = new
        if change <= tol * np.linalg.norm(Sigma):
            break
    return Sigma if lead(G, Sigma) < 1 else None


def moments(A: np.ndarray, G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """State covariance from the moments N_k = C^+ Psi_k (C^+)' = A^k Sigma, by least squares; B[k] = C' Psi_k C."""
    inverse = np.linalg.pinv(G, hermitian=True)
    power, left, right = np.eye(len(A)), np.zeros_like(A), np.zeros_like(A)
    for product in B[1:]:
        power = A @ power
        left += power.T @ power
        right += power.T @ inverse @ product @ inverse
    return sym(np.linalg.lstsq(left, right, rcond=None)[0])


def candidates(
    found: Subspace, G: np.ndarray, B: np.ndarray, covariances: Any, which: str
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (name, Q, M) of the starts asked for: one, or every one for "best"."""
    A = found.A
    h = len(A)
    if which in ("best", "innovations"):
        tall = covariances.tall
        Sigma = innovations(A, G, tall.gram(found.Gx, found.C), sym(tall.gram(found.Gx, found.Gx)))
        if Sigma is not None:
            Q = floor_psd(Sigma - A @ Sigma @ A.T)[0]
            yield "innovations", Q, solve_lyapunov(A, Q)
    if which in ("best", "identity"):
        M = solve_lyapunov(A, np.eye(h))
        size = lead(G, M)
        for target in LEAD_GRID:
            yield f"identity {target}", np.eye(h) * (target / size), M * (target / size)
    if which in ("best", "moments"):
        Sigma = moments(A, G, B)
        Q = floor_psd(Sigma - A @ Sigma @ A.T)[0]
        yield "moments", Q, solve_lyapunov(A, Q)


def choose_start(
    found: Subspace, covariances: Any, em_lags: int, init: str = "best", noise: str = "full"
) -> tuple[Parameters, str, dict[str, float]]:
    """Complete A and C by the noise covariances of the highest likelihood.

    Returns
    -------
    parameters : Parameters
    chosen : str
        Name of the start that was taken.
    likelihoods : dict from str to float
        Nats a token of every start tried, under full noise.

    Raises
    ------
    ValueError
        If the start asked for does not exist for this text.
    """
    tall, C = covariances.tall, found.C
    with tall.running():
        G = sym(tall.gram(C, C))
        B = np.empty((em_lags + 1, *G.shape))
        B[0] = G
        product = None
        for k in range(1, em_lags + 1):
            product = covariances.matmat(k, C, out=product)
            B[k] = tall.gram(C, product)
        best: tuple[float, str, np.ndarray, np.ndarray] | None = None
        likelihoods = {}
        for name, Q, M in candidates(found, G, B, covariances, init):
            M = clip_lead(G, M, START_LEAD)[0]
            value = start_likelihood(found.A, Q, M, G, B, covariances.n_dimensions)
            likelihoods[name] = value
            if np.isfinite(value) and (best is None or value > best[0]):
                best = (value, name, Q, M)
        if best is None:
            raise ValueError(f"init={init!r} gives no valid start for this text; use init='best'")
        _, name, Q, M = best
        return Parameters(found.A, C, Q, M, noise, noise_scale(noise, C, M, covariances)), name, likelihoods


def start_likelihood(A: np.ndarray, Q: np.ndarray, M: np.ndarray, G: np.ndarray, B: np.ndarray, n: int) -> float:
    """Log-likelihood of a start under full noise, h x h work only; -inf where it has no stable filter."""
    observation = Observation(np.empty((0, len(A))), G, M, G, np.zeros(len(A)), float(n), 0.0, n, 0.0)
    try:
        state = steady_state(A, Q, observation)
        return log_likelihood(A, state, observation, filtered_moments(A, state, observation, B))
    except np.linalg.LinAlgError:
        return -np.inf


def random_start(covariances: Any, h: int, rng: np.random.Generator, noise: str = "full") -> Parameters:
    """A = .9 times a random orthogonal matrix, C random with orthonormal columns, Q = c I for a lead of .5."""
    from .subspace import orthonormalise

    if h > covariances.n_dimensions:
        raise ValueError(f"n_components={h} is more than the {covariances.n_dimensions} dimensions of the data")
    orthogonal, triangle = np.linalg.qr(rng.standard_normal((h, h)))
    A = 0.9 * orthogonal * np.sign(np.diag(triangle))
    C = rng.standard_normal((covariances.n_features, h)).astype(covariances.dtype, copy=False)
    with covariances.tall.running():
        covariances.clean(C)
        C = orthonormalise(C, covariances.tall)
        G = sym(covariances.tall.gram(C, C))
        M = solve_lyapunov(A, np.eye(h))
        c = 0.5 / lead(G, M)
        return Parameters(A, C, c * np.eye(h), c * M, noise, noise_scale(noise, C, c * M, covariances))
