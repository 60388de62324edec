"""Lazy matrices: sparse times scales minus low rank, known only by their products with blocks of columns."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ._threads import resolve_threads
from ._validation import check_real

_DATA_TYPES = ("float32", "float64", "uint8", "uint16", "uint32", "uint64", "int64")
_SLICE = 1 << 31  # bytes of the block that one kernel call fetches, about a tenth of a second: Ctrl-C is seen at once
_PARTS = 256  # parts of a slice, handed to threads as they come free
_MAX_RANK = 8
_SMALL = 1 << 19  # multiplications below which waking threads costs more than it saves


class Operator(Protocol):
    """What the solvers need of a matrix; `scipy.sparse.linalg.LinearOperator` satisfies it."""

    shape: tuple[int, int]
    dtype: Any

    def matmat(self, X: np.ndarray) -> np.ndarray:
        """The matrix times a block of columns."""
        ...

    def rmatmat(self, X: np.ndarray) -> np.ndarray:
        """The transposed matrix times a block of columns."""
        ...


class SparseMinusLowRank:
    """The matrix ``scale * diag(row_scale) N diag(col_scale) - U Z'`` without ever forming it.

    Parameters
    ----------
    matrix : scipy sparse matrix or array, or any object with data, indices, indptr and shape in CSR form
        N, shape (n, m). Counts of uint8 to uint64 or int64 and float32 or float64 values are used as they are, also
        as read-only memory maps; other number types are converted once. Entries need not be sorted.
    scale : float
    row_scale : array of shape (n,), optional
    col_scale : array of shape (m,), optional
    U, Z : arrays of shape (n, q) and (m, q), optional
        The low-rank term, q at most 8.
    n_threads : int or None
    dtype : {"float32", "float64"}, optional
        Nominal dtype, used for blocks that are neither; default float32 where all parts are, else float64.

    Notes
    -----
    ``matmat`` and ``rmatmat`` compute in the dtype of the block they are given, float32 or float64, and return the
    same bits for any number of threads. Sums over the rows of Z run in float64.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is not finite, or an index lies outside the matrix.
    """

    def __init__(
        self,
        matrix: Any,
        scale: float = 1.0,
        row_scale: Any = None,
        col_scale: Any = None,
        U: Any = None,
        Z: Any = None,
        n_threads: int | None = None,
        dtype: Any = None,
    ):
        self.data, self.indices, self.indptr, self.shape = _csr_parts(matrix)
        n, m = self.shape
        self.scale = check_real("scale", scale)
        self.row_scale = _vector("row_scale", row_scale, n)
        self.col_scale = _vector("col_scale", col_scale, m)
        self.U, self.Z = _low_rank(U, Z, n, m)
        self.n_threads = resolve_threads(n_threads)
        if dtype is None:
            parts = [a for a in (self.data, self.row_scale, self.col_scale, self.U, self.Z) if a is not None and a.size]
            dtype = np.float32 if all(a.dtype == np.float32 for a in parts) else np.float64
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype is {self.dtype}; expected float32 or float64")
        self._cast: dict[tuple[str, np.dtype], np.ndarray] = {}

    @property
    def nnz(self) -> int:
        """Number of stored entries of the sparse part."""
        return len(self.indices)

    def matmat(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The matrix times a block.

        Parameters
        ----------
        X : ndarray of shape (m, k)
            float32 or float64 give a result of the same dtype; others are converted to `dtype`.
        out : ndarray of shape (n, k), optional
            Receives the result; rows may be strided, columns must be adjacent.

        Returns
        -------
        ndarray of shape (n, k)
        """
        from ._kernels import spmm

        X, out = self._block(X, out, self.shape[1], self.shape[0])
        dtype, k = X.dtype, X.shape[1]
        row_scale, col_scale = self._as("row_scale", dtype), self._as("col_scale", dtype)
        U, ZX = self._as("U", dtype), self._inner("Z", X)
        threads = self._threads(k)
        scratch = np.empty(0, dtype)
        for first, width in _tiles(k, dtype):
            stop = min(first + width, k)
            scratch = scratch if scratch.shape[-1:] == (width,) else aligned_empty((1, self.shape[1], width), dtype)
            spmm.block_pack(X[:, first:stop], col_scale, scratch, threads)
            zx = aligned_empty((U.shape[1], width), dtype)
            zx[:, : stop - first] = ZX[:, first:stop]
            zx[:, stop - first :] = 0
            for piece in _cuts(self.indptr, width * dtype.itemsize):
                spmm.csr_matmat(
                    self.data,
                    self.indices,
                    self.indptr,
                    piece,
                    scratch[0],
                    self.scale,
                    row_scale,
                    U,
                    zx,
                    out[:, first:stop],
                    threads,
                )
        return out

    def rmatmat(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The transposed matrix times a block: X of shape (n, k) gives (m, k). No transposed copy is made.

        Threads share the work by column tiles (16 float32 or 8 float64 columns each).
        """
        from ._kernels import spmm

        X, out = self._block(X, out, self.shape[0], self.shape[1])
        dtype, k = X.dtype, X.shape[1]
        row_scale, col_scale = self._as("row_scale", dtype), self._as("col_scale", dtype)
        Z, UX = self._as("Z", dtype), self._inner("U", X)
        width, threads = 64 // dtype.itemsize, self._threads(k)
        if k > 2 * width * threads:
            width *= 2
        n_tiles = max(1, min(threads, -(-k // width)))
        tiles = aligned_empty((n_tiles, self.shape[0], width), dtype)
        sums = aligned_empty((n_tiles, self.shape[1], width), dtype)
        for first in range(0, k, n_tiles * width):
            stop = min(first + n_tiles * width, k)
            spmm.block_pack(X[:, first:stop], row_scale, tiles, threads)
            sums[:] = 0
            for piece in _cuts(self.indptr, n_tiles * width * dtype.itemsize):
                spmm.csr_rmatmat(
                    self.data, self.indices, self.indptr, int(piece[0]), int(piece[-1]), tiles, sums, threads
                )
            spmm.block_unpack(
                sums,
                self.scale,
                col_scale,
                Z,
                np.ascontiguousarray(UX[:, first:stop], dtype),
                out[:, first:stop],
                threads,
            )
        return out

    def matvec(self, x: Any) -> np.ndarray:
        """The matrix times one vector."""
        return self.matmat(np.asarray(x).reshape(-1, 1))[:, 0]

    def rmatvec(self, x: Any) -> np.ndarray:
        """The transposed matrix times one vector."""
        return self.rmatmat(np.asarray(x).reshape(-1, 1))[:, 0]

    def __matmul__(self, X: Any) -> np.ndarray:
        return self.matvec(X) if np.ndim(X) == 1 else self.matmat(X)

    def as_linear_operator(self) -> Any:
        """A `scipy.sparse.linalg.LinearOperator` with the same products."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(
            self.shape,
            matvec=self.matvec,
            rmatvec=self.rmatvec,
            matmat=self.matmat,
            rmatmat=self.rmatmat,
            dtype=self.dtype,
        )

    def toarray(self) -> np.ndarray:
        """The dense float64 matrix; for small cases and tests."""
        return self.matmat(np.eye(self.shape[1]))

    def __repr__(self) -> str:
        rank = 0 if self.U is None else self.U.shape[1]
        return f"SparseMinusLowRank({self.shape[0]} x {self.shape[1]}, {self.nnz} stored, rank {rank} subtracted)"

    def _threads(self, k: int) -> int:
        return self.n_threads if self.nnz * k > _SMALL else 1

    def _block(self, X: Any, out: np.ndarray | None, n_in: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[0] != n_in:
            raise ValueError(f"the block has shape {X.shape}; expected ({n_in}, k)")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(self.dtype)
        if out is None:
            out = np.empty((n_out, X.shape[1]), X.dtype)
        elif (
            out.shape != (n_out, X.shape[1])
            or out.dtype != X.dtype
            or (out.size and out.shape[1] > 1 and out.strides[1] != out.itemsize)
        ):
            raise ValueError(
                f"out is {out.dtype} {out.shape} with strides {out.strides}; expected {X.dtype} "
                f"({n_out}, {X.shape[1]}) with adjacent columns"
            )
        return X, out

    def _as(self, name: str, dtype: np.dtype) -> np.ndarray:
        """A part in the dtype of the product; an absent one has length 0."""
        if (name, dtype) not in self._cast:
            part = getattr(self, name)
            if part is None:
                shape: tuple[int, ...] = (0,)
                if name in "UZ":
                    shape = (self.shape[name == "Z"], 0)
                part = np.empty(shape)
            self._cast[name, dtype] = np.ascontiguousarray(part, dtype=dtype)
        return self._cast[name, dtype]

    def _inner(self, name: str, X: np.ndarray) -> np.ndarray:
        """Z'X or U'X in float64, panel by panel."""
        from .linalg.panels import Panels

        part = getattr(self, name)
        if part is None or part.shape[1] == 0:
            return np.empty((0, X.shape[1]))
        with Panels(len(X), self.n_threads) as panels:
            return panels.inner(np.asarray(part, dtype=np.float64), X)


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised C-ordered array that starts on a cache line."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def _tiles(k: int, dtype: np.dtype) -> list[tuple[int, int]]:
    """First column and width of each tile: two cache lines a row, one where the rest fits in it."""
    line = 64 // dtype.itemsize
    tiles, first = [], 0
    while first < k:
        width = line if k - first <= line else 2 * line
        tiles.append((first, width))
        first += width
    return tiles


def _cuts(indptr: np.ndarray, row_bytes: int = 128) -> list[np.ndarray]:
    """Row numbers that cut the matrix into slices of about `_SLICE` bytes fetched, each into `_PARTS` parts."""
    n, nnz = len(indptr) - 1, int(indptr[-1])
    n_slices = max(1, -(-nnz * row_bytes // _SLICE))
    # Rows count as nonzeros too, so that long runs of empty rows are shared out as well.
    load = indptr + np.arange(n + 1)
    edges = np.searchsorted(load, np.linspace(0, load[-1], n_slices * _PARTS + 1).astype(np.int64))
    edges[0], edges[-1] = 0, n
    return [edges[first : first + _PARTS + 1].astype(np.int64) for first in range(0, n_slices * _PARTS, _PARTS)]


def _csr_parts(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int]]:
    if hasattr(matrix, "tocsr"):
        matrix = matrix.tocsr()
    elif not all(hasattr(matrix, name) for name in ("data", "indices", "indptr", "shape")) or np.ndim(matrix.data) != 1:
        raise TypeError(f"matrix is a {type(matrix).__name__}; expected a SciPy sparse matrix or CSR parts")
    n, m = (int(size) for size in matrix.shape)
    data, indices, indptr = np.asarray(matrix.data), np.asarray(matrix.indices), np.asarray(matrix.indptr)
    if data.dtype.name not in _DATA_TYPES:
        if data.dtype.kind in "biu":
            data = data.astype(np.int64)
        elif data.dtype == np.float16:
            data = data.astype(np.float32)
        else:
            raise ValueError(f"the matrix holds {data.dtype}; expected real numbers or counts")
    if indices.dtype not in (np.int32, np.int64):
        indices = indices.astype(np.int64)
    indptr = np.ascontiguousarray(indptr, dtype=np.int64)
    if (
        len(indptr) != n + 1
        or indptr[0] != 0
        or indptr[-1] != len(indices)
        or len(data) != len(indices)
        or (np.diff(indptr) < 0).any()
    ):
        raise ValueError(f"indptr does not describe {n} rows over {len(indices)} stored entries")
    if len(indices) and (indices.min() < 0 or indices.max() >= m):
        raise ValueError(f"column indices run from {indices.min()} to {indices.max()}; the matrix has {m} columns")
    return np.ascontiguousarray(data), np.ascontiguousarray(indices), indptr, (n, m)


def _vector(name: str, values: Any, size: int) -> np.ndarray | None:
    if values is None:
        return None
    values = np.ascontiguousarray(values)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    if values.shape != (size,):
        raise ValueError(f"{name} has shape {values.shape}; expected ({size},)")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds values that are not finite")
    return values


def _low_rank(U: Any, Z: Any, n: int, m: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    if U is None and Z is None:
        return None, None
    if U is None or Z is None:
        raise ValueError("U and Z must be given together")
    U, Z = (np.asarray(part, dtype=None if np.asarray(part).dtype == np.float32 else np.float64) for part in (U, Z))
    U, Z = (part.reshape(-1, 1) if part.ndim == 1 else part for part in (U, Z))
    if U.shape[0] != n or Z.shape[0] != m or U.shape[1] != Z.shape[1] or U.shape[1] > _MAX_RANK:
        raise ValueError(
            f"U and Z have shapes {U.shape} and {Z.shape}; expected ({n}, q) and ({m}, q), q at most {_MAX_RANK}"
        )
    if not (np.isfinite(U).all() and np.isfinite(Z).all()):
        raise ValueError("U or Z holds values that are not finite")
    return U, Z
