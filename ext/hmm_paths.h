/* Viterbi scores: max-plus products of a row with a matrix, eight columns in a register. */
#ifndef LAGWISE_HMM_PATHS_H
#define LAGWISE_HMM_PATHS_H

#include <math.h>
#include <stdint.h>
#include "simd.h"

typedef double hmm_d8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t hmm_i8 __attribute__((vector_size(64), aligned(8), may_alias));

#define HMM_D8(address) (*(const hmm_d8 *)(address))

/* x where it is larger than y, else y; no NaN comes here. A macro, as vectors cannot be passed without AVX-512. */
#define HMM_LARGER(x, y)                                                                                               \
    ({                                                                                                                 \
        hmm_d8 x_ = (x), y_ = (y);                                                                                     \
        hmm_i8 mask_ = x_ > y_;                                                                                        \
        (hmm_d8)((mask_ & (hmm_i8)x_) | (~mask_ & (hmm_i8)y_));                                                        \
    })

LAGWISE_INLINE double hmm_top(const hmm_d8 *v) {
    const double *x = (const double *)v;
    double a = x[0] > x[4] ? x[0] : x[4], b = x[1] > x[5] ? x[1] : x[5];
    double c = x[2] > x[6] ? x[2] : x[6], d = x[3] > x[7] ? x[3] : x[7];
    a = a > b ? a : b;
    c = c > d ? c : d;
    return a > c ? a : c;
}

/* out[c] = max_i scores[i] + w[i, c], plus e[c], of 8 NV columns; top: the largest so far in each lane. */
#define HMM_BEST(NV)                                                                                                   \
    LAGWISE_INLINE void hmm_best_##NV(const double *scores, int64_t K, const double *w, int64_t P, const double *e,   \
                                        double *out, hmm_d8 *top) {                                                    \
        hmm_d8 acc[NV];                                                                                                \
        _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++) acc[v] = scores[0] + HMM_D8(w + 8 * v);                   \
        for (int64_t i = 1; i < K; i++) {                                                                              \
            double s = scores[i];                                                                                      \
            _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++)                                                       \
                acc[v] = HMM_LARGER(s + HMM_D8(w + i * P + 8 * v), acc[v]);                                            \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++)                                                           \
        {                                                                                                              \
            acc[v] += HMM_D8(e + 8 * v);                                                                               \
            *top = HMM_LARGER(acc[v], *top);                                                                           \
            *(hmm_d8 *)(out + 8 * v) = acc[v];                                                                         \
        }                                                                                                              \
    }
HMM_BEST(6) HMM_BEST(4) HMM_BEST(2) HMM_BEST(1)

/* rows (T) of the emission table (R, P); weights (K, P) log transitions, padded with -inf; out (T, P), each row with its
   largest entry taken out. Returns the first impossible time, or -1. */
LAGWISE_CLONES static int64_t hmm_path_scores(const double *start, const double *weights, const double *table,
                                              const int32_t *rows, int64_t T, int64_t K, int64_t P, double *out) {
    const hmm_d8 none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int64_t t = 0; t < T; t++) {
        const double *e = table + rows[t] * P, *before = out + (t - 1) * P;
        double *row = out + t * P;
        hmm_d8 lanes = none;
        int64_t c = 0;
        if (t + 2 < T)
            for (int64_t i = 0; i < P; i += 8) LAGWISE_PREFETCH(table + rows[t + 2] * P + i);
        if (t == 0) {
            for (; c < P; c += 8) {
                hmm_d8 x = HMM_D8(start + c) + HMM_D8(e + c);
                lanes = HMM_LARGER(x, lanes);
                *(hmm_d8 *)(row + c) = x;
            }
        } else {
            for (; c + 48 <= P; c += 48) hmm_best_6(before, K, weights + c, P, e + c, row + c, &lanes);
            for (; c + 32 <= P; c += 32) hmm_best_4(before, K, weights + c, P, e + c, row + c, &lanes);
            for (; c + 16 <= P; c += 16) hmm_best_2(before, K, weights + c, P, e + c, row + c, &lanes);
            if (c < P) hmm_best_1(before, K, weights + c, P, e + c, row + c, &lanes);
        }
        double top = hmm_top(&lanes);
        if (top == -INFINITY) return t;
        for (c = 0; c < P; c += 8) *(hmm_d8 *)(row + c) -= top;
    }
    return -1;
}

/* The path behind the scores: the lowest state that reaches each row's value. columns (K, P): columns[j, i] is the log
   transition from i to j, -inf in the padding. */
LAGWISE_CLONES static void hmm_path_back(const double *columns, const double *scores, int64_t T, int64_t P, int32_t last,
                                         int32_t *path) {
    path[T - 1] = last;
    for (int64_t t = T - 1; t > 0; t--) {
        const double *s = scores + (t - 1) * P, *w = columns + path[t] * P;
        hmm_d8 best = HMM_D8(s) + HMM_D8(w);
        hmm_i8 where = {0, 1, 2, 3, 4, 5, 6, 7}, index = where;
        for (int64_t i = 8; i < P; i += 8) { /* a later state must be better, so each lane keeps its lowest */
            hmm_d8 x = HMM_D8(s + i) + HMM_D8(w + i);
            hmm_i8 mask = x > best;
            index += 8;
            best = (hmm_d8)((mask & (hmm_i8)x) | (~mask & (hmm_i8)best));
            where = (mask & index) | (~mask & where);
        }
        double top = hmm_top(&best);
        int64_t lowest = P;
        for (int lane = 0; lane < 8; lane++)
            lowest = best[lane] == top && where[lane] < lowest ? where[lane] : lowest;
        path[t - 1] = (int32_t)lowest;
    }
}

#endif
