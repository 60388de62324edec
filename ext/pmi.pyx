"""Association values of a count matrix: pointwise mutual information, thresholded, without copies of the pattern.

Two passes over the rows: the first finds how many entries each row keeps, the second writes them.
"""

from cython.parallel cimport prange
from libc.math cimport log2
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef fused count_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    double

ctypedef fused value_t:
    float
    double


def pmi_lengths(const int64_t[::1] indptr, const int32_t[::1] indices, const count_t[::1] data,
                const double[::1] logs, const double[::1] row_log, const double[::1] column_log, double threshold,
                bint everything, int64_t[::1] lengths, int n_threads):
    """How many entries of each row have log2(count) + row_log[i] + column_log[j] above the threshold (or all of them).

    IN a CSR matrix; logs (m,): log2 of the counts below m. OUT lengths (rows,).
    """
    cdef int64_t rows = indptr.shape[0] - 1, row
    _check(indptr, indices, data.shape[0], rows, row_log, lengths.shape[0])
    if rows == 0 or indices.shape[0] == 0:
        lengths[:] = 0
        return
    with nogil:
        for row in prange(rows, num_threads=n_threads, schedule="dynamic", chunksize=256):
            lengths[row] = row_length(&indices[0], &data[0], indptr[row], indptr[row + 1], &logs[0], logs.shape[0],
                                      row_log[row], &column_log[0], threshold, everything)


def pmi_fill(const int64_t[::1] indptr, const int32_t[::1] indices, const count_t[::1] data, const double[::1] logs,
             const double[::1] row_log, const double[::1] column_log, double threshold, bint everything, double shift,
             double unit, const int64_t[::1] out_indptr, int32_t[::1] out_indices, value_t[::1] out_data,
             int n_threads):
    """Write the entries counted by `pmi_lengths`: ((value) + shift) * unit, computed in double precision.

    IN out_indptr (rows + 1,), sums of the lengths. OUT out_indices, out_data.
    """
    cdef int64_t rows = indptr.shape[0] - 1, row
    _check(indptr, indices, data.shape[0], rows, row_log, rows)
    if out_indptr.shape[0] != rows + 1 or out_indices.shape[0] < out_indptr[rows] or out_data.shape[0] < out_indptr[rows]:
        raise ValueError("no room")
    if rows == 0 or out_indptr[rows] == 0:
        return
    with nogil:
        for row in prange(rows, num_threads=n_threads, schedule="dynamic", chunksize=256):
            fill_row(&indices[0], &data[0], indptr[row], indptr[row + 1], &logs[0], logs.shape[0], row_log[row],
                     &column_log[0], threshold, everything, shift, unit, &out_indices[0], &out_data[0], out_indptr[row])


cdef _check(const int64_t[::1] indptr, const int32_t[::1] indices, int64_t n_data, int64_t rows,
            const double[::1] row_log, int64_t n_lengths):
    if indptr[rows] != indices.shape[0] or n_data != indices.shape[0] or row_log.shape[0] != rows or n_lengths < rows:
        raise ValueError("indptr, indices, data and marginals do not fit together")


cdef inline double log_count(count_t count, const double* logs, int64_t n_logs) noexcept nogil:
    if count_t is not double:
        if <int64_t>count < n_logs:
            return logs[<int64_t>count]
    return log2(<double>count)


cdef int64_t row_length(const int32_t* indices, const count_t* data, int64_t begin, int64_t end, const double* logs,
                        int64_t n_logs, double row_log, const double* column_log, double threshold,
                        bint everything) noexcept nogil:
    cdef int64_t p, n = 0
    if everything:
        return end - begin
    for p in range(begin, end):
        n += (log_count(data[p], logs, n_logs) + (row_log + column_log[indices[p]])) > threshold
    return n


cdef void fill_row(const int32_t* indices, const count_t* data, int64_t begin, int64_t end, const double* logs,
                   int64_t n_logs, double row_log, const double* column_log, double threshold, bint everything,
                   double shift, double unit, int32_t* out_indices, value_t* out_data, int64_t place) noexcept nogil:
    cdef int64_t p
    cdef double value
    for p in range(begin, end):
        value = log_count(data[p], logs, n_logs) + (row_log + column_log[indices[p]])
        if everything or value > threshold:
            out_indices[place] = indices[p]
            out_data[place] = <value_t>((value + shift) * unit)
            place += 1
