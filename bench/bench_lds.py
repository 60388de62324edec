"""Speed of the linear dynamical system: EM, SSID, Hankel walk and inference, beside SciPy float64 and sgemm.

``pytest bench/bench_lds.py -s`` on the first 202,574 lines of the Wikipedia corpus (see bench/README.md). Each answer
is checked before (SSID: after) it is timed; ours and the reference run in turn; medians.
"""

from __future__ import annotations

import numpy as np
import pytest

from lagwise._threads import available_cores, single_threaded_blas
from lagwise.lds import TextCovariances, asos, subspace
from lagwise.lds.coordinates import triangular
from lagwise.lds.inference import Recursion
from lagwise.lds.kalman import steady_state
from lagwise.lds.parameters import Observation, sym
from lagwise.lds.starts import choose_start
from lagwise.lds.statistics import Covariances
from lagwise.lds.two_sided import TwoSided, smooth_words
from lagwise.linalg.stein import solve_lyapunov

from .common import SMOKE, versus
from .lds_store import lds_store

THREADS = min(2, available_cores())
H = 2 if SMOKE else 100
POWER_ITERATIONS = 4  # nine walks of the Hankel matrix


class SciPyCovariances(TextCovariances):
    """The same statistics in SciPy float64: scaled CSR matrices, rank-2 corrections by BLAS, no transposed walks."""

    def __init__(self, counts, max_lag, pseudocount):
        super().__init__(counts, max_lag, pseudocount, "float64", THREADS)
        from scipy.sparse import csr_array

        self.matrices = []
        for pair in self._operators:
            both = []
            for operator in pair:
                matrix = csr_array(
                    (operator.data.astype(np.float64), operator.indices, operator.indptr.astype(np.int32)),
                    shape=operator.shape,
                )
                rows = np.repeat(np.arange(len(self.s)), np.diff(matrix.indptr))
                matrix.data *= operator.scale * self.s[rows] * self.s[matrix.indices]
                both.append((matrix, operator.U, operator.Z))
            self.matrices.append(both)

    def _product(self, parts, X, out):
        matrix, U, Z = parts
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


@pytest.fixture(scope="module")
def counts():
    return lds_store()


@pytest.fixture(scope="module")
def ours(counts):
    return TextCovariances(counts, 10, 50, "float32", THREADS)


@pytest.fixture(scope="module")
def reference(counts):
    return SciPyCovariances(counts, 10, 50)


@pytest.fixture(scope="module")
def start(ours):
    """Parameters after one iteration, with the fixed point of the iteration before as EM has it."""
    found = subspace.identify(ours, H, 4, np.random.default_rng(0), n_power=2)
    first = choose_start(found, ours, 7)[0]
    got = asos.expectations(first, ours, 10)
    guesses = {r: asos.expectations(first, ours, r).moments.X[r] for r in (4, 7, 10)}
    return asos.maximise(got, first, ours)[0], guesses


def iteration(covariances, parameters, r, guess):
    got = asos.expectations(parameters, covariances, r, start=guess)
    asos.maximise(got, parameters, covariances)
    return got.log_likelihood


def test_em_iteration_against_scipy(benchmark, ours, reference, start):
    parameters, guesses = start
    double = parameters._replace(C=parameters.C.astype(np.float64))
    a, b = iteration(ours, parameters, 7, guesses[7]), iteration(reference, double, 7, guesses[7])
    assert a == pytest.approx(b, rel=1e-7)
    versus(
        benchmark,
        lambda: iteration(ours, parameters, 7, guesses[7]),
        {"SciPy float64": lambda: iteration(reference, double, 7, guesses[7])},
        f"EM iteration, V={ours.n_features}, h={H}, r=7",
    )


def test_parts_of_an_em_iteration(benchmark, ours, start):
    """Where the time of an iteration goes: products with Psi_k and its transpose, dense panels, h x h algebra."""
    parameters, guesses = start
    C, out = parameters.C, np.empty_like(parameters.C)
    eye = np.eye(H)

    def sparse():
        for k in range(1, 8):
            ours.matmat(k, C, out)
            ours.rmatmat(k, C, out)

    def dense():
        with ours.tall.running():
            for _ in range(9):
                ours.tall.gram(C, out)
            for _ in range(16):
                ours.tall.mix(C, eye, out, add=True)

    B = asos.expectations(parameters, ours, 7, start=guesses[7]).B
    observation = asos.observe(parameters, ours)

    def small():
        with single_threaded_blas():
            state = asos.steady_state(parameters.A, parameters.Q, observation)
            asos.filtered_moments(parameters.A, state, observation, B, guesses[7])

    stored = 2 * sum(ours._operators[k][0].nnz for k in range(7))
    ratios = versus(
        benchmark,
        lambda: iteration(ours, parameters, 7, guesses[7]),
        {"14 sparse products": sparse, "25 dense products": dense, "steady state and fixed point": small},
        "EM iteration",
    )
    if ratios:
        seconds = ratios["14 sparse products"] * benchmark.stats.stats.median
        print(
            f"sparse products: {2 * stored * H / seconds / 1e9:.1f} GFLOP/s, "
            f"{stored * -(-H // 16) * 64 / seconds / 1e9:.1f} GB/s of cache lines fetched"
        )


