"""The estimator: hard cases L1-L17, persistence, interruption, invariance."""

import warnings

import numpy as np
import pytest

import lagwise as lw
from lagwise.lds import LDS, LagCovariances, asos, fitting, learner
from lagwise.lds.parameters import Parameters, floor_psd
from tests.reference import lds as dense

CHAIN = ["a b c " * 300]


def count(lines, **options):
    return lw.count(lines=lines, **{"min_count": 1, **options})


@pytest.fixture(scope="module")
def text():
    """A text of 300 lines with two kinds of words in turn, 40 words."""
    rng = np.random.default_rng(0)
    lines, state = [], 0
    for _ in range(300):
        line = []
        for _ in range(rng.integers(1, 40)):
            state = rng.choice(3, p=[[0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.7, 0.2, 0.1]][state])
            line.append(f"w{state}{min(int(rng.exponential(3)), 11)}")
        lines.append(" ".join(line))
    return lines


@pytest.fixture(scope="module")
def fitted(text):
    return LDS(3, n_iter=15, pseudocount=1, dtype="float64", tol=0).fit(count(text))


# --- the scalar series ----------------------------------------------------------------------------------------------

SERIES = [1.0, 0.0, -1.0, 2.0]


def scalar():
    return LDS.from_parameters(0.5, 1, 1, 1)


def test_scalar_series_values():
    model = scalar()
    state = model._readout.state
    assert state.Sigma_1[0, 0] == pytest.approx(1.1327822185373186, abs=1e-13)
    gain = state.L @ model._readout.observation.N.T @ np.linalg.inv(model._readout.space.factor)
    assert gain[0, 0] == pytest.approx(0.5311288741492748, abs=1e-13)
    assert model.score(SERIES, steady=False) == pytest.approx(-6.924849892330358, abs=1e-12)
    assert model.score(SERIES) == pytest.approx(-6.893965429127358, abs=1e-12)
    assert model.transform(SERIES, kind="filtered", steady=False)[-1, 0] == pytest.approx(0.945054945, abs=1e-9)
    assert model.transform(SERIES, kind="filtered")[-1, 0] == pytest.approx(0.9445856275, abs=1e-10)
    filtered = model._readout._steps(np.array(SERIES)[:, None], np.array([0, 4]), False)
    assert filtered.covariances[-1, 0, 0] == pytest.approx(0.531135531, abs=1e-9)


def test_missing_value_of_a_series_leaves_the_prediction():
    y = [1.0, 0.0, np.nan, 2.0]
    model = scalar()
    assert model.score(y, steady=False) == pytest.approx(-5.054644708436999, abs=1e-12)
    filtered = model._readout._steps(np.array(y)[:, None], np.array([0, 4]), False)
    assert filtered.means[2, 0] == pytest.approx(0.0666666667, abs=1e-10)
    assert filtered.covariances[2, 0, 0] == pytest.approx(1.1333333333, abs=1e-10)
    for kind in ("filtered", "smoothed", "predicted"):
        assert np.isfinite(model.transform(y, kind=kind)).all()


def test_exact_and_steady_scores_agree_far_from_the_beginning():
    rng = np.random.default_rng(0)
    y = np.zeros(2000)
    x = 0.0
    for t in range(2000):
        x = 0.5 * x + rng.standard_normal()
        y[t] = x + rng.standard_normal()
    model = scalar()
    assert model.score(y) / 2000 == pytest.approx(model.score(y, steady=False) / 2000, abs=1e-3)


def test_partly_missing_rows_equal_textbook_filter(gaussian):
    y = gaussian["y"][:200].copy()
    y[np.random.default_rng(0).random(y.shape) < 0.2] = np.nan
    y[50] = np.nan
    model = LDS.from_parameters(gaussian["A"], gaussian["C"], gaussian["Q"], gaussian["R"])
    means, spreads, total = dense.exact_filter(
        y, gaussian["A"], gaussian["C"], gaussian["Q"], gaussian["R"], np.zeros(4), gaussian["stationary"]
    )
    np.testing.assert_allclose(model.transform(y, kind="filtered", steady=False), means, rtol=0, atol=1e-9)
    assert model.score(y, steady=False) == pytest.approx(total, abs=1e-8)
    smoothed = dense.exact_smoother(means, spreads, gaussian["A"], gaussian["Q"])
    np.testing.assert_allclose(model.transform(y, steady=False), smoothed, rtol=0, atol=1e-9)
    for steady in (True, False):
        assert model.score(y[:0], steady=steady) == 0.0
        assert model.transform(y[:0], steady=steady).shape == (0, 4)
    with pytest.raises(ValueError, match=r"shape \(0, 12\)"):
        LagCovariances.from_series(y[:0], 3)


