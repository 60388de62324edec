"""The hard cases of HMMs, and the numbers of the design page and the lecture."""

import itertools
import math
import warnings

import numpy as np
import pytest

import lagwise as lw
from lagwise.hmm import HMM, log_backward, log_forward, log_likelihood, posteriors, viterbi

PI, A, B = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
S = np.array([0, 2, 1, 2])


def m1(**settings):
    hmm = HMM(2, **settings)
    hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = PI.copy(), A.copy(), B.copy()
    return hmm


def one_step(X, lengths=None, **settings):
    with pytest.warns(UserWarning, match="did not converge"):
        return HMM(2, n_iter=1, init=m1(), **settings).fit(X, lengths)


def test_reference_values():
    hmm = m1()
    assert hmm.score(S) == pytest.approx(-4.956857588415785, rel=1e-12)
    score, path = hmm.decode(S)
    assert score == pytest.approx(-5.890786979354538, rel=1e-12)
    assert path.tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(
        hmm.predict_proba(S)[:, 0], [0.56417910, 0.19402985, 0.16311301, 0.13134328], rtol=0, atol=5e-9
    )
    score, path = hmm.decode(S, method="posterior")
    assert path.tolist() == [0, 1, 1, 1]
    assert score == pytest.approx(math.log(0.5 * 0.7 * 0.1 * 0.6 * 0.8 * 0.3 * 0.8 * 0.6), rel=1e-12)
    np.testing.assert_allclose(hmm.predict_next(S), [0.2751641791, 0.2708059701, 0.4540298507], rtol=0, atol=5e-11)
    assert hmm.score([2]) == pytest.approx(math.log(0.35), rel=1e-12)
    assert hmm.score([0, -1, 2]) == pytest.approx(-2.450505223070668, rel=1e-12)


def test_one_step_of_soft_em():
    hmm = one_step(S)
    np.testing.assert_allclose(hmm.startprob_, [0.564179104, 0.435820896], rtol=0, atol=5e-10)
    np.testing.assert_allclose(
        hmm.transmat_, [[0.445730155, 0.554269845], [0.037439737, 0.962560263]], rtol=0, atol=5e-10
    )
    np.testing.assert_allclose(
        hmm.emissionprob_,
        [[0.535953008, 0.154952400, 0.309094592], [0.147869493, 0.283947045, 0.568183462]],
        rtol=0,
        atol=5e-10,
    )
    assert hmm.score(S) == pytest.approx(-3.676511631833451, rel=1e-12)
    assert hmm.history_ == [pytest.approx(-4.956857588415785, rel=1e-12)]


def test_two_sequences_in_every_form():
    hmm, X = m1(), [[0, 0, 1], [2, 2]]
    np.testing.assert_allclose(hmm.score_samples(X), [-2.9982354037721093, -1.8483298207164494], rtol=1e-12)
    flat = np.array([0, 0, 1, 2, 2])
    forms = [
        (X, None),
        ([np.array(x) for x in X], None),
        (flat, [3, 2]),
        (flat[:, None], [3, 2]),
        ([np.array(x)[:, None] for x in X], None),
        (flat.astype(np.uint8), np.array([3, 2])),
        (np.array([list(x) for x in X], dtype=object), None),
    ]
    for values, lengths in forms:
        assert hmm.score(values, lengths) == pytest.approx(-4.846565224488558, rel=1e-12)
    assert hmm.score(flat) == hmm.score(flat[:, None]) == pytest.approx(-5.549281856064654, rel=1e-12)
    with pytest.raises(ValueError, match=r"did you mean \(5, 1\)"):
        hmm.score(flat[None, :])
    after = one_step(flat, [3, 2])
    np.testing.assert_allclose(after.startprob_, [0.497844612, 0.502155388], rtol=0, atol=5e-10)
    np.testing.assert_allclose(
        after.transmat_, [[0.910145225, 0.089854775], [0.070319985, 0.929680015]], rtol=0, atol=5e-10
    )
    np.testing.assert_allclose(
        after.emissionprob_,
        [[0.669389480, 0.290472502, 0.040138018], [0.043682764, 0.080333442, 0.875983794]],
        rtol=0,
        atol=5e-10,
    )
    assert after.score(X) == pytest.approx(-3.905747809148032, rel=1e-12)


C, H = 0, 1
ICE_CREAM = np.array([1, 2, 2, 2, 3, 2, 2, 3, 1, 2, 3, 2]) - 1


def letters(text):
    return np.array([C if c == "C" else H for c in text if c != " "])


