"""SENS: its theory, its variants, and hard cases F, I17, A1, A3."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import lagwise as lw
from lagwise.sens import PRESETS, VARIANTS
from tests.reference.pmi import pmi_dense

N = 900  # beyond the order that is solved densely


@pytest.fixture(scope="module")
def counts():
    """Zipfian counts with hidden topics, so that the spectrum is not flat."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, N + 1)
    topics = rng.dirichlet(np.full(12, 0.2), size=N)
    rate = topics @ topics.T * np.outer(frequency, frequency)
    half = np.triu(rng.poisson(4e5 * rate / rate.sum()))
    return half + half.T


def spans_equal(A, B):
    return np.linalg.svd(A.astype(float).T @ B.astype(float), compute_uv=False).min() > 1 - 1e-4


def matrix_of(counts, **options):
    return pmi_dense(counts, -2.5, **options)


def test_objective_is_the_trace_and_beats_every_other_subspace(counts):
    model = lw.SENS(20, tol=1e-8).fit(counts)
    M, W = matrix_of(counts), model.components_.astype(np.float64)
    assert model.objective_ == pytest.approx(np.trace(W.T @ M @ W), rel=1e-6)
    assert model.objective_ == pytest.approx(np.linalg.eigvalsh(M)[::-1][:20].sum(), rel=1e-6)
    other = lw.SENS(20, "svd-ns", tol=1e-8).fit(counts)
    assert np.trace(other.components_.T @ M @ other.components_) <= model.objective_ * (1 + 1e-6)
    rng = np.random.default_rng(1)
    for _ in range(5):
        Q = np.linalg.qr(rng.normal(size=(N, 20)))[0]
        assert np.trace(Q.T @ M @ Q) < model.objective_


def test_residual_is_that_of_the_matrix(counts):
    model = lw.SENS(20).fit(counts)
    M, W = matrix_of(counts), model.components_.astype(np.float64)
    true = np.linalg.norm(M @ W - W * model.eigenvalues_, axis=0).max() / model.eigenvalues_[0]
    assert model.residual_ <= 1e-4 and true == pytest.approx(model.residual_, rel=0.1, abs=2e-6)
    np.testing.assert_allclose(W.T @ W, np.eye(20), rtol=0, atol=1e-5)
    assert (W[np.argmax(np.abs(W), axis=0), np.arange(20)] > 0).all()


@pytest.mark.parametrize("d", [3, 20, 60, 200])
def test_svd_ns_spans_the_same_space_iff_no_negative_is_in_the_top(counts, d):
    sens, svd = lw.SENS(d, tol=1e-7).fit(counts), lw.SENS(d, "svd-ns", tol=1e-7).fit(counts)
    assert spans_equal(sens.components_, svd.components_) == (sens.negative_in_top_ == 0)
    values = np.linalg.eigvalsh(matrix_of(counts))
    true = (values <= -values[::-1][d - 1]).sum()
    assert sens.negative_in_top_ == true if true < d / 2 else true * 0.8 < sens.negative_in_top_ <= true
    assert svd.negative_in_top_ == (svd.eigenvalues_ < 0).sum()


