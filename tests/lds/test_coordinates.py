"""The coordinates in which a fit leaves the state: both recursions of smoothing are triangles, nothing else changes."""

import numpy as np
import pytest

import lagwise as lw
from lagwise.lds import LDS, LagCovariances, learner
from lagwise.lds.coordinates import triangular
from lagwise.lds.kalman import steady_state
from lagwise.lds.parameters import Observation, sym
from lagwise.lds.two_sided import TwoSided, without_dust
from lagwise.linalg.stein import solve_lyapunov


def system(h, seed, radius=0.9):
    """A, Q and the information C'D^{-1}C of a random model."""
    rng = np.random.default_rng(seed)
    A, Q, G = rng.standard_normal((3, h, h))
    return A * radius / np.abs(np.linalg.eigvals(A)).max(), Q @ Q.T / h + 0.3 * np.eye(h), G @ G.T / h


def steady(A, Q, G):
    zero = np.zeros_like(A)
    return steady_state(A, Q, Observation(zero, G, zero, zero, np.zeros(len(A)), 0.0, 0.0, len(A), 0.0))


def below(X):
    """What a real Schur form has not: entries below the subdiagonal, and every second of the subdiagonal's neighbours."""
    sub = np.diag(X, -1)
    return max(np.abs(np.tril(X, -2)).max(initial=0), np.abs(sub[:-1] * sub[1:]).max(initial=0))


