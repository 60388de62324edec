"""SparseMinusLowRank against its dense twin, over dtypes, index widths, shapes, ranks and threads."""

import numpy as np
import pytest
from scipy import sparse

from lagwise.operators import SparseMinusLowRank
from tests.reference.spmm import dense, sparse_minus_low_rank

DATA = ("float32", "float64", "uint8", "uint16", "uint32", "uint64", "int64", "int32", "float16", "bool")
SIZES = [(1, 1), (1, 65), (63, 1), (64, 65), (65, 63), (130, 257)]


class Parts:
    """CSR parts without SciPy's own checks and conversions."""

    def __init__(self, data, indices, indptr, shape):
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape


def random_parts(rng, shape, dtype="float64", index="int32", pointer="int64", density=0.3):
    n, m = shape
    lengths = rng.binomial(m, density, size=n)
    lengths[rng.random(n) < 0.2] = 0  # empty rows
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(pointer)
    indices = np.concatenate([rng.permutation(m)[:length] for length in lengths] or [[]]).astype(index)
    data = rng.integers(1, 200, size=len(indices)) if np.dtype(dtype).kind != "f" else rng.normal(size=len(indices))
    parts = Parts(data.astype(dtype), indices, indptr, shape)
    for array in (parts.data, parts.indices, parts.indptr):
        array.flags.writeable = False
    return parts


def case(seed, shape, q=2, scales=True, **kinds):
    rng = np.random.default_rng(seed)
    parts = random_parts(rng, shape, **kinds)
    row_scale = rng.uniform(0.5, 2, shape[0]) if scales else None
    col_scale = rng.uniform(0.5, 2, shape[1]) if scales else None
    U, Z = (rng.normal(size=(size, q)) for size in shape) if q else (None, None)
    operator = SparseMinusLowRank(parts, -1.5, row_scale, col_scale, U, Z, n_threads=2)
    matrix = sparse_minus_low_rank(as_dense(parts), -1.5, row_scale, col_scale, U, Z)
    return rng, operator, matrix


def as_dense(parts):
    return dense(parts.data, parts.indices, parts.indptr, parts.shape)


