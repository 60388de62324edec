"""Block Hankel products: one walk over a lag's counts serves every block of the Hankel matrix in which it stands."""
from cython.parallel cimport prange

from common cimport index_t, real_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef fused data_t:
    float
    double
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int64_t

cdef extern from "hankel_rows.h" nogil:
    # A macro that chooses the function by the types of the pointers; arguments as in the header.
    void hankel_rows(...)


def hankel_add(const data_t[::1] data, const index_t[::1] indices, const int64_t[::1] indptr, const int64_t[::1] cuts,
               const real_t[:, :, ::1] tile, int first, const real_t[::1] row_scale, real_t[:, :, ::1] out,
               int out_first, int n_blocks, int n_threads):
    """out[i, out_first + g] += row_scale[i] * (N @ tile[:, first + g]) for g < n_blocks, rows cuts[0] to cuts[-1].

    IN  data, indices (nnz,), indptr (n_rows + 1,): N; cuts (n_parts + 1,): rows of each part, handed to threads;
        tile (n_cols, r, w): 64-byte aligned, w one vector of 64 bytes; row_scale (n_rows,)
    INOUT out (n_rows, r, w) aligned
    """
    cdef Py_ssize_t part, n_parts = cuts.shape[0] - 1, blocks = tile.shape[1]
    cdef int64_t n_stored = indices.shape[0]
    if n_parts < 1 or cuts[n_parts] == cuts[0] or n_stored == 0 or n_blocks < 1:
        return
    cdef const data_t *values = &data[0]
    cdef const index_t *columns = &indices[0]
    cdef const int64_t *starts = &indptr[0]
    cdef const real_t *source = &tile[0, 0, 0]
    cdef real_t *target = &out[0, 0, 0]
    cdef const real_t *scale = &row_scale[0]
    for part in prange(n_parts, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=1):
        hankel_rows(values, columns, starts, n_stored, cuts[part], cuts[part + 1], source, target, blocks, first,
                    out_first, n_blocks, scale)