def test_psd_makes_the_two_the_same(counts):
    model = lw.SENS(60, psd=True, tol=1e-7).fit(counts)
    other = lw.SENS(60, "svd-ns", psd=True, tol=1e-7).fit(counts)
    assert model.negative_in_top_ == other.negative_in_top_ == 0
    np.testing.assert_allclose(model.eigenvalues_, other.eigenvalues_, rtol=1e-6, atol=0)
    M = matrix_of(counts)
    off = np.abs(M).sum(axis=1) - np.abs(np.diag(M))
    np.fill_diagonal(M, np.maximum(np.diag(M), off))
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(M)[::-1][:60], rtol=1e-5, atol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_factorises_its_matrix(counts, variant):
    model = lw.SENS(10, variant, negatives=2.0, power=0.5, tol=1e-7).fit(counts)
    M = {
        "sens": lambda: pmi_dense(counts, -2.5),
        "svd-ns": lambda: pmi_dense(counts, -2.5),
        "svd-ns-shifted": lambda: pmi_dense(counts, -2.5, 2.5),
        "pmi": lambda: pmi_dense(counts),
        "ppmi": lambda: pmi_dense(counts, 0.0),
        "sppmi": lambda: pmi_dense(counts, 1.0, -1.0),
        "counts": lambda: counts,
        "log-counts": lambda: np.log1p(counts),
        "sqrt-counts": lambda: np.sqrt(counts),
    }[variant]()
    values = np.linalg.eigvalsh(M.astype(float))
    values = values[::-1][:10] if variant == "sens" else values[np.argsort(-np.abs(values))][:10]
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-5, atol=0)
    np.testing.assert_allclose(model.embedding_, model.components_ * np.abs(values) ** 0.5, rtol=2e-5, atol=1e-6)


def test_context_smoothing_gives_singular_vectors(counts):
    model = lw.SENS(10, "svd-ns", smoothing=0.75, smooth="context", tol=1e-7).fit(counts)
    M = pmi_dense(counts, -2.5, smoothing=0.75, smooth="context")
    U, s, _ = np.linalg.svd(M)
    np.testing.assert_allclose(model.eigenvalues_, s[:10], rtol=1e-5, atol=0)
    assert spans_equal(model.components_, U[:, :10])
    with pytest.raises(ValueError, match="not symmetric"):
        lw.SENS(10, smoothing=0.75, smooth="context").fit(counts)


@pytest.mark.parametrize("variant", ["sens", "svd-ns"])
def test_solvers_agree(counts, variant):
    lanczos = lw.SENS(15, variant, tol=1e-7).fit(counts)
    arpack = lw.SENS(15, variant, tol=1e-7, solver="arpack").fit(counts)
    np.testing.assert_allclose(lanczos.eigenvalues_, arpack.eigenvalues_, rtol=1e-5, atol=0)
    np.testing.assert_allclose(lanczos.components_, arpack.components_, rtol=0, atol=1e-3)
    cheap = lw.SENS(15, variant, solver="krylov").fit(counts)
    assert cheap.residual_ < 0.1 and cheap.n_products_ < lanczos.n_products_ * 2


def test_random_negatives(counts):
    M = matrix_of(counts)
    model = lw.SENS(5, random_negatives=0.25, random_state=3)
    settings = model.settings()
    from lagwise.pmi import window_counts
    from lagwise.sens import build_matrix

    got = build_matrix(window_counts(counts), settings, 1).matrix.toarray()
    changed = (got != M.astype(np.float32)) & ~np.isclose(got, M, rtol=1e-5, atol=1e-6)
    pairs = (np.triu(counts, 1) > 0).sum()
    assert np.triu(changed, 1).sum() == round(0.25 * pairs)
    assert (counts[changed] == 0).all() and (got[changed] == -2.5).all() and not changed.diagonal().any()
    assert (got == got.T).all()
    again = build_matrix(window_counts(counts), settings, 2).matrix.toarray()
    assert (got == again).all()
    with pytest.raises(ValueError, match="unobserved pairs"):
        lw.SENS(5, random_negatives=1e4).fit(counts)


def test_f4_singular_and_eigen_choice():
    M = np.array([[0, 3], [3, 0]])  # eigenvalues of the count matrix 3 and -3
    X = sparse.csr_array(M)
    both = lw.SENS(2, "counts").fit(X)
    U, s = both.components_.astype(float), np.abs(both.eigenvalues_)
    V = U * np.sign(both.eigenvalues_)
    np.testing.assert_allclose(U * s @ V.T, M, rtol=0, atol=1e-6)
    assert not np.allclose(U * s @ U.T, M)
    assert sorted(both.eigenvalues_.round(6)) == [-3, 3]


