import numpy as np
import pytest
from lagwise._kernels import hankel
from scipy.sparse import csr_array

from lagwise.lds import TextCovariances
from lagwise.lds.statistics import Covariances
from lagwise.lds.subspace import hankel_blocks, hankel_svd
from lagwise.operators import _cuts, aligned_empty
from tests.reference import lds as dense


def dense_hankel(psi, r):
    return np.block([[psi[i + r - j] for j in range(1, r + 1)] for i in range(1, r + 1)])


@pytest.mark.parametrize("r", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_walk_equals_dense_hankel(small_counts, r, dtype):
    cov = TextCovariances(small_counts, 7, 10, dtype, n_threads=2)
    psi, _, _ = dense.dense_psi(small_counts, 10)
    H = dense_hankel(psi, r)
    for b in (1, 7, 8, 16, 17, 40):
        X = np.random.default_rng(b).standard_normal((30, r, b)).astype(dtype)
        stacked = X.transpose(1, 0, 2).reshape(r * 30, b)
        for transpose in (False, True):
            want = ((H.T if transpose else H) @ stacked).reshape(r, 30, b).transpose(1, 0, 2)
            for walk in (cov.add_hankel, lambda *a: Covariances.add_hankel(cov, *a)):
                out = np.full_like(X, np.nan)
                walk(r, X, out, transpose)
                np.testing.assert_allclose(out, want, rtol=0, atol=1e-12 if dtype == "float64" else 2e-5)


@pytest.mark.parametrize("r", [2, 4])
def test_singular_values_equal_dense(small_counts, r):
    cov = TextCovariances(small_counts, 7, 10, "float64")
    psi, _, _ = dense.dense_psi(small_counts, 10)
    left, values, right = hankel_svd(cov, r, 4, np.random.default_rng(0), n_power=100)  # past all that is random
    H = dense_hankel(psi, r)
    U, s, Vt = np.linalg.svd(H)
    np.testing.assert_allclose(values[:4], s[:4], rtol=1e-10)
    product = left[:, :, :2].transpose(1, 0, 2).reshape(-1, 2) @ right[:, :, :2].transpose(1, 0, 2).reshape(-1, 2).T
    np.testing.assert_allclose(product, (U[:, :2] * s[:2]) @ Vt[:2], rtol=0, atol=1e-8)


def test_every_block_is_walked_once():
    for r in (1, 2, 5):
        seen = np.zeros((r, r), dtype=int)
        for k in range(1, 2 * r):
            rows, columns = hankel_blocks(r, k)
            for i, j in zip(range(rows.start, rows.stop), range(columns.start, columns.stop)):
                assert k == i + r - j
                seen[i, j] += 1
        assert (seen == 1).all()


@pytest.mark.parametrize("data", [np.uint8, np.uint16, np.uint32, np.uint64, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_kernel_equals_twin(data, index, real):
    rng = np.random.default_rng(0)
    for n_rows, n_cols, r in ((1, 1, 1), (63, 65, 4), (64, 64, 6), (65, 63, 9)):
        N = rng.integers(0, 5, (n_rows, n_cols)) * (rng.random((n_rows, n_cols)) < 0.3)
        N[n_rows // 2] = 0
        csr = csr_array(N.astype(data))
        parts = [csr.data, csr.indices.astype(index), csr.indptr.astype(np.int64)]
        for part in parts:
            part.flags.writeable = False
        width = 64 // np.dtype(real).itemsize
        tile = aligned_empty((n_cols, r, width), real)
        tile[...] = rng.standard_normal(tile.shape)
        scale = rng.random(n_rows).astype(real)
        for first, out_first, n in ((0, 0, r), (r - 1, 0, 1), (0, r - 1, 1)):
            results = []
            for threads in (1, 2):
                out = aligned_empty((n_rows, r, width), real)
                out[...] = 1
                hankel.hankel_add(*parts, _cuts(parts[2])[0], tile, first, scale, out, out_first, n, threads)
                results.append(out.copy())
            want = np.ones((n_rows, r, width))
            want[:, out_first : out_first + n] += scale[:, None, None] * np.einsum(
                "ij,jrw->irw", N.astype(float), tile[:, first : first + n].astype(float)
            )
            np.testing.assert_allclose(results[0], want, rtol=0, atol=1e-12 if real == np.float64 else 1e-4)
            np.testing.assert_array_equal(results[0], results[1])
