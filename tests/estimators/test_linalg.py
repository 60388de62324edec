"""Solvers and panels against dense linear algebra; hard cases F6, F7, F10, F12."""

import numpy as np
import pytest
from scipy import sparse

from lagwise.linalg import Panels, block_krylov, eigsh, golub_kahan, randomized_svd
from lagwise.linalg.lanczos import NoConvergence
from lagwise.operators import SparseMinusLowRank


class Dense:
    def __init__(self, matrix, dtype=None):
        self.matrix = np.asarray(matrix)
        self.shape, self.dtype = self.matrix.shape, np.dtype(dtype or self.matrix.dtype)

    def matmat(self, X):
        return (self.matrix @ X).astype(X.dtype)

    def rmatmat(self, X):
        return (self.matrix.T @ X).astype(X.dtype)


def symmetric(n=1500, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    A = sparse.random_array((n, n), density=0.01, rng=rng)
    return (A + A.T).tocsr().astype(dtype)


@pytest.fixture(scope="module")
def problem():
    A = symmetric()
    return A, np.linalg.eigvalsh(A.toarray())


@pytest.mark.parametrize("which", ["LA", "LM"])
@pytest.mark.parametrize("dtype, tol, close", [("float64", 1e-9, 1e-9), ("float32", 1e-5, 1e-5)])
def test_eigsh_finds_the_leading_pairs(problem, which, dtype, tol, close):
    A, values = problem
    found = eigsh(SparseMinusLowRank(A.astype(dtype)), 15, which, tol=tol)
    expected = values[::-1][:15] if which == "LA" else values[np.argsort(-np.abs(values))][:15]
    np.testing.assert_allclose(found.values, expected, rtol=close, atol=close)
    vectors = found.vectors.astype(np.float64)
    assert found.converged and found.vectors.dtype == dtype and found.n_restarts > 0
    true = np.linalg.norm(A @ vectors - vectors * found.values, axis=0)
    np.testing.assert_allclose(true, found.residuals, rtol=0.1, atol=2e-6 * values[-1] if dtype == "float32" else 1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(15), rtol=0, atol=1e-5 if dtype == "float32" else 1e-12)
    assert (vectors[np.argmax(np.abs(vectors), axis=0), np.arange(15)] > 0).all()


def test_blocks_that_do_not_divide_and_small_bases(problem):
    A, values = problem
    for block, basis in ((1, None), (5, 23), (7, 64), (16, 31)):
        found = eigsh(SparseMinusLowRank(A), 7, tol=1e-6, block=block, basis=basis, max_products=20000)
        np.testing.assert_allclose(found.values, values[::-1][:7], rtol=1e-8, atol=0)


def test_same_bits_for_any_threads():
    A = symmetric(5000, dtype="float32")
    results = [eigsh(SparseMinusLowRank(A, n_threads=t), 10, tol=1e-4, n_threads=t, random_state=3) for t in (1, 2, 3)]
    assert len({r.vectors.tobytes() + r.values.tobytes() for r in results}) == 1
    other = eigsh(SparseMinusLowRank(A), 10, tol=1e-4, random_state=4)
    assert other.vectors.tobytes() != results[0].vectors.tobytes()


def test_f10_identity_and_zero_and_repeated_eigenvalues():
    for n in (100, 3000):
        for k in (1, 5):
            found = eigsh(SparseMinusLowRank(sparse.eye_array(n, format="csr")), k, tol=1e-10)
            np.testing.assert_allclose(found.values, np.ones(k), rtol=1e-12, atol=0)
            np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), rtol=0, atol=1e-10)
    assert eigsh(SparseMinusLowRank(sparse.csr_array((2000, 2000))), 3).values.tolist() == [0, 0, 0]
    diagonal = np.zeros(2000)
    diagonal[:40] = 7.0
    found = eigsh(SparseMinusLowRank(sparse.diags_array(diagonal, format="csr")), 30, tol=1e-10)
    np.testing.assert_allclose(found.values, np.full(30, 7.0), rtol=1e-10, atol=0)


def test_f10_no_convergence_says_how_many(problem):
    A, _ = problem
    with pytest.raises(NoConvergence, match=r"of 15 eigenpairs converged") as caught:
        eigsh(SparseMinusLowRank(A), 15, tol=1e-12, max_products=200, strict=True)
    loose = eigsh(SparseMinusLowRank(A), 15, tol=1e-12, max_products=200)
    assert not loose.converged and loose.residual == caught.value.result.residual > 1e-12