def test_f6_same_vectors_on_transposed_input_and_again(counts):
    first = lw.SENS(8, tol=1e-12).fit(counts).components_
    for given in (counts.T, np.asfortranarray(counts), sparse.csc_array(counts)):
        np.testing.assert_allclose(lw.SENS(8, tol=1e-12).fit(given).components_, first, rtol=0, atol=1e-10)


def test_f7_same_bits_for_any_threads_and_in_a_new_process(counts, tmp_path):
    digests = {lw.SENS(10, n_threads=t, random_state=5).fit(counts).embedding_.tobytes() for t in (1, 2, 3, 1)}
    assert len(digests) == 1
    np.save(tmp_path / "counts.npy", counts)
    program = (
        f"import lagwise as lw, numpy as np, sys; X = np.load({str(tmp_path / 'counts.npy')!r}); "
        "sys.stdout.buffer.write(lw.SENS(10, n_threads=2, random_state=5).fit(X).embedding_.tobytes())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=True)
    assert done.stdout == digests.pop()


def test_f9_threshold_that_leaves_nothing(counts):
    with pytest.raises(ValueError, match=f"threshold leaves 0 of {(counts > 0).sum()} entries"):
        lw.SENS(5, alpha=60.0).fit(counts)
    pair = lw.count(lines=["a b"], min_count=1, max_lag=1)
    with pytest.raises(ValueError, match="threshold leaves 0 of 2"):
        lw.SENS(1, "sppmi", negatives=2.0, window=1).fit(pair)


def test_f13_index_types_and_order_do_not_matter(counts):
    X = sparse.csr_array(counts)
    expected = lw.SENS(6).fit(X).components_
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(lw.SENS(6).fit(wide).components_, expected)
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(X.indptr[:-1], X.indptr[1:])])
    unsorted = sparse.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)
    np.testing.assert_array_equal(lw.SENS(6).fit(unsorted).components_, expected)
    rows, columns = np.nonzero(counts)
    values = counts[rows, columns]
    twice = sparse.coo_array(
        (np.concatenate([values - 1, np.ones_like(values)]), (np.tile(rows, 2), np.tile(columns, 2))),
        shape=counts.shape,
    )
    np.testing.assert_array_equal(lw.SENS(6).fit(twice.tocsr()).components_, expected)


def test_i17_no_co_occurrences():
    counts = lw.count(lines=["a", "b", "a"], min_count=1)
    with pytest.raises(ValueError, match="no co-occurrences"):
        lw.SENS(1).fit(counts)


def test_k3_a_word_that_never_occurs_has_a_zero_vector():
    counts = lw.count(lines=["a b c a c b a b c d e d e"] * 9, keep=["never"])
    model = lw.SENS(2).fit(counts)
    vectors = model.word_vectors()
    assert (vectors["never"] == 0).all() and np.isfinite(vectors.vectors).all()


def test_count_then_sens_with_no_options():
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.4, size=30) if i < 300) for _ in range(400)]
    store = lw.count(lines=lines)
    vectors = lw.SENS(20).fit(store).word_vectors()
    assert vectors.vectors.shape == (len(store.vocabulary), 20) and vectors.most_similar("w1")
    for name in PRESETS:
        assert lw.SENS(20, preset=name).fit(store).residual_ < 3e-3
    again = lw.SENS(10, alpha=-1.0, window=3).fit(store)  # the same store, another setting, no recount
    assert again.components_.shape[1] == 10


def test_presets_yield_to_arguments():
    settings = lw.SENS(preset="balanced", power=0.5).settings()
    assert settings["power"] == 0.5 and settings["shift"] == PRESETS["balanced"]["shift"]
    with pytest.raises(ValueError, match="preset is 'balance'.*did you mean"):
        lw.SENS(preset="balance").settings()


def test_drop_first(counts):
    full, rest = lw.SENS(12, tol=1e-7).fit(counts), lw.SENS(10, drop_first=2, tol=1e-7).fit(counts)
    np.testing.assert_allclose(rest.eigenvalues_, full.eigenvalues_[2:], rtol=1e-6, atol=0)
    np.testing.assert_allclose(rest.components_, full.components_[:, 2:], rtol=0, atol=1e-3)