def check(operator, matrix, rng, k, dtype="float64"):
    for product, expected_matrix in ((operator.matmat, matrix), (operator.rmatmat, matrix.T)):
        X = rng.normal(size=(expected_matrix.shape[1], k)).astype(dtype)
        before = X.copy()
        expected = expected_matrix @ X.astype(np.float64)
        size = np.abs(expected_matrix) @ np.abs(X.astype(np.float64)) + 1e-300
        got = product(X)
        assert got.dtype == X.dtype and got.shape == expected.shape
        assert (X == before).all()
        tolerance = 1e-13 if dtype == "float64" else 2e-6
        assert np.max(np.abs(got - expected) / (size + size.max(initial=0)), initial=0) < tolerance


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("index", ["int32", "int64", "uint32"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_and_index_types(data, index, dtype):
    rng, operator, matrix = case(1, (70, 50), dtype=data, index=index)
    for k in (1, 16, 33):
        check(operator, matrix, rng, k, dtype)


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("q", [0, 1, 2, 3, 8])
def test_shapes_ranks_and_widths(shape, q):
    rng, operator, matrix = case(2, shape, q=q, scales=q != 1)
    for k in (0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 100):
        for dtype in ("float32", "float64"):
            check(operator, matrix, rng, k, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_give_the_same_bits(dtype, monkeypatch):
    monkeypatch.setattr("lagwise.operators._SLICE", 500)
    rng = np.random.default_rng(3)
    parts = random_parts(rng, (5000, 4000), "uint16", density=0.003)
    U, Z = rng.normal(size=(5000, 2)), rng.normal(size=(4000, 2))
    X, Y = rng.normal(size=(4000, 50)).astype(dtype), rng.normal(size=(5000, 50)).astype(dtype)
    results = []
    for n_threads in (1, 2, 3):
        operator = SparseMinusLowRank(parts, U=U, Z=Z, n_threads=n_threads)
        results.append((operator.matmat(X).tobytes(), operator.rmatmat(Y).tobytes()))
    assert results[0] == results[1] == results[2]
    check(operator, sparse_minus_low_rank(as_dense(parts), 1, None, None, U, Z), rng, 20, dtype)


def test_views_read_only_input_and_strided_out():
    rng, operator, matrix = case(4, (40, 60))
    X = rng.normal(size=(120, 22))
    X.flags.writeable = False
    expected = matrix @ X[::2, 1::2]
    for view in (X[::2, 1::2], np.asfortranarray(X[::2, 1::2]), X[::2, 1::2].copy()):
        np.testing.assert_allclose(operator.matmat(view), expected, rtol=1e-11, atol=1e-11)
    big = np.full((40, 30), np.nan)
    assert operator.matmat(X[::2, 1::2], out=big[:, 5:16]) is not None
    np.testing.assert_allclose(big[:, 5:16], expected, rtol=1e-11, atol=1e-11)
    assert np.isnan(big[:, :5]).all() and np.isnan(big[:, 16:]).all()
    back = np.full((60, 30), np.nan)
    operator.rmatmat(X[:80:2, :11], out=back[:, 3:14])
    np.testing.assert_allclose(back[:, 3:14], matrix.T @ X[:80:2, :11], rtol=1e-11, atol=1e-11)
    assert np.isnan(back[:, :3]).all() and np.isnan(back[:, 14:]).all()


def test_matrices_without_entries_rows_or_columns():
    empty = SparseMinusLowRank(sparse.csr_array((3, 4)), U=np.ones((3, 1)), Z=np.ones((4, 1)))
    assert (empty.matmat(np.ones((4, 5))) == -4).all()
    assert (empty.rmatmat(np.ones((3, 5))) == -3).all()
    for shape in ((0, 4), (4, 0), (0, 0)):
        operator = SparseMinusLowRank(sparse.csr_array(shape))
        assert operator.matmat(np.ones((shape[1], 3))).tolist() == np.zeros((shape[0], 3)).tolist()
        assert operator.rmatmat(np.ones((shape[0], 3))).tolist() == np.zeros((shape[1], 3)).tolist()


def test_scipy_linear_operator_and_vectors():
    rng, operator, matrix = case(5, (30, 20))
    x = rng.normal(size=20)
    np.testing.assert_allclose(operator @ x, matrix @ x, rtol=1e-12, atol=1e-12)
    linear = operator.as_linear_operator()
    np.testing.assert_allclose(linear @ x, matrix @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(linear.T @ np.ones(30), matrix.T @ np.ones(30), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.toarray(), matrix, rtol=1e-12, atol=1e-12)


def test_duplicates_add_up():
    operator = SparseMinusLowRank(Parts(np.array([1.0, 2, 4]), np.array([1, 1, 0]), np.array([0, 3]), (1, 2)))
    assert operator.toarray().tolist() == [[4, 3]]


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(row_scale=np.ones(2)), "row_scale has shape"),
        (dict(col_scale=np.array([1, np.nan, 1])), "not finite"),
        (dict(U=np.ones((3, 1))), "given together"),
        (dict(U=np.ones((3, 9)), Z=np.ones((3, 9))), "q at most 8"),
        (dict(scale=np.inf), "scale is"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        SparseMinusLowRank(sparse.eye_array(3, format="csr"), **change)


def test_bad_parts_and_blocks():
    with pytest.raises(ValueError, match="column indices"):
        SparseMinusLowRank(Parts(np.ones(1), np.array([5]), np.array([0, 1]), (1, 2)))
    with pytest.raises(ValueError, match="indptr"):
        SparseMinusLowRank(Parts(np.ones(1), np.array([0]), np.array([0, 2]), (1, 2)))
    with pytest.raises(ValueError, match="real numbers"):
        SparseMinusLowRank(sparse.csr_array(np.eye(2) * 1j))
    with pytest.raises(TypeError, match="SciPy sparse"):
        SparseMinusLowRank(np.eye(3))
    operator = SparseMinusLowRank(sparse.eye_array(3, format="csr"))
    with pytest.raises(ValueError, match=r"expected \(3, k\)"):
        operator.matmat(np.ones((2, 2)))
    with pytest.raises(ValueError, match="adjacent columns"):
        operator.matmat(np.ones((3, 2)), out=np.ones((3, 4))[:, ::2])
