"""Coordinates of the state in which both recursions of smoothing are triangles.

What a model says is the same for the states x and T x, with T any invertible matrix: neither EM nor its start chooses
one. The recursions of `two_sided` choose well. With H = Sigma_0 Sigma_1^{-1} A, J = Sigma_0 A' Sigma_1^{-1} and
P = Sigma_s Sigma_0^{-1}, the forward one is the backward one turned round,

    R = P H P^{-1} = Sigma_s Sigma_1^{-1} A Sigma_0 Sigma_s^{-1} = Sigma_s J' Sigma_s^{-1},

so that R = J' where Sigma_s = I, and there a rotation by the Schur vectors of J makes J upper and R lower triangular (with
blocks of two for pairs of complex eigenvalues): a token takes 2 h^2 flops instead of 4 h^2. And a difference of smoothed
states has the length of how many standard deviations of their uncertainty it is.
"""

from __future__ import annotations

import numpy as np

from .dynamics import symmetric_roots
from .kalman import SteadyState, steady_state
from .parameters import Parameters, observe, sym
from .statistics import WordSpace

LEAST = 1e-6  # of the variance of the state: less uncertainty is not made a unit of length


def settled(parameters: Parameters, S_xx: np.ndarray, space: WordSpace) -> tuple[Parameters, np.ndarray]:
    """The same model, and its E[xx'], in coordinates where Sigma_s = I and J is upper triangular.

    As they are where some direction of the state is known all but exactly.
    """
    with space.tall.running():
        found = triangular(steady_state(parameters.A, parameters.Q, observe(parameters, space)), S_xx)
        if found is None:
            return parameters, S_xx
        T, inverse = found
        C = np.empty_like(parameters.C)

        def turn(rows: slice) -> None:
            C[rows] = parameters.C[rows].astype(np.float64) @ inverse  # rounded once: J is as exact as C allows

        space.tall.rows(turn, len(C))
        A, Q, M = T @ parameters.A @ inverse, sym(T @ parameters.Q @ T.T), sym(T @ parameters.M @ T.T)
        return parameters._replace(A=A, C=C, Q=Q, M=M), sym(T @ S_xx @ T.T)


def triangular(state: SteadyState, S_xx: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """T and T^{-1}, (h, h), such that T Sigma_s T' = I and T J T^{-1} is upper triangular; None where T would be huge."""
    from scipy.linalg import schur

    least, most = np.linalg.eigvalsh(state.Sigma_s)[0], np.linalg.eigvalsh(sym(S_xx))[-1]
    if not least > LEAST * most:
        return None
    root, inverse = symmetric_roots(state.Sigma_s)
    vectors = schur(inverse @ state.J @ root)[1]
    return vectors.T @ inverse, root @ vectors
