/* One word's row of co-occurrence counts, by a dense accumulator over the vocabulary.
 *
 * A stream ends every sequence with -1, so no look to the right leaves it; the gap, id n_words, has a slot of its own
 * that is cleared and never read. A two-level bitmap of the words touched gives the row back in order.
 */
#ifndef LAGWISE_LAGS_H
#define LAGWISE_LAGS_H

#include <stdint.h>

#include "simd.h"

#define LAGWISE_AHEAD 24 /* positions between a prefetch and its use */

typedef struct {
    uint64_t *words;  /* one bit a word: (n_words + 1 + 63) / 64 */
    uint64_t *groups; /* one bit for each of those, zero between rows */
    int64_t n_groups;
} lw_bitmap;

LAGWISE_INLINE void lw_touch(const lw_bitmap *map, int32_t j) {
    uint64_t old = map->words[j >> 6];
    if (!old) map->groups[j >> 12] |= (uint64_t)1 << ((j >> 6) & 63);
    map->words[j >> 6] = old | (uint64_t)1 << (j & 63);
}

#define LAGWISE_FOR_EACH_TOUCHED(map, j, body)                                        \
    for (int64_t group_ = 0; group_ < (map)->n_groups; group_++) {                    \
        uint64_t words_ = (map)->groups[group_];                                      \
        if (!words_) continue;                                                        \
        (map)->groups[group_] = 0;                                                    \
        while (words_) {                                                              \
            int64_t word_ = (group_ << 6) + __builtin_ctzll(words_);                  \
            words_ &= words_ - 1;                                                     \
            uint64_t bits_ = (map)->words[word_];                                     \
            (map)->words[word_] = 0;                                                  \
            while (bits_) {                                                           \
                int32_t j = (int32_t)((word_ << 6) + __builtin_ctzll(bits_));         \
                bits_ &= bits_ - 1;                                                   \
                body                                                                  \
            }                                                                         \
        }                                                                             \
    }

/* Weighted sums over the `window` words to the right of each position of one word.
 * IN ids, positions[begin:end], of `limit` in all; weights (window,). acc (n_words + 1,), zero before and after.
 * OUT indices, values: the row, ascending. Returns its length. */
#define LAGWISE_WINDOW_ROW(name, number)                                                                              \
    static int64_t name(const int32_t *ids, const uint32_t *positions, int64_t begin, int64_t end, int64_t limit,     \
                        const number *weights, int64_t window, int flat, int32_t n_words, number *acc,                \
                        const lw_bitmap *map, int32_t *indices, number *values) {                                     \
        int64_t length = 0;                                                                                           \
        const int dense = (end - begin) * window > n_words;                                                           \
        for (int64_t i = begin; i < end; i++) {                                                                       \
            if (i + LAGWISE_AHEAD < limit) LAGWISE_PREFETCH(ids + positions[i + LAGWISE_AHEAD] + 1);                  \
            const int32_t *right = ids + positions[i] + 1;                                                            \
            if (dense && flat) {                                                                                      \
                for (int64_t k = 0; k < window && right[k] >= 0; k++) acc[right[k]]++;                                \
            } else {                                                                                                  \
                for (int64_t k = 0; k < window && right[k] >= 0; k++) {                                               \
                    acc[right[k]] += weights[k];                                                                      \
                    if (!dense) lw_touch(map, right[k]);                                                              \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
        if (dense) {                                                                                                  \
            for (int32_t j = 0; j < n_words; j++) {                                                                   \
                number value = acc[j];                                                                                \
                indices[length] = j;                                                                                  \
                values[length] = value;                                                                               \
                length += value != 0;                                                                                 \
                acc[j] = 0;                                                                                           \
            }                                                                                                         \
        } else {                                                                                                      \
            LAGWISE_FOR_EACH_TOUCHED(map, j, {                                                                        \
                if (j < n_words && acc[j]) {                                                                          \
                    indices[length] = j;                                                                              \
                    values[length++] = acc[j];                                                                        \
                }                                                                                                     \
                acc[j] = 0;                                                                                           \
            })                                                                                                        \
        }                                                                                                             \
        acc[n_words] = 0;                                                                                             \
        return length;                                                                                                \
    }

LAGWISE_WINDOW_ROW(lw_window_row32, uint32_t)
LAGWISE_WINDOW_ROW(lw_window_row64, uint64_t)

/* The rows of one word at every lag 1 .. n_lags. acc (n_words + 1, n_lags), zero before and after.
 * OUT for lag k: indices + k * stride, values + k * stride, filled from lengths[k] on; lengths (n_lags,) grows. */
static void lw_lag_rows(const int32_t *ids, const uint32_t *positions, int64_t begin, int64_t end, int64_t limit,
                        int64_t n_lags, int32_t n_words, uint32_t *acc, const lw_bitmap *map, int32_t *indices,
                        uint32_t *values, int64_t stride, int64_t *lengths) {
    for (int64_t i = begin; i < end; i++) {
        if (i + LAGWISE_AHEAD < limit) LAGWISE_PREFETCH(ids + positions[i + LAGWISE_AHEAD] + 1);
        const int32_t *right = ids + positions[i] + 1;
        for (int64_t k = 0; k < n_lags && right[k] >= 0; k++) {
            acc[(int64_t)right[k] * n_lags + k]++;
            lw_touch(map, right[k]);
        }
    }
    LAGWISE_FOR_EACH_TOUCHED(map, j, {
        uint32_t *cell = acc + (int64_t)j * n_lags;
        if (j < n_words) {
            for (int64_t k = 0; k < n_lags; k++) {
                int64_t place = k * stride + lengths[k];
                indices[place] = j;
                values[place] = cell[k];
                lengths[k] += cell[k] != 0;
            }
        }
        for (int64_t k = 0; k < n_lags; k++) cell[k] = 0;
    })
}

#endif
