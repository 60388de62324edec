import numpy as np
import pytest

from tests.reference.lds import PlainCounts


@pytest.fixture(scope="session")
def small_counts():
    """Lines of a 3-state Markov-like text over 30 words, some gaps."""
    rng = np.random.default_rng(5)
    V, states = 30, 3
    emit = rng.dirichlet(np.full(V, 0.3), size=states)
    move = np.array([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    lines = []
    for _ in range(60):
        state, line = rng.integers(states), []
        for _ in range(rng.integers(1, 60)):
            state = rng.choice(states, p=move[state])
            line.append(rng.choice(V, p=emit[state]) if rng.random() > 0.05 else -1)
        lines.append(line)
    return PlainCounts(lines, V, 7)


@pytest.fixture(scope="session")
def gaussian():
    """A Gaussian LDS (h = 4, p = 12) and 400,000 steps of it."""
    rng = np.random.default_rng(3)
    h, p, T = 4, 12, 400_000
    angle = 0.7
    A = np.zeros((4, 4))
    A[:2, :2] = 0.9 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    A[2, 2], A[3, 3] = 0.8, -0.5
    C = rng.standard_normal((p, h))
    Q, R = np.eye(h), np.diag(rng.uniform(0.5, 2, p))
    from scipy.linalg import solve_discrete_lyapunov

    stationary = solve_discrete_lyapunov(A, Q)
    x = np.linalg.cholesky(stationary) @ rng.standard_normal(h)
    noise = rng.standard_normal((T, h))
    states = np.empty((T, h))
    for t in range(T):
        states[t] = x
        x = A @ x + noise[t]
    y = states @ C.T + rng.standard_normal((T, p)) * np.sqrt(np.diag(R))
    return {"A": A, "C": C, "Q": Q, "R": R, "stationary": stationary, "y": y}
