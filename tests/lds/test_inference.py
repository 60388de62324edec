import itertools

import numpy as np
import pytest

from lagwise.lds import inference
from lagwise.lds.inference import MISSING, Recursion
from lagwise.lds.kalman import steady_state
from lagwise.lds.parameters import Observation
from lagwise.lds.pieces import Pieces
from lagwise.lds.readout import finish, unit_rows
from lagwise.lds.two_sided import TwoSided, smooth_words


def model(h, dtype, radius=0.9, seed=0):
    rng = np.random.default_rng(seed)
    matrices = []
    for _ in range(2):
        X = rng.standard_normal((h, h))
        matrices.append(X * radius / np.abs(np.linalg.eigvals(X)).max())
    A, J = matrices
    H = 0.8 * A
    return Recursion(*(np.ascontiguousarray(X, dtype=dtype) for X in (A, H, J, np.eye(h) - J @ A)))


def plain(rec, table, ids, offsets, kind):
    out = np.zeros((len(ids), table.shape[1]))
    for a, b in itertools.pairwise(offsets):
        x = np.zeros(table.shape[1])
        for t in range(a, b):
            x = rec.A @ x if ids[t] == MISSING else rec.H @ x + table[ids[t]]
            out[t] = x
        if kind == "smoothed":
            for t in range(b - 2, a - 1, -1):
                out[t] = rec.J @ out[t + 1] + rec.F @ out[t]
        if kind == "predicted" and b > a:
            out[a + 1 : b] = out[a : b - 1] @ rec.A.T
            out[a] = 0
    return out


@pytest.mark.parametrize("h", [1, 3, 17])
@pytest.mark.parametrize("piece", [None, 1, 5, 64])
@pytest.mark.parametrize("kind", ["filtered", "smoothed", "predicted"])
def test_blocks_equal_the_plain_loop(h, piece, kind):
    rng = np.random.default_rng(1)
    lengths = np.array([0, 3, 1, 0, 80 if piece in (1, 2) else 700, 20, 2, 64, 63, 65, 0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, 9, offsets[-1]).astype(np.int32)
    ids[rng.random(len(ids)) < 0.1] = MISSING
    for radius in (0.5, 0.999):
        rec, table = model(h, np.float64, radius), rng.standard_normal((9, h))
        want = plain(rec, table, ids, offsets, kind)
        results = []
        for threads in (1, 2):
            out = np.full((len(ids), h), np.nan)
            inference.filter_sequences(rec, table, ids, offsets, out, threads, piece)
            if kind == "smoothed":
                inference.smooth_sequences(rec, offsets, out, threads, piece)
            elif kind == "predicted":
                inference.predict_from_filtered(rec, offsets, out)
            np.testing.assert_allclose(out, want, rtol=0, atol=1e-12 * np.abs(want).max())
            results.append(out.tobytes())
        assert results[0] == results[1]


def test_many_lanes_and_threads_give_the_same_bytes():
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 40, 3000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, 9, offsets[-1])
    rec, table = model(8, np.float32), rng.standard_normal((9, 8)).astype(np.float32)
    table.flags.writeable = False
    ids.flags.writeable = False
    results = []
    for threads in (1, 2, 3):
        out = np.empty((len(ids), 8), np.float32)
        inference.filter_sequences(rec, table, ids, offsets, out, threads)
        inference.smooth_sequences(rec, offsets, out, threads)
        results.append(out.tobytes())
    assert results[0] == results[1] == results[2]
    want = plain(rec, table, ids, offsets, "smoothed")
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_cut_covers_every_row_once():
    pieces = Pieces.cut(np.array([0, 0, 10, 11, 11, 300]), 7)
    rows = np.concatenate([np.arange(b, b + n) for b, n in zip(pieces.begins, pieces.lengths)])
    np.testing.assert_array_equal(rows, np.arange(300))
    assert pieces.first.sum() == pieces.last.sum() == 3


def steady_model(h, radius, seed=0):
    """A, steady state of a random model."""
    rng = np.random.default_rng(seed)
    A, Q, G = rng.standard_normal((3, h, h))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    zero = np.zeros((h, h))
    observation = Observation(zero, 0.1 * G @ G.T, zero, zero, np.zeros(h), 0.0, 0.0, h, 0.0)
    return A, steady_state(A, Q @ Q.T + 0.1 * np.eye(h), observation)


