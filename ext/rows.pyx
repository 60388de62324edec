"""Sums of CSR matrices row by row, and transposition; results do not depend on the number of threads."""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef extern from "rows.h" nogil:
    ctypedef struct lw_marks:
        pass
    lw_marks lw_marks_of(uint8_t* scratch, int64_t places)
    ctypedef struct lw_csr:
        const int64_t* indptr
        const int32_t* indices
        const void* data
        int width
        const int32_t* new_rows
        const int32_t* new_columns
    int64_t lw_sum_row_integer(const lw_csr* matrices, int64_t n, const uint64_t* factors, int64_t row, uint64_t* acc,
                               const lw_marks* map, int32_t* indices, uint64_t* values)
    int64_t lw_sum_row_real(const lw_csr* matrices, int64_t n, const double* factors, int64_t row, double* acc,
                            const lw_marks* map, int32_t* indices, double* values)

ctypedef fused number_t:
    uint64_t
    double

ctypedef fused count_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


def rows_sum(list matrices, const number_t[::1] factors, int64_t n_columns, const int64_t[::1] tasks,
             const int64_t[::1] places, number_t[:, ::1] sums, uint8_t[:, ::1] marks, int64_t[::1] lengths,
             int64_t[::1] task_lengths, int32_t[::1] indices, number_t[::1] values, int n_threads):
    """Rows of the sum over m of factors[m] times matrix m.

    IN matrices: tuples (indptr int64, indices int32, data as unsigned bytes (nnz, width), rows, columns), the last two
    int32 maps (row of the sum to row of the matrix, column of the matrix to column of the sum, -1 for none) or None;
    tasks, places, sums (n_threads, n_columns), marks (n_threads, marks_size(n_columns)), lengths, task_lengths,
    indices and values as for `lags.windows_count`. Zero sums are left out.
    """
    cdef int64_t n = len(matrices), m, t
    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] js, rows, columns
    cdef const uint8_t[:, ::1] data
    cdef lw_csr* table = <lw_csr*>calloc(n + 1, sizeof(lw_csr))
    cdef int thread
    if table == NULL:
        raise MemoryError("no memory")
    try:
        if factors.shape[0] != n:
            raise ValueError(f"{factors.shape[0]} factors for {n} matrices")
        for m in range(n):
            indptr, js, data = matrices[m][0], matrices[m][1], matrices[m][2]
            if js.shape[0] != data.shape[0] or indptr[indptr.shape[0] - 1] != js.shape[0]:
                raise ValueError("indptr, indices and data do not fit together")
            table[m].indptr = &indptr[0]
            table[m].width = <int>data.shape[1]
            if js.shape[0]:
                table[m].indices = &js[0]
                table[m].data = &data[0, 0]
            if matrices[m][3] is not None:
                rows = matrices[m][3]
                table[m].new_rows = &rows[0]
            if matrices[m][4] is not None:
                columns = matrices[m][4]
                table[m].new_columns = &columns[0]
        if n == 0 or n_columns == 0:
            lengths[:] = 0
            task_lengths[:] = 0
            return
        with nogil:
            for t in prange(tasks.shape[0] - 1, num_threads=n_threads, schedule="dynamic", chunksize=1):
                thread = threadid()
                task_lengths[t] = sum_task(table, n, &factors[0], tasks[t], tasks[t + 1], tasks[0], &sums[thread, 0],
                                           &marks[thread, 0], n_columns, &lengths[0], &indices[places[t]],
                                           &values[places[t]])
    finally:
        free(table)


cdef int64_t sum_task(const lw_csr* matrices, int64_t n, const number_t* factors, int64_t first, int64_t last,
                      int64_t origin, number_t* sums, uint8_t* marks, int64_t n_columns, int64_t* lengths,
                      int32_t* indices, number_t* values) noexcept nogil:
    cdef lw_marks map = lw_marks_of(marks, n_columns)
    cdef int64_t row, count, total = 0
    for row in range(first, last):
        if number_t is double:
            count = lw_sum_row_real(matrices, n, factors, row, sums, &map, indices + total, values + total)
        else:
            count = lw_sum_row_integer(matrices, n, factors, row, sums, &map, indices + total, values + total)
        lengths[row - origin] = count
        total += count
    return total


def csr_transpose(const int64_t[::1] indptr, const int32_t[::1] indices, const count_t[::1] data, int64_t n_columns,
                  int64_t[::1] out_indptr, int32_t[::1] out_indices, count_t[::1] out_data, int64_t[:, ::1] scratch,
                  int n_threads):
    """The transpose of a CSR matrix, its rows sorted.

    IN indptr (n_rows + 1,), indices, data; scratch (pieces, n_columns). OUT out_indptr (n_columns + 1,), out_indices,
    out_data. The number of pieces changes no result.
    """
    cdef int64_t n_rows = indptr.shape[0] - 1, pieces = scratch.shape[0], piece, c, total = 0, count, nnz
    nnz = indptr[n_rows]
    if indices.shape[0] < nnz or data.shape[0] < nnz or out_indices.shape[0] < nnz or out_data.shape[0] < nnz:
        raise ValueError("indptr, indices, data and outputs do not fit together")
    if nnz == 0:
        out_indptr[:] = 0
        return
    with nogil:
        for piece in prange(pieces, num_threads=n_threads, schedule="static", chunksize=1):
            count_columns(&indices[0], nnz * piece // pieces, nnz * (piece + 1) // pieces, n_columns, &scratch[piece, 0])
        for c in range(n_columns):
            out_indptr[c] = total
            for piece in range(pieces):
                count = scratch[piece, c]
                scratch[piece, c] = total
                total += count
        out_indptr[n_columns] = total
        for piece in prange(pieces, num_threads=n_threads, schedule="static", chunksize=1):
            place_columns(&indptr[0], n_rows, &indices[0], &data[0], nnz * piece // pieces, nnz * (piece + 1) // pieces,
                          &scratch[piece, 0], &out_indices[0], &out_data[0])


cdef void count_columns(const int32_t* indices, int64_t begin, int64_t end, int64_t n_columns,
                        int64_t* counts) noexcept nogil:
    cdef int64_t p
    for p in range(n_columns):
        counts[p] = 0
    for p in range(begin, end):
        counts[indices[p]] += 1


cdef void place_columns(const int64_t* indptr, int64_t n_rows, const int32_t* indices, const count_t* data,
                        int64_t begin, int64_t end, int64_t* places, int32_t* out_indices,
                        count_t* out_data) noexcept nogil:
    cdef int64_t low = 0, high = n_rows, middle, row, p, place
    while high - low > 1:  # the row of position begin
        middle = (low + high) // 2
        if indptr[middle] <= begin:
            low = middle
        else:
            high = middle
    row = low
    for p in range(begin, end):
        while indptr[row + 1] <= p:
            row += 1
        place = places[indices[p]]
        places[indices[p]] = place + 1
        out_indices[place] = <int32_t>row
        out_data[place] = data[p]
