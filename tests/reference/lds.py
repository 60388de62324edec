"""Plain, slow, dense forms of the LDS formulas, written from the definitions."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from lagwise.vocabulary import Vocabulary


class PlainCounts:
    """A count store by double loop over sequences of ids (negative ids are gaps)."""

    def __init__(self, sequences, vocabulary, max_lag):
        self.vocabulary = Vocabulary(
            [f"w{i}" for i in range(vocabulary)] if isinstance(vocabulary, int) else vocabulary
        )
        self.max_lag, V = max_lag, len(self.vocabulary)
        self.options = {"boundary": "none" if len(sequences) == 1 else "line", "oov": "keep"}
        self.sequences = [np.asarray(s, dtype=int) for s in sequences]
        flat = np.concatenate(self.sequences) if self.sequences else np.zeros(0, dtype=int)
        self.unigrams = np.bincount(flat[flat >= 0], minlength=V).astype(np.int64)
        self.n_tokens, self.n_lines = len(flat), len(self.sequences)
        self.longest_line = max((len(s) for s in self.sequences), default=0)
        self._lags = {}
        for k in range(1, max_lag + 1):
            dense = np.zeros((V, V), dtype=np.int64)
            for s in self.sequences:
                for a, b in zip(s[:-k] if k < len(s) else [], s[k:]):
                    if a >= 0 and b >= 0:
                        dense[a, b] += 1
            self._lags[k] = csr_array(dense)

    def lag(self, k, raw=False):
        return self._lags[k].astype(np.uint32) if raw else self._lags[k]


def dense_psi(counts, pseudocount):
    """Whitened Psi_0..Psi_K (K + 1, V, V), mu and q, straight from zero-filled centred indicators."""
    V, T = len(counts.vocabulary), counts.unigrams.sum()
    mu_0 = counts.unigrams / T
    weight = pseudocount * V / (T + pseudocount * V)
    mu = (1 - weight) * mu_0 + weight / V
    psi = np.zeros((counts.max_lag + 1, V, V))
    psi[0] = np.diag(mu) - np.outer(mu, mu)
    for k in range(1, counts.max_lag + 1):
        for s in counts.sequences:
            for a, b in zip(s[:-k] if k < len(s) else [], s[k:]):
                if a >= 0 and b >= 0:
                    psi[k] += np.outer(np.eye(V)[b] - mu_0, np.eye(V)[a] - mu_0)
        psi[k] *= (1 - weight) / T
    scale = mu**-0.5
    return psi * scale[:, None] * scale, mu, np.sqrt(mu)


def dense_noise(parameters, q, mu=None):
    """D as a matrix for any kind of noise."""
    V = len(parameters.C)
    P = np.eye(V) - (0 if q is None else np.outer(q, q))
    if parameters.noise == "full":
        return P - parameters.C @ parameters.M @ parameters.C.T
    if parameters.noise == "spherical":
        return float(parameters.scale) * P
    if parameters.noise == "diagonal":
        return np.diag(parameters.scale)
    return np.linalg.inv(2 * (np.diag(mu) + np.outer(q, q)))


def basis(D):
    """Columns spanning the range of a symmetric matrix."""
    values, vectors = np.linalg.eigh(D)
    return vectors[:, np.abs(values) > 1e-10 * np.abs(values).max()]


def logpdet(D):
    values = np.linalg.eigvalsh(D)
    return np.log(values[np.abs(values) > 1e-10 * np.abs(values).max()]).sum()


def riccati(A, C, Q, D, steps=20000):
    """(Sigma_1, K) by plain iteration with V x V matrices."""
    Sigma = Q.copy()
    for _ in range(steps):
        K = Sigma @ C.T @ np.linalg.pinv(C @ Sigma @ C.T + D, rcond=1e-11, hermitian=True)
        new = A @ (Sigma - K @ C @ Sigma) @ A.T + Q
        if np.abs(new - Sigma).max() < 1e-15:
            break
        Sigma = new
    return new, new @ C.T @ np.linalg.pinv(C @ new @ C.T + D, rcond=1e-11, hermitian=True)


def explicit_moments(w, A, C, Q, D, circular=False):
    """E-step averages over a series w (T, p) by running the steady-state filter and smoother over it."""
    T, h = len(w), len(A)
    Sigma_1, K = riccati(A, C, Q, D)
    Sigma_0 = Sigma_1 - K @ C @ Sigma_1
    H = A - K @ C @ A
    J = Sigma_0 @ A.T @ np.linalg.inv(Sigma_1)
    F = np.eye(h) - J @ A
    x = np.zeros(h)
    filtered, smoothed = np.empty((T, h)), np.empty((T, h))
    for _ in range(2 if circular else 1):
        for t in range(T):
            x = H @ x + K @ w[t]
            filtered[t] = x
    x = filtered[-1]
    for _ in range(2 if circular else 1):
        for t in range(T - 1, -1, -1):
            if not circular and t == T - 1:
                smoothed[t] = filtered[t]
                continue
            x = J @ x + F @ filtered[t]
            smoothed[t] = x
    from scipy.linalg import solve_discrete_lyapunov

    Sigma_s = solve_discrete_lyapunov(J, Sigma_0 - J @ Sigma_1 @ J.T)
    ahead = np.roll(smoothed, -1, axis=0) if circular else smoothed[1:]
    now = smoothed if circular else smoothed[:-1]
    before = np.roll(filtered, 1, axis=0)
    if not circular:
        before[0] = 0
    errors = w - before @ (C @ A).T
    S = C @ Sigma_1 @ C.T + D
    space = basis(S)
    n = space.shape[1]
    inverse = np.linalg.pinv(S, rcond=1e-11, hermitian=True)
    per_step = -0.5 * (logpdet(S) + n * np.log(2 * np.pi) + np.einsum("ti,ij,tj->t", errors, inverse, errors))
    return {
        "S_xx": smoothed.T @ smoothed / T + Sigma_s,
        "S_10": ahead.T @ now / T + Sigma_s @ J.T,
        "Y": w.T @ smoothed / T,
        "log_likelihood": per_step.mean(),
        "filtered": filtered,
        "smoothed": smoothed,
        "per_step": per_step,
    }


def exact_filter(y, A, C, Q, R, mean, covariance):
    """Textbook Kalman filter from x_1 ~ N(mean, covariance); NaNs are left out. (means, covariances, ll)."""
    means, spreads, total = [], [], 0.0
    x, P = np.array(mean, dtype=float), np.array(covariance, dtype=float)
    for t, row in enumerate(np.asarray(y, dtype=float)):
        if t:
            x, P = A @ x, A @ P @ A.T + Q
        seen = ~np.isnan(row)
        if seen.any():
            Cs = C[seen]
            S = Cs @ P @ Cs.T + R[np.ix_(seen, seen)]
            e = row[seen] - Cs @ x
            K = P @ Cs.T @ np.linalg.inv(S)
            total -= 0.5 * (seen.sum() * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + e @ np.linalg.solve(S, e))
            x, P = x + K @ e, P - K @ Cs @ P
        means.append(x)
        spreads.append(P)
    return np.array(means), np.array(spreads), total


def exact_smoother(means, spreads, A, Q):
    """Rauch-Tung-Striebel smoother."""
    out = means.copy()
    for t in range(len(means) - 2, -1, -1):
        predicted = A @ spreads[t] @ A.T + Q
        J = spreads[t] @ A.T @ np.linalg.inv(predicted)
        out[t] = means[t] + J @ (out[t + 1] - A @ means[t])
    return out