def test_em_iteration_is_linear_in_lags(benchmark, ours, start):
    parameters, guesses = start
    works = {r: lambda r=r: iteration(ours, parameters, r, guesses[r]) for r in (4, 7, 10)}
    ratios = versus(benchmark, works[7], {"r=4": works[4], "r=10": works[10]}, "EM iteration, r=7")
    if ratios:
        middle = benchmark.stats.stats.median
        seconds = [ratios["r=4"] * middle, middle, ratios["r=10"] * middle]
        nonzeros = [sum(ours._operators[k][0].nnz for k in range(r)) for r in (4, 7, 10)]
        line = np.polyfit(nonzeros, seconds, 1)
        worst = max(abs(np.polyval(line, x) / y - 1) for x, y in zip(nonzeros, seconds))
        print(f"within {worst:.1%} of a line in nonzeros ({', '.join(f'{n / 1e6:.1f}M' for n in nonzeros)})")


def test_ssid_against_scipy(benchmark, ours, reference):
    found = {}

    def identify(name, covariances):
        rng = np.random.default_rng(0)
        found[name] = subspace.hankel_svd(covariances, 4, H, rng, n_power=POWER_ITERATIONS)[1]

    versus(
        benchmark,
        lambda: identify("ours", ours),
        {"SciPy float64": lambda: identify("scipy", reference)},
        f"SSID, {2 * POWER_ITERATIONS + 1} walks",
        rounds=1,
    )
    np.testing.assert_allclose(found["ours"][:H], found["scipy"][:H], rtol=1e-4)


def test_hankel_walk(benchmark, ours):
    width = 112
    X = np.random.default_rng(0).standard_normal((ours.n_features, 4, width)).astype(np.float32)
    out = np.empty_like(X)
    benchmark.pedantic(lambda: ours.add_hankel(4, X, out), rounds=3)
    if benchmark.stats:
        seconds = benchmark.stats.stats.median
        blocks = sum((4 - abs(k - 4)) * ours._operators[k - 1][0].nnz for k in range(1, 8))
        print(
            f"\nHankel walk, r=4, {width} columns: {seconds:.3f} s, {2 * blocks * width / seconds / 1e9:.1f} GFLOP/s, "
            f"{blocks * width * 4 / seconds / 1e9:.1f} GB/s of panel rows"
        )


@pytest.mark.parametrize("h", [100, 200])
def test_inference_against_sgemm(benchmark, h, tmp_path):
    rng = np.random.default_rng(0)
    V, T, few = 20_000, 20_000 if SMOKE else 2_000_000, 3000
    table = rng.standard_normal((V, h)).astype(np.float32)
    A, Q, G = rng.standard_normal((3, h, h))
    A, zero = A * 0.9 / np.abs(np.linalg.eigvals(A)).max(), np.zeros((h, h))
    Q, G = Q @ Q.T / h + np.eye(h), G @ G.T / h

    def steady(A, Q, G):
        return steady_state(A, Q, Observation(zero, G, zero, zero, np.zeros(h), 0.0, 0.0, h, 0.0))

    turn, inverse = triangular(steady(A, Q, G), solve_lyapunov(A, Q))  # coordinates as `LDS.fit` leaves them
    A, Q, G = turn @ A @ inverse, sym(turn @ Q @ turn.T), sym(inverse.T @ G @ inverse)
    state = steady(A, Q, G)
    rec, both = Recursion.of(A, state, np.float32), TwoSided.of(state, np.float32)
    turned = (table @ both.P.T).astype(np.float32)
    ids = rng.integers(0, V, T).astype(np.int32)
    edges = np.concatenate([[0], np.cumsum(rng.integers(5, 60, T // 25))])
    edges = np.append(edges[edges < T], T)
    rows, plain = np.empty((few, h), np.float32), np.empty((few, h), np.float32)
    wide, doubles = np.empty((few, h)), [X.astype(np.float64) for X in (rec.H, rec.J, rec.F, table)]

    def walk(H, J, F, table, out):
        x = np.zeros(h, out.dtype)
        for t in range(few):
            x = H @ x + table[ids[t]]
            out[t] = x
        for t in range(few - 2, -1, -1):
            out[t] = J @ out[t + 1] + F @ out[t]

    def loop():
        walk(rec.H, rec.J, rec.F, table, plain)

    def states(offsets, ids, out):
        smooth_words(both, turned, ids, offsets, out, THREADS)

    states(np.array([0, few]), ids[:few], rows)
    loop()
    np.testing.assert_allclose(rows, plain, rtol=0, atol=1e-4 * np.abs(plain).max())
    out = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float32, (T, h))
    X, Y = np.ones((512, h), np.float32), np.empty((512, h), np.float32)

    def sgemm():
        for _ in range(2000):
            np.dot(X, rec.H, Y)

    ratios = versus(
        benchmark,
        lambda: states(edges, ids, out),
        {
            "one sequence": lambda: states(np.array([0, T]), ids, out),
            "sgemm": sgemm,
            "NumPy loop": loop,
            "NumPy loop, float64": lambda: walk(*doubles, wide),
        },
        f"filter and smoother of {T} tokens in sentences, h={h}",
        rounds=3,
    )
    if ratios:
        sentences = benchmark.stats.stats.median
        peak = 2000 * 2 * 512 * h * h / (ratios["sgemm"] * sentences)
        a_token, double = (ratios[name] * sentences / few for name in ("NumPy loop", "NumPy loop, float64"))
        for name, seconds in (("sentences", sentences), ("one sequence", ratios["one sequence"] * sentences)):
            rate = 6 * h * h * T / seconds
            print(
                f"h={h}, {name}: {rate / 1e9:.1f} GFLOP/s, {rate / peak:.0%} of sgemm ({peak / 1e9:.1f}); "
                f"{a_token * T / seconds:.0f} x the NumPy loop in float32, {double * T / seconds:.0f} x in float64"
            )
