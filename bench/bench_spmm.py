"""CSR times a block of columns on the PMI matrix of the corpus, next to MKL (sparse_dot_mkl) and SciPy.

MKL is found through the environment variable MKL_RT (its libmkl_rt) where the loader does not see it.
"""

from __future__ import annotations

import glob
import os
import sys

import numpy as np
import pytest

import lagwise as lw
from lagwise.operators import SparseMinusLowRank

from .common import CACHE, SMOKE, corpus, lagwise, versus


@pytest.fixture(scope="session")
def pmi():
    """The window-10 PMI matrix of the 20-million-token slice, every observed pair, float32."""
    store = CACHE / ("spmm-smoke-store" if SMOKE else "spmm-store")
    if SMOKE or not store.exists():
        lagwise("count", corpus(), "-o", store, "--window", 10, "--force")
    return lw.PMI(None).fit_transform(lw.load(store))


def _mkl():
    if "MKL_RT" not in os.environ:
        found = glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so*"))
        if found:
            os.environ["MKL_RT"] = found[0]
    try:
        import sparse_dot_mkl
    except (ImportError, OSError) as error:
        pytest.skip(f"needs sparse_dot_mkl and MKL ({error.__class__.__name__}): pip install sparse_dot_mkl mkl")
    return sparse_dot_mkl


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("k", [16, 64, 128])
def test_spmm(benchmark, pmi, k, n_threads):
    mkl = _mkl()
    X = np.random.default_rng(0).standard_normal((pmi.shape[1], k)).astype(np.float32)
    out = np.empty_like(X)
    operator = SparseMinusLowRank(pmi, n_threads=n_threads)
    mkl.mkl_set_num_threads(n_threads)
    expected = pmi.astype(np.float64) @ X[:, :2].astype(np.float64)
    operator.matmat(X, out=out)
    scale = np.abs(expected).max()
    assert np.abs(out[:, :2] - expected).max() < 1e-5 * scale
    assert np.abs(mkl.dot_product_mkl(pmi, X)[:, :2] - expected).max() < 1e-4 * scale
    versus(
        benchmark,
        lambda: operator.matmat(X, out=out),
        {"MKL": lambda: mkl.dot_product_mkl(pmi, X), "SciPy": lambda: pmi @ X},
        f"{pmi.nnz / 1e6:.1f}M nonzeros x {k} columns, {n_threads} threads",
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transposed(benchmark, pmi, dtype):
    X = np.random.default_rng(0).standard_normal((pmi.shape[0], 64)).astype(dtype)
    operator = SparseMinusLowRank(pmi, n_threads=2)
    np.testing.assert_allclose(operator.rmatmat(X)[:, :2], pmi.T @ X[:, :2], rtol=1e-3, atol=1e-2)
    versus(
        benchmark,
        lambda: operator.rmatmat(X),
        {"SciPy": lambda: pmi.T @ X, "forward": lambda: operator.matmat(X)},
        f"transposed, 64 columns, {dtype}, 2 threads",
        rounds=3,
    )


def test_counts_feed_the_product_directly(benchmark):
    """Integer counts without conversion, against SciPy on a float32 copy."""
    store = CACHE / ("spmm-smoke-store" if SMOKE else "spmm-store")
    if not store.exists():
        lagwise("count", corpus(), "-o", store, "--window", 10, "--force")
    from scipy.sparse import csr_array

    indptr, indices, data, _ = lw.load(store).window_arrays()
    n = len(indptr) - 1
    X = np.random.default_rng(0).standard_normal((n, 64)).astype(np.float32)
    operator = SparseMinusLowRank(csr_array((data, indices, indptr), shape=(n, n)), n_threads=2)
    real = csr_array((data.astype(np.float32), indices, indptr), shape=(n, n))
    np.testing.assert_allclose(operator.matmat(X), real @ X, rtol=1e-3, atol=1e3)
    versus(
        benchmark,
        lambda: operator.matmat(X),
        {"SciPy": lambda: real @ X},
        f"{data.dtype} counts x 64, 2 threads",
        rounds=3,
    )
