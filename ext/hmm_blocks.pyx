# Scaled forward-backward of a block of sequences (hmm_blocks.h): matrix products over all sequences of a block.
#
# Shapes: P states padded with zeros to a multiple of 8, S = P (order 1) or P * P (order 2) numbers a row, R emission
# rows, n sequences sorted by falling length, L times; `positions` = starts[t1] - starts[t0] rows of a slice of times.
from libc.math cimport frexp, ldexp
from libc.stdint cimport int32_t, int64_t, uint8_t

CHUNK = 32  # rows worked on together; the scratch space is (2 * CHUNK, S)

cdef extern from "hmm_blocks.h" nogil:
    ctypedef struct hmm_model:
        int64_t order, K, P, S
        const double *start
        const double *second
        const double *forward
        const double *backward
        const double *final1
        const double *final
        const double *emission
        const int32_t *exponent
    ctypedef struct hmm_block:
        const int32_t *rows
        const int64_t *starts
        int64_t length
        uint8_t *bad
        double *loglik
        double *product
        int64_t *exponents
    ctypedef struct hmm_sums:
        double *start
        double *second
        double *transition
        double *final1
        double *final
        double *emission
        double *posterior
    void hmm_forward(const hmm_model *, const hmm_block *, int64_t, int64_t, const double *, double *, double *, double *)
    void hmm_backward(const hmm_model *, const hmm_block *, int64_t, int64_t, const double *, const double *,
                      const double *, double *, const hmm_sums *, double *)


def block_forward(int64_t order, int64_t n_states,
                  const double[::1] start,             # IN (P,)
                  const double[::1] second,            # IN (P * P,) order 2, else (1,)
                  const double[::1] forward,           # IN (P * P,) or [b][a][c] (P * P * P,)
                  const double[:, ::1] emission,       # IN (R, P) rows over 2 ** exponent
                  const int32_t[::1] exponent,         # IN (R,)
                  const int32_t[::1] rows, const int64_t[::1] starts,   # IN time-major emission rows; (L + 1,)
                  int64_t t0, int64_t t1,
                  const double[:, ::1] before,         # IN (n, S) alpha of time t0 - 1
                  uint8_t[::1] bad,                    # IN/OUT (n,) sequences that need the exact kernel
                  double[::1] loglik, double[::1] product, int64_t[::1] exponents,  # IN/OUT (n,)
                  double[:, ::1] alpha, double[::1] scale,              # OUT (positions, S), (positions,) 1 / scale
                  double[:, ::1] work):                # scratch (2 * CHUNK, S)
    """Scaled forward rows of times t0 .. t1 - 1."""
    cdef hmm_model m
    cdef hmm_block k
    m.order, m.K, m.P, m.S = order, n_states, emission.shape[1], alpha.shape[1]
    m.start, m.second, m.forward, m.backward = &start[0], &second[0], &forward[0], NULL
    m.final1, m.final, m.emission, m.exponent = NULL, NULL, &emission[0, 0], &exponent[0]
    k.rows, k.starts, k.length, k.bad = &rows[0], &starts[0], starts.shape[0] - 1, &bad[0]
    k.loglik, k.product, k.exponents = &loglik[0], &product[0], &exponents[0]
    with nogil:
        hmm_forward(&m, &k, t0, t1, &before[0, 0], &alpha[0, 0], &scale[0], &work[0, 0])


def block_backward(int64_t order, int64_t n_states,
                   const double[::1] second, const double[::1] backward,      # IN as above; [b][c][a] of order 2
                   const double[::1] final1, const double[::1] final,         # IN stop factors (P,), (S,)
                   const double[:, ::1] emission,
                   const int32_t[::1] rows, const int64_t[::1] starts, int64_t t0, int64_t t1,
                   const double[:, ::1] before, const double[:, ::1] alpha, const double[::1] scale,  # IN
                   uint8_t[::1] bad, double[::1] loglik, double[::1] product, int64_t[::1] exponents,
                   double[:, ::1] beta,                 # IN/OUT (n, S) beta of time t1 - 1 -> t0 - 1
                   double[::1] sum_start, double[::1] sum_second, double[::1] sum_transition,
                   double[::1] sum_final1, double[::1] sum_final, double[:, ::1] sum_emission,   # IN/OUT
                   double[:, ::1] posterior,            # OUT (all positions of the block, P)
                   bint with_sums, bint with_posterior, # whether the sums, the posterior are wanted
                   double[:, ::1] work):                # scratch (2 * CHUNK, S)
    """Scaled backward rows of times t1 - 1 .. t0, adding expected counts (transitions still without their factor A)."""
    cdef hmm_model m
    cdef hmm_block k
    cdef hmm_sums s
    m.order, m.K, m.P, m.S = order, n_states, emission.shape[1], alpha.shape[1]
    m.start, m.second, m.forward, m.backward = NULL, &second[0], NULL, &backward[0]
    m.final1, m.final, m.emission, m.exponent = &final1[0], &final[0], &emission[0, 0], NULL
    k.rows, k.starts, k.length, k.bad = &rows[0], &starts[0], starts.shape[0] - 1, &bad[0]
    k.loglik, k.product, k.exponents = &loglik[0], &product[0], &exponents[0]
    s.start = s.second = s.transition = s.final1 = s.final = s.emission = s.posterior = NULL
    if with_sums:
        s.start, s.second, s.transition = &sum_start[0], &sum_second[0], &sum_transition[0]
        s.final1, s.final, s.emission = &sum_final1[0], &sum_final[0], &sum_emission[0, 0]
    if with_posterior:
        s.posterior = &posterior[0, 0]
    with nogil:
        hmm_backward(&m, &k, t0, t1, &before[0, 0], &alpha[0, 0], &scale[0], &beta[0, 0], &s, &work[0, 0])


def rows_scale(const double[:, ::1] table,  # IN (R, K) >= 0
               double[:, ::1] scaled,       # OUT (R, P): rows times the power of two that brings their largest into [1/2, 1)
               int32_t[::1] exponent,       # OUT (R,): table = scaled * 2 ** exponent
               int64_t first, int64_t last):
    """Scale rows first .. last - 1, exactly, and clear their padding."""
    cdef int64_t r, k, K = table.shape[1], P = scaled.shape[1]
    cdef double most, one, two
    cdef int e
    if not 0 <= first <= last <= table.shape[0] or scaled.shape[0] < last or exponent.shape[0] < last or P < K:
        raise ValueError("arrays of different lengths")
    with nogil:
        for r in range(first, last):
            most = 0
            for k in range(K):
                most = table[r, k] if table[r, k] > most else most
            frexp(most, &e)
            exponent[r] = e
            one = ldexp(1.0, -e // 2)  # a single factor overflows for subnormal rows
            two = ldexp(1.0, -e - -e // 2)
            for k in range(K):
                scaled[r, k] = table[r, k] * one * two
            for k in range(K, P):
                scaled[r, k] = 0


def rows_add(const double[:, ::1] part, double[:, ::1] total, int64_t first, int64_t last, bint begin):
    """IN part (R, P); IN/OUT total (R, K), K <= P: add rows first .. last - 1, or put them where `begin`."""
    cdef int64_t r, k, K = total.shape[1]
    if not 0 <= first <= last <= total.shape[0] or part.shape[0] < last or part.shape[1] < K:
        raise ValueError("arrays of different lengths")
    with nogil:
        for r in range(first, last):
            if begin:
                for k in range(K):
                    total[r, k] = part[r, k]
            else:
                for k in range(K):
                    total[r, k] += part[r, k]
