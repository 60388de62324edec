"""The refit of SENS against weighted least squares written out densely."""

import math

import numpy as np
import pytest
from scipy import sparse

import lagwise as lw
import lagwise.refit
from tests.reference.pmi import pmi_dense
from tests.reference.refit import pair_weights, refit_dense, refit_steps
from tests.support import run_cli

N, D = 150, 12
SETTING = dict(alpha=-1.0, shift=3.0, smoothing=0.75, tol=1e-9, pair_weight=2.0, pair_max=9.0)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(6, 0.3), size=N)
    rate = topics @ topics.T * np.outer(1 / np.arange(1, N + 1), 1 / np.arange(1, N + 1))
    half = np.triu(rng.poisson(6e3 * rate / rate.sum()))
    half[:, -1] = half[-1] = 0  # a word that occurs with no other
    return half + half.T


def target(counts, smooth="both"):
    M = pmi_dense(counts, SETTING["alpha"], SETTING["shift"], SETTING["smoothing"], smooth)
    kept = pmi_dense(counts, SETTING["alpha"], 50.0, SETTING["smoothing"], smooth) != 0
    return M, pair_weights(counts, kept, SETTING["pair_weight"], SETTING["pair_max"])


@pytest.mark.parametrize("variant", ["sens", "svd-ns"])
@pytest.mark.parametrize("row_weight", [0.0, 0.2])
def test_many_steps_reach_the_weighted_least_squares(counts, variant, row_weight):
    model = lw.SENS(D, variant, row_weight=row_weight, refit=60, **SETTING).fit(counts)
    M, weights = target(counts)
    sums = counts.sum(axis=1).astype(float)
    g = np.where(sums > 0, (np.maximum(sums, 1) / np.median(sums[sums > 0])) ** row_weight, 1)
    C = model.components_.astype(np.float64)
    want = refit_dense(M * np.outer(g, g), weights, C)
    np.testing.assert_allclose(model.refitted_, want, rtol=0, atol=1e-4 * np.abs(want).max())
    power = 0.3
    model.set_params(power=power).fit(counts)
    values = model.eigenvalues_
    np.testing.assert_allclose(
        model.embedding_, want * np.sign(values) * np.abs(values) ** (power - 1), rtol=0, atol=1e-3
    )
    assert (model.embedding_[-1] == 0).all()


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_single_steps(counts, steps, index):
    matrix = sparse.csr_array(counts)
    matrix.indices = matrix.indices.astype(index)
    model = lw.SENS(D, refit=steps, **SETTING).fit(matrix)
    M, weights = target(counts)
    C = model.components_.astype(np.float64)
    want = refit_steps(M[:-1], weights[:-1], C, (C * model.eigenvalues_)[:-1], steps)
    np.testing.assert_allclose(model.refitted_[:-1], want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_singular_vectors_of_smoothed_contexts(counts):
    model = lw.SENS(D, "svd-ns", smooth="context", refit=60, **SETTING).fit(counts)
    M, weights = target(counts, "context")
    U, s, Vt = np.linalg.svd(M)
    V = Vt[:D].T
    signs = np.sign(np.sum(U[:, :D] * model.components_, axis=0))
    want = refit_dense(M, weights, V) * signs
    np.testing.assert_allclose(model.refitted_, want, rtol=0, atol=1e-3 * np.abs(want).max())


def test_steps_never_worsen_the_fit(counts):
    M, weights = target(counts)
    losses = []
    for steps in (0, 1, 2, 4, 8):
        model = lw.SENS(D, refit=steps, **SETTING).fit(counts)
        C = model.components_.astype(np.float64)
        words = C * model.eigenvalues_ if model.refitted_ is None else model.refitted_
        losses.append(np.sum(weights * (words @ C.T - M) ** 2))
    assert all(after < before for before, after in zip(losses, losses[1:]))


def test_equal_weights_change_nothing(counts):
    plain = lw.SENS(D, power=0.5, **SETTING).fit(counts)
    refitted = lw.SENS(D, power=0.5, refit=3, **{**SETTING, "pair_weight": 0.0}).fit(counts)
    np.testing.assert_allclose(refitted.embedding_, plain.embedding_, rtol=0, atol=1e-4)
    assert plain.refitted_ is None


def test_counts_of_a_store_are_those_of_its_weights():
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.4, size=30) if i < 200) for _ in range(200)]
    store = lw.count(lines=lines, max_lag=4, min_count=2)
    model = lw.SENS(D, refit=60, window=4, weight="harmonic", **SETTING).fit(store)
    X = store.window(4, "harmonic").toarray()
    M, weights = target(X)
    want = refit_dense(M, weights, model.components_.astype(np.float64))
    np.testing.assert_allclose(model.refitted_, want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_drop_first(counts):
    full = lw.SENS(D, refit=2, **SETTING).fit(counts)
    rest = lw.SENS(D - 2, drop_first=2, refit=2, **SETTING).fit(counts)
    np.testing.assert_allclose(rest.refitted_, full.refitted_[:, 2:], rtol=0, atol=1e-4)
    np.testing.assert_allclose(rest.embedding_, full.embedding_[:, 2:], rtol=0, atol=1e-4)


def test_same_bits_for_any_threads_and_slices(counts, monkeypatch):
    one = lw.SENS(D, refit=2, n_threads=1, **SETTING).fit(counts)
    two = lw.SENS(D, refit=2, n_threads=2, **SETTING).fit(counts)
    monkeypatch.setattr(lagwise.refit, "_SLICE", 500)
    cut = lw.SENS(D, refit=2, n_threads=2, **SETTING).fit(counts)
    assert one.embedding_.tobytes() == two.embedding_.tobytes() == cut.embedding_.tobytes()


@pytest.mark.parametrize("d", [1, 16, 17, 70])
def test_every_width(counts, d):
    model = lw.SENS(d, refit=1, **SETTING).fit(counts)
    M, weights = target(counts)
    C = model.components_.astype(np.float64)
    want = refit_steps(M[:-1], weights[:-1], C, (C * model.eigenvalues_)[:-1], 1)
    np.testing.assert_allclose(model.refitted_[:-1], want, rtol=0, atol=1e-3)


def test_saved_and_loaded(counts, tmp_path):
    vectors = lw.SENS(D, refit=1, **SETTING).fit(counts).word_vectors([f"w{i}" for i in range(N)])
    vectors.save(tmp_path / "v.lw")
    again = lw.load(tmp_path / "v.lw")
    np.testing.assert_array_equal(again.vectors, vectors.vectors)
    assert again.meta["settings"]["refit"] == 1 and again.meta["settings"]["pair_max"] == SETTING["pair_max"]


def test_ctrl_c_during_the_refit_keeps_the_vectors_without_it(counts, monkeypatch):
    model = lw.SENS(D, refit=1, power=0.5, **SETTING)

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lagwise.refit, "refit_words", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(counts)
    plain = lw.SENS(D, power=0.5, **SETTING).fit(counts)
    assert model.interrupted_ and model.refitted_ is None
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)
    assert not model.fit(counts).interrupted_ and model.refitted_ is not None