@pytest.mark.parametrize("h", [1, 3, 17])
@pytest.mark.parametrize("piece", [None, 1, 2, 5, 64])
@pytest.mark.parametrize("radius", [0.5, 0.99])
def test_two_sided_smoothing_equals_filter_and_smoother(h, piece, radius):
    rng = np.random.default_rng(1)
    lengths = np.array([0, 3, 1, 0, 80 if piece in (1, 2) else 700, 20, 2, 64, 63, 65, 0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, 9, offsets[-1]).astype(np.int32)
    A, state = steady_model(h, radius)
    table = rng.standard_normal((9, h))
    want = plain(Recursion.of(A, state, np.float64), table, ids, offsets, "smoothed")
    both = TwoSided.of(state, np.float64)
    np.testing.assert_allclose(both.P @ state.Sigma_0, state.Sigma_s, rtol=0, atol=1e-11 * np.abs(state.Sigma_s).max())
    results = []
    for threads in (1, 2):
        out = np.full((len(ids), h), np.nan)
        smooth_words(both, table @ both.P.T, ids, offsets, out, threads, piece)
        np.testing.assert_allclose(out, want, rtol=0, atol=1e-12 * np.abs(want).max())
        results.append(out.tobytes())
    assert results[0] == results[1]


def test_two_sided_smoothing_of_many_sequences_in_float32():
    rng = np.random.default_rng(2)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 90, 3000))])
    ids = rng.integers(0, 9, offsets[-1])
    A, state = steady_model(8, 0.95)
    both, table = TwoSided.of(state, np.float32), rng.standard_normal((9, 8))
    want = plain(Recursion.of(A, state, np.float64), table, ids, offsets, "smoothed")
    results = []
    for threads in (1, 2, 3):
        out = np.empty((len(ids), 8), np.float32)
        smooth_words(both, (table @ both.P.T).astype(np.float32), ids, offsets, out, threads)
        results.append(out.tobytes())
    assert results[0] == results[1] == results[2]
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_two_sided_smoothing_of_nothing():
    both = TwoSided.of(steady_model(3, 0.9)[1], np.float64)
    for offsets in ([0], [0, 0], [0, 0, 0]):
        smooth_words(both, np.zeros((1, 3)), np.zeros(0, np.int32), np.array(offsets), np.zeros((0, 3)))


def test_where_later_words_settle_everything_the_plain_recursions_are_used():
    """A delay line: the state is seen well three steps later, so hardly any of the filter's uncertainty remains."""
    h = 4
    A = np.diag(np.ones(h - 1), -1) * 0.99
    G, zero = np.zeros((h, h)), np.zeros((h, h))
    G[-1, -1] = 1e6
    observation = Observation(zero, G, zero, zero, np.zeros(h), 0.0, 0.0, h, 0.0)
    assert TwoSided.of(steady_state(A, np.diag([1.0, 0, 0, 0]) + 1e-9 * np.eye(h), observation), np.float64) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_size_get_unit_length(dtype):
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((7, 5))
    info = np.finfo(dtype)
    for size in (info.smallest_subnormal * 1e6, info.tiny, 1.0, np.sqrt(info.max), info.max / 8):
        X = (plain * size).astype(dtype)
        X[3] = 0
        got = unit_rows(X)
        assert got.dtype == dtype and not got[3].any()
        np.testing.assert_allclose(np.linalg.norm(got[[0, 1, 2, 4, 5, 6]].astype(np.float64), axis=1), 1, atol=1e-6)
        want = plain / np.linalg.norm(plain, axis=1, keepdims=True)
        np.testing.assert_allclose(got[[0, 6]], want[[0, 6]], atol=1e-5)


def test_whitened_states_are_the_same_bytes_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    states, root = rng.standard_normal((5000, 7)).astype(np.float32), rng.standard_normal((7, 7)).astype(np.float32)
    for factor, unit in ((root, False), (None, True), (root, True)):
        results = []
        for threads in (1, 2, 3):
            out = states.copy()
            finish(out, factor, unit, threads)
            results.append(out.tobytes())
        assert len(set(results)) == 1
        want = states if factor is None else states @ factor
        want = want / np.linalg.norm(want, axis=1, keepdims=True) if unit else want
        np.testing.assert_allclose(out, want, rtol=0, atol=1e-5)
