"""EM over parts is EM over the whole, on workers too."""

import functools
import warnings

import numpy as np
import pytest

from lagwise.hmm import HMM
from lagwise.hmm.distributed import em_step, fit_parts


def text(seed=0, n=60):
    rng = np.random.default_rng(seed)
    return [rng.integers(9, size=length) for length in rng.integers(1, 12, size=n)]


def third(number):
    return text()[number::3]


def started(**settings):
    model = HMM(3, n_symbols=9, random_state=0, n_iter=1, pseudocount=0.01, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(text(seed=1))


def one_step(model, X):
    arrays = (model.startprob_.copy(), model.transmat_.copy(), model.emissionprob_.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HMM(3, n_symbols=9, n_iter=1, init=arrays, pseudocount=0.01).fit(X)


def assert_same(a, b):
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-10)


def test_one_step_over_parts():
    model = started()
    expected = one_step(model, text())
    before = model.score(text())
    total = em_step(model, [third(0), functools.partial(third, 1), third(2)])
    assert_same(model, expected)
    assert total.log_likelihood == pytest.approx(before, rel=1e-12)
    assert (total.n_symbols, total.n_sequences) == (sum(map(len, text())), 60)
    with pytest.raises(ValueError, match="no parts"):
        em_step(model, [])


def test_fit_parts_climbs_and_stops():
    model = fit_parts(started(), [third(i) for i in range(3)], n_iter=200, tol=1e-4)
    assert model.converged_ and 1 < model.n_iter_ < 200 and len(model.history_) == model.n_iter_
    gains = np.diff(model.history_)
    assert np.all(gains[:-1] > 0)


def test_dask_gives_the_same_bytes():
    dask = pytest.importorskip("dask.distributed", reason="needs the extra: pip install lagwise[distributed]")
    parts = [functools.partial(third, i) for i in range(3)]
    here = fit_parts(started(), parts, n_iter=3, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the cluster's own start and end
        with (
            dask.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
            dask.Client(cluster) as client,
        ):
            there = fit_parts(started(), parts, client, n_iter=3, tol=0)
    for name in ("startprob_", "transmat_", "emissionprob_"):
        assert getattr(here, name).tobytes() == getattr(there, name).tobytes()
    assert here.history_ == there.history_
