"""Every formula against dense algebra at V = 30 and explicit filters."""

import numpy as np
import pytest

from lagwise.lds import LagCovariances, TextCovariances, asos, kalman, starts, subspace
from lagwise.lds.parameters import Parameters, lead, noise_scale, observe
from lagwise.linalg.stein import solve_lyapunov, solve_stein
from tests.reference import lds as dense

NOISES = ["full", "spherical", "diagonal", "bohning"]


def parameters_for(cov, h, noise, seed=0, target=0.7, radius=0.85):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((h, h))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    C = rng.standard_normal((cov.n_features, h))
    cov.clean(C)
    W = rng.standard_normal((h, h))
    Q = W @ W.T + 0.1 * np.eye(h)
    M = solve_lyapunov(A, Q)
    size = target / lead(C.T @ C, M)
    scale = noise_scale(noise, C, size * M, cov)
    return Parameters(A, C, size * Q, size * M, noise, scale)


@pytest.mark.parametrize("pseudocount", [0, 1, 10, 100])
def test_operators_equal_dense_covariances(small_counts, pseudocount):
    cov = TextCovariances(small_counts, 7, pseudocount, "float64")
    psi, _mu, q = dense.dense_psi(small_counts, pseudocount)
    X = np.random.default_rng(0).standard_normal((30, 5))
    np.testing.assert_allclose(cov.project(X), psi[0] @ X, rtol=0, atol=1e-13)
    for k in range(1, 8):
        np.testing.assert_allclose(cov.matmat(k, X), psi[k] @ X, rtol=0, atol=1e-13)
        np.testing.assert_allclose(cov.rmatmat(k, X), psi[k].T @ X, rtol=0, atol=1e-13)
        assert np.abs(q @ cov.matmat(k, X)).max() < 1e-12 * np.linalg.norm(X)
        assert np.abs(q @ cov.rmatmat(k, X)).max() < 1e-12 * np.linalg.norm(X)


def test_block_toeplitz_is_positive_semidefinite():
    rng = np.random.default_rng(8)
    for trial in range(20):
        lines = [rng.integers(-1, 4, size=rng.integers(1, 9)) for _ in range(rng.integers(1, 5))]
        lines.append(np.arange(8) % 4)
        counts = dense.PlainCounts(lines, 4, 7)
        for pseudocount in (0, 0.5, 100):
            cov = (
                TextCovariances(counts, 7, pseudocount, "float64")
                if all(counts.lag(k).sum() for k in range(1, 8))
                else None
            )
            if cov is None:
                continue
            psi = [np.eye(4) - np.outer(cov.q, cov.q)] + [cov.matmat(k, np.eye(4)) for k in range(1, 8)]
            toeplitz = np.block([[psi[i - j] if i >= j else psi[j - i].T for j in range(8)] for i in range(8)])
            assert np.linalg.eigvalsh(toeplitz).min() > -1e-12, trial


@pytest.mark.parametrize("noise", NOISES)
def test_steady_state_equals_dense_riccati(small_counts, noise):
    cov = TextCovariances(small_counts, 7, 10, "float64")
    par = parameters_for(cov, 4, noise)
    obs = observe(par, cov)
    state = kalman.steady_state(par.A, par.Q, obs)
    D = dense.dense_noise(par, cov.q, cov.mu)
    P = np.eye(30) - np.outer(cov.q, cov.q)
    Sigma_1, K = dense.riccati(par.A, par.C, par.Q, D)
    np.testing.assert_allclose(state.Sigma_1, Sigma_1, rtol=1e-10)
    np.testing.assert_allclose(state.L @ obs.N.T @ P, K @ P, rtol=0, atol=1e-11)
    S = par.C @ Sigma_1 @ par.C.T + D
    assert obs.logdet + state.logdet == pytest.approx(dense.logpdet(S), abs=1e-9)
    assert obs.trace == pytest.approx(
        np.trace(np.linalg.pinv(D if noise != "full" else P, hermitian=True) @ P), abs=1e-9
    )
    A, Sigma_0 = par.A, Sigma_1 - K @ par.C @ Sigma_1
    np.testing.assert_allclose(state.J, Sigma_0 @ A.T @ np.linalg.inv(Sigma_1), rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        state.Sigma_s, state.J @ state.Sigma_s @ state.J.T + Sigma_0 - state.J @ Sigma_1 @ state.J.T, rtol=0, atol=1e-11
    )
    radius = [np.abs(np.linalg.eigvals(X)).max() for X in (state.H, state.J)]
    assert radius[0] == pytest.approx(radius[1], abs=1e-8) and radius[0] < 1