def test_block_krylov_states_its_residual(problem):
    A, values = problem
    residuals = []
    for passes in (4, 8, 16):
        found = block_krylov(SparseMinusLowRank(A), 10, passes=passes, block=16)
        true = (
            np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0).max() / np.abs(found.values).max()
        )
        assert found.residual == pytest.approx(true, rel=1e-6) and found.n_products == passes * 16
        residuals.append(found.residual)
    assert residuals[0] > residuals[1] > residuals[2]


def test_not_finite_products_and_bad_arguments(problem):
    A, _ = problem
    broken = A.copy()
    broken.data[0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        eigsh(Dense(broken.toarray()), 3)
    with pytest.raises(ValueError, match="k is 0"):
        eigsh(SparseMinusLowRank(A), 0)
    with pytest.raises(ValueError, match="which is 'SA'"):
        eigsh(SparseMinusLowRank(A), 1, "SA")
    with pytest.raises(ValueError, match="square"):
        eigsh(Dense(np.ones((3, 4))), 1)


@pytest.mark.parametrize("shape", [(1200, 800), (800, 1200), (60, 40)])
def test_golub_kahan(shape):
    A = sparse.random_array(shape, density=0.02, rng=np.random.default_rng(0)).tocsr()
    U, s, Vt = np.linalg.svd(A.toarray())
    found = golub_kahan(SparseMinusLowRank(A), 8, tol=1e-9)
    np.testing.assert_allclose(found.values, s[:8], rtol=1e-9, atol=0)
    np.testing.assert_allclose(found.U.T @ found.U, np.eye(8), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.V.T @ found.V, np.eye(8), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.U * found.values, A @ found.V, rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-4), ("float64", 1e-8)])
def test_f12_randomized_svd_of_a_steep_spectrum(dtype, bound):
    rng = np.random.default_rng(0)
    spectrum = 10.0 ** np.arange(6, -3, -1)
    left, right = (np.linalg.qr(rng.normal(size=(size, 9)))[0] for size in (300, 200))
    A = (left * spectrum) @ right.T
    errors = []
    for n_iter in range(13):
        found = randomized_svd(Dense(A.astype(dtype)), 5, oversample=2, n_iter=n_iter)
        errors.append(np.max(np.abs(found.values / spectrum[:5] - 1)))
        assert np.isfinite(found.residual)
    assert max(errors[4:]) < bound
    floor = 1e-5 if dtype == "float32" else 1e-10
    assert all(later <= max(earlier * 1.01, floor) for earlier, later in zip(errors, errors[1:]))


def test_panels_equal_whole_products_and_qr_is_stable():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(5000, 30)), rng.normal(size=(5000, 7))
    with Panels(5000, 2) as panels:
        np.testing.assert_allclose(panels.inner(A, B), A.T @ B, rtol=1e-12, atol=1e-10)
        C = rng.normal(size=(30, 7))
        X = B.copy()
        panels.subtract(X, A, C)
        np.testing.assert_allclose(X, B - A @ C, rtol=1e-12, atol=1e-12)
        nearly = B @ np.diag([1, 1e-12, 1, 1, 1e9, 1, 1]) @ rng.normal(size=(7, 7))
        Q = nearly.copy()
        R = panels.qr(Q)
        np.testing.assert_allclose(Q.T @ Q, np.eye(7), rtol=0, atol=1e-12)
        np.testing.assert_allclose(Q @ R, nearly, rtol=1e-9, atol=1e-6)
    with Panels(3) as panels, pytest.raises(ValueError, match="cannot orthonormalise"):
        panels.qr(np.ones((3, 4)))


def test_ctrl_c_hands_over_what_was_reached(problem):
    A, values = problem

    def stop(n_products, n_converged, residual):
        if n_products > 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        eigsh(SparseMinusLowRank(A), 10, tol=0.0, callback=stop)
    assert caught.value.partial.values[0] == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-9, 0.0])
