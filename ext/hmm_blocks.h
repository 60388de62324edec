/* Scaled forward and backward recursions of HMMs over a block of sequences, as products of small matrices.

   Rows of a block are time-major: the sequences are sorted by falling length, so the ones still running at time t are
   slots 0 .. n_t - 1, and their rows lie together. K states are padded with zeros to P = a multiple of 8; a row of an
   order-1 model has P numbers, of an order-2 model P x P: [previous state][state].  Everything is double. */
#ifndef LAGWISE_HMM_BLOCKS_H
#define LAGWISE_HMM_BLOCKS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "simd.h"

typedef double hmm_v8 __attribute__((vector_size(64), aligned(8), may_alias));

#define HMM_CHUNK 32          /* rows worked on together: a multiple of 8 */
#define HMM_LOW 1e-200        /* a smaller row sum, or a larger backward value, sends a sequence to the exact kernel */
#define HMM_HIGH 1e80
#define HMM_FLUSH 1e-100

typedef struct {
    int64_t order, K, P, S;       /* S: numbers in a row */
    const double *start;          /* (P)                                                                   */
    const double *second;         /* order 2: (P, P) transition into the second position, else NULL        */
    const double *forward;        /* order 1: A (P, P); order 2: A[a, b, c] at [b][a][c]                     */
    const double *backward;       /* order 1: A' (P, P); order 2: A[a, b, c] at [b][c][a]                    */
    const double *final1, *final; /* stop factors after a sequence of one symbol (P), of more (S)           */
    const double *emission;       /* (R, P) each row divided by 2 ** exponent                               */
    const int32_t *exponent;      /* (R)                                                                    */
} hmm_model;

typedef struct {
    const int32_t *rows;          /* emission row of each position, time-major */
    const int64_t *starts;        /* (L + 1) first position of each time       */
    int64_t length;               /* L                                         */
    uint8_t *bad;                 /* (n) sequences left to the exact kernel    */
    double *loglik, *product;     /* (n) running logarithm, and a factor not yet taken into it */
    int64_t *exponents;           /* (n) running sum of exponents              */
} hmm_block;

typedef struct {                  /* sums to add to; all NULL where only the check is wanted */
    double *start, *second, *transition, *final1, *final, *emission;
    double *posterior;            /* (positions of the block, P) to be set, or NULL */
} hmm_sums;

LAGWISE_INLINE double hmm_total(const hmm_v8 *v) {
    const double *x = (const double *)v;
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

/* out[r, c] (+)= sum_u a[r * ra + u * ua] * b[u * ub + c], r < MR, c < 8 NV, everything in registers. */
#define HMM_TILE(MR, NV)                                                                                        \
    LAGWISE_INLINE void hmm_tile_##MR##_##NV(const double *a, int64_t ra, int64_t ua, const double *b, int64_t ub, \
                                             int64_t n, double *out, int64_t ro, int add) {                        \
        hmm_v8 acc[MR][NV];                                                                                        \
        _Pragma("GCC unroll 8") for (int r = 0; r < MR; r++)                                                       \
            _Pragma("GCC unroll 3") for (int v = 0; v < NV; v++) {                                                 \
                if (add) acc[r][v] = *(const hmm_v8 *)(out + r * ro + 8 * v);                                      \
                else acc[r][v] = (hmm_v8){0, 0, 0, 0, 0, 0, 0, 0};                                                 \
            }                                                                                                      \
        for (int64_t u = 0; u < n; u++) {                                                                          \
            hmm_v8 line[NV];                                                                                       \
            _Pragma("GCC unroll 3") for (int v = 0; v < NV; v++) line[v] = *(const hmm_v8 *)(b + u * ub + 8 * v);  \
            _Pragma("GCC unroll 8") for (int r = 0; r < MR; r++) {                                                 \
                double x = a[r * ra + u * ua];                                                                     \
                _Pragma("GCC unroll 3") for (int v = 0; v < NV; v++) acc[r][v] += x * line[v];                     \
            }                                                                                                      \
        }                                                                                                          \
        _Pragma("GCC unroll 8") for (int r = 0; r < MR; r++)                                                       \
            _Pragma("GCC unroll 3") for (int v = 0; v < NV; v++) *(hmm_v8 *)(out + r * ro + 8 * v) = acc[r][v];    \
    }
