"""Speed of the linear dynamical system: EM, SSID, Hankel walk and inference, beside SciPy float64 and sgemm.

``pytest bench/bench_lds.py -s`` on the first lines of the Wikipedia corpus beside the project (``../shared``, or the
folder in LAGWISE_SHARED); LAGWISE_BENCH_LINES (default 202574) shortens it. Ours and the reference run in turn; each
answer is checked before it is timed; medians.
"""

from __future__ import annotations

import io
import itertools
import os
import statistics
import time

import numpy as np
import pytest

import lagwise as lw
from lagwise._threads import available_cores
from lagwise.lds import TextCovariances, asos, inference, subspace
from lagwise.lds.inference import Recursion
from lagwise.lds.parameters import Parameters
from lagwise.lds.starts import choose_start
from lagwise.lds.statistics import Covariances

from .common import SHARED, SMOKE

LINES = int(os.environ.get("LAGWISE_BENCH_LINES", 1000 if SMOKE else 202_574))
THREADS = min(2, available_cores())
H = 20 if SMOKE else 100


class SciPyCovariances(TextCovariances):
    """The same statistics in SciPy float64: scaled CSR matrices, rank-2 corrections by BLAS, no transposed walks."""

    def __init__(self, counts, max_lag, pseudocount):
        super().__init__(counts, max_lag, pseudocount, "float64", THREADS)
        from scipy.sparse import csr_array

        self.matrices = []
        for forward, backward in self._operators:
            pair = []
            for operator in (forward, backward):
                matrix = csr_array(
                    (operator.data.astype(np.float64), operator.indices, operator.indptr.astype(np.int32)),
                    shape=operator.shape,
                )
                rows = np.repeat(np.arange(len(self.s)), np.diff(matrix.indptr))
                matrix.data *= operator.scale * self.s[rows] * self.s[matrix.indices]
                pair.append((matrix, operator.U, operator.Z))
            self.matrices.append(pair)

    def _product(self, pair, X, out):
        matrix, U, Z = pair
        result = matrix @ X
        result -= U @ (Z.T @ X)
        if out is not None:
            out[...] = result
        return result if out is None else out

    def matmat(self, k, X, out=None):
        return self._product(self.matrices[k - 1][0], X, out)

    def rmatmat(self, k, X, out=None):
        return self._product(self.matrices[k - 1][1], X, out)

    add_hankel = Covariances.add_hankel  # each Psi_k once for all its blocks


def interleave(rounds, **works):
    """Median seconds of each callable, run in turn."""
    times = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


@pytest.fixture(scope="module")
def counts():
    path = SHARED / "corpora" / "wikipedia.txt.zst"
    if not path.is_file():
        pytest.skip("needs the Wikipedia corpus of the shared material")
    import zstandard

    with open(path, "rb") as raw:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(raw), encoding="utf-8")
        return lw.count(
            lines=itertools.islice(lines, LINES),
            tokenizer="words",
            digits="0",
            max_size=20_000,
            boundary="none",
            oov="unk",
            max_lag=10,
        )


@pytest.fixture(scope="module")
def ours(counts):
    return TextCovariances(counts, 10, 50, "float32", THREADS)


@pytest.fixture(scope="module")
def reference(counts):
    return SciPyCovariances(counts, 10, 50)


@pytest.fixture(scope="module")
def start(ours):
    found = subspace.identify(ours, H, 4, np.random.default_rng(0), n_power=2)
    return choose_start(found, ours, 7)[0]


def iteration(covariances, parameters, r, guess=None):
    got = asos.expectations(parameters, covariances, r, start=guess)
    asos.maximise(got, parameters, covariances)
    return got


def test_em_iteration_against_scipy(ours, reference, start):
    double = start._replace(C=start.C.astype(np.float64))
    a, b = iteration(ours, start, 7), iteration(reference, double, 7)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-7)
    guess = a.moments.X[7]
    times = interleave(
        5, ours=lambda: iteration(ours, start, 7, guess), scipy=lambda: iteration(reference, double, 7, guess)
    )
    print(
        f"\nEM iteration, h={H}, r=7: {times['ours']:.3f} s, SciPy float64 {times['scipy']:.3f} s, "
        f"ratio {times['scipy'] / times['ours']:.2f}"
    )
    fresh = interleave(3, ours=lambda: iteration(ours, start, 7), scipy=lambda: iteration(reference, double, 7))
    print(
        f"  from a cold fixed point: {fresh['ours']:.3f} s, {fresh['scipy']:.3f} s, "
        f"ratio {fresh['scipy'] / fresh['ours']:.2f}"
    )