def ice_cream(**settings):
    hmm = HMM(2, n_symbols=3, params="e", init_params="", **settings)
    hmm.startprob_, hmm.transmat_ = np.array([0.5, 0.5]), np.array([[0.8, 0.2], [0.2, 0.8]])
    return hmm


@pytest.mark.parametrize(
    "lengths, guess, scores, emission, path",
    [
        (
            [6, 6],
            "CCCHHHHHCHHH",
            [-15.395420482496878, -13.885255978170594],
            [[1, 0, 0], [0, 0.7, 0.3]],
            "CHHHHHHHCHHH",
        ),
        ([12], "CCCHHHHHCHHH", [-14.925416853251143, -13.41525234892486], [[1, 0, 0], [0, 0.7, 0.3]], "CHHHHHHHCHHH"),
        ([6, 6], "CCCCHCCHCCHC", [-16.702851832500222], [[2 / 9, 7 / 9, 0], [0, 0, 1]], "CCCCHCCHCCHC"),
        ([12], "CCCCHCCHCCHC", [-16.232848203254488], [[2 / 9, 7 / 9, 0], [0, 0, 1]], "CCCCHCCHCCHC"),
    ],
)
def test_the_lectures_hard_em(lengths, guess, scores, emission, path):
    hmm = ice_cream(algorithm="hard").fit(ICE_CREAM, lengths, init_labels=letters(guess))
    assert hmm.converged_
    np.testing.assert_allclose(sorted(set(np.round(hmm.history_, 12))), scores, rtol=1e-11)
    np.testing.assert_allclose(hmm.emissionprob_, emission, rtol=1e-12, atol=0)
    assert hmm.predict(ICE_CREAM, lengths).tolist() == letters(path).tolist()
    assert np.array_equal(hmm.transmat_, [[0.8, 0.2], [0.2, 0.8]])


def test_the_lectures_first_m_step():
    hmm = ice_cream(algorithm="hard").fit(ICE_CREAM, [6, 6], init_labels=letters("CCCHHHHHCHHH"))
    assert hmm.n_iter_ == 1 and len(hmm.history_) == 2
    supervised = HMM(2, n_symbols=3).fit(ICE_CREAM, [6, 6], y=letters("CCCHHHHHCHHH"))
    np.testing.assert_allclose(supervised.emissionprob_, [[0.5, 0.5, 0], [0, 0.625, 0.375]], rtol=1e-12)


def test_the_lectures_soft_em():
    hmm = HMM(2)
    hmm.startprob_, hmm.transmat_ = np.array([0.5, 0.5]), np.array([[0.8, 0.2], [0.2, 0.8]])
    hmm.emissionprob_ = np.array([[0.8, 0.2, 0.0], [0.0, 0.2, 0.8]])
    x = [0, 1, 1]
    paths = {"CCC": 0.01024, "CCH": 0.00256, "CHC": 0.00064, "CHH": 0.00256}
    assert hmm.score(x) == pytest.approx(math.log(0.016), rel=1e-12)
    assert sum(paths.values()) == pytest.approx(0.016, rel=1e-12)
    for score, path in hmm.top_k_paths(x, 4):
        assert math.exp(score) == pytest.approx(paths["".join("CH"[k] for k in path)], rel=1e-12)
    counts = hmm.expected_counts(x).expected
    total = 0.016
    np.testing.assert_allclose(counts.transition[0] * total, [0.02304, 0.00576], rtol=1e-12)
    np.testing.assert_allclose(counts.stop[0] * total, 0.01088, rtol=1e-12)
    np.testing.assert_allclose(counts.emission[:, 0].sum() * total, 0.03968, rtol=1e-12)
    with pytest.warns(UserWarning, match="did not converge"):
        after = HMM(2, n_symbols=3, n_iter=1, init=hmm).fit(x)
    assert after.startprob_.tolist() == [1, 0]
    np.testing.assert_allclose(after.transmat_[0], [0.8, 0.2], rtol=1e-12)
    np.testing.assert_allclose(after.emissionprob_[0], [0.403225806, 0.596774194, 0], rtol=0, atol=5e-10)
    np.testing.assert_allclose(after.emissionprob_[1], [0, 1, 0], rtol=0, atol=1e-15)
    stopping = HMM(2, stop_state=True)
    stopping.startprob_, stopping.transmat_, stopping.emissionprob_ = (
        hmm.startprob_,
        hmm.transmat_ * 0.7,
        hmm.emissionprob_,
    )
    stopping.stopprob_ = np.array([0.3, 0.3])
    with pytest.warns(UserWarning, match="did not converge"):
        after = HMM(2, n_symbols=3, stop_state=True, n_iter=1, init=stopping).fit(x)
    np.testing.assert_allclose([*after.transmat_[0], after.stopprob_[0]], [0.5806, 0.1452, 0.2742], rtol=0, atol=5e-5)


