"""Agreement with hmmlearn's CategoricalHMM, where it is installed."""

import warnings

import numpy as np
import pytest

from lagwise.hmm import HMM


@pytest.mark.parametrize("n_iter", [1, 20])
def test_hmmlearn(n_iter):
    peer_module = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(0)
    K, V = 5, 12
    lengths = rng.integers(1, 60, size=40)
    X = rng.integers(V, size=lengths.sum())
    start, A, B = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.dirichlet(np.ones(V), K)
    peer = peer_module.CategoricalHMM(K, n_iter=n_iter, tol=-np.inf, init_params="", implementation="log", n_features=V)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = start, A, B
    assert _with(HMM(K), start, A, B).score(X, lengths) == pytest.approx(peer.score(X[:, None], lengths), rel=1e-9)
    np.testing.assert_allclose(
        _with(HMM(K), start, A, B).predict_proba(X, lengths), peer.predict_proba(X[:, None], lengths), rtol=1e-9
    )
    score, path = peer.decode(X[:, None], lengths)
    ours_score, ours_path = _with(HMM(K), start, A, B).decode(X, lengths)
    assert ours_score == pytest.approx(score, rel=1e-12)
    assert np.mean(path == ours_path) > 0.98  # paths that are equally good up to rounding may differ
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = HMM(K, n_symbols=V, n_iter=n_iter, tol=-1e9, init=(start, A, B)).fit(X, lengths)
        peer.fit(X[:, None], lengths)
    np.testing.assert_allclose(ours.startprob_, peer.startprob_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.transmat_, peer.transmat_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.emissionprob_, peer.emissionprob_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.history_, list(peer.monitor_.history), rtol=1e-9)
    assert ours.score(X, lengths) == pytest.approx(peer.score(X[:, None], lengths), rel=1e-9)


def _with(hmm, start, A, B):
    hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = start, A, B
    return hmm
