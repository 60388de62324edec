"""Rows of a sparse matrix fitted anew to fixed contexts, frequent pairs weighing more."""
from cython.parallel cimport prange, threadid

from common cimport index_t
from libc.stdint cimport int64_t

cdef extern from "refit.h" nogil:
    # A macro that chooses the function by the type of the indices; arguments as in the header.
    void refit_rows(...)


def words_refit(const float[::1] data, const index_t[::1] indices, const int64_t[::1] indptr, const int64_t[::1] cuts,
                const float[::1] row_log, const float[::1] column_log, double factor, double most,
                const float[::1] row_scale, const float[::1] column_scale, const float[:, ::1] contexts,
                float[:, ::1] words, int steps, float[:, ::1] extra, float[:, ::1] target, float[:, ::1] blocks,
                int n_threads):
    """Each row a of words: `steps` conjugate gradient steps on sum_j (1 + e_j) (a . c_j - m_j)^2 over all columns j.

    e_j = factor * 2^(min(data + row_log + column_log, most) / 2) and m_j = row_scale * data * column_scale at stored
    entries, both 0 elsewhere; the columns of contexts must be orthonormal.

    IN  data, indices (nnz,), indptr (n + 1,); cuts (n_parts + 1,): rows of each part, handed to threads; logs (n,), (m,);
        scales (n,), (m,) or both (0,); contexts (m, w), 64-byte aligned, w a multiple of 16
    INOUT words (n, w), aligned
    SCRATCH extra, target (n_threads, longest row), blocks (n_threads, 3 w), aligned
    """
    cdef Py_ssize_t part, n_parts = cuts.shape[0] - 1
    cdef int vectors = <int>(contexts.shape[1] // 16), own
    cdef int64_t n_stored = indices.shape[0]
    if n_parts < 1 or n_stored == 0 or words.shape[0] == 0:
        return
    cdef const float *values = &data[0]
    cdef const index_t *columns = &indices[0]
    cdef const int64_t *starts = &indptr[0]
    cdef const float *rows = &row_scale[0] if row_scale.shape[0] else NULL
    cdef const float *cols = &column_scale[0] if row_scale.shape[0] else NULL
    cdef const float *fixed = &contexts[0, 0]
    cdef float *fitted = &words[0, 0]
    for part in prange(n_parts, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=1):
        own = threadid()
        refit_rows(values, columns, starts, n_stored, cuts[part], cuts[part + 1], &row_log[0], &column_log[0],
                   <float>factor, <float>most, rows, cols, fixed, fitted, vectors, steps, &extra[own, 0],
                   &target[own, 0], &blocks[own, 0])
