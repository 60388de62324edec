"""Thick-restart block Lanczos next to SciPy's eigsh, to the same measured residual; accuracy and memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import lagwise as lw
from lagwise.linalg import eigsh
from lagwise.operators import SparseMinusLowRank

from .common import CACHE, SMOKE, corpus, lagwise, run, versus

DIMENSIONS = 20 if SMOKE else 100


@pytest.fixture(scope="session")
def store():
    path = CACHE / ("solver-smoke-store" if SMOKE else "solver-store")
    if SMOKE or not path.exists():
        lagwise("count", corpus(), "-o", path, "--max-lag", 5, "--force")
    return path


@pytest.fixture(scope="session")
def pmi(store):
    """The window-5 matrix M at alpha = -2.5, float32."""
    return lw.PMI(-2.5, window=5).fit_transform(lw.load(store))


def residual(matrix, values, vectors):
    vectors = vectors.astype(np.float64)
    gaps = matrix.astype(np.float64) @ vectors - vectors * values
    return np.linalg.norm(gaps, axis=0).max() / np.abs(values).max()


def scipy_eigsh(matrix, tol, start):
    from scipy.sparse.linalg import eigsh as arpack

    values, vectors = arpack(matrix, k=DIMENSIONS, which="LA", tol=tol, v0=start)
    return values[::-1].astype(np.float64), vectors[:, ::-1]


def test_against_eigsh(benchmark, pmi):
    """SciPy gets the loosest tolerance whose measured residual stays below 1e-4; then the two run in turn."""
    start = np.random.default_rng(0).standard_normal(pmi.shape[0]).astype(np.float32)
    for tol in (1e-2, 5e-3, 2e-3, 5e-4):
        reached = residual(pmi, *scipy_eigsh(pmi, tol, start))
        print(f"\neigsh with tol {tol:g} reaches a residual of {reached:.1e}")
        if reached <= 1e-4:
            break
    assert reached <= 1e-4
    operator = SparseMinusLowRank(pmi, n_threads=2)
    for bound in (1e-4, max(reached, 1e-6)):  # and to what SciPy reached
        found = eigsh(operator, DIMENSIONS, tol=bound, n_threads=2)
        own = residual(pmi, found.values, found.vectors)
        assert own <= 1.1 * bound
        print(f"\nours with tol {bound:g} reaches {own:.1e} in {found.n_products} products")
    versus(
        benchmark,
        lambda: eigsh(operator, DIMENSIONS, tol=1e-4, n_threads=2),
        {
            "eigsh": lambda: scipy_eigsh(pmi, tol, start),
            "ours to what eigsh reached": lambda: eigsh(operator, DIMENSIONS, tol=max(reached, 1e-6), n_threads=2),
        },
        f"{pmi.nnz / 1e6:.1f}M nonzeros, d = {DIMENSIONS}, residual 1e-4",
        rounds=5,
    )


def test_subspace_against_tight_eigsh(pmi):
    start = np.random.default_rng(1).standard_normal(pmi.shape[0]).astype(np.float32)
    _, exact = scipy_eigsh(pmi.astype(np.float64), 1e-10, start.astype(np.float64))
    found = eigsh(SparseMinusLowRank(pmi, n_threads=2), DIMENSIONS, tol=1e-4, n_threads=2)
    leading = DIMENSIONS * 9 // 10
    cosines = np.linalg.svd(exact.T @ found.vectors[:, :leading].astype(np.float64), compute_uv=False)
    print(f"\nmean squared cosine of the leading {leading}: {np.mean(cosines**2):.7f}")
    assert np.mean(cosines**2) >= 0.9999


def test_peak_memory(store):
    """Resident memory of the factorisation above what the process had before it, over the matrix and d vectors."""
    program = (
        "import sys, numpy as np, lagwise as lw\n"
        "M = lw.PMI(-2.5, window=5).fit_transform(lw.load(sys.argv[1]))\n"
        "np.savez(sys.argv[2], data=M.data, indices=M.indices, indptr=M.indptr)\n"
    )
    solve = (
        "import sys, numpy as np, scipy.sparse, threadpoolctl\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from lagwise.operators import SparseMinusLowRank\n"
        "from lagwise.linalg import eigsh\n"
        "def peak():  # of this program alone: ru_maxrss would start at that of the process that forked it\n"
        "    return 1024 * int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "before = peak()\n"
        "parts = np.load(sys.argv[1]); n = len(parts['indptr']) - 1; d = int(sys.argv[2])\n"
        "M = scipy.sparse.csr_array((parts['data'], parts['indices'], parts['indptr']), shape=(n, n))\n"
        "eigsh(SparseMinusLowRank(M, n_threads=2), d, n_threads=2)\n"
        "used = peak() - before\n"
        "matrix = M.data.nbytes + M.indices.nbytes\n"
        "print(f'factorisation: {used / 1e6:.0f} MB; matrix {matrix / 1e6:.0f} MB, dV floats {4e-6 * d * n:.0f} MB; '"
        "f'bound {(1.3 * matrix + 24 * d * n) / 1e6:.0f} MB')\n"
        "assert n < 5000 or matrix < used <= 1.3 * matrix + 24 * d * n\n"
    )
    parts = CACHE / "solver-matrix.npz"
    run([sys.executable, "-c", program, str(store), str(parts)])
    report = CACHE / "solver-memory.txt"
    run([sys.executable, "-c", solve, str(parts), str(DIMENSIONS)], stdout=report)
    print("\n" + report.read_text().strip())
    parts.unlink()
