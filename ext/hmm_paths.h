/* Viterbi in costs (negative logarithms): min-plus products of a row with a matrix, eight columns in a register.

   Costs that are compared are doubles >= 0, whose order is that of their bits as integers, and integer units are idle
   while the others add. AVX-512 has that minimum as one instruction, which compilers do not find by themselves. */
#ifndef LAGWISE_HMM_PATHS_H
#define LAGWISE_HMM_PATHS_H

#include <math.h>
#include <stdint.h>
#include "simd.h"

typedef double hmm_d8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t hmm_i8 __attribute__((vector_size(64), aligned(8), may_alias));

#define HMM_D8(address) (*(const hmm_d8 *)(address))

typedef struct {
    int64_t K, P;
    const double *start;          /* (K)                                             */
    const double *second;         /* (K, P) transition into the second position      */
    const double *middle;         /* (K, K, P) cost of c after a, b at [b][a][c]      */
    const double *final1, *final; /* (K), (K, K) sleast factors                        */
    const int64_t *first;         /* (R + 1) where the possible states of a row begin */
    const int32_t *states;        /* the possible states of each row, rising         */
    const double *values;         /* their emission costs                            */
} hmm_pairs;

LAGWISE_INLINE double hmm_least(const hmm_d8 *v) {
    const double *x = (const double *)v;
    double a = x[0] < x[4] ? x[0] : x[4], b = x[1] < x[5] ? x[1] : x[5];
    double c = x[2] < x[6] ? x[2] : x[6], d = x[3] < x[7] ? x[3] : x[7];
    a = a < b ? a : b;
    c = c < d ? c : d;
    return a < c ? a : c;
}

/* Fetch the possible states of the first positions of a sequence that comes next. */
LAGWISE_INLINE void hmm_pair_fetch(const hmm_pairs *m, const int32_t *rows, int64_t T) {
    for (int64_t t = 0; t < T && t < 64; t++) {
        int64_t first = m->first[rows[t]];
        LAGWISE_PREFETCH(m->states + first);
        LAGWISE_PREFETCH(m->values + first);
    }
}

#define HMM_NAME(name) name##_any
#define HMM_TARGET LAGWISE_CLONES
#define HMM_INLINE LAGWISE_INLINE
#define HMM_LESSER(x, y)                                                                                               \
    ({                                                                                                                 \
        hmm_i8 x_ = (hmm_i8)(x), y_ = (hmm_i8)(y), mask_ = x_ < y_;                                                    \
        (hmm_d8)((mask_ & x_) | (~mask_ & y_));                                                                        \
    })
#define HMM_EQUAL(x, number)                                                                                           \
    ({                                                                                                                 \
        hmm_d8 x_ = (x);                                                                                               \
        int bits_ = 0;                                                                                                 \
        for (int lane = 0; lane < 8; lane++) bits_ |= (x_[lane] == (number)) << lane;                                  \
        bits_;                                                                                                         \
    })
#include "hmm_paths_body.h"
#include "hmm_pairs_body.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#undef HMM_NAME
#undef HMM_TARGET
#undef HMM_LESSER
#undef HMM_EQUAL
#undef HMM_INLINE
#define HMM_NAME(name) name##_avx512
#define HMM_TARGET __attribute__((target("avx512f")))
#define HMM_INLINE LAGWISE_INLINE HMM_TARGET
#define HMM_EQUAL(x, number) ((int)_mm512_cmp_pd_mask((__m512d)(x), _mm512_set1_pd(number), _CMP_EQ_OQ))
#define HMM_LESSER(x, y) ((hmm_d8)_mm512_min_epi64((__m512i)(x), (__m512i)(y)))
#undef HMM_BEST
#undef HMM_LINE
#include "hmm_paths_body.h"
#include "hmm_pairs_body.h"
#define HMM_BEST_OF(call) (__builtin_cpu_supports("avx512f") ? call##_avx512 : call##_any)
#else
#define HMM_BEST_OF(call) (call##_any)
#endif

#define hmm_path_costs HMM_BEST_OF(hmm_path_costs)
#define hmm_path_back HMM_BEST_OF(hmm_path_back)
#define hmm_pair_costs HMM_BEST_OF(hmm_pair_costs)
#define hmm_pair_back HMM_BEST_OF(hmm_pair_back)

#endif
