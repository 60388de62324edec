"""The products of tall matrices and narrow blocks against float64 sums of NumPy."""

import numpy as np
import pytest
from lagwise._kernels import tall

from lagwise.linalg.panels import PANEL_ROWS, Panels

SHAPES = [(1, 1), (7, 3), (8, 16), (255, 5), (257, 40), (2048, 17), (2049, 64), (6000, 130)]
WIDTHS = {np.float32: (16, 32), np.float64: (8, 16, 24, 32)}
CASES = [(dtype, width) for dtype, widths in WIDTHS.items() for width in widths]


def strided(rng, n, m, dtype):
    """(n, m) inside a wider array, from its third column on: rows are not adjacent."""
    return rng.standard_normal((n, m + 5)).astype(dtype)[:, 3 : 3 + m]


def close(found, expected, terms, dtype):
    """Within the rounding of a sum of `terms` products of standard normal numbers."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=20 * np.finfo(dtype).eps * (1 + terms) ** 0.5 * 4)


@pytest.mark.parametrize(("dtype", "width"), CASES)
@pytest.mark.parametrize(("n", "m"), SHAPES)
def test_inner_and_subtract(n, m, dtype, width):
    rng = np.random.default_rng(n + m + width)
    Q, W, C = strided(rng, n, m, dtype), strided(rng, n, width, dtype), rng.standard_normal((m, width))
    exact = Q.astype(np.float64).T @ W.astype(np.float64)
    left = W.astype(np.float64) - Q.astype(np.float64) @ C
    found = []
    for threads in (1, 2, 3):
        X = W.copy()
        with Panels(n, threads) as panels:
            found.append(panels.inner(Q, W))
            panels.subtract(X, Q, C)
        close(found[-1], exact, n, dtype)
        close(X, left, m, dtype)
        found[-1] = found[-1].tobytes() + X.tobytes()
    assert len(set(found)) == 1


@pytest.mark.parametrize(("dtype", "width"), CASES)
@pytest.mark.parametrize("n", [33, 2047, 2048, 5001])
def test_qr_of_a_narrow_block(n, dtype, width):
    rng = np.random.default_rng(n + width)
    X = strided(rng, n, width, dtype)
    found = []
    for threads in (1, 2):
        Q = X.copy()
        with Panels(n, threads) as panels:
            R = panels.qr(Q)
        close(Q.astype(np.float64).T @ Q, np.eye(width), 1, dtype)
        close(Q.astype(np.float64) @ R, X, width, dtype)
        assert np.all(np.tril(R, -1) == 0)
        found.append(Q.tobytes() + R.tobytes())
    assert found[0] == found[1]


def test_gram_is_summed_in_float64():
    """Cholesky QR of float32 data squares its condition: the products may not be rounded to float32."""
    X = np.random.default_rng(0).standard_normal((3 * PANEL_ROWS + 11, 16)).astype(np.float32)
    parts = np.empty((4, 16, 16))
    tall.tall_gram(X, PANEL_ROWS, parts, 2)
    exact = X.astype(np.float64).T @ X.astype(np.float64)
    np.testing.assert_allclose(parts.sum(axis=0), exact, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("width", [1, 5, 8, 48])
def test_other_blocks_go_to_blas(width):
    """Blocks that the kernels do not take give the same sums."""
    rng = np.random.default_rng(width)
    Q, W = (rng.standard_normal((500, columns)).astype(np.float32) for columns in (20, width))
    X, C = W.copy(), rng.standard_normal((20, width))
    with Panels(500, 2) as panels:
        close(panels.inner(Q, W), Q.astype(np.float64).T @ W, 500, np.float32)
        panels.subtract(X, Q, C)
    close(X, W - Q @ C, 20, np.float32)


def test_mixed_precision_and_columns_apart():
    """A float64 basis with a float32 block, Fortran order, no columns at all: BLAS takes them."""
    rng = np.random.default_rng(0)
    Q, W = rng.standard_normal((300, 4)), rng.standard_normal((300, 16)).astype(np.float32)
    with Panels(300) as panels:
        close(panels.inner(Q, W), Q.T @ W, 300, np.float32)
        close(panels.inner(np.asfortranarray(Q), Q), Q.T @ Q, 300, np.float64)
        assert panels.inner(Q[:, :0], Q).shape == (0, 4)


def test_shapes_that_do_not_go_together():
    Q, W = np.zeros((10, 3)), np.zeros((10, 8))
    with pytest.raises(ValueError, match="go together"):
        tall.tall_inner(Q, W[:9], 4, np.zeros((3, 3, 8)), np.zeros((3, 3, 8)), 1)
    with pytest.raises(ValueError, match="go together"):
        tall.tall_inner(Q, np.zeros((10, 7)), 4, np.zeros((3, 3, 7)), np.zeros((3, 3, 7)), 1)
    with pytest.raises(ValueError, match="adjacent"):
        tall.tall_subtract(np.asfortranarray(W), Q, np.zeros((3, 8)), 4, 1)
    with pytest.raises(ValueError, match="go together"):
        tall.tall_gram(np.zeros((10, 64)), 4, np.zeros((3, 64, 64)), 1)
    with pytest.raises(ValueError, match="go together"):
        tall.tall_scale(W, np.zeros((8, 7)), 4, 1)