def test_a1_parameters_clone_and_pickle(counts):
    model = lw.SENS(4, random_state=np.random.RandomState(0), weight=[1, 2])
    assert clone(model).get_params().keys() == model.get_params().keys()
    state = model.random_state
    model.set_params(weight=None).fit(counts)
    assert model.random_state is state and not hasattr(clone(model), "components_")
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.components_, model.components_)
    with pytest.raises(ValueError, match="no parameter 'dim'"):
        model.set_params(dim=3)


@pytest.mark.parametrize(
    "change",
    [
        dict(n_components=0),
        dict(variant="glove"),
        dict(alpha=math.nan),
        dict(smoothing=0.0),
        dict(power=-1.0),
        dict(solver="svd"),
        dict(tol=-1.0),
        dict(negatives=0.5),
        dict(drop_first=-1),
        dict(psd=1),
        dict(random_negatives=-0.1),
        dict(smooth="rows"),
        dict(random_state="x"),
        dict(n_threads=0),
    ],
)
def test_a7_bad_settings_name_themselves(counts, change):
    with pytest.raises(ValueError, match=next(iter(change))):
        lw.SENS(**{"n_components": 3, **change}).fit(counts)


def test_more_components_than_words():
    with pytest.raises(ValueError, match="n_components=5"):
        lw.SENS(5).fit(np.ones((3, 3)))


def test_x4_ctrl_c_keeps_the_best_and_raises(counts):
    model = lw.SENS(20, tol=0.0)

    def stop(n_products, n_converged, residual):
        if residual < math.inf:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(counts, callback=stop)
    assert model.interrupted_ and np.isfinite(model.components_).all() and model.components_.shape == (N, 20)
    model.set_params(tol=1e-4)
    assert not model.fit(counts).interrupted_


def test_row_weight_factorises_the_weighted_matrix(counts):
    model = lw.SENS(10, row_weight=0.3, tol=1e-7).fit(counts)
    sums = counts.sum(axis=1).astype(float)
    weights = np.where(sums > 0, (np.maximum(sums, 1) / np.median(sums[sums > 0])) ** 0.3, 1)
    M = matrix_of(counts) * np.outer(weights, weights)
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(M)[::-1][:10], rtol=1e-5, atol=0)
    W = model.components_.astype(np.float64)
    assert model.objective_ == pytest.approx(np.trace(W.T @ M @ W), rel=1e-5)


def test_loose_tolerance_stops_early_and_says_so(counts):
    matrix = sparse.csr_array(np.kron(matrix_of(counts), np.eye(2)))  # large enough for the iteration
    from lagwise.linalg import eigsh
    from lagwise.operators import SparseMinusLowRank

    operator = SparseMinusLowRank(matrix)
    loose, tight = eigsh(operator, 60, tol=3e-2), eigsh(operator, 60, tol=1e-5)
    assert loose.n_products < tight.n_products and 1e-5 < loose.residual <= 3e-2
    for found in (loose, tight):
        vectors = found.vectors.astype(np.float64)
        true = np.linalg.norm(matrix @ vectors - vectors * found.values, axis=0).max() / found.values[0]
        assert true == pytest.approx(found.residual, rel=0.1, abs=2e-6)


def test_whole_weights_are_summed_exactly():
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.4, size=30) if i < 300) for _ in range(200)]
    store = lw.count(lines=lines, max_lag=3, min_count=1)
    whole, real = store.window_arrays(3, (4, 2, 1)), store.window(3, (2.0, 1.0, 0.5))
    assert whole[2].dtype.kind == "u" and whole[3] == 1
    np.testing.assert_array_equal(store.window(3, (4, 2, 1)).toarray(), 2 * real.toarray())
    assert store.window(3, (4, 2, 1)).dtype == np.float64
    windowed = lw.count(lines=lines, window=3, weight=(4, 2, 1), min_count=1)
    np.testing.assert_array_equal(windowed.window_arrays()[2], whole[2])
