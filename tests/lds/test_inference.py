import itertools

import numpy as np
import pytest

from lagwise.lds import inference
from lagwise.lds.inference import MISSING, Pieces, Recursion


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
    lengths = np.array([0, 3, 1, 0, 700, 20, 2, 64, 63, 65, 0])
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