def test_steady_state_equals_exact_filter_after_burn_in(gaussian):
    y = gaussian["y"][:400]
    model = LDS.from_parameters(gaussian["A"], gaussian["C"], gaussian["Q"], gaussian["R"])
    for kind, rows in (("filtered", slice(200, None)), ("predicted", slice(200, None)), ("smoothed", slice(200, 300))):
        exact = model.transform(y, kind=kind, steady=False)[rows]
        np.testing.assert_allclose(model.transform(y, kind=kind)[rows], exact, rtol=0, atol=1e-10)


def test_exact_text_filter_equals_textbook(fitted):
    """Text through N'w and h x h algebra equals the dense filter on V-dimensional indicators."""
    ids = np.random.default_rng(1).integers(0, len(fitted.vocabulary_), 30)
    space = fitted._readout.space
    w = (np.eye(len(space.mu))[ids] - space.mu_0) * space.s
    D = dense.dense_noise(fitted._readout.parameters, space.q)
    basis = dense.basis(np.eye(len(space.mu)) - np.outer(space.q, space.q))
    A, Q, C = fitted.A_, fitted.Q_, basis.T @ fitted.C_
    want, _, _ = dense.exact_filter(w @ basis, A, C, Q, basis.T @ D @ basis, np.zeros(3), fitted._readout.stationary)
    np.testing.assert_allclose(fitted.transform(ids, kind="filtered", steady=False), want, rtol=0, atol=1e-9)
    wq = (np.eye(len(space.mu))[ids] - space.mu) * space.s  # the score centres by mu
    got = fitted.score(ids, per_token=True) + space.log_volume(space.n_dimensions)
    a = fitted.transform(ids, kind="predicted") @ fitted.C_.T
    S = fitted.C_ @ fitted._readout.state.Sigma_1 @ fitted.C_.T + D
    e = wq - a
    square = np.einsum("ti,ij,tj->t", e, np.linalg.pinv(S, rcond=1e-11, hermitian=True), e)
    want = -0.5 * (dense.logpdet(S) + space.n_dimensions * np.log(2 * np.pi) + square)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8)


# --- hard inputs ----------------------------------------------------------------------------------------------------


def test_constant_coordinate_is_named():
    with pytest.raises(ValueError, match="coordinate 1 is constant"):
        LagCovariances.from_series(
            np.column_stack([np.random.default_rng(0).standard_normal(200), np.full(200, 3.0)]), 3
        )
    y = np.random.default_rng(0).standard_normal((200, 2))
    with pytest.raises(ValueError, match="mixture"):
        LagCovariances.from_series(np.column_stack([y, y.sum(axis=1)]), 3)


def test_five_hundred_iterations_keep_covariances_in_their_cones():
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.standard_normal((400, 3)), axis=0) * 0.1 + rng.standard_normal((400, 3))
    cov = LagCovariances.from_series(y, 7)
    par = LDS(2, n_iter=0).fit(cov)._readout.parameters
    for _ in range(500):
        got = asos.expectations(par, cov, 7)
        par, _ = asos.maximise(got, par, cov)
        for X in (par.Q, par.M, got.S_xx):
            assert np.linalg.norm(X - X.T) == 0 and np.linalg.eigvalsh(X).min() >= 0
        D = np.eye(3) - par.C @ par.M @ par.C.T
        assert np.linalg.eigvalsh(D).min() > 0 and np.isfinite(got.log_likelihood)


