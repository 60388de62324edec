"""The steady state of the Kalman filter and smoother: h x h work only (design: section "Steady state")."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..linalg.stein import solve_lyapunov
from .parameters import Observation, sym


class SteadyState(NamedTuple):
    """Covariances and coefficients of the steady-state filter and smoother; arrays of float64, shape (h, h).

    Attributes
    ----------
    Sigma_1, Sigma_0, Sigma_s : ndarray
        Predictive, filtered and smoothed covariance of the state.
    Phi, Omega : ndarray
        M - Sigma_1, and Phi (I - G Phi)^{-1}, so that S^+ = B^+ + N Omega N'.
    L : ndarray
        The gain is K = L N', never formed.
    H, J, F : ndarray
        xhat_t = H xhat_{t-1} + K w_t;  xbar_t = J xbar_{t+1} + F xhat_t.
    logdet : float
        log det S less that of the base: log det(I - G Phi).
    """

    Sigma_1: np.ndarray
    Sigma_0: np.ndarray
    Sigma_s: np.ndarray
    Phi: np.ndarray
    Omega: np.ndarray
    L: np.ndarray
    H: np.ndarray
    J: np.ndarray
    F: np.ndarray
    logdet: float


def update(Sigma_1: np.ndarray, G: np.ndarray, M: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One measurement update: (Phi, I - G Phi, L, Sigma_0) from the predictive covariance."""
    Phi = M - Sigma_1
    W = np.eye(len(G)) - G @ Phi
    L = np.linalg.solve(W.T, Sigma_1).T  # Sigma_1 W^{-1}; not symmetric, unless M = 0
    return Phi, W, L, sym(Sigma_1 - L @ G @ Sigma_1)


def predictive_covariance(
    A: np.ndarray, Q: np.ndarray, observation: Observation, tol: float = 1e-13, max_steps: int = 60
) -> np.ndarray:
    """Solve the Riccati equation of the filter by structure-preserving doubling, then polish by plain steps.

    Sigma = A Sigma (I + I_D Sigma)^{-1} A' + Q with the information of one word, I_D = C'D^+C = (I - G M)^{-1} G.
    """
    G, M = observation.G, observation.M
    h = len(A)
    eye = np.eye(h)
    information = sym(np.linalg.solve(eye - G @ M, G)) if M.any() else G
    X, step, R = Q.copy(), A.T.copy(), information
    for _ in range(max_steps):
        W = np.linalg.solve(eye + R @ X, np.hstack([step, R @ step.T]))
        inner, side = W[:, :h], W[:, h:]
        gain = sym(step.T @ X @ inner)
        R = sym(R + step @ side)
        X = X + gain
        step = step @ inner
        if not np.isfinite(gain).all():
            raise np.linalg.LinAlgError("the Riccati equation of the filter has no stabilising solution")
        if np.linalg.norm(gain) <= tol * np.linalg.norm(X):
            break
    for _ in range(200):  # plain Riccati steps remove what rounding the doubling left
        new = sym(A @ update(X, G, M)[3] @ A.T + Q)
        change = np.linalg.norm(new - X)
        X = new
        if change <= tol * np.linalg.norm(X):
            break
    return X


def steady_state(A: np.ndarray, Q: np.ndarray, observation: Observation) -> SteadyState:
    """Filter and smoother in the steady state.

    Parameters
    ----------
    A, Q : ndarray of float64, shape (h, h)
        Transition matrix (spectral radius below 1) and transition noise.
    observation : Observation

    Returns
    -------
    SteadyState

    Raises
    ------
    numpy.linalg.LinAlgError
        If there is no stable filter.
    """
    Sigma_1 = predictive_covariance(A, Q, observation)
    G = observation.G
    Phi, W, L, Sigma_0 = update(Sigma_1, G, observation.M)
    sign, logdet = np.linalg.slogdet(W)
    if sign <= 0:
        raise np.linalg.LinAlgError("the covariance of the prediction errors is not positive")
    H = A - L @ G @ A
    J = np.linalg.solve(Sigma_1, A @ Sigma_0).T
    Sigma_s = solve_lyapunov(J, Sigma_0 - J @ Sigma_1 @ J.T)
    Omega = sym(np.linalg.solve(W.T, Phi).T)
    return SteadyState(Sigma_1, Sigma_0, Sigma_s, Phi, Omega, L, H, J, np.eye(len(A)) - J @ A, float(logdet))