HMM_TILE(8, 3) HMM_TILE(8, 2) HMM_TILE(8, 1) HMM_TILE(1, 3) HMM_TILE(1, 2) HMM_TILE(1, 1)

LAGWISE_INLINE void hmm_rows8(const double *a, int64_t ra, int64_t ua, const double *b, int64_t ub, int64_t n,
                              double *out, int64_t ro, int64_t P, int add) {
    int64_t c = 0;
    for (; c + 24 <= P; c += 24) hmm_tile_8_3(a, ra, ua, b + c, ub, n, out + c, ro, add);
    if (c + 16 <= P) { hmm_tile_8_2(a, ra, ua, b + c, ub, n, out + c, ro, add); c += 16; }
    if (c + 8 <= P) hmm_tile_8_1(a, ra, ua, b + c, ub, n, out + c, ro, add);
}

LAGWISE_INLINE void hmm_row1(const double *a, int64_t ra, int64_t ua, const double *b, int64_t ub, int64_t n,
                             double *out, int64_t ro, int64_t P, int add) {
    int64_t c = 0;
    for (; c + 24 <= P; c += 24) hmm_tile_1_3(a, ra, ua, b + c, ub, n, out + c, ro, add);
    if (c + 16 <= P) { hmm_tile_1_2(a, ra, ua, b + c, ub, n, out + c, ro, add); c += 16; }
    if (c + 8 <= P) hmm_tile_1_1(a, ra, ua, b + c, ub, n, out + c, ro, add);
}

/* out (m, P) (+)= a (m, n) b (n, P) */
LAGWISE_INLINE void hmm_product(const double *a, int64_t ra, int64_t ua, const double *b, int64_t ub, int64_t m,
                                int64_t n, double *out, int64_t ro, int64_t P, int add) {
    int64_t r = 0;
    for (; r + 8 <= m; r += 8) hmm_rows8(a + r * ra, ra, ua, b, ub, n, out + r * ro, ro, P, add);
    for (; r < m; r++) hmm_row1(a + r * ra, ra, ua, b, ub, n, out + r * ro, ro, P, add);
}

/* Multiply one predicted row with its emissions, scale it to sum 1, and account for the scale. */
LAGWISE_INLINE void hmm_absorb(const hmm_model *m, const hmm_block *k, int64_t slot, int32_t row, const double *pred,
                               double *alpha, double *scale) {
    const double *e = m->emission + row * m->P;
    hmm_v8 sum = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int64_t b = 0; b < m->S; b += m->P)
        for (int64_t c = 0; c < m->P; c += 8) {
            hmm_v8 v = *(const hmm_v8 *)(pred + b + c) * *(const hmm_v8 *)(e + c);
            *(hmm_v8 *)(alpha + b + c) = v;
            sum += v;
        }
    double total = hmm_total(&sum);
    if (!(total > HMM_LOW) || k->bad[slot]) {
        k->bad[slot] = 1;
        memset(alpha, 0, m->S * sizeof(double));
        *scale = 1;
        return;
    }
    double inverse = 1 / total;
    for (int64_t c = 0; c < m->S; c += 8) *(hmm_v8 *)(alpha + c) *= inverse;
    *scale = inverse;
    k->exponents[slot] += m->exponent[row];
    k->product[slot] *= total;
    if (k->product[slot] < HMM_FLUSH) {
        k->loglik[slot] += log(k->product[slot]);
        k->product[slot] = 1;
    }
}

/* alpha of times t0 .. t1 - 1 into alpha (rows, S) and 1 / scale (rows); before (n, S) holds the rows of time t0 - 1.
   work: (HMM_CHUNK, S). */
