/* First-order Viterbi; included by hmm_paths.h once for each instruction set, which names HMM_NAME, HMM_TARGET,
   HMM_INLINE, HMM_LESSER (minimum) and HMM_EQUAL (bit mask of the lanes that equal a number). */

/* out[c] = min_i costs[i] + w[i, c], plus e[c], of 8 NV columns; least: the least so far in each lane. */
#define HMM_BEST(NV)                                                                                                   \
    HMM_INLINE void HMM_NAME(hmm_best_##NV)(const double *costs, int64_t K, const double *w, int64_t P,           \
                                             const double *e, double *out, hmm_d8 *least) {                                                  \
        hmm_d8 acc[NV];                                                                                                \
        _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++) acc[v] = costs[0] + HMM_D8(w + 8 * v);                    \
        for (int64_t i = 1; i < K; i++) {                                                                              \
            double s = costs[i];                                                                                       \
            _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++)                                                       \
                acc[v] = HMM_LESSER(s + HMM_D8(w + i * P + 8 * v), acc[v]);                                            \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int v = 0; v < NV; v++)                                                           \
        {                                                                                                              \
            acc[v] += HMM_D8(e + 8 * v);                                                                               \
            hmm_i8 mask = acc[v] < *least; /* as doubles: these may be below 0 */                                      \
            *least = (hmm_d8)((mask & (hmm_i8)acc[v]) | (~mask & (hmm_i8)*least));                                     \
            *(hmm_d8 *)(out + 8 * v) = acc[v];                                                                         \
        }                                                                                                              \
    }
HMM_BEST(6) HMM_BEST(4) HMM_BEST(2) HMM_BEST(1)

/* rows (T) of the emission costs (R, P); weights (K, P) transition costs >= 0, padded with INFINITY; out (T, P), each row
   with its least entry taken out. Returns the first impossible time, or -1. */
HMM_TARGET static int64_t HMM_NAME(hmm_path_costs)(const double *start, const double *weights, const double *table,
                                             const int32_t *rows, int64_t T, int64_t K, int64_t P, double *out) {
    const hmm_d8 none = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY};
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
                hmm_i8 mask = x < lanes;
                lanes = (hmm_d8)((mask & (hmm_i8)x) | (~mask & (hmm_i8)lanes));
                *(hmm_d8 *)(row + c) = x;
            }
        } else {
            for (; c + 48 <= P; c += 48) HMM_NAME(hmm_best_6)(before, K, weights + c, P, e + c, row + c, &lanes);
            for (; c + 32 <= P; c += 32) HMM_NAME(hmm_best_4)(before, K, weights + c, P, e + c, row + c, &lanes);
            for (; c + 16 <= P; c += 16) HMM_NAME(hmm_best_2)(before, K, weights + c, P, e + c, row + c, &lanes);
            if (c < P) HMM_NAME(hmm_best_1)(before, K, weights + c, P, e + c, row + c, &lanes);
        }
        double least = hmm_least(&lanes);
        if (least == INFINITY) return t;
        for (c = 0; c < P; c += 8) *(hmm_d8 *)(row + c) -= least;
    }
    return -1;
}

/* The path behind the costs: the lowest state that reaches each row's value. columns (K, P): columns[j, i] is the cost of
   the transition from i to j, INFINITY in the padding. */
HMM_TARGET static void HMM_NAME(hmm_path_back)(const double *columns, const double *costs, int64_t T, int64_t P, int32_t last,
                                         int32_t *path) {
    path[T - 1] = last;
    for (int64_t t = T - 1; t > 0; t--) {
        const double *s = costs + (t - 1) * P, *w = columns + path[t] * P;
        hmm_d8 best = HMM_D8(s) + HMM_D8(w);
        for (int64_t i = 8; i < P; i += 8) best = HMM_LESSER(HMM_D8(s + i) + HMM_D8(w + i), best);
        double least = hmm_least(&best);
        int64_t lowest = 0;
        for (int bits = 0; !bits; lowest += bits ? __builtin_ctz(bits) : 8)
            bits = HMM_EQUAL(HMM_D8(s + lowest) + HMM_D8(w + lowest), least);
        path[t - 1] = (int32_t)lowest;
    }
}