def test_noise_algebra_equals_dense(small_counts):
    """(P - C Y C')^+ and its pseudo-determinant, for indefinite and singular Y."""
    cov = TextCovariances(small_counts, 7, 10, "float64")
    par = parameters_for(cov, 4, "full")
    P = np.eye(30) - np.outer(cov.q, cov.q)
    G = par.C.T @ par.C
    for values in ([1, -1, 0.5, 0], [2, 0, 0, 0], [-1, -2, -3, -0.1]):
        Y = np.diag(values) * 0.3 / np.linalg.norm(G, 2)
        D = P - par.C @ Y @ par.C.T
        inverse = P + par.C @ Y @ np.linalg.inv(np.eye(4) - G @ Y) @ par.C.T
        np.testing.assert_allclose(inverse, np.linalg.pinv(D, rcond=1e-11, hermitian=True), rtol=0, atol=1e-12)
        assert np.linalg.slogdet(np.eye(4) - G @ Y)[1] == pytest.approx(dense.logpdet(D), abs=1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_expectations_of_circular_text_equal_explicit_smoother(noise):
    """Circular lags and a long horizon: ASOS is exact, for every kind of noise."""
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 9, 400)
    ids[1::3] = (ids[0:-1:3] + 1) % 9
    counts = dense.PlainCounts([np.concatenate([ids, ids[:60]])], 9, 60)
    for k in range(1, 61):  # make the lags circular: each of the 400 positions starts one pair
        table = np.zeros((9, 9), dtype=np.int64)
        np.add.at(table, (ids, np.roll(ids, -k)), 1)
        counts._lags[k] = dense.csr_array(table)
    counts.unigrams = np.bincount(ids, minlength=9)
    cov = TextCovariances(counts, 60, 0, "float64")
    par = parameters_for(cov, 3, noise, target=0.5, radius=0.7)
    w = (np.eye(9)[ids] - cov.mu_0) * cov.s
    want = dense.explicit_moments(w, par.A, par.C, par.Q, dense.dense_noise(par, cov.q, cov.mu), circular=True)
    got = asos.expectations(par, cov, 60)
    for name in ("S_xx", "S_10", "Y"):
        np.testing.assert_allclose(getattr(got, name), want[name], rtol=0, atol=1e-12 * np.abs(want[name]).max())
    assert got.log_likelihood == pytest.approx(want["log_likelihood"], rel=1e-12)
    slim = asos.expectations(par, cov, 60, keep_products=False)
    np.testing.assert_allclose(slim.Y, got.Y, rtol=0, atol=1e-14)


def plain_asos(par, cov, r):
    """Steps 2 and 3 with every R array."""
    obs = observe(par, cov)
    state = kalman.steady_state(par.A, par.Q, obs)
    B = np.array([obs.B0] + [obs.N.T @ cov.matmat(k, obs.N) for k in range(1, r + 1)])
    mom = asos.filtered_moments(par.A, state, obs, B)
    R = {r + 1: par.C @ par.A @ mom.X[r]}
    for k in range(r, -1, -1):
        R[k] = R[k + 1] @ state.H.T + (cov.matmat(k, obs.N) if k else cov.project(obs.N)) @ state.L.T
    for i in range(1, r + 1):
        R[-i] = R[-i + 1] @ state.H.T + cov.rmatmat(i, obs.N) @ state.L.T
    theta = solve_stein(state.J, par.A, state.F)
    Y = R[-r] @ theta.T
    for i in range(r - 1, -1, -1):
        Y = Y @ state.J.T + R[-i] @ state.F.T
    return Y, R, mom


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("r", [1, 4, 7])
def test_streaming_form_equals_plain(small_counts, noise, r):
    cov = TextCovariances(small_counts, 7, 10, "float64")
    par = parameters_for(cov, 4, noise, target=0.4)
    Y, R, mom = plain_asos(par, cov, r)
    got = asos.expectations(par, cov, r)
    np.testing.assert_allclose(got.Y, Y, rtol=0, atol=1e-12 * np.abs(Y).max())
    obs = observe(par, cov)
    for k in range(r + 2):
        np.testing.assert_allclose(obs.N.T @ R[k], mom.rho[k], rtol=0, atol=1e-11 * np.abs(mom.rho[0]).max())