@pytest.mark.parametrize("h", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("seed", range(5))
def test_both_recursions_become_triangles(h, seed):
    A, Q, G = system(h, seed)
    state = steady(A, Q, G)
    turn, inverse = triangular(state, solve_lyapunov(A, Q))
    np.testing.assert_allclose(turn @ inverse, np.eye(h), rtol=0, atol=1e-12)
    np.testing.assert_allclose(turn @ state.Sigma_s @ turn.T, np.eye(h), rtol=0, atol=1e-12)
    new = steady(turn @ A @ inverse, sym(turn @ Q @ turn.T), sym(inverse.T @ G @ inverse))
    np.testing.assert_allclose(new.J, turn @ state.J @ inverse, rtol=0, atol=1e-11)
    assert below(new.J) < 1e-11
    for dtype in (np.float32, np.float64):
        both = TwoSided.of(new, dtype)
        assert below(both.J) == 0 and below(both.R.T) == 0
        np.testing.assert_allclose(both.R, both.J.T, rtol=0, atol=10 * np.finfo(dtype).eps + 1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_the_forward_recursion_is_the_backward_one_turned_round(seed):
    """R = Sigma_s J' Sigma_s^{-1} in any coordinates."""
    state = steady(*system(7, seed))
    both = TwoSided.of(state, np.float64)
    np.testing.assert_allclose(both.P, state.Sigma_s @ np.linalg.inv(state.Sigma_0), rtol=0, atol=1e-11)
    want = state.Sigma_s @ state.J.T @ np.linalg.inv(state.Sigma_s)
    np.testing.assert_allclose(both.R, want, rtol=0, atol=1e-11)


def test_a_direction_known_exactly_is_not_blown_up():
    A, Q, G = system(5, 0)
    A[0], A[:, 0] = 0, 0
    Q[0], Q[:, 0] = 0, 0
    Q[0, 0] = 1e-9
    assert triangular(steady(A, Q, G), solve_lyapunov(A, Q)) is None


def test_dust_is_less_than_rounding():
    X, ones = np.array([[1.0, 1e-6], [1e-9, -2e-14]]), np.ones(2)
    np.testing.assert_array_equal(without_dust(X, ones, np.float32) != 0, [[True, True], [False, False]])
    np.testing.assert_array_equal(without_dust(X, ones, np.float64) != 0, [[True, True], [True, False]])
    scale = np.array([1e8, 1e-4])  # units of the two coordinates: the same matrix in others
    np.testing.assert_array_equal(
        without_dust(X * scale[:, None] / scale, scale, np.float64) != 0, without_dust(X, ones, np.float64) != 0
    )
    np.testing.assert_array_equal(without_dust(X, np.array([0.0, 1.0]), np.float64), X)


def test_units_of_the_coordinates_do_not_matter():
    """A turning plane under equal noise: P is a number, so that no units make it badly conditioned."""
    turning = 0.9 * np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    y, units = np.random.default_rng(0).standard_normal((300, 2)), np.array([1e9, 1e-6])
    want = LDS.from_parameters(turning, np.eye(2), np.eye(2), np.eye(2)).transform(y)
    turned = (turning * units[:, None] / units, np.eye(2) / units, np.diag(units**2), np.eye(2))
    model = LDS.from_parameters(*turned)
    assert model._readout.two_sided is not None
    np.testing.assert_allclose(model.transform(y) / units, want, rtol=0, atol=1e-10)


# --- fitted models --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    move = np.array([[0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.7, 0.2, 0.1]])
    lines = []
    for _ in range(300):
        state, line = rng.integers(3), []
        for _ in range(rng.integers(1, 40)):
            state = rng.choice(3, p=move[state])
            line.append(f"w{state}{min(int(rng.exponential(3)), 11)}")
        lines.append(" ".join(line))
    return lw.count(lines=lines, min_count=1)


def unsettled(monkeypatch, fit):
    """The model in the coordinates where EM left it."""
    with monkeypatch.context() as patch:
        patch.setattr(learner, "settled", lambda parameters, S_xx, space: (parameters, S_xx))
        return fit()


@pytest.mark.parametrize("noise", ["full", "spherical", "diagonal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_leaves_triangles_and_changes_nothing_observable(counts, monkeypatch, noise, dtype):
    def fit():
        return LDS(6, n_iter=5, pseudocount=1, dtype=dtype, noise=noise, tol=0).fit(counts)

    new, old = fit(), unsettled(monkeypatch, fit)
    both, state = new._readout.two_sided, new._readout.state
    assert below(both.J) == 0 and below(both.R.T) == 0
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(state.Sigma_s, np.eye(6), rtol=0, atol=tolerance)
    np.testing.assert_array_equal(new.history_, old.history_)
    ids = np.random.default_rng(1).integers(0, len(new.vocabulary_), 200)
    lengths = [100, 60, 40]
    assert new.score(ids, lengths) == pytest.approx(old.score(ids, lengths), rel=tolerance)
    for a, b in zip(new.forecast(ids, top=None), old.forecast(ids, top=None)):
        assert a == pytest.approx(b, abs=tolerance)
    for kind in ("smoothed", "filtered", "predicted"):
        # C x, what a state says of the words, and the angles between whitened states do not depend on coordinates.
        said, before = (m.transform(ids, lengths, kind=kind) @ m.C_.T for m in (new, old))
        np.testing.assert_allclose(said, before, rtol=0, atol=tolerance * np.abs(before).max())
        angles, earlier = (
            (X := m.transform(ids, lengths, kind=kind, whiten=True, unit=True)) @ X.T for m in (new, old)
        )
        np.testing.assert_allclose(angles, earlier, rtol=0, atol=10 * tolerance)


def test_a_fit_goes_on_from_where_another_ended(counts):
    whole = LDS(4, n_iter=8, pseudocount=1, dtype="float64", tol=0).fit(counts)
    half = LDS(4, n_iter=4, pseudocount=1, dtype="float64", tol=0).fit(counts)
    rest = LDS(4, n_iter=4, pseudocount=1, dtype="float64", tol=0, init=half).fit(counts)
    np.testing.assert_allclose(rest.history_, whole.history_[4:], rtol=1e-9)
    eigenvalues = [np.sort_complex(np.linalg.eigvals(m.A_)) for m in (whole, rest)]
    np.testing.assert_allclose(*eigenvalues, rtol=0, atol=1e-8)


def test_a_series_keeps_the_coordinates_of_its_start(gaussian):
    start = LDS.from_parameters(*(gaussian[name] for name in "ACQR"))
    np.testing.assert_array_equal(start.A_, gaussian["A"])
    model = LDS(4, em_lags=7, n_iter=0, init=start).fit(LagCovariances.from_series(gaussian["y"][:20000], 7))
    np.testing.assert_array_equal(model.A_, gaussian["A"])
