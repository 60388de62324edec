"""Tall matrices times narrow blocks, one panel of rows at a time (tall_rows.h): for Lanczos bases.

Panels are handed to threads; sums of a panel stand apart, so that the caller adds them in the order of the panels.
"""
from cython.parallel cimport prange

from common cimport real_t

cdef extern from "tall_rows.h" nogil:
    # Macros that choose the function by the types of the pointers; arguments as in the header.
    void tr_inner(...)
    void tr_subtract(...)
    void tr_gram(...)
    void tr_scale(...)
    const int TR_MAX_WIDTH

VECTOR_BYTES = 64  # a row of a narrow block is a multiple of this
MAX_WIDTH = TR_MAX_WIDTH  # columns of a narrow block at most


cdef Py_ssize_t elements(Py_ssize_t row, Py_ssize_t column, Py_ssize_t size) except? -1:
    """Elements from row to row, of strides in bytes; the columns must be adjacent."""
    if column != size:
        raise ValueError("columns must be adjacent")
    return row // size


cdef int check(bint fits, Py_ssize_t width, Py_ssize_t size) except -1:
    if not fits or width < 1 or width > TR_MAX_WIDTH or width * size % 64:
        raise ValueError("arrays whose shapes do not go together")
    return 0


def tall_inner(const real_t[:, :] Q, const real_t[:, :] W, Py_ssize_t panel, real_t[:, :, ::1] scratch,
               double[:, :, ::1] parts, int n_threads):
    """parts[p] = Q'W of the p-th panel of rows: 256 rows at a time in the precision of the data, these in float64.

    IN   Q (n, m), W (n, q), n > 0, m > 0: columns adjacent
    OUT  scratch, parts (n_panels, m, q)
    """
    cdef Py_ssize_t n = Q.shape[0], m = Q.shape[1], width = W.shape[1], p, first, n_panels = parts.shape[0]
    cdef Py_ssize_t q_stride = elements(Q.strides[0], Q.strides[1], sizeof(real_t))
    cdef Py_ssize_t w_stride = elements(W.strides[0], W.strides[1], sizeof(real_t))
    check(n > 0 and m > 0 and panel > 0 and W.shape[0] == n and n_panels == (n + panel - 1) // panel
          and parts.shape[1] == m and parts.shape[2] == width and scratch.shape[0] == n_panels
          and scratch.shape[1] == m and scratch.shape[2] == width, width, sizeof(real_t))
    cdef const real_t *wide = &Q[0, 0]
    cdef const real_t *narrow = &W[0, 0]
    for p in prange(n_panels, nogil=True, num_threads=n_threads, schedule="dynamic"):
        first = p * panel
        tr_inner(wide + first * q_stride, q_stride, narrow + first * w_stride, w_stride, min(panel, n - first), m,
                 width, &scratch[p, 0, 0], &parts[p, 0, 0])


def tall_subtract(real_t[:, :] X, const real_t[:, :] Q, const real_t[:, ::1] C, Py_ssize_t panel, int n_threads):
    """X -= Q C.

    IN      Q (n, m), C (m, q), n > 0, m > 0
    IN/OUT  X (n, q); columns adjacent
    """
    cdef Py_ssize_t n = X.shape[0], m = Q.shape[1], width = X.shape[1], p, first
    cdef Py_ssize_t q_stride = elements(Q.strides[0], Q.strides[1], sizeof(real_t))
    cdef Py_ssize_t x_stride = elements(X.strides[0], X.strides[1], sizeof(real_t))
    check(n > 0 and m > 0 and panel > 0 and Q.shape[0] == n and C.shape[0] == m and C.shape[1] == width, width,
          sizeof(real_t))
    cdef real_t *rows = &X[0, 0]
    cdef const real_t *wide = &Q[0, 0]
    cdef const real_t *small = &C[0, 0]
    for p in prange((n + panel - 1) // panel, nogil=True, num_threads=n_threads, schedule="dynamic"):
        first = p * panel
        tr_subtract(rows + first * x_stride, x_stride, wide + first * q_stride, q_stride, small,
                    min(panel, n - first), m, width)


def tall_gram(const real_t[:, :] X, Py_ssize_t panel, double[:, :, ::1] parts, int n_threads):
    """parts[p] = X'X of the p-th panel of rows, products in float64.

    IN   X (n, q), n > 0, columns adjacent    OUT  parts (n_panels, q, q)
    """
    cdef Py_ssize_t n = X.shape[0], width = X.shape[1], p, first, n_panels = parts.shape[0]
    cdef Py_ssize_t x_stride = elements(X.strides[0], X.strides[1], sizeof(real_t))
    check(n > 0 and panel > 0 and n_panels == (n + panel - 1) // panel and parts.shape[1] == width
          and parts.shape[2] == width, width, sizeof(real_t))
    cdef const real_t *rows = &X[0, 0]
    for p in prange(n_panels, nogil=True, num_threads=n_threads, schedule="dynamic"):
        first = p * panel
        tr_gram(rows + first * x_stride, x_stride, min(panel, n - first), width, &parts[p, 0, 0])


def tall_scale(real_t[:, :] X, const double[:, ::1] B, Py_ssize_t panel, int n_threads):
    """X <- X B, sums in float64.

    IN  B (q, q)    IN/OUT  X (n, q), n > 0, columns adjacent
    """
    cdef Py_ssize_t n = X.shape[0], width = X.shape[1], p, first
    cdef Py_ssize_t x_stride = elements(X.strides[0], X.strides[1], sizeof(real_t))
    check(n > 0 and panel > 0 and B.shape[0] == width and B.shape[1] == width, width, sizeof(real_t))
    cdef real_t *rows = &X[0, 0]
    cdef const double *small = &B[0, 0]
    for p in prange((n + panel - 1) // panel, nogil=True, num_threads=n_threads, schedule="dynamic"):
        first = p * panel
        tr_scale(rows + first * x_stride, x_stride, small, min(panel, n - first), width)