def test_qr_of_nearly_dependent_columns(dtype, spread):
    """Cholesky where it is accurate, Householder beyond: orthonormal, R upper triangular, Q R the old block."""
    rng = np.random.default_rng(2)
    old = rng.standard_normal((5000, 8)).astype(dtype)
    old[:, 5] = old[:, 2] + spread * old[:, 5]
    X = old.copy()
    with Panels(len(X), 2) as panels:
        R = panels.qr(X)
    eps = np.finfo(dtype).eps
    Q = X.astype(np.float64)
    np.testing.assert_allclose(Q.T @ Q, np.eye(8), rtol=0, atol=20 * eps)
    np.testing.assert_allclose(Q @ R, old, rtol=0, atol=4 * eps * np.linalg.norm(old, axis=0).max())
    np.testing.assert_allclose(np.tril(R, -1), 0, atol=1e-12 * np.abs(R).max(), rtol=0)


@pytest.mark.parametrize("copies", [40, 150])
@pytest.mark.parametrize("solver", ["eigsh", "golub_kahan"])
def test_all_copies_of_an_eigenvalue_are_found(copies, solver):
    from scipy.sparse import diags_array

    from lagwise import linalg

    values = np.concatenate((np.full(copies, 2.0), np.linspace(0, 1, 2000)))
    operator = SparseMinusLowRank(diags_array(values, format="csr"))
    found = getattr(linalg, solver)(operator, copies + 20)
    kept = found.values
    np.testing.assert_allclose(kept, np.sort(values)[::-1][: copies + 20], atol=1e-3)
    assert found.converged


@pytest.mark.parametrize("dtype, seed", [("float32", 0), ("float32", 1), ("float32", 4), ("float64", 0)])
def test_many_equal_components_keep_the_basis_orthonormal(dtype, seed):
    from scipy.sparse import block_diag, csr_array

    rng = np.random.default_rng(seed)
    upper = np.triu(rng.poisson(1.5, (700, 700)) * (rng.random((700, 700)) < 0.02), 1)
    parts = [9.6 * (np.ones((5, 5)) - np.eye(5))] * 150 + [csr_array(upper + upper.T)]
    matrix = csr_array(block_diag(parts, format="csr")).astype(dtype)
    expected = np.linalg.eigvalsh(matrix.toarray().astype(np.float64))[::-1][:200]
    found = eigsh(SparseMinusLowRank(matrix), 200, tol=1e-4, random_state=seed)
    np.testing.assert_allclose(found.values, expected, atol=1e-3 * expected[0])
    V = found.vectors.astype(np.float64)
    assert np.abs(V.T @ V - np.eye(200)).max() < 1e-3
    assert np.linalg.norm(matrix @ V - V * found.values, axis=0).max() < 1.1e-4 * expected[0]


def test_vectors_that_are_not_orthonormal_are_made_so(monkeypatch):
    from lagwise.linalg import basis, lanczos

    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((900, 900))
    matrix = matrix + matrix.T
    monkeypatch.setattr(basis.LanczosBasis, "_orthonormalise", lambda self, W, end: self.panels.qr(W))
    plain = lanczos._Lanczos.extract

    def spoilt(self, values, Y, tol):
        Q = self.basis.Q
        Q[:, 1] = Q[:, 0] + 1e-2 * Q[:, 1]
        return plain(self, values, Y, tol)

    monkeypatch.setattr(lanczos._Lanczos, "extract", spoilt)
    found = eigsh(Dense(matrix), 10, tol=1e-8)
    V = found.vectors
    assert np.abs(V.T @ V - np.eye(10)).max() < 1e-8
    true = np.linalg.norm(matrix @ V - V * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, true, atol=1e-8 * np.abs(found.values).max())


def test_nothing_coupled_is_lost_by_restarts_and_random_columns():
    """A Q[:, :size] = Q[:, :size + pending] T through steps, restarts with few vectors, and a wider queue."""
    from lagwise.linalg.basis import LanczosBasis
    from lagwise.linalg.panels import Panels

    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((500, 500))
    matrix = matrix + matrix.T
    panels = Panels(500)
    basis = LanczosBasis(Dense(matrix), 160, 8, np.dtype(np.float64), rng, panels)

    def check():
        end = basis.size + basis.pending
        Q = basis.Q[:, :end]
        np.testing.assert_allclose(Q.T @ Q, np.eye(end), rtol=0, atol=1e-12)
        np.testing.assert_allclose(matrix @ Q[:, : basis.size], Q @ basis.T[:end, : basis.size], rtol=0, atol=1e-10)

    with panels:
        basis.begin(rng.standard_normal((500, 8)))
        for width in (0, 16, 24):
            while not basis.full:
                basis.extend()
                check()
            values, Y = np.linalg.eigh(basis.T[: basis.size, : basis.size])
            basis.keep(values[::4], Y[:, ::4])
            check()
            if width:
                basis.widen(width)
                check()
        while not basis.full:
            basis.extend()
        check()


