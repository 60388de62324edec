/* One word's row of co-occurrence counts, by a dense accumulator over the vocabulary.
 *
 * A stream ends every sequence with -1, so no look to the right leaves it; the gap, id n_words, has a slot of its own
 * that is cleared and never read.
 */
#ifndef LAGWISE_LAGS_H
#define LAGWISE_LAGS_H

#include <stdint.h>
#include <string.h>

#include "marks.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LAGWISE_AHEAD 16 /* positions between a prefetch and its use */
#define LAGWISE_LINE 16  /* accumulators under one mark */

/* Bit b is set where accumulators[b] is not zero, b < LAGWISE_LINE. */
LAGWISE_INLINE uint32_t lw_nonzero32(const uint32_t *accumulators) {
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    const __m128i *four = (const __m128i *)accumulators;
    const __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_loadu_si128(four), zero),
                                        _mm_cmpeq_epi32(_mm_loadu_si128(four + 1), zero));
    const __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_loadu_si128(four + 2), zero),
                                         _mm_cmpeq_epi32(_mm_loadu_si128(four + 3), zero));
    return 0xffff & ~(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
    uint32_t mask = 0;
    for (int b = 0; b < LAGWISE_LINE; b++) mask |= (uint32_t)(accumulators[b] != 0) << b;
    return mask;
#endif
}

LAGWISE_INLINE uint32_t lw_nonzero64(const uint64_t *accumulators) {
    uint32_t mask = 0;
    for (int b = 0; b < LAGWISE_LINE; b++) mask |= (uint32_t)(accumulators[b] != 0) << b;
    return mask;
}

/* Fetch what position `i + LAGWISE_AHEAD` will look at: `reach` ids, which may lie in two cache lines. */
LAGWISE_INLINE void lw_fetch(const int32_t *ids, const uint32_t *positions, int64_t i, int64_t limit, int64_t reach) {
    if (i + LAGWISE_AHEAD < limit) {
        const int32_t *right = ids + positions[i + LAGWISE_AHEAD] + 1;
        LAGWISE_PREFETCH(right);
        LAGWISE_PREFETCH(right + (reach < 16 ? reach : 16) - 1);
    }
}

/* Weighted sums over the `window` words to the right of each position of one word.
 * IN ids, positions[begin:end], of `limit` in all; weights (window,). acc, LAGWISE_LINE numbers more than n_words, zero
 * before and after; map, a mark for each LAGWISE_LINE of them. OUT indices, values: the row, ascending. Returns its
 * length. Where a row is dense no marks are made. */
#define LAGWISE_WINDOW_ROW(name, number, nonzero)                                                                     \
    LAGWISE_INLINE int64_t name##_line(number *acc, int64_t line, int32_t *indices, number *values, int64_t length) { \
        number *cells = acc + line * LAGWISE_LINE;                                                                    \
        for (uint32_t mask = nonzero(cells); mask; mask &= mask - 1) {                                                \
            const int b = __builtin_ctz(mask);                                                                        \
            indices[length] = (int32_t)(line * LAGWISE_LINE + b);                                                     \
            values[length++] = cells[b];                                                                              \
        }                                                                                                             \
        memset(cells, 0, LAGWISE_LINE * sizeof(number));                                                              \
        return length;                                                                                                \
    }                                                                                                                 \
    static int64_t name(const int32_t *ids, const uint32_t *positions, int64_t begin, int64_t end, int64_t limit,     \
                        const number *weights, int64_t window, int flat, int32_t n_words, number *acc,                \
                        const lw_marks *map, int32_t *indices, number *values) {                                      \
        int64_t length = 0;                                                                                           \
        const int dense = (end - begin) * window > n_words / 4;                                                       \
        for (int64_t i = begin; i < end; i++) {                                                                       \
            lw_fetch(ids, positions, i, limit, window);                                                               \
            const int32_t *right = ids + positions[i] + 1;                                                            \
            if (dense && flat) {                                                                                      \
                for (int64_t k = 0; k < window && right[k] >= 0; k++) acc[right[k]]++;                                \
            } else if (dense) {                                                                                       \
                for (int64_t k = 0; k < window && right[k] >= 0; k++) acc[right[k]] += weights[k];                    \
            } else {                                                                                                  \
                for (int64_t k = 0; k < window && right[k] >= 0; k++) {                                               \
                    acc[right[k]] += weights[k];                                                                      \
                    lw_mark(map, right[k] / LAGWISE_LINE);                                                            \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
        acc[n_words] = 0;                                                                                             \
        if (dense) {                                                                                                  \
            for (int64_t line = 0; line * LAGWISE_LINE <= n_words; line++)                                            \
                length = name##_line(acc, line, indices, values, length);                                             \
        } else {                                                                                                      \
            LAGWISE_FOR_EACH_MARKED(map, line, { length = name##_line(acc, line, indices, values, length); })         \
        }                                                                                                             \
        return length;                                                                                                \
    }

LAGWISE_WINDOW_ROW(lw_window_row32, uint32_t, lw_nonzero32)
LAGWISE_WINDOW_ROW(lw_window_row64, uint64_t, lw_nonzero64)

/* The rows of one word at every lag 1 .. n_lags. acc (n_words + 1, n_lags), zero before and after; map, a mark a word.
 * OUT for lag k: indices + k * stride, values + k * stride, filled from lengths[k] on; lengths (n_lags,) grows. */
static void lw_lag_rows(const int32_t *ids, const uint32_t *positions, int64_t begin, int64_t end, int64_t limit,
                        int64_t n_lags, int32_t n_words, uint32_t *acc, const lw_marks *map, int32_t *indices,
                        uint32_t *values, int64_t stride, int64_t *lengths) {
    for (int64_t i = begin; i < end; i++) {
        lw_fetch(ids, positions, i, limit, n_lags);
        const int32_t *right = ids + positions[i] + 1;
        for (int64_t k = 0; k < n_lags && right[k] >= 0; k++) {
            acc[(int64_t)right[k] * n_lags + k]++;
            lw_mark(map, right[k]);
        }
    }
    LAGWISE_FOR_EACH_MARKED(map, j, {
        uint32_t *cell = acc + j * n_lags;
        if (j < n_words) {
            for (int64_t k = 0; k < n_lags; k++) {
                int64_t place = k * stride + lengths[k];
                indices[place] = (int32_t)j;
                values[place] = cell[k];
                lengths[k] += cell[k] != 0;
            }
        }
        memset(cell, 0, n_lags * sizeof(uint32_t));
    })
}

#endif
