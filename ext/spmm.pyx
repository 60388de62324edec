"""CSR matrix times a dense block, and its transpose times one, minus a low-rank term.

A block of many columns is cut into tiles whose rows are 1, 2 or 4 cache lines (`block_pack`); `lagwise.operators`
loops over tiles and over slices of rows. Each output row is summed in the order of its nonzeros by one thread.
"""
from cython.parallel cimport prange

from common cimport index_t, real_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef fused data_t:
    float
    double
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int64_t

cdef extern from "csr_rows.h" nogil:
    # Macros that choose the function by the types of the pointers; arguments as in the header.
    void csr_rows(...)
    void csr_scatter(...)


def block_pack(const real_t[:, :] X, const real_t[::1] scale, real_t[:, :, ::1] tiles, int n_threads):
    """tiles[t, i, c] = scale[i] * X[i, t * w + c], zero beyond the last column.

    IN  X (n, k); scale (n,) or (0,) for none    OUT tiles (n_tiles, n, w)
    """
    cdef Py_ssize_t n = X.shape[0], k = X.shape[1], w = tiles.shape[2], i, t, c, first
    cdef bint scaled = scale.shape[0] > 0
    cdef real_t factor
    for i in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        factor = scale[i] if scaled else 1
        for t in range(tiles.shape[0]):
            first = t * w
            for c in range(w):
                tiles[t, i, c] = factor * X[i, first + c] if first + c < k else 0


def csr_matmat(const data_t[::1] data, const index_t[::1] indices, const int64_t[::1] indptr, const int64_t[::1] cuts,
               const real_t[:, ::1] tile, double scale, const real_t[::1] row_scale, const real_t[:, ::1] U,
               const real_t[:, ::1] zx, real_t[:, :] out, int n_threads):
    """out = scale * row_scale * (N @ tile) - U @ zx for the rows between cuts[0] and cuts[-1].

    IN  data, indices (nnz,), indptr (n_rows + 1,): N; cuts (n_parts + 1,): rows of each part, handed to threads;
        tile (n_cols, w), 64-byte aligned, w of 1, 2 or 4 vectors of 64 bytes; row_scale (n_rows,) or (0,);
        U (n_rows, q), zx (q, w) aligned    OUT out (n_rows, k <= w), columns adjacent
    """
    cdef Py_ssize_t part, n_parts = cuts.shape[0] - 1
    cdef int vectors = <int>(tile.shape[1] * sizeof(real_t) // 64), q = <int>U.shape[1]
    cdef int width = <int>out.shape[1]
    cdef int64_t n_stored = indices.shape[0]
    if n_parts < 1 or cuts[n_parts] == cuts[0] or width == 0:
        return
    cdef Py_ssize_t stride = out.strides[0] // <Py_ssize_t>sizeof(real_t)
    cdef const data_t *values = &data[0] if n_stored else NULL
    cdef const index_t *columns = &indices[0] if n_stored else NULL
    cdef const real_t *rows = &tile[0, 0] if tile.shape[0] else NULL
    cdef const real_t *factors = &row_scale[0] if row_scale.shape[0] else NULL
    cdef const real_t *left = &U[0, 0] if q else NULL
    cdef const real_t *right = &zx[0, 0] if q else NULL
    cdef const int64_t *starts = &indptr[0]
    cdef real_t *result = &out[0, 0]
    cdef real_t factor = <real_t>scale
    for part in prange(n_parts, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=1):
        csr_rows(values, columns, starts, n_stored, cuts[part], cuts[part + 1], rows, result, stride, width, factor,
                 factors, left, q, right, vectors)


def csr_rmatmat(const data_t[::1] data, const index_t[::1] indices, const int64_t[::1] indptr, int64_t begin,
                int64_t end, const real_t[:, :, ::1] tiles, real_t[:, :, ::1] sums, int n_threads):
    """sums[t] += N[begin:end].T @ tiles[t, begin:end]; each thread owns whole tiles, so the order never changes.

    IN  N as in `csr_matmat`; tiles (n_tiles, n_rows, w) aligned    INOUT sums (n_tiles, n_cols, w) aligned
    """
    cdef Py_ssize_t t, n_tiles = tiles.shape[0]
    cdef int vectors = <int>(tiles.shape[2] * sizeof(real_t) // 64)
    cdef int64_t n_stored = indices.shape[0]
    if n_stored == 0 or begin >= end or n_tiles == 0:
        return
    cdef const data_t *values = &data[0]
    cdef const index_t *columns = &indices[0]
    cdef const int64_t *starts = &indptr[0]
    for t in prange(n_tiles, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=1):
        csr_scatter(values, columns, starts, n_stored, begin, end, &tiles[t, 0, 0], &sums[t, 0, 0], vectors)


def block_unpack(const real_t[:, :, ::1] tiles, double scale, const real_t[::1] row_scale, const real_t[:, ::1] U,
                 const real_t[:, ::1] zx, real_t[:, :] out, int n_threads):
    """out[i, t * w + c] = scale * row_scale[i] * tiles[t, i, c] - U[i] @ zx[:, t * w + c].

    IN  tiles (n_tiles, n, w); row_scale (n,) or (0,); U (n, q), zx (q, k)    OUT out (n, k)
    """
    cdef Py_ssize_t n = out.shape[0], k = out.shape[1], w = tiles.shape[2], q = U.shape[1], i, j, r
    cdef bint scaled = row_scale.shape[0] > 0
    cdef real_t factor, value
    for i in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        factor = <real_t>scale * row_scale[i] if scaled else <real_t>scale
        for j in range(k):
            value = factor * tiles[j // w, i, j % w]
            for r in range(q):
                value = value - U[i, r] * zx[r, j]
            out[i, j] = value