def diagonal(values):
    from scipy.sparse import diags_array

    return SparseMinusLowRank(diags_array(np.asarray(values, dtype=float), format="csr"))


@pytest.mark.parametrize("start", ["one direction", "an eigenvector", "rank 2"])
def test_residuals_are_true_whatever_the_start(start):
    """Columns that depend on each other leave arbitrary directions, which later columns have parts in."""
    values, X = np.arange(1.0, 701), np.zeros((700, 16))
    if start == "one direction":
        X[:] = 1
    elif start == "an eigenvector":
        X[0] = 1
    else:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((700, 2)) @ rng.standard_normal((2, 16))
    for tol in (1e-4, 1e-8):
        found = eigsh(diagonal(values), 5, tol=tol, start=X)
        true = np.linalg.norm(values[:, None] * found.vectors - found.vectors * found.values, axis=0)
        assert found.converged
        np.testing.assert_allclose(found.residuals, true, rtol=0.01, atol=1e-11)
        np.testing.assert_allclose(found.values, values[::-1][:5], atol=700 * tol)


@pytest.mark.parametrize("block", [1, 3, 16])
@pytest.mark.parametrize(("leaders", "copies", "k"), [(0, 10, 20), (0, 40, 20), (0, 40, 45), (5, 10, 15)])
def test_narrow_blocks_find_all_copies(block, leaders, copies, k):
    rng = np.random.default_rng(3)
    rest = rng.uniform(-0.7, 0.7, 1000 - leaders - copies)
    values = np.concatenate((1.2 + 0.05 * np.arange(leaders), np.ones(copies), rest))
    found = eigsh(diagonal(values), k, block=block)
    np.testing.assert_allclose(found.values, np.sort(values)[::-1][:k], atol=1e-6)


def test_singular_residuals_are_bounds():
    from scipy.sparse import random_array

    from lagwise.linalg import golub_kahan

    matrix = random_array((700, 900), density=0.02, rng=np.random.default_rng(2), format="csr")
    found = golub_kahan(SparseMinusLowRank(matrix), 3)
    left = np.linalg.norm(matrix @ found.V - found.U * found.values, axis=0).max()
    right = np.linalg.norm(matrix.T @ found.U - found.V * found.values, axis=0).max()
    assert found.converged and max(left, right) / found.values[0] <= found.residual * (1 + 1e-6) <= 1e-4 * (1 + 1e-6)


def test_what_is_no_operator_is_refused():
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import aslinearoperator

    from lagwise.linalg import golub_kahan

    for solve in (eigsh, golub_kahan):
        with pytest.raises(TypeError, match="csr_array without matmat"):
            solve(eye_array(700, format="csr"), 3)
        with pytest.raises(TypeError, match="expected real"):
            solve(aslinearoperator(1j * eye_array(700, format="csr")), 3)
    with pytest.raises(ValueError, match="dtype"):
        eigsh(diagonal(np.arange(700)), 3, dtype="float16")
    for scale in (1e-200, 1e200):
        with pytest.raises(ValueError, match="multiply it by a number"):
            eigsh(diagonal(scale * np.arange(700)), 3)


def test_an_interrupted_svd_has_triplets():
    from lagwise.linalg import golub_kahan

    def stop(products, converged, residual):
        if products > 600:
            raise KeyboardInterrupt

    rng = np.random.default_rng(0)
    from scipy.sparse import random_array

    matrix = random_array((2000, 1500), density=0.01, rng=rng, format="csr")
    with pytest.raises(KeyboardInterrupt) as caught:
        golub_kahan(SparseMinusLowRank(matrix), 20, tol=1e-12, callback=stop)
    partial = caught.value.partial
    assert partial.U.shape == (2000, 20) and partial.V.shape == (1500, 20) and not partial.converged