def test_h1_symbols_never_seen_and_out_of_range():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = HMM(2, n_symbols=5, n_iter=3, random_state=0).fit([0, 1, 3, 1, 0])
        smooth = HMM(2, n_symbols=5, n_iter=3, pseudocount=0.1, random_state=0).fit([0, 1, 3, 1, 0])
    assert np.isfinite(plain.score([3]))
    assert plain.score([2]) == -np.inf
    assert np.isfinite(smooth.score([2]))
    with pytest.raises(ValueError, match="symbol id 7.*n_symbols=5"):
        plain.score([7])
    assert plain.score([-1]) == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="sequence 1 .*position 2"):
        plain.decode([[0, 1], [0, 1, 2]])
    with pytest.raises(ValueError, match="symbol id -2"):
        plain.score([-2, 1])


def test_h3_supervised_states_without_counts():
    with pytest.warns(UserWarning, match="1 transition"):
        hmm = HMM(2, n_symbols=2).fit([[0, 1, 1]], y=[[0, 0, 1]])
    assert hmm.transmat_[1].tolist() == [0.5, 0.5]
    a = 0.7
    hmm = HMM(2, n_symbols=2, pseudocount={"transition": a}).fit([[0, 1, 1]], y=[[0, 0, 1]])
    np.testing.assert_allclose(hmm.transmat_, [[(1 + a) / (2 + 2 * a)] * 2, [0.5, 0.5]], rtol=1e-12)
    hmm = HMM(3, n_symbols=1, pseudocount=1.0).fit([[0] * 4], y=[[0, 0, 0, 1]])
    np.testing.assert_allclose(hmm.transmat_[0], [3 / 6, 2 / 6, 1 / 6], rtol=1e-12)


def test_h4_zeros_stay_and_nothing_becomes_nan():
    start = m1()
    start.startprob_ = np.array([1.0, 0.0])
    with pytest.warns(UserWarning):
        hmm = HMM(2, init=start, n_iter=50, tol=-1).fit([S, S[::-1]])
    assert hmm.startprob_.tolist() == [1, 0]
    with pytest.warns(UserWarning):
        hmm = HMM(3, n_iter=500, tol=-1, random_state=0).fit([[0, 1, 2], [2, 2], [1]])
    for array in (hmm.startprob_, hmm.transmat_, hmm.emissionprob_, hmm.history_):
        assert np.all(np.isfinite(array))
    assert not hmm.decreased_


def test_h6_long_uniform_sequences():
    hmm = HMM(2)
    hmm.startprob_, hmm.transmat_ = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.5, 0.5]])
    hmm.emissionprob_ = np.full((2, 2), 0.5)
    symbols = np.random.default_rng(0).integers(2, size=100_000)
    assert hmm.score(symbols) == pytest.approx(-69314.71805599453, rel=1e-12)
    hmm = HMM(5)
    hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = np.full(5, 0.2), np.full((5, 5), 0.2), np.full((5, 50), 0.02)
    symbols = np.random.default_rng(0).integers(50, size=1_000_000)
    assert hmm.score(symbols) == pytest.approx(-3912023.005428146, rel=1e-10)


def test_h7_five_million_symbols():
    import resource

    K, T = 10, 5_000_000
    rng = np.random.default_rng(0)
    hmm = HMM(K, n_threads=1)
    hmm.startprob_, hmm.transmat_ = np.full(K, 1 / K), rng.dirichlet(np.ones(K), K)
    hmm.emissionprob_ = rng.dirichlet(np.ones(4), K)
    symbols = rng.integers(4, size=T).astype(np.int32)
    score, path = hmm.decode(symbols)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = hmm.score(symbols)
    assert score < total < 0 and path.shape == (T,)
    counts = hmm.expected_counts(symbols)
    assert counts.log_likelihood == total
    assert counts.expected.transition.sum() == pytest.approx(T - 1, rel=1e-10)
    assert counts.expected.emission.sum() == pytest.approx(T, rel=1e-10)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < T * K * 4


