/* Which places of a dense accumulator a row touched: one byte a place (a mark is a plain store, which waits for nothing)
 * and one byte for each 64 of those, so that the marked places are found again in order without a look at the others.
 */
#ifndef LAGWISE_MARKS_H
#define LAGWISE_MARKS_H

#include <stdint.h>
#include <string.h>

#include "simd.h"

typedef struct {
    uint8_t *marks;   /* n_groups * 64, zero between rows */
    uint8_t *groups;  /* n_groups, zero between rows */
    int64_t n_groups; /* a multiple of 8 */
} lw_marks;

LAGWISE_INLINE int64_t lw_marks_groups(int64_t places) { return ((places + 63) / 64 + 7) / 8 * 8; }

/* Scratch of lw_marks_groups(places) * 65 bytes, aligned to 8. */
LAGWISE_INLINE lw_marks lw_marks_of(uint8_t *scratch, int64_t places) {
    lw_marks map;
    map.n_groups = lw_marks_groups(places);
    map.marks = scratch;
    map.groups = scratch + 64 * map.n_groups;
    return map;
}

LAGWISE_INLINE void lw_mark(const lw_marks *map, int64_t place) {
    map->marks[place] = 1;
    map->groups[place >> 6] = 1;
}

/* The next 8 bytes as one number whose lowest byte comes first in memory; they are cleared. */
LAGWISE_INLINE uint64_t lw_take8(uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    if (word) memset(bytes, 0, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Run `body` for each marked place, ascending, and clear all marks. */
#define LAGWISE_FOR_EACH_MARKED(map, place, body)                                                \
    for (int64_t outer_ = 0; outer_ < (map)->n_groups; outer_ += 8) {                            \
        for (uint64_t groups_ = lw_take8((map)->groups + outer_); groups_; groups_ &= groups_ - 1) { \
            const int64_t first_ = (outer_ + (__builtin_ctzll(groups_) >> 3)) << 6;              \
            for (int64_t inner_ = first_; inner_ < first_ + 64; inner_ += 8) {                   \
                for (uint64_t marks_ = lw_take8((map)->marks + inner_); marks_; marks_ &= marks_ - 1) { \
                    const int64_t place = inner_ + (__builtin_ctzll(marks_) >> 3);               \
                    body                                                                         \
                }                                                                                \
            }                                                                                    \
        }                                                                                        \
    }

#endif