LAGWISE_CLONES static void hmm_forward(const hmm_model *m, const hmm_block *k, int64_t t0, int64_t t1, const double *before,
                        double *alpha, double *scale, double *work) {
    int64_t P = m->P, K = m->K, S = m->S, base = k->starts[t0];
    for (int64_t t = t0; t < t1; t++) {
        int64_t first = k->starts[t] - base, n = k->starts[t + 1] - k->starts[t];
        const int32_t *rows = k->rows + k->starts[t];
        const double *previous = t == t0 ? before : alpha + (k->starts[t - 1] - base) * S;
        for (int64_t i0 = 0; i0 < n; i0 += HMM_CHUNK) {
            int64_t count = n - i0 < HMM_CHUNK ? n - i0 : HMM_CHUNK;
            for (int64_t i = 0; i < count; i++) LAGWISE_PREFETCH(m->emission + rows[i0 + i] * P);
            if (t == 0) {
                for (int64_t i = 0; i < count; i++) {
                    memset(work + i * S, 0, S * sizeof(double));
                    memcpy(work + i * S, m->start, P * sizeof(double));
                }
            } else if (m->order == 1) {
                hmm_product(previous + i0 * S, S, 1, m->forward, P, count, K, work, S, P, 0);
            } else if (t == 1) {
                for (int64_t i = 0; i < count; i++)
                    for (int64_t b = 0; b < P; b++) {
                        double x = previous[(i0 + i) * S + b];
                        for (int64_t c = 0; c < P; c++) work[i * S + b * P + c] = x * m->second[b * P + c];
                    }
            } else {
                for (int64_t b = 0; b < K; b++)
                    hmm_product(previous + i0 * S + b, S, P, m->forward + b * P * P, P, count, K, work + b * P, S, P, 0);
                for (int64_t i = 0; i < count; i++) memset(work + i * S + K * P, 0, (S - K * P) * sizeof(double));
            }
            for (int64_t i = 0; i < count; i++)
                hmm_absorb(m, k, i0 + i, rows[i0 + i], work + i * S, alpha + (first + i0 + i) * S, scale + first + i0 + i);
        }
    }
}

/* A sequence ends here: its backward row is the stop factor over its expectation, which joins the likelihood. */
LAGWISE_INLINE void hmm_end(const hmm_model *m, const hmm_block *k, int64_t t, int64_t slot, const double *alpha,
                            double *beta) {
    const double *stop = t == 0 ? m->final1 : m->final;
    int64_t width = t == 0 ? m->P : m->S;
    double total = 0;
    for (int64_t c = 0; c < width; c++) total += alpha[c] * stop[c];
    if (!(total > HMM_LOW)) { k->bad[slot] = 1; total = 1; }
    memset(beta, 0, m->S * sizeof(double));
    for (int64_t c = 0; c < width; c++) beta[c] = stop[c] / total;
    k->loglik[slot] += log(k->product[slot]) + log(total);
    k->product[slot] = 1;
}

/* From beta of time t1 - 1 (for t1 == L: nothing) back to beta of time t0 - 1, in place in beta (n, S), adding expected
   counts. alpha, scale: rows of times t0 .. t1 - 1; before: alpha of time t0 - 1. Transition sums lack the factor A
   and, of order 2, lie at [b][a][c].  work: (2 * HMM_CHUNK + 1, S). */