def test_emissions_of_1e_300():
    """Steps whose scale underflows many times over, and entries that vanish before they become the only ones left."""
    hmm = HMM(2, n_symbols=3)
    hmm.startprob_, hmm.transmat_ = np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.0, 1.0]])
    hmm.emissionprob_ = np.array([[1e-300, 1.0 - 2e-300, 1e-300], [1.0, 0.0, 0.0]])
    T = 1000
    symbols = np.array([0] * T + [1])  # only state 0 can end it, at 1e-300 a step
    assert hmm.score(symbols) == pytest.approx(math.log(0.5) + T * math.log(1e-300), rel=1e-12)
    assert hmm.predict_proba(symbols)[:, 0].tolist() == [1.0] * (T + 1)
    assert hmm.decode(symbols)[1].tolist() == [0] * (T + 1)
    counts = hmm.expected_counts(symbols).expected
    np.testing.assert_allclose(counts.transition, [[T, 0], [0, 0]], rtol=1e-12)
    assert hmm.score(np.zeros(5000, dtype=int)) == pytest.approx(math.log(0.5), rel=1e-10)
    tiny = HMM(2, n_symbols=2)
    tiny.startprob_, tiny.transmat_, tiny.emissionprob_ = PI, A, np.array([[1e-300, 1 - 1e-300], [2e-300, 1 - 2e-300]])
    same = HMM(2, n_symbols=2)
    same.startprob_, same.transmat_, same.emissionprob_ = PI, A, np.array([[0.25, 0.75], [0.5, 0.5]])
    zeros = np.zeros(20000, dtype=int)
    shift = len(zeros) * (math.log(1e-300) - math.log(0.25))
    assert tiny.score(zeros) == pytest.approx(same.score(zeros) + shift, rel=1e-12)
    np.testing.assert_allclose(tiny.predict_proba(zeros), same.predict_proba(zeros), rtol=1e-9)


def test_h10_lengths_of_one():
    lengths = [1, 2, 7, 1]
    X = np.random.default_rng(0).integers(3, size=11)
    hmm = one_step(X, lengths)
    counts = m1().expected_counts(X, lengths).expected
    assert counts.transition.sum() == pytest.approx(7, rel=1e-12)
    assert counts.start.sum() == pytest.approx(4, rel=1e-12)
    assert hmm.transmat_.sum() == pytest.approx(2, rel=1e-12)
    single = m1().expected_counts(np.array([2, 0]), [1, 1]).expected
    assert single.transition.sum() == 0