@pytest.mark.parametrize(
    "change",
    [dict(refit=-1), dict(refit=1.5), dict(pair_weight=-1.0), dict(pair_weight=math.inf), dict(pair_max=0.0)],
)
def test_bad_settings_name_themselves(counts, change):
    with pytest.raises((ValueError, TypeError), match=next(iter(change))):
        lw.SENS(3, **change).fit(counts)


@pytest.mark.parametrize("change", [dict(psd=True), dict(random_negatives=0.5), dict(variant="log-counts")])
def test_only_where_counts_can_be_told(counts, change):
    with pytest.raises(ValueError, match="refit"):
        lw.SENS(3, refit=1, **change).fit(counts)


@pytest.mark.parametrize("change", [dict(psd=True), dict(random_negatives=0.5), dict(variant="log-counts")])
def test_the_refit_of_a_preset_yields(change):
    assert lw.SENS(preset="balanced").settings()["refit"] > 0
    assert lw.SENS(preset="balanced", **change).settings()["refit"] == 0


def test_command_line(tmp_path, counts):
    lines = "\n".join(" ".join(f"w{j}" for j in np.flatnonzero(row)) for row in counts)
    (tmp_path / "text").write_text(lines)
    run_cli("count", tmp_path / "text", "-o", tmp_path / "store", "--max-lag", 2, "--min-count", 1)
    options = ("--dim", 5, "--refit", 2, "--pair-weight", 1, "--pair-max", 50, "--window", 2, "--weight", "flat")
    run_cli("sens", tmp_path / "store", "-o", tmp_path / "v", *options)
    store, found = lw.load(tmp_path / "store"), lw.load(tmp_path / "v")
    setting = {**lw.SENS(preset="balanced").settings(), "refit": 2, "pair_weight": 1.0, "pair_max": 50.0}
    setting.update(n_components=5, window=2, weight="flat", preset=None)
    np.testing.assert_array_equal(found.vectors, lw.SENS(**setting).fit(store).embedding_)
    run_cli("sens", tmp_path / "store", "-o", tmp_path / "psd", "--dim", 5, "--psd")
    assert lw.load(tmp_path / "psd").meta["settings"]["refit"] == 0
