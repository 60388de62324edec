"""Ids to counts: for each word a dense accumulator over its positions; whole rows come out, in order.

Rows are worked off in tasks of consecutive words, cut by the number of their occurrences; a task belongs to one
thread and writes to a place of its own, so the result is the same for any number of threads.
"""

from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "lags.h" nogil:
    int LINE_WORDS "LAGWISE_LINE"
    ctypedef struct lw_marks:
        pass
    int64_t lw_marks_groups(int64_t places)
    lw_marks lw_marks_of(uint8_t* scratch, int64_t places)
    int64_t lw_window_row32(const int32_t* ids, const uint32_t* positions, int64_t begin, int64_t end, int64_t limit,
                            const uint32_t* weights, int64_t window, int flat, int32_t n_words, uint32_t* acc,
                            const lw_marks* map, int32_t* indices, uint32_t* values)
    int64_t lw_window_row64(const int32_t* ids, const uint32_t* positions, int64_t begin, int64_t end, int64_t limit,
                            const uint64_t* weights, int64_t window, int flat, int32_t n_words, uint64_t* acc,
                            const lw_marks* map, int32_t* indices, uint64_t* values)
    void lw_lag_rows(const int32_t* ids, const uint32_t* positions, int64_t begin, int64_t end, int64_t limit,
                     int64_t n_lags, int32_t n_words, uint32_t* acc, const lw_marks* map, int32_t* indices,
                     uint32_t* values, int64_t stride, int64_t* lengths)

ctypedef fused sum_t:
    uint32_t
    uint64_t


LINE = LINE_WORDS  # accumulators of `windows_count` under one mark


def marks_size(int64_t places):
    """Bytes of scratch with which one thread marks places of its accumulator, each one byte, and each 64 one more."""
    return 65 * lw_marks_groups(places)


def windows_count(const int32_t[::1] ids, const int64_t[::1] starts, const uint32_t[::1] positions,
                  const sum_t[::1] weights, const int64_t[::1] tasks, const int64_t[::1] places,
                  sum_t[:, ::1] sums, uint8_t[:, ::1] marks, int64_t[::1] lengths, int64_t[::1] task_lengths,
                  int32_t[::1] indices, sum_t[::1] values, int n_threads):
    """Rows W[w, j] = sum over k of weights[k - 1] times how often j stands k places right of w.

    IN ids (n,), a stream; starts (n_words + 1,), positions: its index; weights (window,); tasks (m + 1,): task t has
    the rows tasks[t] .. tasks[t + 1] - 1; places (m,): where in the output it writes; scratch, zero: sums (n_threads,
    n_words + LINE), marks (n_threads, marks_size(n_words // LINE + 1)). OUT lengths (tasks[m] - tasks[0],): nonzeros of each row;
    task_lengths (m,): of each task; indices, values from places[t] on (a row has at most min(occurrences * window,
    n_words) + 1 places).
    """
    cdef int64_t m = tasks.shape[0] - 1, t, n_words = starts.shape[0] - 1, limit = starts[n_words]
    cdef int flat = 1, thread
    for t in range(weights.shape[0]):
        flat &= weights[t] == 1
    if ids.shape[0] == 0:
        lengths[:] = 0
        task_lengths[:] = 0
        return
    with nogil:
        for t in prange(m, num_threads=n_threads, schedule="dynamic", chunksize=1):
            thread = threadid()
            task_lengths[t] = window_task(&ids[0], &starts[0], &positions[0], limit, &weights[0], weights.shape[0], flat,
                                          tasks[t], tasks[t + 1], tasks[0], n_words, &sums[thread, 0],
                                          &marks[thread, 0], &lengths[0], &indices[places[t]],
                                          &values[places[t]])


cdef int64_t window_task(const int32_t* ids, const int64_t* starts, const uint32_t* positions, int64_t limit,
                         const sum_t* weights, int64_t window, int flat, int64_t first, int64_t last, int64_t origin,
                         int64_t n_words, sum_t* sums, uint8_t* marks, int64_t* lengths, int32_t* indices, sum_t* values) noexcept nogil:
    cdef lw_marks map = lw_marks_of(marks, n_words // LINE_WORDS + 1)
    cdef int64_t w, n, total = 0
    for w in range(first, last):
        if sum_t is uint32_t:
            n = lw_window_row32(ids, positions, starts[w], starts[w + 1], limit, weights, window, flat, <int32_t>n_words,
                                sums, &map, indices + total, values + total)
        else:
            n = lw_window_row64(ids, positions, starts[w], starts[w + 1], limit, weights, window, flat, <int32_t>n_words,
                                sums, &map, indices + total, values + total)
        lengths[w - origin] = n
        total += n
    return total


def lags_count(const int32_t[::1] ids, const int64_t[::1] starts, const uint32_t[::1] positions,
               const int64_t[::1] tasks, const int64_t[::1] places, uint32_t[:, ::1] sums, uint8_t[:, ::1] marks,
               int64_t[:, ::1] lengths, int64_t[:, ::1] task_lengths, int32_t[:, ::1] indices, uint32_t[:, ::1] values,
               int n_threads):
    """Rows of every lag: N_k[w, j] = how often j stands k places right of w, k = 1 .. n_lags.

    Arguments as for `windows_count`, with a leading axis of lags: sums (n_threads, (n_words + 1) * n_lags), marks
    (n_threads, marks_size(n_words + 1)); OUT
    lengths (n_lags, rows), task_lengths (m, n_lags), indices and values (n_lags, room).
    """
    cdef int64_t m = tasks.shape[0] - 1, t, n_words = starts.shape[0] - 1, limit = starts[n_words]
    cdef int64_t n_lags = indices.shape[0], stride = indices.shape[1]
    cdef int thread
    if ids.shape[0] == 0:
        lengths[:, :] = 0
        task_lengths[:, :] = 0
        return
    with nogil:
        for t in prange(m, num_threads=n_threads, schedule="dynamic", chunksize=1):
            thread = threadid()
            lag_task(&ids[0], &starts[0], &positions[0], limit, n_lags, tasks[t], tasks[t + 1], tasks[0], n_words,
                     &sums[thread, 0], &marks[thread, 0], &lengths[0, 0], lengths.shape[1],
                     &indices[0, places[t]], &values[0, places[t]], stride, &task_lengths[t, 0])


cdef void lag_task(const int32_t* ids, const int64_t* starts, const uint32_t* positions, int64_t limit, int64_t n_lags,
                   int64_t first, int64_t last, int64_t origin, int64_t n_words, uint32_t* sums, uint8_t* marks,
                   int64_t* lengths, int64_t rows, int32_t* indices, uint32_t* values, int64_t stride,
                   int64_t* totals) noexcept nogil:
    cdef lw_marks map = lw_marks_of(marks, n_words + 1)
    cdef int64_t w, k
    for k in range(n_lags):
        totals[k] = 0
    for w in range(first, last):
        for k in range(n_lags):
            lengths[k * rows + w - origin] = -totals[k]
        lw_lag_rows(ids, positions, starts[w], starts[w + 1], limit, n_lags, <int32_t>n_words, sums, &map, indices,
                    values, stride, totals)
        for k in range(n_lags):
            lengths[k * rows + w - origin] += totals[k]