@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
@pytest.mark.parametrize("algorithm", ["soft", "hard"])
def test_h12_the_monitored_quantity_never_falls(algorithm, pseudocount):
    rng = np.random.default_rng(3)
    X = [rng.integers(6, size=n) for n in (40, 7, 1, 90)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hmm = HMM(4, n_symbols=6, algorithm=algorithm, pseudocount=pseudocount, n_iter=100, tol=-1, random_state=1).fit(
            X
        )
    steps = np.diff(hmm.history_)
    assert len(steps) > 1 and np.all(steps >= -1e-9 * np.abs(hmm.history_[1:]))
    if pseudocount == 0 and algorithm == "soft":
        assert hmm.score(X) >= hmm.history_[-1]


def test_h13_one_iteration_did_not_converge():
    hmm = one_step(S)
    assert hmm.converged_ is False and hmm.n_iter_ == 1 and not hmm.decreased_


def test_h13_a_fall_sets_the_flag():
    from lagwise.hmm.learning import Run

    run = Run(None)
    for value in (-10.0, -9.0, -9.0 - 1e-12):
        run.record(value)
    assert not run.fell
    run.record(-9.1)
    assert run.fell


@pytest.mark.parametrize("n_threads", [1, 2])
def test_h15_ties_go_to_the_lowest_state(n_threads):
    hmm = HMM(2, n_threads=n_threads)
    hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = np.full(2, 0.5), np.full((2, 2), 0.5), np.full((2, 2), 0.5)
    score, paths = hmm.decode([[0, 0, 0]] * 40)
    assert score == pytest.approx(40 * -4.1588830834, rel=1e-10)
    assert all(path.tolist() == [0, 0, 0] for path in paths)
    assert hmm.decode([0, 0, 0])[0] == pytest.approx(math.log(1 / 64), rel=1e-12)


def test_h16_left_to_right():
    rng = np.random.default_rng(0)
    hmm = HMM(2)
    hmm.startprob_, hmm.transmat_ = np.array([1.0, 0.0]), np.array([[0.9, 0.1], [0.0, 1.0]])
    hmm.emissionprob_ = np.array([[0.8, 0.2], [0.3, 0.7]])
    symbols = np.where(rng.random(1000) < np.where(np.arange(1000) < 400, 0.2, 0.7), 1, 0)
    assert np.count_nonzero(np.diff(hmm.predict(symbols))) <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = HMM(2, init=hmm, n_iter=30, tol=-1).fit(symbols)
    assert fitted.transmat_[1, 0] == 0.0 and fitted.startprob_[1] == 0.0
    assert not fitted.decreased_


def test_h18_filter_looks_only_back():
    hmm = m1()
    symbols = np.random.default_rng(0).integers(3, size=30)
    whole = hmm.filter(symbols)
    for t in range(1, 31):
        assert np.array_equal(hmm.filter(symbols[:t]), whole[:t])
    assert not np.allclose(hmm.predict_proba(symbols)[:10], hmm.predict_proba(symbols[:10]))


def test_h19_seeds():
    X = [np.random.default_rng(0).integers(5, size=50)]

    def fit(seed, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return HMM(3, n_iter=5, random_state=seed, **settings).fit(X)

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, again = fit(1), fit(2), fit(1)
    assert not np.allclose(one.emissionprob_, two.emissionprob_)
    assert np.array_equal(one.emissionprob_, again.emissionprob_) and one.history_ == again.history_
    assert np.array_equal(fit(np.random.default_rng(1)).emissionprob_, one.emissionprob_)
    states = [fit(np.random.RandomState(4)).emissionprob_ for _ in range(2)]
    assert np.array_equal(*states)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    five = fit(1, n_init=5)
    assert len(five.restarts_) == 5 and len({r["seed"] for r in five.restarts_}) == 5
    assert five.score(X) == pytest.approx(max(r["objective"] for r in five.restarts_), rel=1e-12)
    assert np.array_equal(fit(1, n_init=5, n_threads=1).emissionprob_, fit(1, n_init=5, n_threads=2).emissionprob_)


def test_h21_frozen_and_preset():
    hmm = m1(params="st", init_params="", n_iter=1)
    with pytest.warns(UserWarning, match="did not converge"):
        hmm.fit(S)
    assert np.array_equal(hmm.emissionprob_, B)
    np.testing.assert_allclose(
        hmm.transmat_, [[0.445730155, 0.554269845], [0.037439737, 0.962560263]], rtol=0, atol=5e-10
    )
    with pytest.warns(UserWarning, match="startprob_, transmat_, emissionprob_ were set"):
        m1().fit(np.tile(S, 30))
    with pytest.raises(ValueError, match="emissionprob_ is not set"):
        HMM(2, init_params="st").fit(S)


def test_h22_masks():
    nan = np.nan
    fixed = {"transition": np.array([[0, 1, 0], [nan] * 3, [nan, 0.25, nan]])}
    X = np.random.default_rng(0).integers(4, size=200)
    for algorithm, order in itertools.product(("soft", "hard"), (1,)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hmm = HMM(3, algorithm=algorithm, order=order, n_iter=20, tol=-1, random_state=0).fit(X, fixed=fixed)
        assert hmm.transmat_[0].tolist() == [0, 1, 0] and hmm.transmat_[2, 1] == 0.25
        np.testing.assert_allclose(hmm.transmat_.sum(axis=1), 1, rtol=0, atol=1e-12)
        assert np.all(np.diff(hmm.history_) >= -1e-9 * np.abs(hmm.history_[1:]))
    with pytest.raises(ValueError, match="completed"):
        HMM(2).fit(S, fixed={"transition": [[0.5, 0.4], [nan, nan]]})


def test_tag_dictionary():
    X = [["the", "dog", "runs"], ["dog", "bites"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hmm = HMM(3, n_iter=20, random_state=0).fit(X, dictionary={"the": [0], "dog": [1, 2], "zebra": [1]})
    the, dog = hmm.vocabulary_.id("the"), hmm.vocabulary_.id("dog")
    assert hmm.emissionprob_[1:, the].tolist() == [0, 0] and hmm.emissionprob_[0, dog] == 0
    assert hmm.predict(X)[0][0] == 0


def test_h24_partly_labelled():
    X, y = [[0, 1, 2], [2, 1]], [[0, 1, 1], None]
    hmm = m1()
    counts = hmm.expected_counts(X, y=y).expected
    free = hmm.expected_counts([[2, 1]]).expected
    np.testing.assert_allclose(counts.start - free.start, [1, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(counts.transition - free.transition, [[0, 1], [0, 1]], rtol=0, atol=1e-12)
    np.testing.assert_allclose(counts.emission - free.emission, [[1, 0], [0, 1], [0, 1]], rtol=0, atol=1e-12)
    full = [[0, 1, 1], [0, 1]]
    supervised = HMM(2, n_symbols=3, pseudocount=0.1).fit(X, y=full)
    step = m1(pseudocount=0.1)
    step.partial_fit(counts=step.expected_counts(X, y=full))
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_allclose(getattr(step, name), getattr(supervised, name), rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = HMM(2, n_symbols=3, random_state=0, algorithm="hard").fit(X, y=y)
    assert fitted.predict(X)[0].shape == (3,)


def test_h25_empty_sequences():
    hmm = m1()
    for empty in ([], np.zeros(0, dtype=int)):
        assert hmm.score(empty) == 0.0
        assert len(hmm.predict(empty)) == 0
    assert hmm.decode(np.zeros(0, dtype=int))[0] == 0.0
    assert hmm.predict_proba(np.zeros(0, dtype=int)).shape == (0, 2)
    assert [len(path) for path in hmm.predict([[], [1, 2], []])] == [0, 2, 0]
    assert hmm.score([[], [1, 2], []]) == hmm.score([1, 2])
    np.testing.assert_allclose(hmm.predict_next([]), PI @ B, rtol=1e-12)
    assert hmm.top_k_paths([], 2)[0][0] == 0.0
    with pytest.raises(ValueError, match="no symbols"):
        HMM(2).fit([])


def test_i14_one_shot_generators():
    for algorithm in ("soft", "hard"):
        with pytest.raises(TypeError, match="one-shot"):
            HMM(2, algorithm=algorithm).fit(x for x in [[0, 1], [1]])


def test_wrong_arguments_say_what_is_wrong():
    for settings, message in (
        ({"algorithm": "sfot"}, "did you mean 'soft'"),
        ({"params": "x"}, "letters s"),
        ({"order": 3}, "1, 2"),
        ({"init": "sense"}, "did you mean 'sens'"),
        ({"pseudocount": -1}, "pseudocount"),
        ({"pseudocount": {"emissions": 1}}, "did you mean 'emission'"),
        ({"n_init": 0}, "n_init"),
    ):
        with pytest.raises(ValueError, match=message):
            HMM(**{"n_states": 2, **settings}).fit(S)
    for X, error, message in (
        ([0.5, 1.5], TypeError, "0.5"),
        (np.array([0.5, 1.0]), TypeError, "float64"),
        (["a b", "c"], TypeError, "list of strings"),
        ([["a", 1]], TypeError, "1"),
        ([[0, 1], None], TypeError, "None"),
        (np.zeros((2, 3), int), ValueError, "shape"),
    ):
        with pytest.raises(error, match=message):
            HMM(2).fit(X)
    with pytest.raises(ValueError, match="add up to 4"):
        HMM(2).fit(np.zeros(5, dtype=int), [2, 2])
    with pytest.raises(ValueError, match="state 2"):
        HMM(2).fit(S, y=[0, 1, 2, 0])
    with pytest.raises(lw.NotFittedError):
        HMM(2).score(S)
    with pytest.raises(ValueError, match=r"row \[1\] sums to 0.9"):
        bad = m1()
        bad.transmat_ = [[0.5, 0.5], [0.5, 0.4]]
        bad.score(S)


def test_words_and_unknown_words():
    X = [["a", "b", "a"], ["b", "c"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hmm = HMM(2, random_state=0).fit(X)
        unk = HMM(2, random_state=0, unknown="unk", pseudocount=0.1).fit(X)
    assert hmm.vocabulary_.words == ["a", "b", "c"]
    assert hmm.score([["a", "zz"]]) == hmm.score([0, -1])
    hmm.unknown = "error"
    with pytest.raises(ValueError, match="'zz'"):
        hmm.score([["a", "zz"]])
    assert unk.score([["zz"]]) == unk.score([["<unk>"]]) != 0


def test_pure_functions_beyond_the_range_of_probabilities():
    """Log-probabilities far below -745, where every probability is 0."""
    log_emission = np.array([[-2000.0, -2001.0], [-5000.0, -4999.0], [-3000.0, -3000.5]])
    arguments = np.log(PI), np.log(A), log_emission
    shift = np.array([2000.0, 4999.0, 3000.0])
    near = np.log(PI), np.log(A), log_emission + shift[:, None]
    assert log_likelihood(*arguments) == pytest.approx(log_likelihood(*near) - shift.sum(), rel=1e-13)
    np.testing.assert_allclose(posteriors(*arguments), posteriors(*near), rtol=1e-11)
    np.testing.assert_allclose(log_forward(*arguments), log_forward(*near) - np.cumsum(shift)[:, None], rtol=1e-13)
    later = np.array([shift[1:].sum(), shift[2], 0.0])
    np.testing.assert_allclose(log_backward(*arguments), log_backward(*near) - later[:, None], rtol=1e-13, atol=1e-13)
    assert np.array_equal(viterbi(*arguments)[1], viterbi(*near)[1])
    split = np.log(PI), np.array([[0.0, -1000.0], [-1500.0, 0.0]]), np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    assert log_likelihood(*split) == pytest.approx(math.log(0.5) - 1000, rel=1e-13)


def test_save_and_load(tmp_path):
    X = [["a", "b", "a"], ["b", "c"]]
    for settings in ({}, {"order": 2, "stop_state": True}, {"algorithm": "hard", "pseudocount": {"emission": 0.5}}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hmm = HMM(2, n_iter=5, random_state=0, **settings).fit(X)
        hmm.save(tmp_path / "model.safetensors", overwrite=True)
        again = lw.load(tmp_path / "model.safetensors")
        assert type(again) is HMM and again.score(X) == hmm.score(X) and again.history_ == hmm.history_
        assert again.vocabulary_ == hmm.vocabulary_ and again.order == hmm.order and again.n_iter_ == hmm.n_iter_
        for name in ("startprob_", "transmat_", "emissionprob_"):
            assert np.array_equal(getattr(again, name), getattr(hmm, name))


def test_sampling_and_criteria():
    hmm = m1(random_state=0)
    symbols, states = hmm.sample(20000)
    assert symbols.shape == states.shape == (20000,)
    np.testing.assert_allclose(np.bincount(states) / 20000, [2 / 3, 1 / 3], rtol=0, atol=0.03)
    np.testing.assert_allclose(
        np.bincount(symbols[states == 0], minlength=3) / np.sum(states == 0), B[0], rtol=0, atol=0.02
    )
    assert all(np.array_equal(a, b) for a, b in zip(hmm.sample(50, 3), hmm.sample(50, 3)))
    assert hmm.n_parameters() == 1 + 2 + 4
    assert hmm.aic(S) == pytest.approx(14 + 2 * 4.956857588415785, rel=1e-12)
    assert hmm.bic(S) == pytest.approx(7 * math.log(4) + 2 * 4.956857588415785, rel=1e-12)
    short = HMM(2, stop_state=True)
    short.startprob_, short.transmat_, short.stopprob_, short.emissionprob_ = PI, A * 0.5, np.full(2, 0.5), B
    lengths = [len(short.sample(1000, seed)[0]) for seed in range(300)]
    assert np.mean(lengths) == pytest.approx(2, abs=0.3)


def test_partial_fit_merges_counts():
    rng = np.random.default_rng(0)
    X = [rng.integers(3, size=n) for n in (20, 30, 10, 40)]
    whole, parts = m1(), m1()
    whole.partial_fit(counts=whole.expected_counts(X))
    parts.partial_fit(counts=sum(parts.expected_counts([x]) for x in X))
    one = one_step(X)
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
        np.testing.assert_allclose(getattr(parts, name), getattr(one, name), rtol=1e-12)
    online = HMM(2, n_symbols=3, random_state=0)
    for x in X:
        online.partial_fit([x])
    assert online.n_iter_ == 4 and online.counts_.n_symbols == 100


def test_a1_scikit_learn(tmp_path):
    base = pytest.importorskip("sklearn.base")
    search = pytest.importorskip("sklearn.model_selection")
    hmm = HMM(3, pseudocount={"emission": 0.1}, random_state=3)
    clone = base.clone(hmm)
    assert clone.get_params() == hmm.get_params() and not hasattr(clone, "startprob_")
    X = [np.random.default_rng(i).integers(4, size=30) for i in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = search.GridSearchCV(
            HMM(n_symbols=4, n_iter=5, random_state=0, n_threads=1), {"n_states": [1, 2]}, cv=2
        ).fit(X)
    assert found.best_params_["n_states"] in (1, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.copy(),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: np.stack((x, x)).T[:, 0],
    ],
)
def test_a3_a4_views_and_read_only(change):
    hmm = m1()
    X = change(np.tile(S, 5))
    kept = X.copy()
    X.flags.writeable = False
    assert hmm.score(X) == hmm.score(np.tile(S, 5))
    assert np.array_equal(hmm.predict(X), hmm.predict(np.tile(S, 5)))
    assert np.array_equal(X, kept)


def test_h24_partial_labels_leave_a_given_start():
    pi, A, B = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]
    X, y = [[0, 2, 1, 2], [2, 2, 0]], [[0, 1, 1, 0], None]
    unfitted = HMM(2, n_symbols=3, init_params="")
    unfitted.startprob_, unfitted.transmat_, unfitted.emissionprob_ = map(np.array, (pi, A, B))
    step = HMM(2, n_symbols=3, init_params="")
    step.startprob_, step.transmat_, step.emissionprob_ = map(np.array, (pi, A, B))
    step.partial_fit(counts=step.expected_counts(X, y=y))
    np.testing.assert_allclose(step.startprob_, [0.5453149, 0.4546851], atol=1e-7)
    given = HMM(2, n_symbols=3, init=(pi, A, B))
    for model in (given, unfitted, HMM(2, n_symbols=3, init=given)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(n_iter=1, tol=0).fit(X, y=y)
        np.testing.assert_allclose(model.startprob_, step.startprob_, rtol=1e-12)
        assert model.history_[0] == pytest.approx(-12.4450, abs=1e-4)
        model.set_params(init=(pi, A, B), init_params="ste")
        given.startprob_, given.transmat_, given.emissionprob_ = map(np.array, (pi, A, B))


def test_tol_zero_runs_every_iteration():
    for seed in range(5):
        model = HMM(3, n_symbols=3, n_iter=200, tol=0, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit([[0, 2, 1, 2], [0, 0], [1]])
        assert model.n_iter_ == 200 and not model.converged_


def test_recorded_seeds_make_their_starts_again():
    X = [[0, 1, 2, 3, 2, 1], [3, 3, 0], [1, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for state in (1, None, np.random.default_rng(3)):
            many = HMM(3, n_symbols=4, n_init=3, n_iter=5, tol=0, random_state=state).fit(X)
            for run in many.restarts_:
                one = HMM(3, n_symbols=4, n_iter=5, tol=0, random_state=run["seed"]).fit(X)
                assert one.restarts_[0]["seed"] == run["seed"]
                assert one.score(X) == pytest.approx(run["objective"], rel=1e-12)


def test_words_mean_nothing_to_a_model_of_ids(tmp_path):
    model = HMM(2, n_symbols=6, random_state=0, tol=1).fit([[0, 1, 2], [0, 3, 4]] * 5)
    (tmp_path / "text").write_text("the cat\n")
    for ask in (model.score, model.predict, model.predict_proba, model.decode, model.expected_counts):
        for X in ([["the", "cat"]], tmp_path / "text"):
            with pytest.raises(ValueError, match="no vocabulary"):
                ask(X)
    with pytest.raises(FileNotFoundError, match="X as a str is the name of a text file"):
        model.score("a b c")
    with pytest.raises(ValueError, match=r"dictionary\['a'\] is \[7\]"):
        HMM(3).fit([["a", "b"], ["b", "c"]], dictionary={"a": [7]})


def test_constraints_that_nothing_can_meet_or_that_meet():
    with pytest.raises(ValueError, match="dictionary leaves no symbol for state 1"):
        HMM(3, random_state=0).fit([[0, 1, 0]], dictionary={0: [0], 1: [0]})
    with pytest.raises(ValueError, match="position 0 of X has the symbol 0 and the label 1"):
        HMM(2, random_state=0).fit([[0, 1, 0]], y=[[1, 0, 1]], dictionary={0: [0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            HMM(2, pseudocount=0.5, random_state=0, n_iter=5).fit([[0, 1, 0, 1, 1, 0]], fixed={"start": start})
            for start in ([1, np.nan], [1, 0])
        ]
        assert fits[0].history_ == fits[1].history_ and np.isfinite(fits[0].history_).all()
        frozen = HMM(2, params="te", init="uniform", random_state=0, n_iter=1).fit(
            [[0, 1, 0]], fixed={"start": [0.3, np.nan]}
        )
        np.testing.assert_allclose(frozen.startprob_, [0.3, 0.7])
        flat = HMM(2, n_symbols=1, tol=0, random_state=0, n_iter=30).fit([[0] * 9] * 20)
        assert not flat.decreased_
        labelled = HMM(2).fit([[0, 1], []], y=[[0, 1], []])
    assert labelled.startprob_.tolist() == [1.0, 0.0]
