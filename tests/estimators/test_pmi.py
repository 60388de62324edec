"""PMI against its definition, and hard cases F1, F3, F13."""

import math

import numpy as np
import pytest
from scipy import sparse

import lagwise as lw
from tests.reference.pmi import pmi_dense


def random_counts(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.3, 2, size=(n, n)))
    X[5] = 0
    X[:, 5] = 0
    return X + X.T


@pytest.mark.parametrize("alpha, shift", [(None, 0.0), (-1.0, 0.0), (-1.0, 2.5), (0.0, 0.0), (1.0, -1.0)])
@pytest.mark.parametrize("smoothing, smooth", [(1.0, "both"), (0.75, "both"), (0.75, "context")])
def test_pmi_equals_its_definition(alpha, shift, smoothing, smooth):
    X = random_counts()
    model = lw.PMI(alpha, shift, smoothing=smoothing, smooth=smooth, dtype="float64")
    matrix = model.fit_transform(X)
    expected = pmi_dense(X, alpha, shift, smoothing, smooth)
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-12, atol=1e-12)
    unshifted = pmi_dense(X, alpha, 0.0, smoothing, smooth)
    assert model.n_positive_ == (unshifted > 0).sum() and model.n_negative_ == (unshifted < 0).sum()
    assert model.n_observed_ == (X > 0).sum()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_pmi_of_every_count_type_leaves_the_counts_alone(dtype, index):
    X = sparse.csr_array(random_counts().astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    before = X.toarray().copy()
    got = lw.PMI(-1.0).fit_transform(X).toarray()
    np.testing.assert_allclose(got, pmi_dense(before, -1.0), rtol=1e-5, atol=1e-6)
    assert (X.toarray() == before).all()


def test_f1_bits_and_nats():
    counts = lw.count(lines=["a b a c"], min_count=1, max_lag=1)
    assert lw.PMI(window=1).fit_transform(counts)[0, 1] == 1.0
    nats = lw.PMI(window=1, units="nats", dtype="float64").fit_transform(counts)
    assert nats[0, 1] == pytest.approx(0.6931471806, abs=1e-10)
    assert lw.PMI(-2.5, 2.5, window=1).fit_transform(counts)[0, 1] == 3.5


def test_f3_context_smoothing_and_a_threshold_that_is_met_exactly():
    X = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])
    got = lw.PMI(smoothing=0.75, smooth="context", units="nats", dtype="float64").fit_transform(X).toarray()
    expected = [[0, 0.676342287, 0.503055492], [0.777708564, 0, 0], [0.777708564, 0, 0]]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)
    pair = lw.count(lines=["a b"], min_count=1, max_lag=1)
    assert lw.PMI(math.log2(2), -math.log2(2), window=1).fit_transform(pair).nnz == 0


def test_auto_alpha_keeps_negatives_at_two_thirds():
    rng = np.random.default_rng(1)
    p = 1 / np.arange(20, 140)
    X = rng.poisson(6e5 * np.outer(p, p) / p.sum() ** 2 * rng.gamma(1, 1, size=(120, 120)))
    X = X + X.T
    everything = lw.PMI(None).fit(X)
    assert everything.n_negative_ > everything.n_positive_ * 2 / 3
    model = lw.PMI("auto").fit(X)
    assert model.n_positive_ == everything.n_positive_
    assert 0.9 * model.n_positive_ * 2 / 3 < model.n_negative_ <= model.n_positive_ * 2 / 3
    assert model.alpha_ < 0
    assert lw.PMI(model.alpha_).fit(X).n_negative_ == model.n_negative_


def test_bad_counts_are_refused():
    with pytest.raises(TypeError, match="CountStore"):
        lw.PMI().fit([[1]])
    with pytest.raises(ValueError, match="not symmetric"):
        lw.PMI().fit(np.array([[0, 1], [2, 0]]))
    with pytest.raises(ValueError, match="not negative"):
        lw.PMI().fit(np.array([[0, -1], [-1, 0]]))
    with pytest.raises(ValueError, match="no co-occurrences"):
        lw.PMI().fit(np.zeros((3, 3), dtype=int))
    with pytest.raises(ValueError, match="alpha is 'nought'"):
        lw.PMI("nought").fit(np.ones((2, 2)))
