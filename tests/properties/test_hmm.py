"""HMM inference and learning against the enumeration of all paths, and properties of EM."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagwise.hmm import (
    HMM,
    expected_counts,
    log_backward,
    log_forward,
    log_likelihood,
    posteriors,
    top_k_paths,
    viterbi,
)
from tests.reference import hmm as oracle


def make(model, **settings):
    """An HMM whose arrays are those of a random model."""
    hmm = HMM(len(model["start"]), order=np.ndim(model["transition"]) - 1, stop_state="stop" in model, **settings)
    hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = model["start"], model["transition"], model["emission"]
    for name, attribute in (("second", "transmat1_"), ("stop", "stopprob_"), ("stop1", "stopprob1_")):
        if name in model:
            setattr(hmm, attribute, model[name])
    return hmm


def logs(model, symbols):
    """Arguments of the pure functions."""
    with np.errstate(divide="ignore"):
        emission = np.log(np.concatenate((model["emission"], np.ones((len(model["start"]), 1))), axis=1))
        others = {f"log_{name}": np.log(model[name]) for name in ("second", "stop", "stop1") if name in model}
        return (np.log(model["start"]), np.log(model["transition"]), emission[:, symbols].T), others


@st.composite
def cases(draw, longest=6):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K, V, order = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.sampled_from([1, 2]))
    model = oracle.random_model(rng, K, V, order, draw(st.sampled_from([0.0, 0.3])), draw(st.booleans()))
    T = draw(st.integers(1, longest if K < 4 else 5))
    symbols = rng.integers(-1, V, size=T)
    return model, symbols


@settings(max_examples=80)
@given(cases())
def test_everything_against_all_paths(case):
    model, symbols = case
    K, V = model["emission"].shape
    order = np.ndim(model["transition"]) - 1
    paths = oracle.path_probabilities(symbols=symbols, **model)
    arguments, others = logs(model, symbols)
    hmm = make(model)
    total = math.fsum(paths.values())
    if total == 0:
        assert log_likelihood(*arguments, **others) == -np.inf
        assert hmm.score(symbols) == -np.inf
        for call in (
            lambda: viterbi(*arguments, **others),
            lambda: hmm.decode(symbols),
            lambda: hmm.predict_proba(symbols),
            lambda: posteriors(*arguments, **others),
            lambda: hmm.expected_counts(symbols),
        ):
            with pytest.raises(ValueError, match="impossible"):
                call()
        return
    expected = oracle.expected_counts(paths, symbols, K, V, order)
    np.testing.assert_allclose(log_likelihood(*arguments, **others), expected["log"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(hmm.score(symbols), expected["log"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(posteriors(*arguments, **others), expected["posterior"], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(hmm.predict_proba(symbols), expected["posterior"], rtol=1e-10, atol=1e-14)

    for counts, emission in (
        (hmm.expected_counts(symbols).expected, expected["emission"].T),
        (expected_counts(*arguments, **others), expected["posterior"]),
    ):
        np.testing.assert_allclose(counts.start, expected["start"], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(counts.transition, expected["transition"], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(counts.emission, emission, rtol=1e-10, atol=1e-14)
        if order == 2:
            np.testing.assert_allclose(counts.second, expected["second"], rtol=1e-10, atol=1e-14)

    score, path = hmm.decode(symbols)
    best = max(paths.values())
    np.testing.assert_allclose(score, math.log(best), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(paths[tuple(path)], best, rtol=1e-12)
    assert np.array_equal(viterbi(*arguments, **others)[1], path)

    k = min(5, len(paths))
    ranked = sorted((p for p in paths.values() if p > 0), reverse=True)[:k]
    found = hmm.top_k_paths(symbols, k)
    assert len(found) == len(ranked) and len({tuple(path) for _, path in found}) == len(found)
    np.testing.assert_allclose([score for score, _ in found], np.log(ranked), rtol=1e-12, atol=1e-13)
    for score, path in found:
        np.testing.assert_allclose(math.log(paths[tuple(path)]), score, rtol=1e-12, atol=1e-13)
    assert [score for score, _ in top_k_paths(*arguments, k, **others)] == [score for score, _ in found]


@settings(max_examples=60)
@given(cases())
def test_alpha_beta_is_the_same_at_every_position(case):
    model, symbols = case
    arguments, others = logs(model, symbols)
    alpha, beta = log_forward(*arguments, **others), log_backward(*arguments, **others)
    total = log_likelihood(*arguments, **others)
    joint = (alpha + beta).reshape(len(symbols), -1)
    with np.errstate(divide="ignore"):
        each = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(each, total, rtol=1e-12, atol=1e-13)


@settings(max_examples=60)
@given(cases(longest=5), st.integers(0, 2**32 - 1))
def test_predict_next_and_filter(case, seed):
    model, symbols = case
    hmm, V = make(model), model["emission"].shape[1]
    prefixes = {
        t: sum(oracle.path_probabilities(symbols=symbols[:t], **_without_stop(model)).values())
        for t in range(1, len(symbols) + 1)
    }
    if prefixes[len(symbols)] == 0:
        return
    filtered = hmm.filter(symbols)
    for t in range(1, len(symbols) + 1):
        np.testing.assert_allclose(hmm.filter(symbols[:t]), filtered[:t], rtol=0, atol=0)
    if "stop" not in model:
        following = [sum(oracle.path_probabilities(symbols=[*symbols, v], **model).values()) for v in range(V)]
        np.testing.assert_allclose(
            hmm.predict_next(symbols), np.array(following) / prefixes[len(symbols)], rtol=1e-10, atol=1e-14
        )


def _without_stop(model):
    return {name: value for name, value in model.items() if name not in ("stop", "stop1")}


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from(["soft", "hard"]),
)
@example(671, 2, True, 0.0, "soft")  # expected counts become subnormal
def test_the_objective_never_falls(seed, order, stop, pseudocount, algorithm):
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(-1, 4, size=rng.integers(1, 12)) for _ in range(4)]
    sequences[0][0] = 3
    hmm = HMM(
        3,
        n_symbols=4,
        order=order,
        stop_state=stop,
        pseudocount=pseudocount,
        algorithm=algorithm,
        n_iter=40,
        tol=-1,
        random_state=seed,
    )
    if algorithm == "soft":
        with pytest.warns(UserWarning, match="did not converge"):
            hmm.fit(sequences)
        assert len(hmm.history_) == 40
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hmm.fit(sequences)
    steps = np.diff(hmm.history_)
    assert np.all(steps >= -1e-9 * np.abs(hmm.history_[1:])), steps.min()
    assert not hmm.decreased_
    for array in (hmm.startprob_, hmm.transmat_.sum(-1) + (hmm.stopprob_ if stop else 0), hmm.emissionprob_.sum(-1)):
        np.testing.assert_allclose(array.sum() if array is hmm.startprob_ else array, 1.0, rtol=0, atol=1e-12)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_lower_bound_of_soft_em(seed, order):
    """g_t(l) = sum_z P(z | x, l_t) log [P(x, z | l) / P(z | x, l_t)] <= log P(x | l), equal at l = l_t."""
    rng = np.random.default_rng(seed)
    old, new = (oracle.random_model(rng, 3, 3, order) for _ in range(2))
    symbols = rng.integers(3, size=4)

    def score(model):
        return make(model).score(symbols)

    weights = oracle.path_probabilities(symbols=symbols, **old)
    counts = make(old).expected_counts(symbols).expected
    total = math.fsum(weights.values())
    entropy = -math.fsum(w / total * math.log(w / total) for w in weights.values() if w > 0)

    def bound(model):
        value = np.sum(counts.start * np.log(model["start"])) + np.sum(counts.transition * np.log(model["transition"]))
        if order == 2:
            value += np.sum(counts.second * np.log(model["second"]))
        return value + np.sum(counts.emission * np.log(model["emission"].T)) + entropy

    assert bound(new) <= score(new) + 1e-10
    np.testing.assert_allclose(bound(old), score(old), rtol=1e-11)
    hard = make(new).decode(symbols)[0]
    assert hard <= score(new) + 1e-12


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]), st.booleans())
def test_threads_order_and_form_of_input(seed, order, stop):
    rng = np.random.default_rng(seed)
    model = oracle.random_model(rng, 3, 5, order, 0.0, stop)
    sequences = [rng.integers(-1, 5, size=n) for n in rng.integers(0, 9, size=40)]
    one, two = (make(model, n_threads=n) for n in (1, 2))
    a, b = one.expected_counts(sequences), two.expected_counts(sequences)
    assert a.log_likelihood == b.log_likelihood
    for name, array in a.expected.arrays().items():
        assert np.array_equal(array, getattr(b.expected, name)), name
    flat, lengths = np.concatenate(sequences), [len(s) for s in sequences]
    assert one.score(flat, lengths) == a.log_likelihood == one.score(flat[:, None], lengths)
    each = one.score_samples(sequences)
    np.testing.assert_allclose(each, [one.score(s) for s in sequences], rtol=1e-12, atol=1e-12)
    assert all(np.array_equal(p, q) for p, q in zip(one.predict(sequences), two.predict(sequences)))
    assert np.array_equal(np.concatenate(one.predict(sequences)), one.predict(flat, lengths))
    parts = one.expected_counts(sequences[:20]) + one.expected_counts(sequences[20:])
    for name, array in parts.expected.arrays().items():
        np.testing.assert_allclose(array, getattr(a.expected, name), rtol=1e-10, atol=1e-12)