@pytest.mark.parametrize("limit", [2, 3, 5, 10, 20, 40])
def test_any_lag_limit_keeps_the_best_iterate(gaussian, limit):
    cov = LagCovariances.from_series(gaussian["y"][:20000], limit)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if limit >= 10 else "ignore")
        model = (
            LDS(4, ssid_lags=max(2, min(4, (limit + 1) // 2)), em_lags=limit, n_iter=30, tol=0, dtype="float64")
            if (limit > 2)
            else LDS(4, ssid_lags=2, em_lags=2, n_iter=30, tol=0)
        )
        model.fit(cov if limit > 2 else LagCovariances.from_series(gaussian["y"][:20000], 3))
    assert model.history_[model.best_iter_] == model.history_.max()


def test_lag_limit_against_exact_smoother(gaussian):
    T = 20000
    cov = LagCovariances.from_series(gaussian["y"][:T], 40)
    model = LDS(4, em_lags=40, n_iter=3, tol=0, dtype="float64").fit(cov)
    par = model._readout.parameters
    got = asos.expectations(par, cov, 40)
    w = cov.whiten(gaussian["y"][:T])
    D = np.eye(12) - par.C @ par.M @ par.C.T
    want = dense.explicit_moments(w, par.A, par.C, par.Q, D)
    for name in ("S_xx", "S_10", "Y"):
        gap = np.linalg.norm(getattr(got, name) - want[name])
        assert gap < 5 / T * np.linalg.norm(want[name]), name
    # The gap is the filter ringing on beyond the ends: with silence around the series nothing is left of it.
    silence = np.zeros((300, 12))
    longer = dense.explicit_moments(np.vstack([silence, w, silence]), par.A, par.C, par.Q, D)
    share = (T + 600) / T
    np.testing.assert_allclose(got.Y, longer["Y"] * share, rtol=0, atol=1e-10 * np.abs(got.Y).max())
    spread = model._readout.state.Sigma_s  # not part of what silence dilutes
    np.testing.assert_allclose(
        got.S_xx - spread, (longer["S_xx"] - spread) * share, rtol=0, atol=1e-10 * np.abs(got.S_xx).max()
    )
    circular = LagCovariances.from_series(gaussian["y"][:T], 40, circular=True)
    circular_want = dense.explicit_moments(circular.whiten(gaussian["y"][:T]), par.A, par.C, par.Q, D, circular=True)
    circular_got = asos.expectations(par, circular, 40)
    np.testing.assert_allclose(
        circular_got.S_xx, circular_want["S_xx"], rtol=0, atol=1e-10 * np.abs(circular_want["S_xx"]).max()
    )


def test_lags_that_end_too_early_are_reported(gaussian):
    """The error of the horizon falls with the lags, and a fit warns where it exceeds 1e-3."""
    cov = LagCovariances.from_series(gaussian["y"][:20000], 20)
    start = LDS.from_parameters(0.97 * np.eye(4), gaussian["C"], 0.05 * np.eye(4), gaussian["R"])
    errors = []
    for lags in (2, 6, 20):
        model = LDS(4, em_lags=lags, n_iter=1, tol=0, init=start)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(cov)
        errors.append(model.horizon_error_)
        said = [str(w.message) for w in caught if "lags end too early" in str(w.message)]
        assert bool(said) == (model.horizon_error_ > 1e-3)
        assert not said or f"the last of {lags}" in said[0]
    assert errors[0] > 1e-3 > errors[2] and errors[0] > errors[1] > errors[2]


@pytest.mark.filterwarnings("ignore:the lags end too early")
def test_choices_are_listed(text):
    with pytest.raises(ValueError, match=r"init is 'N4SIDD'; expected one of 'best', 'innovations'"):
        LDS(2, init="N4SIDD").fit(count(text))
    rng = np.random.default_rng(0)
    cov = LagCovariances.from_series(
        rng.standard_normal((5000, 8)).cumsum(axis=0) * 0.01 + rng.standard_normal((5000, 8)), 7
    )
    assert LDS(6, n_iter=1, tol=0).fit(cov).A_.shape == (6, 6)


def test_rank_below_components_is_named():
    with pytest.raises(ValueError, match="Hankel rank 2 < 5"):
        LDS(5, ssid_lags=2, em_lags=3, pseudocount=0.1, dtype="float64").fit(
            count(["a b b a b a a b b b a"] * 9, max_lag=3)
        )


def test_scalar_hankel():
    psi = [[[1.0]]] + [[[0.5 * 0.8 ** (k - 1)]] for k in (1, 2, 3)]
    cov = LagCovariances(psi)
    model = LDS(1, ssid_lags=2, em_lags=3, n_iter=0).fit(cov)
    np.testing.assert_allclose(model.hankel_values_[0], 0.82, atol=1e-12)
    assert model.A_[0, 0] == pytest.approx(0.8, abs=1e-12)
    assert model.suggest_components(cov) == 1
    with pytest.raises(ValueError, match="Hankel rank 1 < 2"):
        LDS(2, ssid_lags=2, em_lags=3).fit(cov)


def test_independent_words_have_rank_zero():
    p = np.array([0.5, 0.25, 0.25])
    counts = dense.PlainCounts([[0, 0, 1, 2]], 3, 7)
    counts.unigrams = (p * 1600).astype(np.int64)
    for k in range(1, 8):
        counts._lags[k] = dense.csr_array((np.outer(p, p) * 1600).astype(np.int64))
    for dtype in ("float64", "float32"):
        model = LDS(1, dtype=dtype)
        assert model.suggest_components(counts) == 0
        with pytest.raises(ValueError, match="Hankel rank 0 < 1"):
            model.fit(counts)


def test_small_vocabularies():
    with pytest.raises(ValueError, match="at least 2"):
        LDS(1).fit(count(["a a a a a a a a a a"]))
    never = count(["a b c a b c a b c a b c"], keep=["never"], min_count=1)
    with pytest.raises(ValueError, match="'never' was never seen"):
        LDS(2, pseudocount=0, n_iter=2).fit(never)
    model = LDS(2, pseudocount=1, n_iter=2, tol=0).fit(never)
    assert np.isfinite(model.C_).all() and np.isfinite(model.type_vectors()).all()


def test_alternating_text():
    model = LDS(1, n_iter=50).fit(count(["a b " * 500]))
    eigenvalue = np.linalg.eigvals(model.A_)[0].real
    assert -1 < eigenvalue < -0.9
    assert model.forecast(["a"])[0][0] == "b" and model.forecast(["b"])[0][0] == "a"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_way_chain(dtype):
    """The orientation: an operator entry and the forecast, never eigenvalues (they are the same backwards)."""
    from lagwise.lds import TextCovariances

    counts = count(CHAIN)
    cov = TextCovariances(counts, 7, 0.1, dtype)
    a, b, c = (counts.vocabulary.id(word) for word in "abc")
    psi_1 = cov.matmat(1, np.eye(3, dtype=dtype))
    assert psi_1[b, a] > 0 > psi_1[a, b] and psi_1[c, b] > 0 > psi_1[b, c]
    model = LDS(2, pseudocount=0.1, n_iter=20, dtype=dtype).fit(counts)
    for now, after in ("ab", "bc", "ca"):
        assert model.forecast([now], top=1)[0][0] == after
        assert model.forecast(["a", "b", "c"] * 5 + ["a", "b", "c"][: "abc".index(now) + 1], top=1)[0][0] == after


def test_short_lines_name_the_longest_and_the_lags():
    with pytest.raises(ValueError, match=r"longest line has 2 tokens and lags 1\.\.5"):
        LDS(1, ssid_lags=3, em_lags=5).fit(count(["a b"] * 5, max_lag=5))
    with pytest.raises(ValueError, match=r"longest line has 1 tokens?"):
        LDS(1).fit(count(["a", "b", "a"]))
    with pytest.raises(ValueError, match="count again with max_lag=7"):
        LDS(1).fit(count(CHAIN, max_lag=3))
    with pytest.raises(ValueError, match="hold a window"):
        LDS(1).fit(count(CHAIN, window=3))
    with pytest.raises(TypeError, match="CountStore"):
        LDS(1).fit(np.eye(3))


# --- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the lags end too early")
def test_history_never_falls_and_counts_the_start(text):
    for boundary, oov in (("line", "keep"), ("none", "unk"), ("none", "keep"), ("line", "drop")):
        counts = count(text, boundary=boundary, oov=oov, min_count=5)
        for noise in ("full", "diagonal", "spherical", "bohning"):
            model = LDS(3, n_iter=20, tol=0, noise=noise, dtype="float64").fit(counts)
            assert model.history_.shape == (model.n_iter_ + 1,)
            assert model.converged_ or model.n_iter_ == 20  # Boehning's bound leaves no room for a state: C goes to 0
            assert np.diff(model.history_).min() > -1e-9 * abs(model.history_).max()


def test_no_iterations_is_ssid_alone(text):
    model = LDS(3, n_iter=0).fit(count(text))
    assert model.history_.shape == (1,) and model.n_iter_ == 0 and not model.converged_
    assert model.transform(["w00"]).shape == (1, 3)


def test_options_all_fit(text):
    counts = count(text)
    first = LDS(3, n_iter=3, tol=0).fit(counts)
    for change in (
        {"c_from": "regression"},
        {"whiten_ssid": False},
        {"update_transition_noise": False},
        {"init": "identity"},
        {"init": "moments"},
        {"init": "random"},
        {"init": first},
        {"memory": "16MB"},
        {"em_lags": 1},
        {"ssid_lags": 2},
        {"pseudocount": 0.5},
    ):
        model = LDS(3, n_iter=3, tol=0).set_params(**change).fit(counts)
        assert np.diff(model.history_).min() > -1e-5 * np.abs(model.history_).max(), change
        if "memory" in change:
            np.testing.assert_array_equal(model.C_, first.C_)
    assert np.abs(np.diff([first.history_[-1], LDS(3, n_iter=0, init=first).fit(counts).history_[0]])) < 1e-6


def test_transition_noise_may_stay(text, monkeypatch):
    monkeypatch.setattr(learner, "settled", lambda parameters, S_xx, space: (parameters, S_xx))
    counts = count(text)
    start = LDS(3, n_iter=0).fit(counts)
    np.testing.assert_array_equal(LDS(3, n_iter=3, tol=0, update_transition_noise=False).fit(counts).Q_, start.Q_)
    assert np.abs(LDS(3, n_iter=3, tol=0).fit(counts).Q_ - start.Q_).max() > 1e-3 * np.abs(start.Q_).max()


def test_m_step_is_the_maximum_of_the_expected_log_likelihood(fitted, text):
    """Numerical maximisation over A, C, Q finds nothing higher than the closed form."""
    from lagwise.lds import TextCovariances

    cov = TextCovariances(count(text), 7, 1, "float64")
    par = fitted._readout.parameters
    got = asos.expectations(par, cov, 7)
    Y = got.Y.copy()
    new, _ = asos.maximise(got, par, cov)

    def transition(A, Q):
        spread = got.S_xx - A @ got.S_10.T - got.S_10 @ A.T + A @ got.S_xx @ A.T
        return -0.5 * (np.linalg.slogdet(Q)[1] + np.trace(np.linalg.solve(Q, spread)))

    P = np.eye(cov.n_features) - np.outer(cov.q, cov.q)
    base = dense.basis(P)

    def emission(C, D):
        spread = base.T @ (P - C @ Y.T - Y @ C.T + C @ got.S_xx @ C.T) @ base
        inner = base.T @ D @ base
        return -0.5 * (np.linalg.slogdet(inner)[1] + np.trace(np.linalg.solve(inner, spread)))

    top, top_w = transition(new.A, new.Q), emission(new.C, P - new.C @ new.M @ new.C.T)
    rng = np.random.default_rng(0)
    D = P - new.C @ new.M @ new.C.T
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            dA, dQ = size * rng.standard_normal((3, 3)), size * rng.standard_normal((3, 3)) * np.linalg.norm(new.Q)
            Q = floor_psd(new.Q + dQ + dQ.T, 1e-3)[0]
            assert transition(new.A + dA, new.Q) <= top + 1e-9 and transition(new.A, Q) <= top + 1e-9
            dC = P @ (size * rng.standard_normal(new.C.shape))
            assert emission(new.C + dC, D) <= top_w + 1e-9
            dD = size * rng.standard_normal(P.shape)
            assert emission(new.C, D + P @ (dD @ dD.T) @ P * 0.01) <= top_w + 1e-9
            assert emission(new.C, D @ (np.eye(len(D)) - 0.01 * size * P)) <= top_w + 1e-9


@pytest.mark.parametrize("noise", ["full", "spherical"])
def test_similarity_transform_changes_nothing_observable(fitted, text, noise):
    from lagwise.lds import TextCovariances
    from lagwise.lds.readout import Readout

    cov = TextCovariances(count(text), 7, 1, "float64")
    rng = np.random.default_rng(4)
    T = rng.standard_normal((3, 3)) + 2 * np.eye(3)
    inverse = np.linalg.inv(T)
    par = fitted._readout.parameters
    if noise != "full":
        par = par._replace(noise=noise, scale=np.asarray(0.9))
    turned = Parameters(T @ par.A @ inverse, par.C @ inverse, T @ par.Q @ T.T, T @ par.M @ T.T, par.noise, par.scale)
    one, two = asos.expectations(par, cov, 7), asos.expectations(turned, cov, 7)
    assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=1e-11)
    np.testing.assert_allclose(T @ one.S_xx @ T.T, two.S_xx, rtol=0, atol=1e-9 * np.abs(two.S_xx).max())
    space, S = fitted._readout.space, one.S_xx
    a, b = Readout(par, space, S), Readout(turned, space, T @ S @ T.T)
    ids, offsets = rng.integers(-1, len(space.mu), 50), np.array([0, 20, 50])
    np.testing.assert_allclose(a.log_likelihoods(ids, offsets), b.log_likelihoods(ids, offsets), rtol=1e-9)
    np.testing.assert_allclose(
        a.forecast(a.states(ids, offsets, "filtered")[-1]),
        b.forecast(b.states(ids, offsets, "filtered")[-1]),
        rtol=0,
        atol=1e-10,
    )
    words = [str(i) for i in range(len(space.mu))]
    for p, q in zip(a.dynamics(words, 5, None, "raw").pairs, b.dynamics(words, 5, None, "raw").pairs):
        assert p.gain == pytest.approx(q.gain, rel=1e-8) and p.cosine == pytest.approx(q.cosine, abs=1e-7)
        assert p[2:] == q[2:]  # the words of all four sides, in order: the sign too


def test_em_is_equivariant(gaussian):
    """The same start in two coordinate systems (y and B y) gives the same A, and C mapped by B."""
    y = gaussian["y"][:20000]
    B = np.random.default_rng(5).standard_normal((12, 12)) + 3 * np.eye(12)
    results = []
    for series, C, R in ((y, gaussian["C"], gaussian["R"]), (y @ B.T, B @ gaussian["C"], B @ gaussian["R"] @ B.T)):
        start = LDS.from_parameters(gaussian["A"], C, gaussian["Q"], R)
        model = LDS(4, em_lags=7, n_iter=20, tol=0, init=start).fit(LagCovariances.from_series(series, 7))
        results.append((model.A_, model._readout.space.factor @ model.C_))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(B @ results[0][1], results[1][1], rtol=0, atol=1e-8 * np.abs(results[1][1]).max())


def test_threads_do_not_change_bytes(text, monkeypatch):
    from lagwise.lds import statistics

    monkeypatch.setattr(statistics, "SMALL", 0)
    counts = count(text)
    models = [LDS(3, n_iter=4, tol=0, n_threads=n).fit(counts) for n in (1, 2, 3)]
    for model in models[1:]:
        for name in ("A_", "C_", "Q_", "M_", "history_", "hankel_values_"):
            np.testing.assert_array_equal(getattr(models[0], name), getattr(model, name))


def test_callbacks(text):
    counts = count(text)
    seen = []

    def callback(iteration, model):
        seen.append((iteration, model.history_[-1], model.transform(["w00", "w10"])[0, 0]))
        return -abs(iteration - 3)

    model = LDS(3, n_iter=6, tol=0).fit(counts, callback=callback, keep="callback")
    assert [s[0] for s in seen] == list(range(7)) and model.best_iter_ == 3
    assert model.transform(["w00", "w10"])[0, 0] == seen[3][2]
    np.testing.assert_array_equal(model.callback_values_, [-3, -2, -1, 0, -1, -2, -3])
    stopped = LDS(3, n_iter=6, tol=0).fit(counts, callback=lambda i, m: i == 2)
    assert stopped.n_iter_ == 2
    with pytest.raises(ValueError, match="callback"):
        LDS(3).fit(counts, keep="callback")


def test_convergence_is_relative_to_the_gain_over_iid(text):
    model = LDS(3, n_iter=500, tol=1e-3).fit(count(text))
    assert model.converged_ and model.n_iter_ < 500
    gain = model.history_[-1] - model.history_[-2]
    assert gain <= 1e-3 * abs(model.history_[-1])


def test_a_fall_keeps_the_best_iterate(text, monkeypatch):
    values = iter([1.0, 2.0, 1.5])
    real = fitting.expectations

    def fake(parameters, covariances, *args, **options):
        return real(parameters, covariances, *args, **options)._replace(log_likelihood=next(values))

    monkeypatch.setattr(fitting, "expectations", fake)
    monkeypatch.setattr(fitting, "observe_baseline", lambda *a: 0.0)
    with pytest.warns(RuntimeWarning, match="fell by 0.5 nats a token at iteration 2; the best iterate, number 1"):
        model = LDS(3, n_iter=9, tol=0).fit(count(text))
    assert model.best_iter_ == 1 and model.fell_ and not model.converged_


def test_interrupt_keeps_the_best_iterate(text):
    def callback(iteration, model):
        if iteration == 3:
            raise KeyboardInterrupt

    model = LDS(3, n_iter=9, tol=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(count(text), callback=callback)
    assert model.interrupted_ and model.best_iter_ == 2
    reference = LDS(3, n_iter=2, tol=0).fit(count(text))
    np.testing.assert_array_equal(model.C_, reference.C_)
    model.fit(count(text))
    assert not model.interrupted_


def test_checkpoint_resumes_to_the_same_bytes(text, tmp_path):
    counts, path = count(text), tmp_path / "run"
    whole = LDS(3, n_iter=8, tol=0).fit(counts)

    def callback(iteration, model):
        if iteration == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LDS(3, n_iter=8, tol=0).fit(counts, callback=callback, checkpoint=path)
    resumed = LDS(3, n_iter=8, tol=0).fit(counts, checkpoint=path, resume=True)
    for name in ("A_", "C_", "Q_", "M_", "history_", "hankel_values_"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(resumed, name))
    assert resumed.start_ == whole.start_
    with pytest.raises(ValueError, match="em_lags"):
        LDS(3, em_lags=5, n_iter=8).fit(counts, checkpoint=path, resume=True)


# --- the fitted model -----------------------------------------------------------------------------------------------


def test_inputs_of_every_form(fitted):
    words = ["w00", "w10", "w20", "unheard"]
    ids = [fitted.vocabulary_.index.get(word, -1) for word in words]
    want = fitted.transform(words)
    for X in (ids, np.array(ids, dtype=np.int64), " ".join(words), [words], [np.array(ids)], np.array(ids)[:, None]):
        np.testing.assert_array_equal(fitted.transform(X), want)
    twice = fitted.transform(words + words, [4, 4])
    np.testing.assert_array_equal(twice, np.vstack([want, want]))
    np.testing.assert_array_equal(fitted.transform([words, [], words]), twice)
    assert fitted.transform([]).shape == fitted.transform("").shape == (0, 3) and fitted.score([]) == 0.0
    for bad, message in (
        ([99], "id 99 is outside"),
        ([-2], "id -2"),
        (["a", 3], "row 0|row 1"),
        (np.eye(2), "shape|dtype"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fitted.transform(bad)
    with pytest.raises(ValueError, match="lengths add up to 3"):
        fitted.transform(words, [3])
    with pytest.raises(lw.NotFittedError):
        LDS().transform(words)


def test_unknown_words(fitted):
    import copy

    from lagwise.lds.readout import Readout

    missing = copy.copy(fitted)
    missing.unknown = "missing"
    missing._readout = Readout(fitted._readout.parameters, fitted._readout.space, fitted.state_covariance_, "missing")
    X = ["w00", "unheard"]
    zero = fitted.transform(X, kind="filtered")
    gone = missing.transform(X, kind="filtered")
    np.testing.assert_allclose(zero[1], fitted._readout.state.H @ zero[0], rtol=0, atol=1e-14)
    np.testing.assert_allclose(gone[1], fitted.A_ @ gone[0], rtol=0, atol=1e-14)
    for model in (fitted, missing):
        assert np.isfinite(model.score(X)) and model.score(X, per_token=True)[1] == 0
        for steady in (True, False):
            assert np.isfinite(model.transform(X, steady=steady)).all()


def test_whitened_unit_states(fitted, text):
    states = fitted.transform([line.split() for line in text], whiten=True)
    np.testing.assert_allclose(states.T @ states / len(states), np.eye(3), rtol=0, atol=0.35)
    unit = fitted.transform([line.split() for line in text], whiten=True, unit=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-12)


def test_score_beats_independence_and_its_own_reversal(fitted, text):
    lines = [line.split() for line in text]
    assert fitted.score(lines, relative=True) > 0
    assert fitted.score(lines) > fitted.score([line[::-1] for line in lines])
    total = fitted.score(lines)
    assert total == pytest.approx(fitted.score(lines, per_token=True).sum())


def test_forecast_sums_to_one(fitted):
    tendency = fitted.forecast(["w00", "w10"], top=None)
    assert tendency.sum() == pytest.approx(1, abs=1e-9)
    words = fitted.forecast(["w00", "w10"], top=5)
    assert [w for w, _ in words] == [fitted.vocabulary_[int(i)] for i in np.argsort(-tendency, kind="stable")[:5]]
    with pytest.raises(ValueError, match="one sequence"):
        fitted.forecast([["w00"], ["w10"]])


def test_type_vectors_are_what_an_occurrence_adds(fitted):
    vectors = fitted.type_vectors()
    a, b = (fitted.transform([word], kind="filtered")[0] for word in fitted.vocabulary_.words[:2])
    np.testing.assert_allclose(vectors[0] - vectors[1], a - b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", ["full", "diagonal", "spherical", "bohning"])
def test_elman_network_is_the_filter(text, noise):
    model = LDS(3, n_iter=3, tol=0, noise=noise, dtype="float64", pseudocount=1).fit(count(text))
    ids = np.random.default_rng(3).integers(-1, len(model.vocabulary_), 60)
    net = model.to_rnn()
    assert [net[name].shape for name in ("W_in", "W_rec", "b_hidden", "unknown", "W_out", "b_out")] == [
        (len(model.C_), 3), (3, 3), (3,), (3,), (len(model.C_), 3), (len(model.C_),)
    ]  # fmt: skip
    x, states = np.zeros(3), []
    for i in ids:
        x = net["W_rec"] @ x + (net["unknown"] if i < 0 else net["W_in"][i]) + net["b_hidden"]
        states.append(x)
    want = model.transform(ids, kind="filtered")
    np.testing.assert_allclose(states, want, rtol=0, atol=1e-12 * np.abs(want).max())
    linear = net["W_out"] @ x + net["b_out"]
    np.testing.assert_allclose(linear, model.forecast(ids, top=None), rtol=0, atol=1e-12)
    soft = model.to_rnn("softmax", scale=1e-4)
    scores = soft["W_out"] @ x + soft["b_out"]
    first = (np.exp(scores) / np.exp(scores).sum() - model._readout.space.mu) / 1e-4
    np.testing.assert_allclose(first, linear - net["b_out"], rtol=0, atol=1e-3 * np.abs(first).max() + 1e-6)


def test_scale_of_the_network_is_the_likeliest(fitted, text):
    from lagwise.lds.network import tuned_scale

    ids = np.concatenate([fitted.vocabulary_.lookup(line.split()) for line in text[:40]])

    def likelihood(scale):
        net, states = fitted.to_rnn("softmax", scale), fitted.transform(ids, kind="filtered")[:-1]
        scores = states @ net["W_out"].T + net["b_out"]
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return scores[np.arange(len(states)), ids[1:]].sum()

    best = tuned_scale(fitted._readout, ids, np.array([0, len(ids)]))
    values = [likelihood(scale) for scale in (0, best - 0.05, best, best + 0.05)]
    assert values[2] == max(values) > values[0]
    np.testing.assert_array_equal(fitted.to_rnn("softmax", tune=ids)["W_out"], fitted.to_rnn("softmax", best)["W_out"])


def test_networks_refuse_what_they_cannot_be(fitted):
    with pytest.raises(ValueError, match="softmax"):
        fitted.to_rnn(tune=["w00"])
    with pytest.raises(ValueError, match="holds no word"):
        fitted.to_rnn("softmax", tune=["unheard"])
    with pytest.raises(ValueError, match="numeric series"):
        scalar().to_rnn()
    with pytest.raises(ValueError, match="output is 'tanh'"):
        fitted.to_rnn("tanh")


def test_dynamics(fitted):
    result = fitted.dynamics(top=4, n_pairs=2)
    assert len(result.pairs) == 2 and len(result.pairs[0].now) == 4
    np.testing.assert_allclose(result.half_lives, np.log(0.5) / np.log(np.abs(result.eigenvalues)), rtol=1e-9)
    values, vectors = np.linalg.eigh(fitted._readout.S_xx)
    root = vectors * np.sqrt(values) @ vectors.T  # the state in which E[xx'] = 1 is root^-1 x
    gains, after = np.linalg.svd(np.linalg.solve(root, fitted.A_ @ root))[1:]
    weights = fitted.C_ @ root @ after[0]
    q = fitted._readout.space.q
    for rank, scale in (("raw", q), ("correlation", 1), ("lift", 1 / q)):
        pair = fitted.dynamics(4, 1, rank).pairs[0]
        order = [fitted.vocabulary_[i] for i in np.argsort(scale * weights)]
        assert pair.gain == pytest.approx(gains[0], rel=1e-9)
        assert {tuple(pair.now), tuple(pair.now_opposite)} == {tuple(order[:4]), tuple(order[:-5:-1])}
    with pytest.raises(ValueError, match="rank is 'count'"):
        fitted.dynamics(rank="count")


def test_dynamics_by_tokens(fitted):
    """Singular pairs of E[w_{t+1} w_t'], words weighted by the root of their frequency."""
    weights = np.sqrt(fitted._readout.space.q)[:, None]
    C, A, S = fitted.C_, fitted.A_, fitted.state_covariance_
    after, gains, now = np.linalg.svd((weights * C) @ A @ S @ (weights * C).T)
    result = fitted.dynamics(5, rank="correlation", by="tokens")
    assert len(result.pairs) == 3
    for i, pair in enumerate(result.pairs):
        assert pair.gain == pytest.approx(gains[i] / gains[0], rel=1e-7)
        sides = now[i] / weights[:, 0], after[:, i] / weights[:, 0]
        turned = np.sign(sides[0][np.abs(sides[0]).argmax()])
        assert pair.cosine == pytest.approx(now[i] @ after[:, i], abs=1e-6)
        for words, side in zip(pair[2:], (*sides, *(-side for side in sides))):
            assert words == [fitted.vocabulary_[j] for j in np.argsort(-turned * side)[:5]]
    np.testing.assert_array_equal(result.eigenvalues, fitted.dynamics().eigenvalues)
    with pytest.raises(ValueError, match="by is 'words'"):
        fitted.dynamics(by="words")
    with pytest.raises(ValueError, match="numeric series"):
        scalar().dynamics(by="tokens")


@pytest.mark.parametrize("noise", ["full", "diagonal", "spherical", "bohning"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_saved_models_answer_alike(text, tmp_path, noise, dtype):
    model = LDS(3, n_iter=3, tol=0, noise=noise, dtype=dtype).fit(count(text))
    model.save(tmp_path / "model")
    again = lw.load(tmp_path / "model")
    for name in ("A_", "C_", "Q_", "M_", "gain_", "history_", "hankel_values_", "state_covariance_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(again, name))
    np.testing.assert_array_equal(model.transform(text[0]), again.transform(text[0]))
    assert model.score(text[0]) == again.score(text[0]) and again.vocabulary_ == model.vocabulary_
    assert {k: v for k, v in again.get_params().items() if k != "dtype"} == {
        k: v for k, v in model.get_params().items() if k != "dtype"
    }
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model", overwrite=False)


def test_series_models_are_saved(gaussian, tmp_path):
    model = LDS(4, n_iter=2, tol=0).fit(LagCovariances.from_series(gaussian["y"][:5000], 7))
    model.save(tmp_path / "model")
    again = lw.load(tmp_path / "model")
    y = gaussian["y"][:50]
    np.testing.assert_array_equal(model.transform(y), again.transform(y))
    assert model.score(y) == again.score(y)
    assert again.forecast(y).shape == (12,)


def test_steady_state_is_close_on_short_sequences(fitted, text):
    words = text[3].split()
    gaps = {}
    for n in (1, 2, 5, 20):
        exact, steady = (fitted.transform(words[:n], steady=s) for s in (False, True))
        gaps[n] = np.linalg.norm(exact - steady) / np.linalg.norm(exact)
    assert max(gaps.values()) < 0.5


def test_scikit_learn_conventions(fitted, text):
    sklearn = pytest.importorskip("sklearn.base")
    twin = sklearn.clone(LDS(5, noise="diagonal"))
    assert twin.get_params()["noise"] == "diagonal" and not hasattr(twin, "A_")
    assert not hasattr(sklearn.clone(fitted), "A_")
    with pytest.raises(ValueError, match="no parameter 'h'"):
        LDS().set_params(h=3)
    assert "LDS(n_components=5, noise='diagonal')" == repr(twin)


def test_l10_no_dynamics_is_said():
    import itertools

    text = [" ".join(words) for words in itertools.product("aabc", repeat=4)]
    for pseudocount, dtype in itertools.product((0, 1, 10), ("float32", "float64")):
        counts = lw.count(lines=text, min_count=1, max_lag=3)
        settings = {"ssid_lags": 2, "em_lags": 3, "pseudocount": pseudocount, "dtype": dtype}
        assert lw.LDS(**settings).suggest_components(counts) == 0
        for more in ({}, {"whiten_ssid": False}):
            with pytest.raises(ValueError, match="Hankel rank 0 < 1"):
                lw.LDS(n_components=1, **settings, **more).fit(counts)
    still = lw.LagCovariances(np.stack([np.eye(3)] + [np.zeros((3, 3))] * 7))
    assert lw.LDS().suggest_components(still) == 0
    with pytest.raises(ValueError, match="Hankel rank 0 < 1"):
        lw.LDS(n_components=1).fit(still)