def test_em_iteration_is_linear_in_lags(ours, start, counts):
    guesses = {r: iteration(ours, start, r).moments.X[r] for r in (4, 7, 10)}
    times = interleave(5, **{f"r{r}": lambda r=r: iteration(ours, start, r, guesses[r]) for r in (4, 7, 10)})
    nonzeros = [sum(counts.lag(k, raw=True).nnz for k in range(1, r + 1)) for r in (4, 7, 10)]
    seconds = [times[f"r{r}"] for r in (4, 7, 10)]
    line = np.polyfit(nonzeros, seconds, 1)
    worst = max(abs(np.polyval(line, x) / y - 1) for x, y in zip(nonzeros, seconds))
    print(
        f"\nEM iteration for r=4, 7, 10: {', '.join(f'{s:.3f}' for s in seconds)} s; "
        f"within {worst:.1%} of a line in nonzeros"
    )


def test_ssid_against_scipy(ours, reference):
    passes, width = 8, H + max(10, H // 10)
    a = subspace.hankel_svd(ours, 4, H, np.random.default_rng(0), n_power=passes)[1]
    b = subspace.hankel_svd(reference, 4, H, np.random.default_rng(0), n_power=passes)[1]
    np.testing.assert_allclose(a[:H], b[:H], rtol=1e-3)
    times = interleave(
        1,
        ours=lambda: subspace.hankel_svd(ours, 4, H, np.random.default_rng(0), n_power=passes),
        scipy=lambda: subspace.hankel_svd(reference, 4, H, np.random.default_rng(0), n_power=passes),
    )
    print(
        f"\nSSID, {passes} power iterations, {width} columns: {times['ours']:.2f} s, SciPy {times['scipy']:.2f} s, "
        f"ratio {times['scipy'] / times['ours']:.2f}"
    )


def test_hankel_walk(ours, counts):
    width = 112
    X = np.random.default_rng(0).standard_normal((ours.n_features, 4, width)).astype(np.float32)
    out = np.empty_like(X)
    seconds = interleave(5, walk=lambda: ours.add_hankel(4, X, out))["walk"]
    nonzeros = [counts.lag(k, raw=True).nnz for k in range(1, 8)]
    blocks = sum((4 - abs(k - 4)) * n for k, n in zip(range(1, 8), nonzeros))
    print(
        f"\nHankel walk, r=4, {width} columns: {seconds:.3f} s, {2 * blocks * width / seconds / 1e9:.1f} GFLOP/s, "
        f"{blocks * width * 4 / seconds / 1e9:.1f} GB/s of panel rows"
    )


@pytest.mark.parametrize("h", [100, 200])
def test_inference_against_sgemm(h, tmp_path):
    rng = np.random.default_rng(0)
    V, T = 20_000, 20_000 if SMOKE else 2_000_000
    table = rng.standard_normal((V, h)).astype(np.float32)
    A, J = (X * 0.8 / np.abs(np.linalg.eigvals(X)).max() for X in rng.standard_normal((2, h, h)))
    rec = Recursion(*(np.ascontiguousarray(X, dtype=np.float32) for X in (A, 0.9 * A, J, np.eye(h) - J @ A)))
    ids = rng.integers(0, V, T).astype(np.int32)
    sizes = rng.integers(5, 60, T // 25)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.append(edges[edges < T], T)
    few = np.empty((3000, h), np.float32)
    naive = np.empty((3000, h), np.float32)

    def plain():
        x = np.zeros(h, np.float32)
        for t in range(3000):
            x = rec.H @ x + table[ids[t]]
            naive[t] = x
        for t in range(2998, -1, -1):
            naive[t] = rec.J @ naive[t + 1] + rec.F @ naive[t]

    whole = np.array([0, 3000])
    inference.filter_sequences(rec, table, ids[:3000], whole, few, THREADS)
    inference.smooth_sequences(rec, whole, few, THREADS)
    plain()
    np.testing.assert_allclose(few, naive, rtol=0, atol=1e-3 * np.abs(naive).max())
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float32, (T, h))
    X, Y = np.empty((512, h), np.float32), np.empty((512, h), np.float32)
    X[...] = 1

    def sgemm():
        for _ in range(2000):
            np.dot(X, rec.H, Y)

    def both(offsets):
        inference.filter_sequences(rec, table, ids, offsets, rows, THREADS)
        inference.smooth_sequences(rec, offsets, rows, THREADS)

    times = interleave(
        3, sgemm=sgemm, sentences=lambda: both(edges), stream=lambda: both(np.array([0, T])), naive=plain
    )
    peak = 2000 * 2 * 512 * h * h / times["sgemm"]
    for name in ("sentences", "stream"):
        rate = 6 * h * h * T / times[name]
        print(
            f"\nfilter and smoother, h={h}, {name}: {times[name]:.2f} s for {T} tokens, {rate / 1e9:.1f} GFLOP/s, "
            f"{rate / peak:.0%} of sgemm ({peak / 1e9:.1f}); "
            f"{times['naive'] / 3000 * T / times[name]:.0f} x the NumPy loop"
        )


def test_parameters_are_what_the_benchmark_says(start):
    assert isinstance(start, Parameters) and start.C.dtype == np.float32
