"""EM by ASOS: expected statistics from lagged covariances alone, without touching the text (Martens, 2010).

X_k = E[xhat_{t+k} xhat_t'],  R_k = E[w_{t+k} xhat_t'],  rho_k = N'R_k,  F_k = Psi_k N,  E_k = Psi_k' N,  B_k = N'F_k.
Beyond the horizon r the model's own prediction stands for the data: R_{r+1} = C A X_r. N is C for full noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..linalg.stein import solve_stein, squared_powers, stein_from_powers
from .kalman import SteadyState, steady_state
from .parameters import (
    LEAD_LIMIT,
    Observation,
    Parameters,
    clip_lead,
    clip_radius,
    floor_psd,
    noise_scale,
    observe,
    sym,
)


class FilteredMoments(NamedTuple):
    """h x h moments of the filtered states: X (r + 1, h, h) for lags 0..r, rho (r + 2, h, h) for lags 0..r+1."""

    X: np.ndarray
    rho: np.ndarray
    rounds: int


class Expectations(NamedTuple):
    """What the M step needs.

    Attributes
    ----------
    S_xx, S_10 : ndarray of float64, shape (h, h)
        E[x_t x_t'] and E[x_{t+1} x_t'].
    Y : ndarray, shape (V, h)
        E[w_t xbar_t'].
    log_likelihood : float
        Nats a token of the parameters that the expectations were taken under.
    moments : FilteredMoments
    B : ndarray of float64, shape (r + 1, h, h)
        N' Psi_k N for k = 0..r.
    """

    S_xx: np.ndarray
    S_10: np.ndarray
    Y: np.ndarray
    log_likelihood: float
    moments: FilteredMoments
    B: np.ndarray


def filtered_moments(
    A: np.ndarray,
    state: SteadyState,
    observation: Observation,
    B: np.ndarray,
    start: np.ndarray | None = None,
    tol: float = 1e-12,
    max_rounds: int = 500,
) -> FilteredMoments:
    """Solve the h x h fixed point for X_r (step 1 of the design).

    Parameters
    ----------
    B : ndarray of float64, shape (r + 1, h, h)
        N' Psi_k N for k = 0..r.
    start : ndarray, shape (h, h), optional
        A first guess of X_r, such as the last iteration's.

    Notes
    -----
    The map is affine. It is iterated to a relative change below `tol`; where that has not come within `max_rounds`,
    the affine system is solved by GMRES.
    """
    h, r = len(A), len(B) - 1
    H, L, GA = state.H, state.L, observation.G @ A
    powers = squared_powers(H)
    transposed = [power.T for power in powers]
    BL = B @ L.T

    def sweep(X_r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, X = np.empty((r + 2, h, h)), np.empty((r + 1, h, h))
        rho[r + 1] = GA @ X_r
        for k in range(r, -1, -1):
            rho[k] = rho[k + 1] @ H.T + BL[k]
        X[0] = sym(stein_from_powers(powers, transposed, sym(H @ rho[1].T @ L.T + L @ rho[0])))
        for k in range(1, r + 1):
            X[k] = H @ X[k - 1] + L @ rho[k]
        return X, rho

    X_r = np.zeros((h, h)) if start is None else start
    rounds = 0
    while rounds < max_rounds:
        rounds += 1
        X, rho = sweep(X_r)
        change, size = np.linalg.norm(X[r] - X_r), np.linalg.norm(X[r])
        X_r = X[r]
        if change <= tol * size or size == 0:
            break
        if not np.isfinite(size) or size > 1e100:
            X_r = _solve_affine(lambda guess: sweep(guess)[0][r], h, tol)
            break
    else:
        X_r = _solve_affine(lambda guess: sweep(guess)[0][r], h, tol)
    X, rho = sweep(X_r)
    return FilteredMoments(X, rho, rounds)


def _solve_affine(step: Callable[[np.ndarray], np.ndarray], h: int, tol: float) -> np.ndarray:
    from scipy.sparse.linalg import LinearOperator, gmres

    constant = step(np.zeros((h, h)))
    system = LinearOperator(
        (h * h, h * h), dtype=np.float64, matvec=lambda x: x.ravel() - (step(x.reshape(h, h)) - constant).ravel()
    )
    solution, failed = gmres(system, constant.ravel(), rtol=max(tol, 1e-12), atol=0.0, restart=60, maxiter=20)
    if failed or not np.isfinite(solution).all():
        raise np.linalg.LinAlgError("the moments of the filtered states did not converge")
    return solution.reshape(h, h)


def log_likelihood(A: np.ndarray, state: SteadyState, observation: Observation, moments: FilteredMoments) -> float:
    """Log-likelihood of one token in nats, of the smoothed process and at horizon r.

    -1/2 [ log det S + n log 2 pi + tr(B^+ E) + tr(N'E N Omega) ] with E the covariance of the prediction errors.
    """
    GA, X_0, rho_1 = observation.G @ A, moments.X[0], moments.rho[1]
    spread = GA @ X_0 @ A.T
    base = observation.trace - 2 * np.sum(A * rho_1) + np.trace(spread)
    cross = rho_1 @ GA.T
    errors = observation.B0 - cross - cross.T + spread @ observation.G
    return float(
        -0.5
        * (
            observation.logdet
            + state.logdet
            + observation.dimensions * np.log(2 * np.pi)
            + base
            + np.sum(errors * state.Omega.T)
        )
    )


def tail_coefficients(state: SteadyState, A: np.ndarray, r: int) -> np.ndarray:
    """tail_j = H'^(r-j) Theta' J'^r + sum_{i=j}^{r-1} H'^(i-j) F' J'^i for j = 0..r, shape (r + 1, h, h).

    Theta = F + J Theta A holds all that the smoother sees beyond the horizon.
    """
    h = len(A)
    H, J, F = state.H.T, state.J.T, state.F.T
    theta = solve_stein(state.J, A, state.F).T
    ahead = np.empty((r + 1, h, h))  # F' J'^i, and Theta' J'^r last
    power = np.eye(h)
    for i in range(r):
        ahead[i] = F @ power
        power = power @ J
    ahead[r] = theta @ power
    tails = np.empty((r + 1, h, h))
    tails[r] = ahead[r]
    for j in range(r - 1, -1, -1):
        tails[j] = H @ tails[j + 1] + ahead[j]
    return tails


def smoothed_moments(A: np.ndarray, state: SteadyState, moments: FilteredMoments) -> tuple[np.ndarray, np.ndarray]:
    """S_xx = E[x_t x_t'] and S_10 = E[x_{t+1} x_t'] from the moments of the filtered states."""
    X, r = moments.X, len(moments.X) - 1
    J, F = state.J, state.F
    theta = solve_stein(J, A, F)
    Z = X[r].T @ theta.T
    before = Z
    for i in range(r - 1, -1, -1):
        before = Z
        Z = Z @ J.T + X[i].T @ F.T
    U_0 = solve_stein(J, J.T, sym(J @ before.T @ F.T + F @ Z))
    U_1 = U_0 @ J.T + before.T @ F.T
    return sym(U_0 + state.Sigma_s), U_1 + state.Sigma_s @ J.T


def expectations(
    parameters: Parameters, covariances: Any, r: int, *, keep_products: bool = True, start: np.ndarray | None = None
) -> Expectations:
    """E step in its streaming form: no array R_k is ever made.

    Y_0 = C A X_r H'^(r+1) tail_0 + Psi_0 N L' tail_0 + sum_j [ F_j L' H'^j tail_0 + E_j L' tail_j ]

    Parameters
    ----------
    covariances : covariance source
        See `statistics`.
    r : int
        The horizon: lags 1..r are used.
    keep_products : bool
        Keep the r arrays F_j (V, h) between the two passes; False makes them anew and holds about four such arrays
        in all. Both give the same values.
    start : ndarray, shape (h, h), optional
        A first guess for the fixed point.
    """
    A, C = parameters.A, parameters.C
    tall = covariances.tall
    h = len(A)
    with tall.running():
        observation = observe(parameters, covariances)
        state = steady_state(A, parameters.Q, observation)
        B = np.empty((r + 1, h, h))
        B[0] = observation.B0
        kept: list[np.ndarray | None] = [None] * (r + 1)
        scratch = None
        for k in range(1, r + 1):
            product = covariances.matmat(k, observation.N, out=None if keep_products else scratch)
            B[k] = tall.gram(observation.N, product)
            if keep_products:
                kept[k] = product
            else:
                scratch = product
        moments = filtered_moments(A, state, observation, B, start)
        value = log_likelihood(A, state, observation, moments)
        tails = tail_coefficients(state, A, r)
        LT = state.L.T
        front = [tails[0]]  # H'^j tail_0
        for _ in range(r + 1):
            front.append(state.H.T @ front[-1])
        if observation.N is C and not observation.Nq.any():
            Y = tall.mix(C, A @ moments.X[r] @ front[r + 1] + LT @ tails[0])
        else:
            Y = tall.mix(C, A @ moments.X[r] @ front[r + 1])
            tall.mix(covariances.project(observation.N), LT @ tails[0], Y, add=True)
        for k in range(1, r + 1):
            product = kept[k]
            kept[k] = None
            if product is None:
                scratch = product = covariances.matmat(k, observation.N, out=scratch)
            tall.mix(product, LT @ front[k], Y, add=True)
            scratch = covariances.rmatmat(k, observation.N, out=product)
            tall.mix(scratch, LT @ tails[k], Y, add=True)
        S_xx, S_10 = smoothed_moments(A, state, moments)
    return Expectations(S_xx, S_10, Y, value, moments, B)


def horizon_error(expected: Expectations, parameters: Parameters, covariances: Any) -> float:
    """How much the horizon matters: relative change of E[xhat xhat'] when the last lag is left to the model.

    Beyond the horizon the model's own prediction stands for the data. Where the two agree at the last lag, later lags
    would add little; 0 says that they would add nothing.
    """
    with covariances.tall.running():
        observation = observe(parameters, covariances)
        state = steady_state(parameters.A, parameters.Q, observation)
        shorter = filtered_moments(parameters.A, state, observation, expected.B[:-1]).X[0]
    whole = expected.moments.X[0]
    return float(np.linalg.norm(shorter - whole) / max(np.linalg.norm(whole), np.finfo(np.float64).tiny))


def maximise(
    expected: Expectations, parameters: Parameters, covariances: Any, update_Q: bool = True
) -> tuple[Parameters, dict[str, int]]:
    """M step: A = S_10 S_xx^{-1}, Q = sym(S_xx - A S_10'), C = Y S_xx^{-1}, M = S_xx, each within its floor.

    Returns
    -------
    parameters : Parameters
    repairs : dict from str to int
        How many eigenvalues were moved: "lead" (D), "radius" (A) and "floor" (Q).
    """
    S_xx, S_10 = expected.S_xx, expected.S_10
    with covariances.tall.running():  # small decompositions too: on one thread they take milliseconds
        inverse = np.linalg.inv(floor_psd(S_xx, np.finfo(np.float64).eps)[0])
        A, radius = clip_radius(S_10 @ inverse)
        Q, floor = floor_psd(S_xx - A @ S_10.T) if update_Q else (parameters.Q, 0)
        C = covariances.tall.mix(expected.Y, inverse, out=expected.Y)
        covariances.clean(C)
        M, above = S_xx, 0
        if parameters.noise == "full":
            M, above = clip_lead(sym(covariances.tall.gram(C, C)), S_xx, LEAD_LIMIT)
        scale = noise_scale(parameters.noise, C, M, covariances)
    return Parameters(A, C, Q, M, parameters.noise, scale), {"lead": above, "radius": radius, "floor": floor}