def test_simulated_statistics_equal_explicit_filter_and_smoother(gaussian):
    cov = LagCovariances.from_series(gaussian["y"], 15)
    par = true_parameters(gaussian, cov)
    w = np.linalg.solve(cov.factor, (gaussian["y"] - cov.mean).T).T
    want = dense.explicit_moments(w, par.A, par.C, par.Q, np.eye(12) - par.C @ par.M @ par.C.T)
    got = asos.expectations(par, cov, 15)
    for name in ("S_xx", "S_10", "Y"):
        error = np.linalg.norm(getattr(got, name) - want[name]) / np.linalg.norm(want[name])
        assert error < 1e-5, (name, error)
    assert got.log_likelihood == pytest.approx(want["log_likelihood"], rel=1e-5)


def true_parameters(gaussian, cov):
    C = np.linalg.solve(cov.factor, gaussian["C"])
    D = np.linalg.solve(cov.factor, np.linalg.solve(cov.factor, gaussian["R"]).T)
    # D = I - C M C' exactly needs Psi_0 = C M C' + D; the sample's Psi_0 differs, so project
    M = np.linalg.pinv(C) @ (np.eye(12) - D) @ np.linalg.pinv(C).T
    return Parameters(gaussian["A"], C, gaussian["Q"], 0.5 * (M + M.T))


def test_subspace_recovers_eigenvalues(gaussian):
    cov = LagCovariances.from_series(gaussian["y"], 7)
    for c_from in ("block", "regression"):
        found = subspace.identify(cov, 4, 4, np.random.default_rng(0), c_from)
        got = np.sort_complex(np.linalg.eigvals(found.A))
        np.testing.assert_allclose(got, np.sort_complex(np.linalg.eigvals(gaussian["A"])), rtol=0, atol=0.02)


def test_em_reaches_the_likelihood_of_the_true_parameters(gaussian):
    cov = LagCovariances.from_series(gaussian["y"], 15)
    goal = asos.expectations(true_parameters(gaussian, cov), cov, 15).log_likelihood
    found = subspace.identify(cov, 4, 4, np.random.default_rng(0))
    par, _, _ = starts.choose_start(found, cov, 15)
    history = []
    for _ in range(200):
        got = asos.expectations(par, cov, 15)
        history.append(got.log_likelihood)
        par, _ = asos.maximise(got, par, cov)
    assert history[-1] > goal - 1e-5
    assert min(np.diff(history)) > -1e-9 * abs(goal)


@pytest.mark.parametrize("pseudocount", [1, 10, 100])
@pytest.mark.parametrize("noise", NOISES)
def test_likelihood_never_falls(small_counts, pseudocount, noise):
    cov = TextCovariances(small_counts, 7, pseudocount, "float64")
    found = subspace.identify(cov, 3, 3, np.random.default_rng(0))
    par, _, _ = starts.choose_start(found, cov, 7, noise=noise)
    history = []
    for _ in range(40):
        got = asos.expectations(par, cov, 7)
        history.append(got.log_likelihood)
        par, repairs = asos.maximise(got, par, cov)
    base = observe(par, cov).baseline
    print(noise, pseudocount, np.array(history[::8]) - base, repairs)
    assert min(np.diff(history)) > -1e-9 * abs(history[0] - base)
