/* Viterbi scores of one sequence: max-plus products of a row with a matrix, eight columns in a register. */
#ifndef LAGWISE_HMM_PATHS_H
#define LAGWISE_HMM_PATHS_H

#include <math.h>
#include <stdint.h>
#include "simd.h"

typedef double hmm_d8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t hmm_i8 __attribute__((vector_size(64), aligned(8), may_alias));

#define HMM_BEST(NV)                                                                                                   \
    LAGWISE_INLINE void hmm_best_##NV(const double *scores, int64_t K, const double *w, int64_t P, const double *e,     \
                                      double *out) {                                                                   \
        hmm_d8 acc[NV];                                                                                                \
        _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++) acc[v] = scores[0] + *(const hmm_d8 *)(w + 8 * v);        \
        for (int64_t i = 1; i < K; i++) {                                                                              \
            double s = scores[i];                                                                                      \
            _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++)                                                       \
            {                                                                                                          \
                hmm_d8 x = s + *(const hmm_d8 *)(w + i * P + 8 * v);                                                   \
                hmm_i8 mask = x > acc[v];                                                                              \
                acc[v] = (hmm_d8)((mask & (hmm_i8)x) | (~mask & (hmm_i8)acc[v]));                                      \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++)                                                           \
            *(hmm_d8 *)(out + 8 * v) = acc[v] + *(const hmm_d8 *)(e + 8 * v);                                          \
    }
HMM_BEST(6) HMM_BEST(4) HMM_BEST(2) HMM_BEST(1)

/* rows (T) of the emission table (R, P); weights (K, P) log transitions, padded with -inf; out (T, P), each row with its
   largest entry taken out. Returns the first impossible time, or -1. */
LAGWISE_CLONES static int64_t hmm_path_scores(const double *start, const double *weights, const double *table,
                                              const int32_t *rows, int64_t T, int64_t K, int64_t P, double *out) {
    for (int64_t t = 0; t < T; t++) {
        const double *e = table + rows[t] * P, *before = out + (t - 1) * P;
        double *row = out + t * P, top = -INFINITY;
        if (t == 0) {
            for (int64_t c = 0; c < P; c++) row[c] = start[c] + e[c];
        } else {
            int64_t c = 0;
            for (; c + 48 <= P; c += 48) hmm_best_6(before, K, weights + c, P, e + c, row + c);
            for (; c + 32 <= P; c += 32) hmm_best_4(before, K, weights + c, P, e + c, row + c);
            for (; c + 16 <= P; c += 16) hmm_best_2(before, K, weights + c, P, e + c, row + c);
            if (c < P) hmm_best_1(before, K, weights + c, P, e + c, row + c);
        }
        for (int64_t c = 0; c < K; c++) top = row[c] > top ? row[c] : top;
        if (top == -INFINITY) return t;
        for (int64_t c = 0; c < P; c++) row[c] -= top;
    }
    return -1;
}

/* The path behind the scores: the lowest state that reaches each row's value. columns (K, P): columns[j, i] is the log
   transition from i to j. */
LAGWISE_CLONES static void hmm_path_back(const double *columns, const double *scores, int64_t T, int64_t K, int64_t P,
                                         int32_t last, int32_t *path) {
    path[T - 1] = last;
    for (int64_t t = T - 1; t > 0; t--) {
        const double *s = scores + (t - 1) * P, *w = columns + path[t] * P;
        double best = -INFINITY;
        int32_t where = 0;
        for (int64_t i = 0; i < K; i++) {
            double x = s[i] + w[i];
            if (x > best) { best = x; where = (int32_t)i; }
        }
        path[t - 1] = where;
    }
}

#endif
