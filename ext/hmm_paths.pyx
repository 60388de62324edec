# Best paths of many sequences: of a first-order model (hmm_paths_body.h), and of a second-order one (hmm_pairs_body.h).
#
# K states padded to P = a multiple of 8 with inf; R emission rows; ties go to the lowest state.
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

cdef extern from "hmm_paths.h" nogil:
    int64_t hmm_path_costs(const double *, const double *, const double *, const int32_t *, int64_t, int64_t, int64_t,
                            double *)
    void hmm_path_back(const double *, const double *, int64_t, int64_t, int32_t, int32_t *)

cdef extern from "hmm_paths.h" nogil:
    ctypedef struct hmm_pairs:
        int64_t K, P
        const double *start
        const double *second
        const double *middle
        const double *final1
        const double *final
        const int64_t *first
        const int32_t *states
        const double *values
    void hmm_pair_fetch(const hmm_pairs *, const int32_t *, int64_t)
    int64_t hmm_pair_costs(const hmm_pairs *, const int32_t *, int64_t, double *, int64_t *)
    int hmm_pair_back(const hmm_pairs *, const int32_t *, int64_t, const double *, const int64_t *, int32_t *)


def best_paths(int64_t n_states,
               const double[::1] start,            # IN (P,) costs: negative logarithms
               const double[:, ::1] weights,       # IN (K, P) costs of transitions, >= 0
               const double[:, ::1] columns,       # IN (K, P) the same, transposed
               const double[::1] final,            # IN (K,) costs of stopping
               const double[:, ::1] table,         # IN (R, P) emission costs, 0 in the padding
               const int32_t[::1] rows, const int64_t[::1] offsets,  # IN emission row of each position
               const int64_t[::1] order,           # IN the sequences to do
               double[:, ::1] costs,               # scratch (longest, P)
               int32_t[::1] path,                  # OUT at the positions of these sequences
               int64_t[::1] failed):               # OUT (n,) first impossible time or -1
    """Viterbi paths of the sequences `order`."""
    cdef int64_t number, i, begin, T, k, P = table.shape[1]
    cdef double best
    cdef int32_t last
    with nogil:
        for number in range(order.shape[0]):
            i = order[number]
            begin = offsets[i]
            T = offsets[i + 1] - begin
            failed[number] = -1
            if T == 0:
                continue
            failed[number] = hmm_path_costs(&start[0], &weights[0, 0], &table[0, 0], &rows[begin], T, n_states, P,
                                             &costs[0, 0])
            if failed[number] >= 0:
                continue
            best = INFINITY
            last = -1
            for k in range(n_states):
                if costs[T - 1, k] + final[k] < best:
                    best = costs[T - 1, k] + final[k]
                    last = <int32_t>k
            if last < 0:
                failed[number] = T - 1
                continue
            hmm_path_back(&columns[0, 0], &costs[0, 0], T, P, last, &path[begin])


def best_pair_paths(const double[::1] start,            # IN (K,) costs: negative logarithms
                    const double[:, ::1] second,        # IN (K, P) costs of transitions into the second position
                    const double[:, :, ::1] middle,     # IN (K, K, P) cost of c after a, b, >= 0, at [b, a, c]
                    const double[::1] final1, const double[:, ::1] final,  # IN (K,), (K, K) costs of stopping
                    const int64_t[::1] first,           # IN (R + 1,) where each row's possible states begin
                    const int32_t[::1] states,          # IN (n,) possible states, rising in each row
                    const double[::1] values,           # IN (n,) their emission costs
                    const int32_t[::1] rows, const int64_t[::1] offsets,  # IN emission row of each position
                    const int64_t[::1] order,           # IN the sequences to do
                    double[::1] costs,                 # scratch (longest * most possible states ** 2,)
                    int64_t[::1] place,                 # scratch (longest + 1,)
                    int32_t[::1] path,                  # OUT at the positions of these sequences
                    int64_t[::1] failed):               # OUT (n,) first impossible time or -1
    """Second-order Viterbi paths of the sequences `order`, where a position has the states of its emission row alone."""
    cdef hmm_pairs m
    cdef int64_t number, i, begin, T, following
    m.K, m.P = second.shape[0], second.shape[1]
    m.start, m.second, m.middle, m.final1, m.final = &start[0], &second[0, 0], &middle[0, 0, 0], &final1[0], &final[0, 0]
    m.first, m.states, m.values = &first[0], &states[0], &values[0]
    with nogil:
        for number in range(order.shape[0]):
            i = order[number]
            begin = offsets[i]
            T = offsets[i + 1] - begin
            failed[number] = -1
            if number + 1 < order.shape[0]:
                following = order[number + 1]
                hmm_pair_fetch(&m, &rows[0] + offsets[following], offsets[following + 1] - offsets[following])
            if T == 0:
                continue
            failed[number] = hmm_pair_costs(&m, &rows[begin], T, &costs[0], &place[0])
            if failed[number] < 0 and not hmm_pair_back(&m, &rows[begin], T, &costs[0], &place[0], &path[begin]):
                failed[number] = T - 1
