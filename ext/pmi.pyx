"""Pointwise mutual information from counts, row by row, and its cut below a threshold, in place."""
from cython.parallel cimport prange

from common cimport index_t, real_t
from libc.math cimport log2
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef fused data_t:
    float
    double
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int64_t


def csr_row_sums(const data_t[::1] data, const int64_t[::1] indptr, double[::1] sums, int n_threads):
    """sums[i] = sum of row i.    IN  data (nnz,), indptr (n + 1,)    OUT sums (n,)"""
    cdef Py_ssize_t i, p, n = indptr.shape[0] - 1
    cdef double total
    for i in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=256):
        total = 0
        for p in range(indptr[i], indptr[i + 1]):
            total = total + <double>data[p]
        sums[i] = total


def pmi_values(const data_t[::1] data, const index_t[::1] indices, const int64_t[::1] indptr, const double[::1] row_term,
               const double[::1] column_term, const double[::1] logs, real_t[::1] values, Py_ssize_t begin,
               Py_ssize_t end, int n_threads):
    """values[p] = log2(data[p]) + row_term[i] + column_term[indices[p]] for the rows begin..end; -inf where data is 0.

    IN  data, indices (nnz,), indptr (n + 1,), terms (n,) and (m,); logs (size,): log2 of 0 .. size - 1
    OUT values (nnz,), which may be the memory of data itself where the items are equally wide
    """
    cdef Py_ssize_t i, p, size = logs.shape[0]
    cdef double term, x
    for i in prange(begin, end, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=64):
        term = row_term[i]
        for p in range(indptr[i], indptr[i + 1]):
            if data_t is float or data_t is double:
                x = log2(<double>data[p])
            else:
                x = logs[<Py_ssize_t>data[p]] if <uint64_t>data[p] < <uint64_t>size else log2(<double>data[p])
            values[p] = <real_t>(x + term + column_term[indices[p]])


def rows_above(const real_t[::1] values, const int64_t[::1] indptr, double alpha, int64_t[::1] kept,
               int64_t[::1] positive, int64_t[::1] negative, int n_threads):
    """How many values of each row lie above alpha, and how many of these are positive and negative.

    IN  values (nnz,), indptr (n + 1,)    OUT kept, positive, negative (n,)
    """
    cdef Py_ssize_t i, p, n = indptr.shape[0] - 1
    cdef int64_t above, plus, minus
    for i in prange(n, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=256):
        above = 0
        plus = 0
        minus = 0
        for p in range(indptr[i], indptr[i + 1]):
            above = above + (values[p] > alpha)
            plus = plus + (values[p] > alpha and values[p] > 0)
            minus = minus + (values[p] > alpha and values[p] < 0)
        kept[i], positive[i], negative[i] = above, plus, minus


def csr_compact(real_t[::1] values, index_t[::1] indices, const int64_t[::1] indptr, double alpha, double shift,
                int64_t place, Py_ssize_t begin, Py_ssize_t end):
    """Move the entries above alpha of the rows begin..end to place, place + 1, ..., adding shift; returns the next place.

    IN  indptr (n + 1,) of the full rows; place at most indptr[begin]    INOUT values, indices (nnz,)
    """
    cdef Py_ssize_t p
    cdef index_t index
    cdef real_t value
    with nogil:
        for p in range(indptr[begin], indptr[end]):
            value = values[p]
            index = indices[p]
            values[place] = value + <real_t>shift
            indices[place] = index
            place += value > alpha
    return place