LAGWISE_CLONES static void hmm_backward(const hmm_model *m, const hmm_block *k, int64_t t0, int64_t t1, const double *before,
                         const double *alpha, const double *scale, double *beta, const hmm_sums *sums, double *work) {
    int64_t P = m->P, K = m->K, S = m->S, base = k->starts[t0];
    double *joint = work, *flipped = work + HMM_CHUNK * S;
    for (int64_t t = t1 - 1; t >= t0; t--) {
        int64_t first = k->starts[t] - base, n = k->starts[t + 1] - k->starts[t];
        int64_t running = t + 1 < k->length ? k->starts[t + 2] - k->starts[t + 1] : 0;
        int64_t width = t == 0 ? P : S;
        const int32_t *rows = k->rows + k->starts[t];
        const double *previous = t == t0 ? before : alpha + (k->starts[t > 0 ? t - 1 : 0] - base) * S;
        for (int64_t i0 = 0; i0 < n; i0 += HMM_CHUNK) {
            int64_t count = n - i0 < HMM_CHUNK ? n - i0 : HMM_CHUNK;
            for (int64_t i = 0; i < count; i++) LAGWISE_PREFETCH(m->emission + rows[i0 + i] * P);
            if (sums->emission)
                for (int64_t i = 0; i < count; i++)
                    for (int64_t c = 0; c < P; c += 8) __builtin_prefetch(sums->emission + rows[i0 + i] * P + c, 1);
            for (int64_t i = i0; i < i0 + count; i++) {
                const double *a = alpha + (first + i) * S, *e = m->emission + rows[i] * P;
                double *b = beta + i * S, *w = joint + (i - i0) * S;
                if (i >= running) hmm_end(m, k, t, i, a, b);
                hmm_v8 sum = {0, 0, 0, 0, 0, 0, 0, 0};
                for (int64_t c = 0; c < width; c += 8) sum += *(const hmm_v8 *)(b + c);
                if (!(hmm_total(&sum) < HMM_HIGH)) k->bad[i] = 1;
                if (k->bad[i]) {
                    memset(b, 0, S * sizeof(double));
                    memset(w, 0, S * sizeof(double));
                    continue;
                }
                if (sums->emission || sums->posterior) {
                    double *row = sums->emission ? sums->emission + rows[i] * P : NULL;
                    double *post = sums->posterior ? sums->posterior + (k->starts[t] + i) * P : NULL;
                    for (int64_t c = 0; c < P; c += 8) {
                        hmm_v8 g = {0, 0, 0, 0, 0, 0, 0, 0};
                        for (int64_t x = 0; x < width; x += P) g += *(const hmm_v8 *)(a + x + c) * *(const hmm_v8 *)(b + x + c);
                        if (row) *(hmm_v8 *)(row + c) += g;
                        if (post) *(hmm_v8 *)(post + c) = g;
                        if (sums->start && t == 0) *(hmm_v8 *)(sums->start + c) += g;
                    }
                    if (i >= running && sums->final) {
                        double *end = t == 0 ? sums->final1 : sums->final;
                        for (int64_t c = 0; c < width; c += 8)
                            *(hmm_v8 *)(end + c) += *(const hmm_v8 *)(a + c) * *(const hmm_v8 *)(b + c);
                    }
                }
                double inverse = scale[first + i];
                for (int64_t x = 0; x < width; x += P)
                    for (int64_t c = 0; c < P; c += 8)
                        *(hmm_v8 *)(w + x + c) = *(const hmm_v8 *)(b + x + c) * *(const hmm_v8 *)(e + c) * inverse;
            }
            if (t == 0) continue;
            if (m->order == 1) {
                hmm_product(joint, S, 1, m->backward, P, count, K, beta + i0 * S, S, P, 0);
                if (sums->transition)
                    hmm_product(previous + i0 * S, 1, S, joint, S, P, count, sums->transition, P, P, 1);
            } else if (t == 1) {
                for (int64_t i = 0; i < count; i++) {
                    double *b1 = beta + (i0 + i) * S;
                    memset(b1, 0, S * sizeof(double));
                    for (int64_t b = 0; b < K; b++) {
                        double x = previous[(i0 + i) * S + b], sum = 0;
                        for (int64_t c = 0; c < P; c++) {
                            double w = joint[i * S + b * P + c];
                            sum += m->second[b * P + c] * w;
                            if (sums->second) sums->second[b * P + c] += x * w;
                        }
                        b1[b] = sum;
                    }
                }
            } else {
                for (int64_t b = 0; b < K; b++) {
                    hmm_product(joint + b * P, S, 1, m->backward + b * P * P, P, count, K, flipped + b * P, S, P, 0);
                    if (sums->transition)
                        hmm_product(previous + i0 * S + b, P, S, joint + b * P, S, K, count,
                                    sums->transition + b * P * P, P, P, 1);
                }
                for (int64_t i = 0; i < count; i++)
                    for (int64_t a = 0; a < K; a++) {
                        double *out = beta + (i0 + i) * S + a * P;
                        const double *in = flipped + i * S + a;
                        for (int64_t b = 0; b < K; b++) out[b] = in[b * P];
                    }
            }
        }
    }
}

#endif
