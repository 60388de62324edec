"""Stein and Lyapunov equations by doubling: O(log) products of small matrices, never a Kronecker product."""

from __future__ import annotations

import numpy as np

_EPS = np.finfo(np.float64).eps


def squared_powers(A: np.ndarray, max_doublings: int = 60) -> list[np.ndarray]:
    """A, A^2, A^4, ... until the powers no longer matter in float64.

    Parameters
    ----------
    A : ndarray of float64, shape (h, h)
        Spectral radius below 1.

    Returns
    -------
    list of ndarray, shape (h, h) each

    Raises
    ------
    numpy.linalg.LinAlgError
        If the powers do not die out: the spectral radius is 1 or more.
    """
    powers = [A]
    for _ in range(max_doublings):
        size = np.linalg.norm(powers[-1])
        if not np.isfinite(size) or size > 1e150:
            break
        if size * size <= 0.01 * _EPS:
            return powers
        powers.append(powers[-1] @ powers[-1])
    raise np.linalg.LinAlgError("the powers of the matrix do not die out: its spectral radius is not below 1")


def stein_from_powers(left: list[np.ndarray], right: list[np.ndarray], Q: np.ndarray) -> np.ndarray:
    """X = A X B + Q from the lists of squared powers of A and B (see `squared_powers`)."""
    X = Q.copy()
    for i in range(min(len(left), len(right))):  # where one of the two has died out, so have the products
        X += left[i] @ X @ right[i]
    return X


def solve_stein(A: np.ndarray, B: np.ndarray, Q: np.ndarray, max_doublings: int = 60) -> np.ndarray:
    """Solve X = A X B + Q by doubling: X += A X B; A = A A; B = B B.

    Parameters
    ----------
    A, B, Q : ndarray of float64, shape (h, h)
        The product of the spectral radii of A and B is below 1.

    Returns
    -------
    ndarray of float64, shape (h, h)

    Raises
    ------
    numpy.linalg.LinAlgError
        If the sum does not converge.
    """
    X, A, B = np.array(Q, dtype=np.float64), np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    for _ in range(max_doublings):
        step = A @ X @ B
        X += step
        size, scale = np.linalg.norm(step), np.linalg.norm(X)
        if not np.isfinite(scale):
            break
        if size <= 0.01 * _EPS * scale:
            return X
        A, B = A @ A, B @ B
    raise np.linalg.LinAlgError("Stein equation X = A X B + Q: the spectral radii of A and B multiply to 1 or more")


def solve_lyapunov(A: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Solve X = A X A' + Q for symmetric Q; X is symmetrised."""
    X = solve_stein(A, A.T, Q)
    return 0.5 * (X + X.T)
